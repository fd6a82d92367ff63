"""Many runs, and what can go wrong with them: killed workers, killed sweeps, a cluster that loses a machine, bad input."""
import json, os, signal, subprocess, sys, threading, time
from pathlib import Path
import pytest
from orthog_nb.core import InputError
from orthog_nb.jobs import Job, load_results
from orthog_nb.sweeps import sweep
from orthog_nb.experiments import orthog_run, orthog_sweep, orthog_verify
from orthog_nb.report import orthog_report
from orthog_nb.streams import make_stream
from orthog_nb.training import learn

env = dict(os.environ, OMP_NUM_THREADS='1')
kw = dict(threads=1, device='cpu', quiet=True)

def jobs(tasks, *methods, seeds=2): return [Job('permuted_digits', m, s, stream=dict(tasks=tasks)) for m in methods for s in range(seeds)]

def alone(job):
    "What the run gives when nothing disturbs it."
    return learn(make_stream(job.benchmark, **job.stream_args), job.method, job.seed, device='cpu', quiet=True, **job.settings).R

def start(*args, **kwargs):
    "A command in a process group of its own, which hears an interrupt also where the tests run in the background and do not."
    hears = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    return subprocess.Popen([str(Path(sys.executable).parent/args[0]), *args[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, start_new_session=True, preexec_fn=hears, **kwargs)

def run(*args, **kwargs):
    "Exit code, stdout and stderr of a command."
    p = start(*args, **kwargs)
    out,err = p.communicate(timeout=300)
    return p.returncode, out, err

def until(what, seconds=200):
    "Wait until `what()` is true."
    end = time.time()+seconds
    while not what():
        assert time.time() < end, 'waited in vain'
        time.sleep(.1)

def logs(root): return sum(p.read_text().count('\n') for p in Path(root).glob('runs/*/log.jsonl'))

def test_two_processes_give_what_one_gives(tmp_path):
    todo = jobs(2, 'finetune', 'orthog') + [Job('permuted_digits', 'icarl')]
    got,failed = sweep(todo, tmp_path, workers=2, **kw)
    assert [r and r.R for r in got] == [*map(alone, todo[:4]), None]
    assert list(failed) == ['orthog_run --benchmark permuted_digits --method icarl --seed 0'] and 'splits classes' in failed[todo[4].command]
    assert len(load_results(tmp_path)) == 4 and not list(tmp_path.glob('runs/*/state.*'))

def children(pid):
    return [int(p) for t in Path(f'/proc/{pid}/task').glob('*/children') for p in t.read_text().split()]

def busy(pid): return [c for c in children(pid) if 'loky' in Path(f'/proc/{c}/cmdline').read_text() and 'resource_tracker' not in Path(f'/proc/{c}/cmdline').read_text()]

@pytest.mark.skipif(not Path('/proc/self/task').exists(), reason='looks for child processes in /proc')
def test_a_local_worker_is_killed(tmp_path):
    todo,out = jobs(3, 'finetune'),[]
    t = threading.Thread(target=lambda: out.append(sweep(todo, tmp_path, workers=2, **kw))); t.start()
    until(lambda: logs(tmp_path) > 0)
    os.kill(busy(os.getpid())[0], signal.SIGKILL); t.join()
    (got,failed), = out
    assert not failed and [r.R for r in got] == [*map(alone, todo)]

@pytest.mark.skipif(not Path('/proc/self/task').exists(), reason='looks for child processes in /proc')
def test_the_sweep_itself_is_killed(tmp_path):
    code = f'from orthog_nb.sweeps import Job, sweep; sweep([Job("permuted_digits", "finetune", s, stream=dict(tasks=3)) for s in (0,1)], {str(tmp_path)!r}, workers=2, threads=1, device="cpu")'
    p = subprocess.Popen([sys.executable, '-c', code], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: logs(tmp_path) > 0)
    workers = busy(p.pid); assert workers
    p.kill(); p.wait()
    until(lambda: not any(alive(w) for w in workers), 30)
    assert not load_results(tmp_path)
    got,failed = sweep(jobs(3, 'finetune'), tmp_path, workers=2, **kw)
    assert not failed and [r.R for r in got] == [*map(alone, jobs(3, 'finetune'))]

def alive(pid):
    try: return Path(f'/proc/{pid}/stat').read_text().split()[2] != 'Z'
    except FileNotFoundError: return False

@pytest.mark.parametrize('sig', [signal.SIGINT, signal.SIGTERM])
def test_a_run_is_interrupted_and_continued(tmp_path, sig):
    args = 'orthog_run', '--benchmark', 'permuted_digits', '--method', 'finetune', '--root', str(tmp_path), 'tasks=4'
    p = start(*args)
    until(lambda: logs(tmp_path) > 0)
    p.send_signal(sig); out,err = p.communicate(timeout=60)
    assert p.returncode == 1 and 'The same command goes on' in err and ' '.join(args) in err and 'Traceback' not in err
    rc,out,err = run(*args); assert rc == 0, err
    r, = load_results(tmp_path)
    assert r.R == alone(jobs(4, 'finetune')[0]) and out.strip().endswith(next(tmp_path.glob('results/runs/*.json')).name)
    rc,again,_ = run(*args); assert (rc, again) == (0, out)

def test_verify(tmp_path):
    learn(make_stream('permuted_digits', tasks=2), 'finetune', device='cpu', quiet=True, root=tmp_path)
    path, = tmp_path.glob('results/runs/*.json')
    assert orthog_verify(str(path)) == 0
    d = json.loads(path.read_text()); d['R'][1][0] += .01; path.write_text(json.dumps(d))
    with pytest.raises(InputError, match='damaged or edited'): orthog_verify(str(path))
    d.pop('check'); path.write_text(json.dumps(d))
    rc,out,err = run('orthog_verify', str(path)); assert rc == 1 and 'NOT the same' in out and 'differs by up to 0.01' in out
    path.write_text('{')
    with pytest.raises(InputError, match='not a readable result'): orthog_verify(str(path))

@pytest.mark.parametrize('args, says', [(('orthog_run', '--benchmark', 'permutd_digits'), "did you mean 'permuted_digits'"), (('orthog_sweep', '--scheduler', 'tcp://127.0.0.1:9'), 'no Dask scheduler answers')])
def test_bad_input_is_one_line_and_exit_2(tmp_path, args, says):
    rc,out,err = run(*args, cwd=tmp_path)
    assert rc == 2 and says in err and len(err.strip().splitlines()) == 1 and not out, err
    assert not [p for p in tmp_path.rglob('*') if p.is_file()]

@pytest.mark.parametrize('call, says', [
    (lambda d: orthog_run([], method='er_rin', root=d), "did you mean 'er_ring'"), (lambda d: orthog_run(['lr_deca=per_task'], root=d), "did you mean 'lr_decay'"), (lambda d: orthog_run(['lr'], root=d), 'name=value'),
    (lambda d: orthog_run([], device='gpu', root=d), 'use auto, cpu'), (lambda d: orthog_run([], method='finetune', tuned=True, root=d), 'orthog_tune --benchmark rotated_digits --method finetune'),
    (lambda d: orthog_sweep('tabel1_mnist', root=d), "did you mean 'table1_mnist'"), (lambda d: orthog_sweep(methods='ewcc', root=d), 'method of demo'),
    (lambda d: orthog_report('table9', root=d, out=f'{d}/out'), 'preset .table9. is not known')])
def test_bad_input_is_named_and_nothing_written(tmp_path, call, says):
    with pytest.raises(InputError, match=says): call(str(tmp_path))
    assert not [p for p in tmp_path.rglob('*') if p.is_file()]

def test_a_damaged_result_is_named_and_the_rest_goes_on(tmp_path, capfd):
    got,_ = sweep(jobs(2, 'finetune'), tmp_path, workers=1, **kw)
    bad = sorted(tmp_path.glob('results/runs/*.json'))[0]; bad.write_text('{"schema": 7}')
    again,failed = sweep(jobs(2, 'finetune'), tmp_path, workers=1, **kw)
    assert not failed and [r.R for r in again] == [r.R for r in got] and bad.name in capfd.readouterr().err

def test_a_worker_without_the_data_is_named_and_the_rest_goes_on(tmp_path, monkeypatch):
    for name in ('ORTHOG_NB_DATA','ORTHOG_NB_CACHE'): monkeypatch.setenv(name, str(tmp_path))
    todo = [Job('split_miniimagenet', 'finetune', settings=dict(width=8)), Job('split_miniimagenet', 'er_ring', settings=dict(width=8, lr='tuned')), *jobs(2, 'finetune', seeds=1)]
    got,failed = sweep(todo, tmp_path, workers=1, **kw)
    assert [r is not None for r in got] == [False, False, True] and set(failed) == {j.command for j in todo[:2]}
    assert all('miniImageNet' in e for e in failed.values()), failed

@pytest.fixture
def cluster(tmp_path):
    "A Dask scheduler on loopback, and a function that starts worker processes for it."
    pytest.importorskip('distributed', reason='Dask is not installed')
    file,procs = tmp_path/'scheduler.json',[]
    def dask(*args, **more): procs.append(subprocess.Popen([sys.executable, '-m', 'dask', *args, '--scheduler-file', str(file)], env=env | more, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)); return procs[-1]
    dask('scheduler', '--host', '127.0.0.1', '--port', '0', '--no-dashboard')
    until(lambda: file.exists() and file.stat().st_size)
    yield json.loads(file.read_text())['address'], lambda **more: dask('worker', '--nthreads', '1', '--no-nanny', '--no-dashboard', '--host', '127.0.0.1', **more)
    for p in procs: p.kill(); p.wait()

def ready(address, n):
    from distributed import Client
    with Client(address, set_as_default=False) as c: c.wait_for_workers(n, timeout=120)

def test_a_cluster_loses_a_worker(tmp_path, cluster):
    address,worker = cluster; victim,other = worker(),worker()
    ready(address, 2)
    todo,out = jobs(3, 'finetune', 'orthog'),[]
    t = threading.Thread(target=lambda: out.append(sweep(todo, tmp_path/'root', scheduler=address, **kw))); t.start()
    until(lambda: logs(tmp_path/'root') > 0)
    victim.send_signal(signal.SIGKILL); t.join()
    (got,failed), = out
    assert victim.wait() == -signal.SIGKILL and other.poll() is None
    assert not failed and [r.R for r in got] == [*map(alone, todo)]
    assert {(r.method, r.seed) for r in load_results(tmp_path/'root')} == {(j.method, j.seed) for j in todo}

def test_a_worker_of_another_version_is_named_and_not_used(tmp_path, cluster, capfd):
    fake = tmp_path/'path'/'orthog_nb-9.9.dist-info'; fake.mkdir(parents=True); (fake/'METADATA').write_text('Metadata-Version: 2.1\nName: orthog_nb\nVersion: 9.9\n')
    address,worker = cluster; worker(PYTHONPATH=str(fake.parent)); ready(address, 1)
    with pytest.raises(InputError, match='no worker has orthog_nb'): sweep(jobs(2, 'finetune', seeds=1), tmp_path/'root', scheduler=address, **kw)
    worker(); ready(address, 2)
    got,failed = sweep(jobs(2, 'finetune', seeds=1), tmp_path/'root', scheduler=address, **kw)
    assert not failed and all(got) and 'it has orthog_nb 9.9' in capfd.readouterr().err
