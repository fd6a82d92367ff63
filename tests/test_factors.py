"""FactoredSGD beside StiefelSGD: the same training to rounding, whatever people do between backward and step."""
import copy, io, pickle
import pytest, torch, torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from orthog_nb import core
from orthog_nb.core import InputError, as_tall, generator, rand_stiefel
from orthog_nb.cayley import cayley_exact
from orthog_nb.factors import Factored, FactoredSGD, cayley_factors, costs, inv_near, pays
from orthog_nb.optim import StiefelSGD, orthonormality, stiefel_groups

torch.set_num_threads(1)

class Net(nn.Module):
    "Linear layers and convolutions, wide, tall and square, with and without bias, strided, dilated, padded."
    def __init__(self, mode='zeros', groups=1, dilation=1, inplace=True):
        super().__init__()
        self.conv = nn.Conv2d(3, 24, 3, stride=2, padding=1, bias=False)
        self.norm,self.act = nn.BatchNorm2d(24),nn.ReLU(inplace=inplace)
        self.mid = nn.Conv2d(24, 32, 3, padding=dilation, dilation=dilation, groups=groups, padding_mode=mode)
        self.up = nn.Conv2d(32, 48, 1, stride=2)          # more outputs than inputs
        self.a,self.b,self.c,self.head = nn.Linear(48, 48),nn.Linear(48, 40, bias=False),nn.Linear(40, 64),nn.Linear(64, 3)
    def forward(self, x):
        h = self.act(self.norm(self.conv(x)))
        h = self.up(self.act(self.mid(h))).mean((2,3))
        return self.head(self.act(self.c(self.act(self.b(self.act(self.a(h)))))))

def pair(seed=0, dtype=torch.float64, net=None, **kwargs):
    "The same network twice, under StiefelSGD and under FactoredSGD."
    torch.manual_seed(seed); first = (net or Net()).to(dtype); second = copy.deepcopy(first); kwargs = {'lr': .1, 'off_manifold': 'project', **kwargs}
    return (first, StiefelSGD(stiefel_groups(first), **kwargs)), (second, FactoredSGD(stiefel_groups(second), **kwargs))

def batch(seed, size=4, dtype=torch.float64):
    g = generator(seed, 'batch')
    return torch.randn(size, 3, 8, 8, generator=g, dtype=torch.float64).to(dtype),torch.randint(0, 3, (size,), generator=g)

def train(model, opt, steps=4, seed=0, dtype=torch.float64, passes=1, between=lambda model: None):
    for i in range(steps):
        opt.zero_grad()
        for j in range(passes):
            x,y = batch(100*seed+10*i+j, 4-j, dtype); F.cross_entropy(model(x), y).backward()
        between(model); opt.step()
    return model

def close(a, b, tol=1e-12):
    for (k,v),u in zip(a.state_dict().items(), b.state_dict().values()): torch.testing.assert_close(v, u, atol=tol, rtol=tol, msg=lambda m: f'{k}: {m}')

def kept(opt): return sum(f.startswith('factors') for f in opt.routing().values())

@pytest.mark.parametrize('kwargs', [{}, dict(metric='euclidean'), dict(guard=.01), dict(metric='euclidean', guard=.01), dict(maximize=True), dict(renorm_every=2), dict(lr=5.), dict(weight_decay=.1)])
@pytest.mark.parametrize('passes', [1, 2])
def test_same_training(kwargs, passes):
    (m,o),(n,q) = pair(**kwargs)
    train(m, o, passes=passes); train(n, q, passes=passes); close(m, n, 1e-11 if kwargs.get('lr') else 1e-12)
    assert kept(q) >= 3 and max(orthonormality(n).values()) < 1e-10
    assert o.guard_rate() == q.guard_rate()

