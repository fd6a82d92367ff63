"""The Cayley step and StiefelSGD beside torch, geoopt, pymanopt, geotorch and POGO: where they agree, and where and why they do not.

    pip install -r bench/requirements.txt
"""
import pytest, torch
from torch import nn
from orthog_nb.core import generator, rand_stiefel, test_slope as check_slope
from orthog_nb.cayley import cayley_exact
from orthog_nb.optim import StiefelSGD
from orthog_nb.tangent import canonical_grad, skew_field, tangent_project

close = lambda a,b: torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b), atol=1e-11, rtol=1e-11)

def point(*shape, seed=0):
    "A point of the manifold and a gradient there."
    g = generator(seed, 'peers')
    return rand_stiefel(*shape, generator=g, dtype=torch.float64), torch.randn(*shape, generator=g, dtype=torch.float64)

@pytest.fixture
def geoopt(): return pytest.importorskip('geoopt', reason='pip install geoopt==0.5.1 to compare with it')

@pytest.fixture
def pymanopt():
    pytest.importorskip('pymanopt', reason='pip install pymanopt==2.2.1 to compare with it')
    import pymanopt.manifolds
    return pymanopt

# torch

@pytest.mark.parametrize('tau', [.03, 1., 10.])
def test_torchs_own_cayley_map(tau):
    "At the identity, torch's orthogonal parametrisation with the Cayley map is the exact step."
    G = point(5, 5)[1]; layer = nn.Linear(5, 5, bias=False, dtype=torch.float64)
    nn.utils.parametrizations.orthogonal(layer, orthogonal_map='cayley', use_trivialization=False)
    layer.parametrizations.weight.original.data = -tau*(G - G.T)
    close(layer.weight.detach(), cayley_exact(torch.eye(5, dtype=torch.float64), G, tau))

@pytest.mark.parametrize('shape', [(6, 3), (5, 5), (4, 1)])
def test_the_exponential_is_left_with_slope_three(shape):
    W,G = point(*shape); A = skew_field(W, G)
    check_slope(lambda h: (cayley_exact(W, G, h) - torch.matrix_exp(-h*A) @ W).norm(), 3)

# geoopt

@pytest.mark.parametrize('shape', [(6, 3), (5, 5), (4, 1), (2, 6, 3)], ids=str)
@pytest.mark.parametrize('tau', [.03, 1., 10.])
def test_geoopt_canonical_step_is_ours_with_c_of_two(geoopt, shape, tau):
    "geoopt builds its field from a vector that is a gradient already, which doubles the part inside the column space: c = 2, not 1."
    W,G = point(*shape); new = geoopt.CanonicalStiefel().retr(W, -tau*canonical_grad(W, G))
    close(new, cayley_exact(W, G, tau, c=2.))
    if shape[-1] > 1: assert (new - cayley_exact(W, G, tau)).norm() > 1e-3
    else: close(new, cayley_exact(W, G, tau))   # on a sphere there is nothing inside

def test_geoopt_qr_step_agrees_to_first_order(geoopt):
    W,G = point(6, 3); Z = tangent_project(W, G)
    check_slope(lambda h: (geoopt.EuclideanStiefel().retr(W, -h*Z) - cayley_exact(W, G, h, c=.5)).norm(), 2)

def test_geoopt_momentum_agrees_to_first_order(geoopt):
    """Both project the buffer at the new point. geoopt's first buffer is the Euclidean gradient, added to the Riemannian one;
    started from zero, the two optimisers leave each other with slope 2."""
    W,C = point(8, 3)
    def apart(h, zero=True):
        p,q = nn.Parameter(W.clone()),geoopt.ManifoldParameter(W.clone(), manifold=geoopt.EuclideanStiefel())
        ours,theirs = StiefelSGD([p], h, metric='euclidean', momentum=.9),geoopt.optim.RiemannianSGD([q], h, momentum=.9)
        if zero: theirs.state[q]['momentum_buffer'] = torch.zeros_like(W)
        for _ in range(5): p.grad,q.grad = C.clone(),C.clone(); ours.step(); theirs.step()
        return (p - q).detach().norm()
    check_slope(apart, 2, h=.01); check_slope(lambda h: apart(h, zero=False), 1, h=.01)

