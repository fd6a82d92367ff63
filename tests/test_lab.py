"""JupyterLab, as `make lab` starts it: a notebook opens in the browser and a cell runs in a live kernel."""
import json, os, secrets, shutil, socket, subprocess, sys, time, urllib.request
from pathlib import Path
import pytest

root = Path(__file__).resolve().parent.parent

@pytest.fixture
def lab(browser, tmp_path):
    "Address of a JupyterLab on copies of the notebooks, with settings of its own."
    books, config, token = tmp_path/'nbs', tmp_path/'config', secrets.token_hex(8)
    shutil.copytree(root/'nbs', books, ignore=shutil.ignore_patterns('.*', '*.yml'))
    (config/'labconfig').mkdir(parents=True)
    (config/'labconfig'/'page_config.json').write_text(json.dumps({'disabledExtensions': {'@jupyterlab/apputils-extension:announcements': True}}))
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    env = dict(os.environ, JUPYTER_CONFIG_DIR=str(config), JUPYTER_RUNTIME_DIR=str(tmp_path/'run'), JUPYTER_PREFER_ENV_PATH='1',
               JUPYTERLAB_SETTINGS_DIR=str(tmp_path/'settings'), JUPYTERLAB_WORKSPACES_DIR=str(tmp_path/'workspaces'), PYDEVD_DISABLE_FILE_VALIDATION='1')
    command = [sys.executable, '-m', 'jupyter', 'lab', '--no-browser', '--allow-root', '--ip=127.0.0.1', f'--port={port}', '--ServerApp.port_retries=0',
               f'--IdentityProvider.token={token}', f'--ServerApp.root_dir={books}']
    with open(tmp_path/'log', 'w') as log: server = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=log, stderr=log)
    try:
        for _ in range(240):
            if server.poll() is not None: pytest.fail((tmp_path/'log').read_text()[-2000:], pytrace=False)
            try: urllib.request.urlopen(f'http://127.0.0.1:{port}/api?token={token}', timeout=2); break
            except OSError: time.sleep(.5)
        else: pytest.fail('JupyterLab did not start within two minutes:\n' + (tmp_path/'log').read_text()[-2000:], pytrace=False)
        yield f'http://127.0.0.1:{port}', token
    finally:
        server.terminate()
        try: server.wait(20)
        except subprocess.TimeoutExpired: server.kill()

def test_cell_runs(lab, browser):
    "A cell typed into an open notebook prints what only a kernel with the package can know."
    url, token = lab
    name = 'index.ipynb' if (root/'nbs'/'index.ipynb').exists() else '00_core.ipynb'
    page = browser.new_page(viewport=dict(width=1280, height=900))
    page.set_default_timeout(120_000)
    page.goto(f'{url}/lab/tree/{name}?token={token}')
    page.wait_for_selector('.jp-Notebook .jp-Cell')
    page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]')
    import orthog_nb
    wanted = f'.jp-OutputArea-output:has-text("live {orthog_nb.__version__} 42")'
    for attempt in range(3):  # keys can get lost while the page is still being laid out
        page.locator('.jp-Notebook .jp-Cell').first.click()
        for key in ('Escape', 'a', 'Enter'): page.keyboard.press(key); page.wait_for_timeout(300)
        page.keyboard.type("import orthog_nb; print('live', orthog_nb.__version__, 6*7)")
        page.keyboard.press('Shift+Enter')
        try: page.wait_for_selector(wanted, timeout=40_000); break
        except Exception:
            if attempt == 2: raise
    page.close()