def test_the_count_decides():
    "Small batches are stepped from factors, large ones from the gradient; several passes are counted together."
    for sizes,form in (((1,), 'factors, 1 rows'), ((400,), 'gradient: 400 rows'), ((20,20), 'factors, 40 rows'), ((40,300), 'gradient: a part was formed')):
        (m,o),(n,q) = pair(net=nn.Sequential(nn.Flatten(), nn.Linear(192, 96), nn.ReLU(), nn.Linear(96, 3)))
        for model,opt in ((m,o),(n,q)):
            for i,size in enumerate(sizes): x,y = batch(i, size); F.cross_entropy(model(x), y).backward()
            opt.step()
        close(m, n); assert q.routing()['1.weight'] == form

def test_float32_is_as_near_to_float64():
    "Both forms in float32 beside the same training in float64: rounding moves them equally far."
    (ref,r),_ = pair(); (m,o),(n,q) = pair()
    for model,opt,dtype in ((ref,r,torch.float64),(m,o,torch.float32),(n,q,torch.float32)): train(model.to(dtype), opt, 3, dtype=dtype)
    far = lambda model: max((p.double()-v).abs().max().item() for p,v in zip(model.parameters(), ref.parameters()))
    assert far(n) < 5*far(m) + 1e-5 and max(orthonormality(n).values()) < 1e-5 and kept(q) >= 3

@pytest.mark.skipif(core.onednn is None, reason='oneDNN is used on x86 only')
@pytest.mark.parametrize('size', [10, 40, 80])
@pytest.mark.parametrize('n,p', [(300,200), (200,300), (256,256)])
def test_the_library_changes_nothing_but_rounding(n, p, size, monkeypatch):
    "Layers large enough for oneDNN, few rows and many (from 65 on the inverse is by halves); beside it the same steps by the BLAS, and in float64."
    ends,calls,real = [],[],core.onednn; counted = lambda *a: calls.append(1) or real(*a)
    for library,dtype in ((counted, torch.float32), (None, torch.float32), (None, torch.float64)):
        monkeypatch.setattr(core, 'onednn', library); g = generator(0, 'layer'); layer = nn.Linear(n, p, bias=False, dtype=dtype)
        W = rand_stiefel(max(n, p), min(n, p), generator=g, dtype=torch.float64); layer.weight.data = (W if p >= n else W.mT).to(dtype).contiguous(); opt = FactoredSGD([('w', layer.weight)], .3)
        for _ in range(3): opt.zero_grad(); layer(torch.randn(size, n, generator=g).to(dtype)).square().sum().div(2*size).backward(); opt.step()
        assert opt.routing() == {'w': f'factors, {size} rows'}; ends.append(layer.weight.detach().double())
    fast,blas,true = ends
    assert calls and (fast-true).norm() < 2*(blas-true).norm()

def test_bfloat16_weights():
    torch.manual_seed(0); net = nn.Sequential(nn.Linear(40, 32), nn.ReLU(), nn.Linear(32, 3)).bfloat16(); opt = FactoredSGD(stiefel_groups(net), .05, off_manifold='project')
    for i in range(30): opt.zero_grad(); net(torch.randn(4, 40).bfloat16()).float().square().sum().backward(); opt.step()
    assert 'factors' in opt.routing()['0.weight'] and 'rest' in opt.state[net[0].weight] and max(orthonormality(net).values()) < .05

def test_channels_last_and_device_moves():
    (m,o),(n,q) = pair(); n.to(memory_format=torch.channels_last); n.to('cpu', torch.float64)
    train(m, o); train(n, q); close(m, n); assert kept(q) >= 3

# ---- who else looks at the gradient

def test_reading_grad_forms_it():
    (m,o),(n,q) = pair(); x,y = batch(0)
    for model in (m,n): F.cross_entropy(model(x), y).backward()
    for a,b in zip(m.parameters(), n.parameters()): torch.testing.assert_close(a.grad, b.grad, atol=1e-13, rtol=1e-12)
    o.step(); q.step(); close(m, n); assert kept(q) == 0 and 'gradient: .grad was read' in q.routing().values()

