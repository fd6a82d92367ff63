"""The Stiefel step where numbers are extreme: the weight stays on the manifold, or the step is refused in words and changes nothing."""
import math
from itertools import product
import pytest, torch
from torch import nn
from orthog_nb.core import InputError, generator, mm, rand_stiefel
from orthog_nb.cayley import cayley_exact
from orthog_nb.factors import FactoredSGD
from orthog_nb.optim import StiefelSGD

torch.set_num_threads(1)
bound = {torch.float32: 5e-6, torch.float64: 1e-14}  # on ‖WᵀW − I‖ of 40 x 8
large = 256,64  # products of float32 go to oneDNN from this size on: `core.mm`
rates = [1e-6, 1e-4, 1e-2, .1, 1., 10.]

def weight(n=40, p=8, dtype=torch.float32, seed=0): return nn.Parameter(rand_stiefel(n, p, generator=generator(seed, 'w'), dtype=torch.float64).to(dtype))

def off(p):
    W = p.detach().double()
    return (W.mT @ W - torch.eye(W.shape[1], dtype=W.dtype)).norm().item()

def walk(p, lr, steps, scale=1., **kwargs):
    "Steps of random gradients, which point everywhere; the worst drift on the way."
    opt,g,worst = StiefelSGD([p], lr, **kwargs),generator(0, 'g'),0.
    for i in range(steps):
        if i % 64 == 0: G = scale*torch.randn(64, *p.shape, generator=g, dtype=torch.float64).to(p.dtype)
        p.grad = G[i % 64]; opt.step()
        if steps <= 300 or i % 1000 == 0 or i == steps-1: worst = max(worst, off(p))
    return worst

@pytest.mark.parametrize('lr', rates)
@pytest.mark.parametrize('dtype', bound)
@pytest.mark.parametrize('metric', ['canonical','euclidean'])
def test_any_rate(dtype, lr, metric): assert walk(weight(dtype=dtype), lr, 300, metric=metric) < bound[dtype]

@pytest.mark.parametrize('lr', rates)
@pytest.mark.parametrize('metric', ['canonical','euclidean'])
def test_any_rate_of_a_large_weight(lr, metric): assert walk(weight(*large), lr, 300, metric=metric) < bound[torch.float32]

@pytest.mark.parametrize('value', [math.nan, math.inf, -math.inf])
def test_products_hide_nothing(value):
    "What is not finite comes out of oneDNN where it comes out of the BLAS."
    A,B = torch.ones(128, 128),torch.ones(128, 128); A[3,5] = value; B[5,7] = 0.
    for X,Y in ((A, B), (B.mT, A.mT), (A, A)): torch.testing.assert_close(mm(X, Y), (X.double() @ Y.double()).float(), equal_nan=True)

@pytest.mark.parametrize('scale', [0., 1e-300, 1e-38, 1e-20, 1e6, 1e12, 1e17])
@pytest.mark.parametrize('dtype,shape', [*product(bound, [(40,8), (8,8), (40,1)]), (torch.float32, large)])
def test_any_size_of_gradient(dtype, scale, shape):
    p = weight(*shape, dtype); before = p.detach().clone()
    try: assert walk(p, .1, 20, scale) < bound[dtype]
    except InputError as e: assert 'not finite or too large' in str(e) and torch.equal(p, before) and scale >= 1e16
    if scale == 0.: assert torch.equal(p, before)

@pytest.mark.parametrize('value', [math.nan, math.inf, -math.inf, 1e30])
@pytest.mark.parametrize('dtype,shape', [*product(bound, [(40,8)]), (torch.float32, large)])
@pytest.mark.parametrize('opt', [StiefelSGD, FactoredSGD])
def test_refused_steps_change_nothing_and_the_next_one_works(dtype, value, opt, shape):
    p = weight(*shape, dtype); o = opt([p], .1, momentum=.5); p.grad = torch.ones_like(p); o.step(); before = p.detach().clone()
    p.grad = torch.ones_like(p); p.grad[3,2] = value
    with pytest.raises(InputError, match='not finite or too large; the step was refused') as e: o.step()
    assert torch.equal(p, before) and '\n' not in str(e.value)
    p.grad = torch.ones_like(p); o.step(); assert off(p) < bound[dtype] and not torch.equal(p, before)

@pytest.mark.parametrize('rank', [0, 1, 5, 7])
@pytest.mark.parametrize('dtype', bound)
def test_rank_deficient_weights(dtype, rank):
    g = generator(rank, 'r'); W = torch.randn(40, rank, generator=g, dtype=dtype) @ torch.randn(rank, 8, generator=g, dtype=dtype)
    with pytest.raises(InputError, match='not orthonormal'): StiefelSGD([nn.Parameter(W.clone())], .1)
    p = nn.Parameter(W.clone()); StiefelSGD([p], .1, off_manifold='project'); assert off(p) < bound[dtype]
    assert walk(p, .1, 100) < bound[dtype]
    Y = cayley_exact(W/max(W.norm(), 1), torch.randn(40, 8, generator=g, dtype=dtype), .1); assert Y.isfinite().all()
    kept = nn.Parameter(W/max(W.norm(), 1)); o = StiefelSGD([kept], .1, off_manifold='keep')
    for _ in range(100): kept.grad = torch.randn(40, 8, generator=g, dtype=dtype); o.step()
    assert kept.isfinite().all()

@pytest.mark.soak
@pytest.mark.parametrize('dtype,lr,shape', [(torch.float32, 1e-6, (40,8)), (torch.float32, .1, (40,8)), (torch.float32, 10., (40,8)), (torch.float32, .1, (16,16)), (torch.float32, .1, large), (torch.float64, .1, (40,8))])
def test_a_hundred_thousand_steps(dtype, lr, shape, figures):
    drift = walk(weight(*shape, dtype), lr, 100_000); kind = 'float32' if dtype is torch.float32 else 'float64'
    figures.setdefault('drift', {})[f'{shape[0]}x{shape[1]} {kind} lr={lr:g}'] = drift
    assert drift < bound[dtype]
