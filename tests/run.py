"""Everything that `make test` checks, in one list, ending with `N passed, M failed`.

    python tests/run.py            # all
    python tests/run.py notebooks  # one or more of: export readme notebooks pytest
"""
import filecmp, os, re, shutil, subprocess, sys, tempfile, time
import xml.etree.ElementTree as ET
from pathlib import Path

root = Path(__file__).resolve().parent.parent

def run(*cmd, cwd=root, show=True):
    "A command's return code and output; the output is shown as it comes."
    p = subprocess.Popen(cmd, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    out = []
    for line in p.stdout:
        out.append(line)
        if show: print(line, end='', flush=True)
    return p.wait(), ''.join(out)

def export():
    "nbdev_export and nbdev_clean change nothing."
    with tempfile.TemporaryDirectory() as d:
        d = Path(d)
        for f in ('settings.ini', 'setup.py', 'pyproject.toml', 'README.md'): shutil.copy(root/f, d)
        for f in ('nbs', 'orthog_nb'): shutil.copytree(root/f, d/f, ignore=shutil.ignore_patterns('__pycache__', '.ipynb_checkpoints'), ignore_dangling_symlinks=True)
        rc,out = run('nbdev_export', cwd=d, show=False)
        rc2,out2 = run('nbdev_clean', cwd=d, show=False)
        if rc or rc2: print(out, out2); return 0, 1
        files = [f.relative_to(d) for g in ('nbs/*.ipynb', 'orthog_nb/*.py') for f in d.glob(g)]
        stale = [str(f) for f in files if not (root/f).exists() or not filecmp.cmp(d/f, root/f, shallow=False)]
    if stale: print('out of date, run nbdev_export && nbdev_clean:', *stale)
    return (0, 1) if stale else (1, 0)

def readme():
    "README.md is what index.ipynb says."
    rc,_ = run(sys.executable, 'docs/readme.py', '--check')
    return (0, 1) if rc else (1, 0)

def notebooks():
    "Every notebook runs from the top."
    names = sorted(p.name for p in (root/'nbs').glob('*.ipynb') if not p.name.startswith(('_', '.')))
    rc,out = run('nbdev_test', '--n_workers', '2', '--do_print')
    tested,bad = set(re.findall(r'Starting .*?([^/\\\s]+?\.ipynb)', out)), set(re.findall(r'^\s+(\S+\.ipynb)$', out.partition('Tests Failed')[2], re.M))
    missed = set(names)-tested
    if missed: print('not tested:', *sorted(missed))
    return len(tested-bad), max(len(bad|missed), rc)

def pytest():
    "The tests that a notebook can't show well."
    with tempfile.TemporaryDirectory() as d:
        rc,_ = run(sys.executable, '-m', 'pytest', '-q', '-rs', 'tests', f'--junitxml={d}/out.xml')
        suite = ET.parse(f'{d}/out.xml').getroot().find('testsuite').attrib
    n,bad,skipped = (sum(int(suite[k]) for k in ks) for ks in (['tests'], ['failures','errors'], ['skipped']))
    return n-bad-skipped, max(bad, int(rc not in (0, 5)))

if __name__ == '__main__':
    os.environ.setdefault('OMP_NUM_THREADS', '1')
    stages = {f.__name__: f for f in (export, readme, notebooks, pytest)}
    passed = failed = 0
    for name in sys.argv[1:] or stages:
        start = time.time(); print(f'== {name}: {stages[name].__doc__}', flush=True)
        p,f = stages[name]()
        passed,failed = passed+p,failed+f
        print(f'== {name}: {p} passed, {f} failed in {time.time()-start:.0f} s', flush=True)
    print(f'{passed} passed, {failed} failed')
    sys.exit(failed > 0)