def test_clipping_is_right():
    clip = lambda model: torch.nn.utils.clip_grad_norm_(model.parameters(), .05)
    (m,o),(n,q) = pair(); train(m, o, between=clip); train(n, q, between=clip); close(m, n); assert kept(q) == 0

@pytest.mark.parametrize('kwargs', [dict(momentum=.9), dict(retraction='iterative')])
def test_settings_that_need_the_gradient(kwargs):
    (m,o),(n,q) = pair(**kwargs); train(m, o); train(n, q); close(m, n); word = next(iter(kwargs)).replace('retraction', 'iterative')
    assert kept(q) == 0 and f'gradient: {word}' in q.routing().values()

def test_momentum_switched_on_by_a_scheduler():
    (m,o),(n,q) = pair()
    for opt,model in ((o,m),(q,n)):
        train(model, opt, 2)
        for g in opt.param_groups: g['momentum'] = .5
        train(model, opt, 3, seed=1)
    close(m, n)

def test_weight_used_elsewhere_too():
    "Through its layer twice in one forward, and by hand as well."
    def loss(model, x, y): h = model[0](x); h = model[2](model[2](h)); return F.cross_entropy(model[3](h), y) + (model[2].weight @ h.mT).square().sum()*.01
    net = nn.Sequential(nn.Linear(50, 40), nn.ReLU(), nn.Linear(40, 40), nn.Linear(40, 3))
    for extra in (0, 1):
        (m,o),(n,q) = pair(net=copy.deepcopy(net)); x,y = torch.randn(3, 50, dtype=torch.float64),torch.tensor([0,1,2])
        for model,opt in ((m,o),(n,q)):
            for _ in range(3):
                opt.zero_grad(); h = model[2](model[2](model[0](x))); l = F.cross_entropy(model[3](h), y)
                if extra: l = l + (model[2].weight @ h.mT).square().sum()*.01
                l.backward(); opt.step()
        close(m, n); assert q.routing()['2.weight'] == ('gradient: a part was formed' if extra else 'factors, 6 rows')

def test_hooks_on_the_weight_still_run():
    calls = []; (m,o),(n,q) = pair()
    for model in (m,n): model.a.weight.register_hook(lambda g: (calls.append(1), 2*g)[1])
    train(m, o, 2); train(n, q, 2); close(m, n); assert len(calls) == 4 and q.routing()['a.weight'] == 'gradient: a hook on the weight'

# ---- other ways to call autograd

def test_autograd_grad_leaves_no_factors():
    _,(n,q) = pair(); x,y = batch(0); x.requires_grad_(); w = n.a.weight
    torch.autograd.grad(F.cross_entropy(n(x), y), x); assert not any(p.passes for p in n.parameters() if isinstance(p, Factored))
    got = torch.autograd.grad(F.cross_entropy(n(x), y), w)[0]; assert not w.passes
    twin = copy.deepcopy(n); twin.a.weight = nn.Parameter(w.detach().clone()); want = torch.autograd.grad(F.cross_entropy(twin(x), y), twin.a.weight)[0]
    torch.testing.assert_close(got, want)
    F.cross_entropy(n(x), y).backward(inputs=[n.head.weight]); assert not w.passes
    F.cross_entropy(n(x), y).backward(inputs=[w]); assert len(w.passes) == 1 and not n.b.weight.passes

def test_double_backward():
    "A gradient penalty: the weight is differentiated through the input's gradient."
    (m,o),(n,q) = pair(net=Net(inplace=False)); x,y = batch(0)
    for model,opt in ((m,o),(n,q)):
        v = x.clone().requires_grad_(); gx, = torch.autograd.grad(F.cross_entropy(model(v), y), v, create_graph=True)
        (F.cross_entropy(model(v), y) + gx.square().sum()).backward(); opt.step()
    close(m, n, 1e-10)

