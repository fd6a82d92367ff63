"""Fixtures that several test files share."""
import os, shutil, sys
from pathlib import Path
import pytest

root = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(root/'docs'))

def pytest_addoption(parser):
    parser.addoption('--soak', action='store_true', help='also run the long fault tests')

def pytest_configure(config):
    config.addinivalue_line('markers', 'soak: a long test, run only with --soak')

def pytest_collection_modifyitems(config, items):
    if config.getoption('--soak'): return
    for item in items:
        if 'soak' in item.keywords: item.add_marker(pytest.mark.skip(reason='long: run with --soak'))

@pytest.fixture(scope='session')
def data_root():
    "The folder of the real data, named by ORTHOG_NB_DATA."
    path = os.environ.get('ORTHOG_NB_DATA')
    if not path: pytest.skip('real data: set ORTHOG_NB_DATA to the folder that holds it')
    if not Path(path).is_dir(): pytest.skip(f'real data: ORTHOG_NB_DATA is {path}, which is not a folder')
    return Path(path)

@pytest.fixture(scope='session')
def browser():
    "Headless Chromium, which talks to nobody by itself."
    path = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))), None)
    if not path: pytest.skip('no chromium here: the tests that need a browser are skipped')
    api = pytest.importorskip('playwright.sync_api', reason='playwright is not installed')
    args = '--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync --no-first-run'
    with api.sync_playwright() as p:
        chromium = p.chromium.launch(executable_path=path, args=args.split())
        yield chromium
        chromium.close()
