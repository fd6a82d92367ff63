"""Tangent vectors and gradients beside geoopt and pymanopt: where they agree, and where and why they do not.

    pip install geoopt==0.5.1 pymanopt==2.2.1
"""
import numpy as np, pytest, torch
from orthog_nb.core import rand_stiefel, test_slope as check_slope
from orthog_nb.tangent import canonical_grad, inner, skew_field, tangent_project, tangent_residual

close = lambda a,b: torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b), atol=1e-12, rtol=1e-12)
shapes = pytest.mark.parametrize('shape', [(6,3), (4,4), (5,1), (2,6,3)], ids=str)

def point(shape, seed=0):
    "A point of the manifold and an ambient gradient there."
    g = torch.Generator().manual_seed(seed)
    return rand_stiefel(*shape, generator=g, dtype=torch.float64), torch.randn(*shape, generator=g, dtype=torch.float64)

@pytest.fixture
def geoopt(): return pytest.importorskip('geoopt', reason='pip install geoopt==0.5.1 to compare with it')

@pytest.fixture
def pymanopt():
    pytest.importorskip('pymanopt', reason='pip install pymanopt==2.2.1 to compare with it')
    import pymanopt.manifolds
    return pymanopt

# geoopt, Euclidean metric: agreement

@shapes
def test_geoopt_euclidean(geoopt, shape):
    W,G = point(shape); m = geoopt.EuclideanStiefel(); U = tangent_project(W, G)
    close(m.proju(W, G), U); close(m.egrad2rgrad(W, G), U)
    close(m.inner(W, U, G), inner(W, U, G, c=.5))

def test_geoopt_euclidean_retraction_starts_along_its_tangent(geoopt):
    W,G = point((6,3)); m = geoopt.EuclideanStiefel(); Z = tangent_project(W, G)
    check_slope(lambda h: (m.retr(W, h*Z) - W - h*Z).norm(), 2)

# geoopt, canonical metric: gradient and metric agree; its `proju` and `retr` are not what their names say

@shapes
def test_geoopt_canonical_gradient(geoopt, shape):
    W,G = point(shape); m = geoopt.CanonicalStiefel(); U,Z = canonical_grad(W, G), tangent_project(W, point(shape, 1)[1])
    close(m.egrad2rgrad(W, G), U); close(m.inner(W, U, Z), inner(W, U, Z))
    close(m.inner(W, U, Z), (G*Z).sum((-2,-1)))  # which is what makes it the gradient

def test_geoopt_canonical_proju_is_no_projection(geoopt):
    "Its `proju` is the canonical gradient: of a vector that is tangent already it doubles the part inside the column space of W."
    W,G = point((6,3)); m = geoopt.CanonicalStiefel(); Z = tangent_project(W, G)
    assert tangent_residual(W, Z) < 1e-12
    close(m.proju(W, Z) - Z, W @ (W.mT @ Z))
    close(tangent_project(W, Z), Z)

def test_geoopt_canonical_retr_leaves_in_another_direction(geoopt):
    """`retr(W, u)` is a Cayley transform with A = uWᵀ − Wuᵀ, whose velocity A W = u − W uᵀ W is not u.
    The field that has it is `skew_field(W, u, c=1/2)`. Given the canonical gradient, geoopt moves along the gradient with c = 2."""
    W,G = point((6,3)); m = geoopt.CanonicalStiefel(); u = canonical_grad(W, G)
    check_slope(lambda h: (m.retr(W, h*u) - W - h*u).norm(), 1)
    check_slope(lambda h: (m.retr(W, h*u) - W - h*skew_field(W, G, 2.)@W).norm(), 2)
    close(skew_field(W, u, .5) @ W, u)
    w,g = point((6,1)); u = canonical_grad(w, g)      # nothing inside to double on a sphere: there it is a retraction
    check_slope(lambda h: (m.retr(w, h*u) - w - h*u).norm(), 2)

# pymanopt has the Euclidean metric only

@shapes
def test_pymanopt(pymanopt, shape):
    W,G = point(shape); n,p = shape[-2:]
    m = pymanopt.manifolds.Stiefel(n, p, k=shape[0] if len(shape) == 3 else 1)
    U = tangent_project(W, G)
    close(m.projection(W.numpy(), G.numpy()), U)
    close(m.euclidean_to_riemannian_gradient(W.numpy(), G.numpy()), U)
    close(m.inner_product(W.numpy(), U.numpy(), U.numpy()), inner(W, U, U, c=.5).sum())
    assert m.dim == (n*p - p*(p+1)//2) * (shape[0] if len(shape) == 3 else 1)
    np.random.seed(0)
    assert tangent_residual(W, torch.as_tensor(m.random_tangent_vector(W.numpy()))).max() < 1e-12

def test_pymanopt_differs_from_the_canonical_gradient_by_the_metric(pymanopt):
    "Same outside part; inside, half of ours. They agree where WᵀG is symmetric."
    W,G = point((6,3)); m = pymanopt.manifolds.Stiefel(6, 3)
    P,C = torch.as_tensor(m.euclidean_to_riemannian_gradient(W.numpy(), G.numpy())), canonical_grad(W, G)
    assert (P-C).norm() > .1
    close(W.mT@C, 2*(W.mT@P)); close(C - W@(W.mT@C), P - W@(W.mT@P))
    S = W.mT@G; G = G - W@(S-S.mT)/2                  # now WᵀG is symmetric
    close(m.euclidean_to_riemannian_gradient(W.numpy(), G.numpy()), canonical_grad(W, G))

def test_pymanopt_retractions_start_along_their_tangent(pymanopt):
    W,G = point((6,3)); Z = tangent_project(W, G)
    for name,order in (('qr',2), ('polar',2)):
        m = pymanopt.manifolds.Stiefel(6, 3, retraction=name)
        check_slope(lambda h: np.linalg.norm(m.retraction(W.numpy(), (h*Z).numpy()) - (W+h*Z).numpy()), order)