def test_create_graph_backward():
    (m,o),(n,q) = pair(net=Net(inplace=False)); x,y = batch(0)
    for model,opt in ((m,o),(n,q)): F.cross_entropy(model(x), y).backward(create_graph=True); opt.step()
    close(m, n); assert 'gradient: double backward' in q.routing().values()

def test_backward_through_a_part_of_the_batch():
    (m,o),(n,q) = pair(net=Net(inplace=False)); x,y = batch(0)
    for model,opt in ((m,o),(n,q)):
        z = model(x); F.cross_entropy(z[:1], y[:1]).backward(retain_graph=True); F.cross_entropy(z[1:3], y[1:3]).backward(); opt.step()
    close(m, n); assert kept(q) >= 2

def test_no_grad_leaves_nothing_and_frozen_weights_rest():
    (m,o),(n,q) = pair()
    n.eval()
    with torch.no_grad(): n(batch(0)[0])
    with torch.inference_mode(): n(batch(0)[0])
    n.train()
    assert not any(p.passes for p in n.parameters() if isinstance(p, Factored))
    for model in (m,n): model.a.weight.requires_grad_(False)
    train(m, o); train(n, q); close(m, n); assert q.routing()['a.weight'] == 'no gradient'

@pytest.mark.parametrize('reentrant', [False, True])
def test_checkpointed_activations(reentrant):
    net = nn.Sequential(nn.Linear(50, 40), nn.Tanh(), nn.Linear(40, 40), nn.Linear(40, 3)); (m,o),(n,q) = pair(net=net); x = torch.randn(3, 50, dtype=torch.float64, requires_grad=True)
    for model,opt in ((m,o),(n,q)): model[3](checkpoint(model[:3], x, use_reentrant=reentrant)).square().sum().backward(); opt.step()
    close(m, n); assert kept(q) == 2

def test_closure_step_twice_and_set_to_zero():
    (m,o),(n,q) = pair(net=Net(inplace=False)); x,y = batch(0)
    for model,opt in ((m,o),(n,q)):
        def closure(): opt.zero_grad(); l = F.cross_entropy(model(x), y); l.backward(); return l
        assert opt.step(closure).item() > 0
        opt.step()                        # the same gradient again, at the new weight
        opt.zero_grad(set_to_none=False); opt.step()
        for p in model.parameters(): p.grad = None
        opt.step(); closure(); model.zero_grad(); opt.step(); closure(); opt.step()
    close(m, n); assert kept(q) >= 3

def test_step_hooks_run_once():
    _,(n,q) = pair(); calls = []; q.register_step_pre_hook(lambda *a: calls.append('before')); q.register_step_post_hook(lambda *a: calls.append('after'))
    train(n, q, 1); assert calls == ['before','after']

# ---- layers

@pytest.mark.parametrize('mode', ['zeros','circular','reflect','replicate'])
@pytest.mark.parametrize('dilation', [1, 2])
def test_padding_modes_and_dilation(mode, dilation):
    (m,o),(n,q) = pair(net=Net(mode=mode, dilation=dilation)); train(m, o, 2); train(n, q, 2); close(m, n); assert kept(q) >= 3

def test_grouped_convolution_goes_the_ordinary_way():
    "Left in the plain group by default; forced onto the manifold, it is moved by its gradient."
    torch.manual_seed(0); conv = nn.Conv2d(8, 16, 3, groups=4).double(); twin = copy.deepcopy(conv); x = torch.randn(1, 8, 4, 4).double()
    opts = StiefelSGD([('w', conv.weight)], .1, off_manifold='project'),FactoredSGD([('w', twin.weight)], .1, off_manifold='project')
    for layer,opt in zip((conv,twin), opts): layer(x).square().sum().backward(); opt.step()
    close(conv, twin); assert opts[1].routing() == {'w': 'gradient: grouped'}

