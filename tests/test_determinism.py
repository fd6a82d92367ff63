"""The same seed gives the same bits: twice in a process and in two (resumed: test_kill.py; under joblib and Dask: test_sweep.py). The number of threads may change the last bits of sums, and nothing else."""
import json, os, subprocess, sys
from pathlib import Path
import pytest, torch
from orthog_nb.training import learn
from victim import Nursery, cases, kinds, stream

@pytest.fixture(scope='module')
def nursery(): return Nursery()

@pytest.mark.parametrize('method,kind', [c for c in cases if c[0] in ('finetune','icarl','vcl_random') or c[1] in ('all','colour')])
def test_twice_in_one_process_and_in_two(nursery, method, kind, tmp_path):
    torch.set_num_threads(1); once,again = (learn(stream(kind), method, quiet=True, **kinds[kind]) for _ in range(2))
    assert once.R == again.R and once.stream_hash == again.stream_hash
    assert nursery.whole(tmp_path, method, kind) == once.R

def fingerprint(threads, method, kind):
    "What a run starts from, what it draws, and what it ends with, with so many threads."
    code = f'''
import sys, json, hashlib, torch; sys.path.insert(0, {str(Path(__file__).parent)!r}); torch.set_num_threads({threads})
from victim import kinds, stream
from orthog_nb.training import Run, configure, drive
s = stream({kind!r}, 2, 100, 50); run = Run(s, configure(s, {method!r}, **kinds[{kind!r}]), torch.device('cpu'), quiet=True)
sha = lambda d: hashlib.sha256(b''.join(v.numpy().tobytes() for v in d.values())).hexdigest()
start = run.method.model.head.weight.flatten().tolist(); drive(run, None, 10**9, None, None)
print(json.dumps([start, s.hash, sha({{k: g.get_state() for k,g in run.method.gens.items()}}), run.method.memory.x.sum().item(), run.R.nan_to_num().tolist(), sha(run.method.model.state_dict())]))'''
    r = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, env=dict(os.environ, OMP_WAIT_POLICY='passive')); assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)

@pytest.mark.parametrize('method,kind', [('er_ring','mnist'), ('orthog','colour')])
def test_threads(figures, method, kind):
    "Stream, draws and memory do not depend on the number of threads, and weights, from the first on (a QR decomposition), only by rounding; for one number of threads, no bit does on anything."
    one,again,two = (fingerprint(n, method, kind) for n in (1,1,2))
    assert one == again and one[1:4] == two[1:4]
    torch.testing.assert_close(torch.tensor(one[0]), torch.tensor(two[0]), atol=1e-6, rtol=0)
    figures.setdefault('threads', {})[f'{method} {kind}'] = dict(same_weights=one[5] == two[5], R_differs_by=(torch.tensor(one[4])-torch.tensor(two[4])).abs().max().item())
