"What the training page promises, where a notebook can't show it well."
import json, os, resource, subprocess, sys
from pathlib import Path
import pytest, torch
from orthog_nb.core import InputError
from orthog_nb.streams import rotated_digits
from orthog_nb.training import Run, configure, learn, load_state, save_state

def tiny(tasks=2, n=100):
    s = rotated_digits(tasks=tasks)
    for t in s: t.train_ids,t.test_ids = t.train_ids[:n],t.test_ids[:50]
    return s

def test_memory_of_zero_is_refused():
    for m in ('er_ring','agem','mer'):
        with pytest.raises(InputError, match='holds nothing'): learn(tiny(), m, memory=0, quiet=True)

def test_more_tasks_than_units():
    with pytest.raises(InputError, match='dim // tasks'): learn(tiny(12), 'orthog', width=8, quiet=True)

def test_vcl_refuses_convolutions():
    from types import SimpleNamespace
    from orthog_nb.methods import build, generators
    from orthog_nb.vcl import VCL
    info = SimpleNamespace(benchmark='split_cifar', tasks=2, classes=10, shape=(3,8,8), multi_head=False, masks=None, mean=torch.zeros(3,1,1), std=torch.ones(3,1,1))
    with pytest.raises(InputError, match='fully connected'): VCL(build(info, width=2), info, generators(0))

def test_checkpoint_of_another_configuration(tmp_path):
    s = tiny(); a,b = (Run(s, configure(s, 'finetune', lr=lr), torch.device('cpu')) for lr in (.1,.2))
    with pytest.raises(InputError, match='another configuration'): b.load_state_dict(a.state_dict())
    d = a.state_dict(); d['version'] = 99
    with pytest.raises(InputError, match='another version'): a.load_state_dict(d)

def test_hostile_checkpoint_runs_no_code(tmp_path):
    import hashlib, io
    class Evil:
        def __reduce__(self): return os.system, (f'touch {tmp_path}/pwned',)
    buf = io.BytesIO(); torch.save(dict(config=Evil()), buf)
    (tmp_path/'state.pt').write_bytes(hashlib.sha256(buf.getvalue()).digest()+buf.getvalue())
    with pytest.raises(InputError, match='not a checkpoint of ours'): load_state(tmp_path/'state.pt')
    assert not (tmp_path/'pwned').exists()

@pytest.mark.parametrize('part', range(20))
def test_cut_checkpoint(part, tmp_path):
    p = tmp_path/'state.pt'
    for i in range(2): save_state(p, dict(i=i, w=torch.randn(50)))
    data = p.read_bytes(); p.write_bytes(data[:len(data)*part//20])
    assert load_state(p)['i'] == 0

def test_full_disk_keeps_the_checkpoint_before(tmp_path):
    code = """
import sys, resource, signal, torch
from orthog_nb.training import save_state, load_state
from orthog_nb.core import InputError
p = sys.argv[1]
save_state(p, dict(i=0, w=torch.zeros(10)))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (20000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
try: save_state(p, dict(i=1, w=torch.zeros(100000)))
except InputError as e: print('refused', e)
print(load_state(p)['i'])
"""
    out = subprocess.run([sys.executable, '-c', code, tmp_path/'state.pt'], capture_output=True, text=True)
    assert 'refused' in out.stdout and out.stdout.split()[-1] == '0', out.stderr

def test_two_processes_on_one_run(tmp_path):
    from orthog_nb.training import run_lock
    s = tiny(); config = configure(s, 'finetune')
    code = "import sys, json; from orthog_nb.training import run_lock\ntry:\n  with run_lock(sys.argv[1], json.loads(sys.argv[2])): print('got it')\nexcept Exception as e: print(type(e).__name__, e)"
    with run_lock(tmp_path, config):
        out = subprocess.run([sys.executable, '-c', code, tmp_path, json.dumps(config)], capture_output=True, text=True)
        assert out.stdout.startswith('InputError') and 'another process' in out.stdout

def test_thread_count_is_recorded():
    assert learn(tiny(), 'finetune', quiet=True).threads == torch.get_num_threads()