def test_odd_calls():
    "Padding by name, one image without a batch, a sequence of vectors, a single vector."
    for layer,x in ((nn.Conv2d(4, 30, 3, padding='same'), torch.randn(1, 4, 3, 3)), (nn.Conv2d(4, 30, 3), torch.randn(4, 5, 5)), (nn.Linear(50, 40), torch.randn(2, 3, 50)), (nn.Linear(50, 40), torch.randn(50))):
        layer,x = layer.double(),x.double(); nn.init.orthogonal_(layer.weight.data.flatten(1)); twin = copy.deepcopy(layer)
        opts = StiefelSGD([layer.weight], .1, off_manifold='project'),FactoredSGD([twin.weight], .1, off_manifold='project')
        for l,opt in zip((layer,twin), opts): l(x).square().sum().backward(); opt.step()
        close(layer, twin)

def test_autocast_goes_the_ordinary_way():
    _,(n,q) = pair(net=nn.Sequential(nn.Linear(50, 40), nn.Linear(40, 3)), dtype=torch.float32)
    with torch.autocast('cpu', torch.float16): n(torch.randn(2, 50)).float().sum().backward()
    q.step(); assert q.routing()['0.weight'] == 'gradient: mixed precision'

def test_compiled_graphs_go_the_ordinary_way():
    (m,o),(n,q) = pair(net=nn.Sequential(nn.Linear(50, 40), nn.Linear(40, 3))); x = torch.randn(2, 50, dtype=torch.float64)
    for model,opt in ((m,o),(torch.compile(n, backend='aot_eager'),q)):
        for _ in range(2): opt.zero_grad(); model(x).square().sum().backward(); opt.step()
    close(m, n); assert q.routing() == {'0.weight': 'gradient: formed by autograd'}

def test_distributed_data_parallel_forms_gradients(tmp_path):
    dist = pytest.importorskip('torch.distributed')
    if not dist.is_available() or not dist.is_gloo_available(): pytest.skip('torch was built without gloo')
    dist.init_process_group('gloo', init_method=f'file://{tmp_path}/store', rank=0, world_size=1)
    try:
        (m,o),(n,q) = pair(net=nn.Sequential(nn.Linear(50, 40), nn.Linear(40, 3))); x = torch.randn(2, 50, dtype=torch.float64)
        for model,opt in ((m,o),(nn.parallel.DistributedDataParallel(n),q)):
            for _ in range(3): opt.zero_grad(); model(x).square().sum().backward(); opt.step()
        close(m, n); assert q.routing() == {'0.weight': 'gradient: distributed'}
    finally: dist.destroy_process_group()

# ---- bad input

@pytest.mark.parametrize('what', ['input','loss'])
def test_not_finite_is_refused_whole(what):
    _,(n,q) = pair(net=nn.Sequential(nn.Linear(50, 40), nn.Linear(40, 40), nn.Linear(40, 3))); x = torch.randn(2, 50, dtype=torch.float64)
    if what == 'input': x[0,0] = float('nan')
    before = copy.deepcopy(n.state_dict()); loss = n(x).sum()
    (loss*float('inf') if what == 'loss' else loss).backward()
    with pytest.raises(InputError, match='not finite'): q.step()
    assert all(torch.equal(v, before[k]) for k,v in n.state_dict().items())
    q.zero_grad(); n(torch.randn(2, 50, dtype=torch.float64)).sum().backward(); q.step(); assert kept(q) == 2

def test_a_bad_plain_gradient_stops_the_factored_weights_too():
    _,(n,q) = pair(); train(n, q, 1); x,y = batch(0); q.zero_grad(); F.cross_entropy(n(x), y).backward(); before = copy.deepcopy(n.state_dict())
    good = n.head.bias.grad.clone(); n.head.bias.grad[0] = float('nan')
    with pytest.raises(InputError, match='head.bias'): q.step()
    assert all(torch.equal(v, before[k]) for k,v in n.state_dict().items())
    n.head.bias.grad = good; q.step(); assert kept(q) >= 3 and not torch.equal(n.a.weight, before['a.weight'])