def test_geoopt_and_ours_find_the_same_subspace(geoopt):
    C = torch.diag(torch.arange(12, dtype=torch.float64)/12); W = point(12, 3)[0]; found = []
    for p,make in ((nn.Parameter(W.clone()), lambda p: StiefelSGD([p], .5)), (geoopt.ManifoldParameter(W.clone(), manifold=geoopt.EuclideanStiefel()), lambda p: geoopt.optim.RiemannianSGD([p], .5))):
        opt = make(p)
        for _ in range(400): opt.zero_grad(); (-(p*(C@p)).sum()/2).backward(); opt.step()
        found.append((p @ p.mT).detach())
    torch.testing.assert_close(found[0], found[1].as_subclass(torch.Tensor), atol=1e-8, rtol=0)
    torch.testing.assert_close(found[0].diagonal()[-3:], torch.ones(3, dtype=torch.float64), atol=1e-8, rtol=0)

# pymanopt

@pytest.mark.parametrize('shape', [(6, 3), (4, 4), (5, 1)])
def test_pymanopt_agrees_to_first_order(pymanopt, shape):
    """Its manifold has the Euclidean metric, our c = 1/2. The Cayley step leaves its QR retraction with slope 2, its geodesic with slope 2 too for a
    tall matrix (the curve of c = 1/2 is no geodesic), with slope 3 where it is one: on a sphere and on O(n)."""
    m = pymanopt.manifolds.Stiefel(*shape); W,G = point(*shape); Z = torch.as_tensor(m.euclidean_to_riemannian_gradient(W.numpy(), G.numpy()))
    close(Z, tangent_project(W, G))
    check_slope(lambda h: (torch.as_tensor(m.retraction(W.numpy(), -h*Z.numpy())) - cayley_exact(W, G, h, c=.5)).norm(), 3 if shape[1] == 1 else 2)
    check_slope(lambda h: (torch.as_tensor(m.exp(W.numpy(), -h*Z.numpy())) - cayley_exact(W, G, h, c=.5)).norm(), 2 if shape == (6, 3) else 3)

# POGO and geotorch

def test_pogo_agrees_to_first_order_and_only_lands_near():
    "POGO moves along half of the canonical gradient and returns by a polynomial, approximately."
    pogo = pytest.importorskip('pogo', reason='pip install pogo-torch==1.0.2 to compare with it')
    from pogo.base import SGD
    W,G = point(6, 3); off = lambda W: (W.T@W - torch.eye(3, dtype=torch.float64)).norm()
    def step(h):
        p = nn.Parameter(W.T.clone()[None]); p.grad = G.T.clone()[None]; pogo.POGO([p], SGD(), h).step()
        return p.detach()[0].T
    check_slope(lambda h: (step(h) - cayley_exact(W, G, h/2)).norm(), 2)
    assert off(step(.3)) > 1e-6 and off(cayley_exact(W, G, .15)) < 1e-14

def test_geotorch_reaches_the_same_optimum():
    geotorch = pytest.importorskip('geotorch', reason='pip install geotorch==0.4.0 to compare with it')
    C = torch.diag(torch.arange(8, dtype=torch.float64)/8); torch.manual_seed(0)
    layer = nn.Linear(8, 2, bias=False, dtype=torch.float64); geotorch.orthogonal(layer, 'weight'); opt = torch.optim.SGD(layer.parameters(), .5)
    p = nn.Parameter(point(8, 2)[0]); ours = StiefelSGD([p], .5)
    for _ in range(600):
        opt.zero_grad(); W = layer.weight.T; (-(W*(C@W)).sum()/2).backward(); opt.step()
        ours.zero_grad(); (-(p*(C@p)).sum()/2).backward(); ours.step()
    value = lambda W: (W*(C@W)).sum().item()
    assert abs(value(p) - 13/8) < 1e-8 and abs(value(layer.weight.T) - value(p)) < 1e-4
