"""What a user gets from `pip install`: a small package, its commands, and nothing that only developers need."""
import ast, os, re, shutil, subprocess, sys, tarfile, zipfile
from configparser import ConfigParser
from email.parser import Parser
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

root = Path(__file__).resolve().parent.parent
tools = {'nbdev', 'execnb', 'sphinx', 'myst-nb', 'jupyterlab', 'pytest', 'playwright', 'ipykernel'}

def run(*command, **kwargs):
    env = {k: v for k,v in os.environ.items() if k != 'PYTHONPATH'}
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, **kwargs)
    assert not done.returncode, f'{" ".join(map(str, command))}\n{done.stdout[-3000:]}'
    return done.stdout

@pytest.fixture(scope='module')
def settings():
    config = ConfigParser(delimiters=['='])
    config.read(root/'settings.ini', encoding='utf-8')
    return config['DEFAULT']

@pytest.fixture(scope='module')
def built(tmp_path_factory):
    "An sdist, and a wheel made from that sdist, of a copy of the project."
    tmp = tmp_path_factory.mktemp('package')
    skip = shutil.ignore_patterns('.*', '_docs', '_proc', 'build', 'dist', 'runs', 'demo', '*.egg-info', '__pycache__', 'results')
    shutil.copytree(root, tmp/'src', ignore=skip, ignore_dangling_symlinks=True)
    run(sys.executable, '-m', 'build', '--no-isolation', '--outdir', tmp/'dist', tmp/'src')
    return next((tmp/'dist').glob('*.whl')), next((tmp/'dist').glob('*.tar.gz'))

def test_wheel(built, settings):
    "The package and its metadata; no notebooks, data, tests or documentation."
    with zipfile.ZipFile(built[0]) as z: names = z.namelist()
    tops = {n.split('/')[0] for n in names}
    assert tops == {'orthog_nb', f"orthog_nb-{settings['version']}.dist-info"}
    modules = {p.name for p in (root/'orthog_nb').glob('*.py')}
    assert modules <= {n.split('/')[-1] for n in names}
    odd = [n for n in names if n.startswith('orthog_nb/') and not n.endswith(('.py', '.json'))]
    assert not odd, odd
    assert built[0].stat().st_size < 500_000

def test_wheel_needs_no_tools(built):
    "Development tools are extras."
    with zipfile.ZipFile(built[0]) as z: text = z.read(next(n for n in z.namelist() if n.endswith('METADATA'))).decode()
    needs = [Requirement(r) for r in Parser().parsestr(text).get_all('Requires-Dist')]
    always = {canonicalize_name(r.name) for r in needs if r.marker is None}
    assert {'torch', 'torchvision', 'numpy', 'matplotlib', 'fastcore'} <= always and not always & tools

def test_sdist(built):
    "It holds what building needs."
    with tarfile.open(built[1]) as t: names = {n.partition('/')[2] for n in t.getnames()}
    assert {'settings.ini', 'setup.py', 'pyproject.toml', 'README.md', 'LICENSE', 'orthog_nb/core.py'} <= names
    assert not [n for n in names if n.endswith('.ipynb')]

def test_imports_are_light():
    "`import orthog_nb`, and importing every module, loads no torchvision, matplotlib or development tool."
    code = '''if 1:
        import sys, pkgutil, importlib, orthog_nb
        assert 'torch' not in sys.modules, 'import orthog_nb alone imports torch'
        for m in pkgutil.iter_modules(orthog_nb.__path__): importlib.import_module('orthog_nb.'+m.name)
        print(*sorted({m.split('.')[0] for m in sys.modules}))'''
    loaded = set(run(sys.executable, '-c', code).split())
    assert 'torch' in loaded and not loaded & {'torchvision', 'matplotlib', 'pandas', 'sklearn', 'mlxtend', *tools}

def commands(settings):
    return dict(c.split('=', 1) for c in settings['console_scripts'].split())

def test_commands_exist(settings):
    for name,target in commands(settings).items():
        module, function = target.split(':')
        assert callable(getattr(import_module(module), function, None)), f'{name} = {target} is no function'

def test_ranges_hold_the_pins(settings):
    "Every requirement is pinned in constraints.txt, by a version in its range."
    lines = [l for l in (root/'constraints.txt').read_text().splitlines() if l and l[0] not in '#-']
    pins = {canonicalize_name(n): v for n,v in (l.split('==') for l in lines)}
    needs = [Requirement(r) for k in settings if k.endswith('requirements') for r in settings[k].split()]
    missing = sorted({r.name for r in needs if canonicalize_name(r.name) not in pins})
    outside = [f'{r}, pinned {pins[canonicalize_name(r.name)]}' for r in needs if canonicalize_name(r.name) in pins and
               not r.specifier.contains(pins[canonicalize_name(r.name)], prereleases=True)]
    assert not missing and not outside, (missing, outside)

def test_imports_are_required(settings):
    "What the modules import is among the requirements, or an extra that users can choose."
    names = {m for p in (root/'orthog_nb').glob('*.py') for o in ast.walk(ast.parse(p.read_text(encoding='utf-8')))
             for m in ([a.name for a in o.names] if isinstance(o, ast.Import) else [o.module] if isinstance(o, ast.ImportFrom) and not o.level else [])}
    tops = {n.split('.')[0] for n in names} - set(sys.stdlib_module_names) - {'orthog_nb'}
    needs = {canonicalize_name(Requirement(r).name) for k in settings if k.endswith('requirements') and k != 'dev_requirements' for r in settings[k].split()}
    found = packages_distributions()
    missing = [t for t in tops if not {canonicalize_name(d) for d in found.get(t, [t])} & needs]
    assert not missing, f'imported but not in settings.ini: {missing}'

def test_installs(built, settings, tmp_path):
    "In an empty venv (that sees the dependencies here, so that nothing is downloaded) the package and its commands are there and work."
    venv = tmp_path/'venv'
    run(sys.executable, '-m', 'venv', '--without-pip', venv)
    python = venv/'bin'/'python'
    run(sys.executable, '-m', 'pip', '--python', python, 'install', '--no-deps', '--no-index', '-q', '--disable-pip-version-check', built[0])
    site = Path(run(python, '-c', "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    here = run(sys.executable, '-c', "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    (site/'here.pth').write_text(here+'\n')
    where = run(python, '-c', 'import orthog_nb.core; print(orthog_nb.core.__file__)', cwd=tmp_path).strip()
    assert Path(where).is_relative_to(venv)
    assert all((venv/'bin'/name).exists() for name in commands(settings))
    load = "from importlib.metadata import distribution as d; print(*(e.load().__name__ for e in d('orthog_nb').entry_points if e.group == 'console_scripts'))"
    assert set(run(python, '-c', load, cwd=tmp_path).split()) == set(commands(settings))
    for name in list(commands(settings))[:1]:
        out = run(venv/'bin'/name, '--help', cwd=tmp_path)
        assert re.search('usage', out, re.I), out
