"""Fixtures that several test files share."""
import json, os, shutil, sys, tempfile, time
from contextlib import contextmanager
from pathlib import Path
import pytest

root = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(root/'docs'))

def pytest_addoption(parser):
    parser.addoption('--soak', action='store_true', help='also run the long fault tests, and write results/bench/soak.json')
    parser.addoption('--minutes', type=float, default=float(os.environ.get('SOAK_MINUTES', 60)), help='how long the soak learns without a pause')

def pytest_configure(config):
    config.addinivalue_line('markers', 'soak: a long test, run only with --soak')

def pytest_collection_modifyitems(config, items):
    if config.getoption('--soak'): return
    for item in items:
        if 'soak' in item.keywords: item.add_marker(pytest.mark.skip(reason='long: run with --soak'))

class Figures(dict):
    "What the long fault tests counted."
    def add(self, part, **counts):
        for k,n in counts.items(): self.setdefault(part, {}); self[part][k] = self[part].get(k, 0) + n

counted,began = Figures(),time.time()

@pytest.fixture(scope='session')
def figures(): return counted

def pytest_sessionfinish(session):
    "A soak leaves its figures behind, also if something failed; parts that were not run stay as they were."
    if not session.config.getoption('--soak') or not counted: return
    from orthog_nb.core import atomic_write
    from orthog_nb.training import versions
    path = root/'results'/'bench'/'soak.json'; minutes = round((time.time()-began)/60, 1)
    for part in counted.values(): part.update(session_minutes=minutes, failed_tests=session.testsfailed, versions=versions())
    with atomic_write(path) as f: f.write(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | counted, indent=1).encode() + b'\n')

@pytest.fixture
def closed():
    "A folder that may not be written, and a block in which that is true for root, too."
    @contextmanager
    def humble():
        if (who := os.geteuid())==0: os.seteuid(65534)
        try: yield
        finally: os.seteuid(who)
    with tempfile.TemporaryDirectory() as d:
        Path(d).chmod(0o755); folder = Path(d)/'closed'; folder.mkdir(mode=0o555)
        yield folder, humble

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