def test_changed_input_is_refused():
    _,(n,q) = pair(net=nn.Sequential(nn.Linear(50, 40), nn.Linear(40, 3))); x = torch.randn(2, 50, dtype=torch.float64); n(x).sum().backward(); x.zero_()
    with pytest.raises(InputError, match='0.weight was changed in place between backward and step'): q.step()
    with pytest.raises(InputError, match='changed in place'): n[0].weight.grad

def test_changed_weight_is_noticed():
    "Something moves the weight between backward and step: Z and Q are computed anew."
    (m,o),(n,q) = pair(net=Net(inplace=False)); V = as_tall(rand_stiefel(48, 48, dtype=torch.float64), like=m.a.weight)
    def swap(model):
        with torch.no_grad(): model.a.weight.copy_(V)
    train(m, o, 2, between=swap); train(n, q, 2, between=swap); close(m, n); assert 'factors' in q.routing()['a.weight']

def test_badly_scaled_factors():
    "Inputs of size 1e4 and gradients of 1e-8, and the reverse, in float32."
    for a,d in ((1e4,1e-8),(1e-8,1e4),(1.,1e-30)):
        for shape in ((300,40),(64,64)):
            torch.manual_seed(0); layer = nn.Linear(shape[0], shape[1], bias=False); opt = FactoredSGD([layer.weight], 1e3, off_manifold='project'); W = as_tall(layer.weight.detach()).double()
            x,dy = torch.randn(5, shape[0])*a,torch.randn(5, shape[1])*d; layer(x).backward(dy); opt.step()
            G = x.double().mT@dy.double(); want = cayley_exact(W, G.mT if shape == (64,64) else G, 1e3); got = as_tall(layer.weight.detach()).double()
            assert (got-want).norm() < 1e-5*max(1., (want-W).norm()) and orthonormality(opt)['parameter 0 '+str(tuple(layer.weight.shape))] < 1e-5

def test_zero_gradient_changes_nothing():
    _,(n,q) = pair(net=nn.Sequential(nn.Linear(50, 40), nn.Linear(40, 3)), renorm_every=0); before = copy.deepcopy(n.state_dict())
    (n(torch.randn(2, 50, dtype=torch.float64))*0).sum().backward(); q.step(); close(n, type('', (), {'state_dict': lambda s: before})())

# ---- copies and files

def test_copies_and_checkpoints():
    _,(n,q) = pair(); train(n, q, 2); state = copy.deepcopy(n.state_dict()),copy.deepcopy(q.state_dict())
    again,opt = copy.deepcopy((n, q)); assert again.a.weight is not n.a.weight
    lone = copy.deepcopy(n); F.cross_entropy(lone(batch(1)[0]), batch(1)[1]).backward(); assert lone.a.weight.grad is not None
    train(n, q, 2, seed=3); train(again, opt, 2, seed=3); assert kept(opt) >= 3; close(n, again, 0)
    torch.manual_seed(5); fresh = Net().double(); o2 = FactoredSGD(stiefel_groups(fresh), 9., off_manifold='project'); fresh.load_state_dict(state[0]); o2.load_state_dict(state[1]); train(fresh, o2, 2, seed=3); close(n, fresh, 0); assert kept(o2) >= 3
    whole = pickle.loads(pickle.dumps(n)); assert type(whole.a.weight) is nn.Parameter; close(n, whole, 0)
    f = io.BytesIO(); torch.save(n.state_dict(), f); f.seek(0); torch.load(f, weights_only=True)
    m2,o3 = pickle.loads(pickle.dumps((n, q))); train(m2, o3, 1, seed=4); train(n, q, 1, seed=4); close(n, m2, 0); assert kept(o3) >= 3

def test_another_optimiser_can_take_over():
    (m,o),(n,q) = pair(net=Net(inplace=False)); train(m, o, 1); train(n, q, 1); train(m, torch.optim.SGD(m.parameters(), .1), 2); train(n, torch.optim.SGD(n.parameters(), .1), 2); close(m, n)

