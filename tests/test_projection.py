"""What the page on projections does not show well: compilers, precisions, hypothesis over sizes, and the benchmark's command."""
import json, os, subprocess, sys
from pathlib import Path
import pytest, torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st
from orthog_nb.projection import Subspaces

root = Path(__file__).resolve().parent.parent
bases = pytest.mark.parametrize('basis', ['axes','random'])

@bases
def test_compiles_without_graph_breaks(basis):
    torch._dynamo.reset()
    for s,m in ((Subspaces(8, 3, basis), 8), (Subspaces(8, 3, basis).grow(), 16)):
        f,h = torch.compile(s, fullgraph=True, backend='eager'), torch.randn(5, m)
        for t in (0, 2, torch.tensor([0,1,2,1,0])): torch.testing.assert_close(f(h, t), s(h, t))

@bases
def test_autocast_and_half(basis):
    s,h = Subspaces(8, 2, basis), torch.randn(3, 8)
    if basis == 'axes': assert s(h.half(), 1).dtype == torch.half
    torch.testing.assert_close(s.half()(h.half(), 1).float(), h @ s.float().matrix(1), atol=5e-3, rtol=5e-3)

@settings(max_examples=40, deadline=None)
@given(m=st.integers(1, 24), T=st.integers(1, 24), basis=st.sampled_from(['axes','random']), grown=st.integers(0, 2), seed=st.integers(0, 5))
def test_family(m, T, basis, grown, seed):
    "Disjoint projections of rank m // T for every size, grown or not, that load into a fresh object."
    if T > m: return
    s = Subspaces(m, T, basis, seed).double()
    for _ in range(grown): s.grow()
    O = torch.cat([s.basis_of(t) for t in range(s.tasks)], 1)
    torch.testing.assert_close(O.mT@O, torch.eye(s.tasks*s.rank, dtype=O.dtype), atol=3e-6, rtol=0)   # float32 bases
    fresh = Subspaces(m, T, basis, seed+1).double()
    fresh.load_state_dict(s.state_dict())
    h = torch.randn(s.tasks, s.dim, dtype=torch.double)
    assert torch.equal(fresh(h, torch.arange(s.tasks)), s(h, torch.arange(s.tasks)))

def test_gradient_is_the_projected_gradient():
    for basis in ('axes','random'):
        s = Subspaces(7, 3, basis).double()
        for t in (1, torch.tensor([0,1,2,2])):
            h = torch.randn(4, 7, dtype=torch.double, requires_grad=True)
            assert torch.autograd.gradcheck(lambda h: s(h, t), h)

def test_bench_writes_whole_json(tmp_path):
    out = tmp_path/'p.json'
    subprocess.run([sys.executable, root/'bench/projection.py', '--rounds', '2', '--out', out], check=True, capture_output=True, env={**os.environ, 'OMP_NUM_THREADS':'1'})
    d = json.loads(out.read_text())
    assert {r['net'] for r in d['rows']} == {'mlp','last'} and all(r['ratio']['none'] == 1 for r in d['rows']) and d['versions']['torch'] and d['threads'] == 1

def test_bench_refuses_nonsense():
    p = subprocess.run([sys.executable, root/'bench/projection.py', '--rounds', '0'], capture_output=True, text=True)
    assert p.returncode == 2 and 'rounds must be at least 2' in p.stderr