def test_meta_device_takes_a_step():
    net = nn.Sequential(nn.Linear(50, 40), nn.Linear(40, 3)).to('meta'); opt = FactoredSGD(stiefel_groups(net), .1); net(torch.empty(2, 50, device='meta')).sum().backward(); opt.step(); assert kept(opt) == 1

def test_orthog_learns_the_same(monkeypatch):
    "Two passes a step, projection, memory; a watcher looks on and the factors are still used."
    from orthog_nb import methods as mod
    from orthog_nb.streams import permuted_digits
    info = permuted_digits(tasks=2).info; torch.set_default_dtype(torch.float64)
    try:
        for watch in (None, lambda *a: None):
            ends = []
            for cls in (StiefelSGD, FactoredSGD):
                monkeypatch.setattr(mod, 'FactoredSGD', cls); g = generator(0, 'images')
                m = mod.Orthog(mod.build(info, width=64, projection=True), info, mod.generators(0), stiefel=True, lr=.1); m.watch = watch
                for t in (0, 1):
                    for _ in range(3): m.observe(torch.randint(0, 256, (10,1,28,28), dtype=torch.uint8, generator=g), torch.randint(0, 10, (10,), generator=g), t)
                    m.end_task(t)
                ends.append(m.model); assert type(m.opt) is cls
            close(*ends, 1e-11); assert kept(m.opt) == 2
    finally: torch.set_default_dtype(torch.float32)

# ---- the function

def test_drift_is_no_worse_than_the_gradient_form():
    "Float32, ordinary and huge steps, tall and square, without corrections."
    for n,p in ((120,20),(32,32)):
        for tau in (.02, 2.):
            g = generator(1, 'drift'); W = rand_stiefel(n, p, generator=g); V = W.clone(); off = lambda W: (W.double().T@W.double() - torch.eye(p, dtype=torch.double)).norm().item()
            for _ in range(300):
                A,D = torch.randn(4, n, generator=g),torch.randn(4, p, generator=g)/4
                W,V = cayley_factors(W, A, D, tau),cayley_exact(V, A.T@D, tau)
            assert off(W) < 3*off(V) + 1e-5

def test_short_steps_of_square_weights_do_not_pile_up():
    "A loss that is constant on the manifold pushes straight out of it, step after step: the worst case for a step that uses A as it is."
    for sign in (1, -1):
        torch.manual_seed(0); layer = nn.Linear(64, 64, bias=False); layer.weight.data.copy_(rand_stiefel(64, 64)); opt = FactoredSGD([('w', layer.weight)], .0099); x = torch.randn(4, 64); x /= x.norm()
        for _ in range(349): opt.zero_grad(); (sign*layer(x).square().sum()/2).backward(); opt.step()
        assert orthonormality(opt)['w'] < 1e-5 and opt.routing() == {'w': 'factors, 4 rows'}

def test_counts():
    for n,p in ((784,256),(512,512),(4608,512)): assert [pays(n, p, k) for k in (1, 10, p//3, p)] == [True, True, True, False]
    a,b = costs(1024, 1024, 32); assert a < b/20

def test_the_inverse_by_halves_is_as_good_as_the_one_with_pivots():
    "Float32, at the limit where it is still used: a large skew part, a symmetric part that is just near enough to the identity."
    for m,skew in ((130,.1),(320,3.),(480,30.)):
        X = torch.randn(m, m, generator=generator(m, 'm'), dtype=torch.float64); S,K = (X + X.mT)/2,(X - X.mT)/2
        M = (torch.eye(m) + .499*S/S.norm() + skew*K/torch.linalg.matrix_norm(K, 2)).float(); true = torch.linalg.inv(M.double())
        assert (inv_near(M) - true).norm() < 2*(torch.linalg.inv(M) - true).norm() and not torch.equal(inv_near(M), torch.linalg.inv(M))
