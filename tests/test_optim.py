"""StiefelSGD among the things that people do with optimisers: real networks, copies, checkpoints, schedulers, compilers, odd types, bad input."""
import copy, io, math, pickle, shutil, subprocess, sys
import pytest, torch, torch.nn.functional as F
from torch import nn
from orthog_nb import core
from orthog_nb.core import InputError, as_tall, generator, import_torchvision, mm, rand_stiefel
from orthog_nb.cayley import cayley_exact, cayley_iterative
from orthog_nb.optim import StiefelSGD, orthonormality, stiefel_groups

torch.set_num_threads(1)

def names(groups, on): return [n for g in groups if g['stiefel'] == on for n,_ in g['params']]

def weight(*shape, dtype=torch.float32, seed=0):
    "A parameter on the manifold."
    n,p = as_tall(torch.empty(shape)).shape
    return nn.Parameter(as_tall(rand_stiefel(n, p, generator=generator(seed, 'w'), dtype=torch.float64), like=torch.empty(shape)).contiguous().to(dtype))

def off(p):
    W = as_tall(p.detach()).double()
    return (W.mT @ W - torch.eye(W.shape[1], dtype=W.dtype)).norm().item()

class Net(nn.Module):
    "Every kind of weight that goes on the manifold: filters, wide, tall and square."
    def __init__(self):
        super().__init__()
        self.conv,self.norm,self.up = nn.Conv2d(1, 6, 3),nn.BatchNorm2d(6),nn.Conv2d(6, 12, 1)
        self.a,self.b,self.head = nn.Linear(12, 12),nn.Linear(12, 9),nn.Linear(9, 3)
    def forward(self, x): return self.head(F.relu(self.b(F.relu(self.a(self.up(F.relu(self.norm(self.conv(x)))).mean((2,3)))))))

def setup(seed=0, **kwargs):
    torch.manual_seed(seed); model = Net()
    return model, StiefelSGD(stiefel_groups(model), **{'lr': .1, 'off_manifold': 'project', **kwargs})

def train(model, opt, steps, seed=0, schedule=None):
    g = generator(seed, 'train')
    for _ in range(steps):
        x = torch.randn(8, 1, 6, 6, generator=g); y = torch.randint(0, 3, (8,), generator=g)
        opt.zero_grad(); F.cross_entropy(model(x), y).backward(); opt.step()
        if schedule: schedule.step()
    return model

def same(a, b): return all(torch.equal(v, b.state_dict()[k]) for k,v in a.state_dict().items())

# ---- which weights

def test_routes_a_torchvision_resnet():
    torch.manual_seed(5); model = import_torchvision().models.resnet18(num_classes=10) # with this seed no gradient is long enough to be corrected for
    groups = stiefel_groups(model); on = names(groups, True)
    assert len(on) == 20 and all('conv' in n or 'downsample.0' in n for n in on)
    assert {'fc.weight','fc.bias','bn1.weight'} <= set(names(groups, False)) and len(on) + len(names(groups, False)) == len(list(model.parameters()))
    assert 'layer4.1.conv2.weight' in on and 'head' in repr(groups) and '512×512×3×3' in repr(groups)
    opt = StiefelSGD(groups, .05, off_manifold='project'); assert max(orthonormality(model).values()) < 3e-5
    F.cross_entropy(model(torch.randn(2, 3, 32, 32)), torch.tensor([0, 1])).backward(); opt.step()
    assert max(orthonormality(model).values()) < 3e-5

def test_leaves_depthwise_kernels_alone():
    model = import_torchvision().models.mobilenet_v2(num_classes=4); groups = stiefel_groups(model)
    mods = dict(model.named_modules())
    for n in names(groups, True): assert mods[n.rpartition('.')[0]].groups == 1
    depthwise = [n+'.weight' for n,m in mods.items() if isinstance(m, nn.Conv2d) and m.groups > 1]
    assert len(depthwise) == 17 and set(depthwise) <= set(names(groups, False)) and 'grouped' in repr(groups)

class Transformer(nn.Module):
    def __init__(self, tied):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1, enable_nested_tensor=False)
        self.proj,self.out = nn.Linear(8, 8, bias=False),nn.Linear(8, 11)
        if tied: self.out.weight = self.embed.weight
    def forward(self, x): return self.out(self.proj(self.body(self.embed(x))))

@pytest.mark.parametrize('tied', [False, True])
def test_routes_a_transformer(tied):
    torch.manual_seed(0); model = Transformer(tied); groups = stiefel_groups(model)
    assert set(names(groups, True)) == {'proj.weight','body.layers.0.linear1.weight','body.layers.0.linear2.weight','body.layers.0.self_attn.out_proj.weight'}
    assert {'embed.weight','body.layers.0.self_attn.in_proj_weight','body.layers.0.norm1.weight'} <= set(names(groups, False))
    opt = StiefelSGD(groups, .05, off_manifold='project'); x = torch.randint(0, 11, (4, 5))
    first = None
    for _ in range(30):
        opt.zero_grad(); loss = F.cross_entropy(model(x).flatten(0, 1), x.flatten()); loss.backward(); opt.step(); first = first or loss.item()
    assert loss < first and max(orthonormality(opt).values()) < 1e-5

def test_a_tied_weight_that_is_not_the_head_is_plain():
    model = nn.ModuleDict(dict(a=nn.Linear(4, 4), b=nn.Linear(4, 4), c=nn.Linear(4, 4), head=nn.Linear(4, 2))); model['b'].weight = model['a'].weight
    groups = stiefel_groups(model)
    assert names(groups, True) == ['c.weight'] and 'tied' in repr(groups)

def test_head_by_name_by_module_and_wrong():
    model = Net()
    assert 'head.weight' in names(stiefel_groups(model, head='a'), True) and 'a.weight' in names(stiefel_groups(model, head=model.a), False)
    for wrong in ('classifier', nn.Linear(2, 2)):
        with pytest.raises(InputError, match='has no module'): stiefel_groups(model, head=wrong)

def test_frozen_and_parametrised_weights():
    model = Net(); model.a.weight.requires_grad_(False); nn.utils.parametrizations.weight_norm(model.b)
    groups = stiefel_groups(model); everything = names(groups, True) + names(groups, False)
    assert 'a.weight' not in everything and 'left out' in repr(groups)
    assert not any('parametrizations' in n for n in names(groups, True)) and 'b.parametrizations.weight.original1' in everything

def test_nothing_for_the_manifold():
    with pytest.raises(InputError, match='no weight of this model'): stiefel_groups(nn.Sequential(nn.Linear(3, 2)))

def test_no_plain_parameters_gives_one_group():
    groups = stiefel_groups(nn.Sequential(nn.Conv2d(2, 3, 3, bias=False)))
    assert len(groups) == 1 and groups[0]['stiefel']; StiefelSGD(groups, .1, off_manifold='project')

def test_lazy_layers_are_refused():
    model = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 2))
    with pytest.raises(InputError, match='send one batch'): StiefelSGD(stiefel_groups(model), .1)

# ---- the plain groups, and steps as functions

@pytest.mark.parametrize('kwargs', [{}, dict(momentum=.9), dict(weight_decay=.01), dict(momentum=.9, weight_decay=.01, maximize=True)])
def test_plain_groups_are_torchs_sgd_to_the_bit(kwargs):
    ps = [nn.Parameter(torch.randn(5, 3)), nn.Parameter(torch.randn(4))]; qs = copy.deepcopy(ps)
    ours,theirs = StiefelSGD([dict(params=ps, stiefel=False)], .1, **kwargs),torch.optim.SGD(qs, .1, foreach=True, **kwargs)
    for _ in range(5):
        for p,q in zip(ps, qs): p.grad = torch.randn_like(p); q.grad = p.grad.clone()
        ours.step(); theirs.step()
    assert all(torch.equal(p, q) for p,q in zip(ps, qs))

@pytest.mark.parametrize('shape', [(4, 2, 3, 3), (3, 7), (7, 3), (5, 5), (1, 6), (600, 40), (40, 900)])
@pytest.mark.parametrize('retraction', ['exact', 'iterative'])
def test_maximize_is_a_negated_gradient(shape, retraction):
    p,q = weight(*shape),weight(*shape); G = torch.randn(shape)/math.prod(shape)**.5; p.grad,q.grad = G,-G
    StiefelSGD([p], .3, retraction=retraction, maximize=True).step(); StiefelSGD([q], .3, retraction=retraction).step()
    assert torch.equal(p, q) and torch.equal(p.grad, G)

@pytest.mark.parametrize('metric,c', [('canonical', 1.), ('euclidean', .5)])
def test_guard_cuts_the_step(metric, c):
    p = weight(8, 3, dtype=torch.float64); W,G = p.detach().clone(),torch.randn(8, 3, dtype=torch.float64)*50; p.grad = G
    opt = StiefelSGD([('w', p)], .1, metric=metric, guard=.3); opt.step()
    Gh = G - (1-c)*W@(W.T@G); A = Gh@W.T - W@Gh.T
    torch.testing.assert_close(p.detach(), cayley_exact(W, G, .6/A.norm(), c))
    assert opt.guard_rate() == {'w': 1.}

def test_guard_of_the_iterative_form_is_on_by_default_and_keeps_it_bounded():
    p,q = weight(8, 3),weight(8, 3); opt,wild = StiefelSGD([p], .5, retraction='iterative'),StiefelSGD([q], .5, retraction='iterative', guard=float('inf'))
    G = 100*torch.randn(8, 3); p.grad,q.grad = G.clone(),G.clone(); opt.step(); wild.step()
    assert off(p) < .5 and off(q) > 1e3 and opt.param_groups[0]['guard'] == .5 and StiefelSGD([weight(4, 2)], .1).param_groups[0]['guard'] is None

def test_a_zero_gradient_changes_nothing():
    for kwargs in ({}, dict(guard=.5), dict(retraction='iterative'), dict(momentum=.9)):
        p = weight(8, 3); before = p.detach().clone(); p.grad = torch.zeros_like(p); StiefelSGD([p], .5, **kwargs).step()
        assert torch.equal(p, before)

def test_weight_decay_does_not_touch_the_manifold():
    p,q = weight(8, 3),weight(8, 3); p.grad = torch.randn(8, 3); q.grad = p.grad.clone()
    StiefelSGD([p], .1, weight_decay=.5).step(); StiefelSGD([q], .1).step(); assert torch.equal(p, q)

def test_momentum_stays_tangent_and_on_the_manifold():
    p = weight(20, 6, dtype=torch.float64); opt = StiefelSGD([p], .05, momentum=.9)
    for _ in range(60): p.grad = torch.randn(20, 6, dtype=torch.float64) + 5*p.detach(); opt.step()   # a large component out of the manifold
    V = opt.state[p]['momentum_buffer']
    assert off(p) < 1e-12 and V.norm() < 6*p.grad.norm()

def test_momentum_does_not_alias_the_gradient():
    p = weight(8, 3); opt = StiefelSGD([p], .1, momentum=.9); p.grad = torch.ones(8, 3); opt.step(); opt.zero_grad(set_to_none=False)
    assert opt.state[p]['momentum_buffer'].norm() > 0

# ---- habits of a torch optimiser

def test_parameters_without_gradient_stay():
    a,b = weight(6, 3),weight(6, 3, seed=1); before = b.detach().clone(); a.grad = torch.randn(6, 3)
    StiefelSGD([a, b], .1).step(); assert torch.equal(b, before) and not torch.equal(a, weight(6, 3))
    StiefelSGD([a, b], .1).zero_grad(); assert a.grad is None

def test_closure_is_called_with_grad_and_its_loss_returned():
    p = weight(6, 3); opt = StiefelSGD([p], .1); C = torch.randn(6, 3); losses = []
    def closure(): opt.zero_grad(); loss = (p*C).sum(); loss.backward(); return loss
    for _ in range(20): losses.append(opt.step(closure).item())
    assert losses[-1] < losses[0]

@pytest.mark.parametrize('make', [lambda o: torch.optim.lr_scheduler.StepLR(o, 2), lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10), lambda o: torch.optim.lr_scheduler.OneCycleLR(o, .3, total_steps=20),
                                  lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda i: 1/(1+i))])
def test_schedulers(make):
    model,opt = setup(momentum=.5); rates = []; schedule = make(opt)
    for i in range(6): rates.append(opt.param_groups[0]['lr']); train(model, opt, 1, i, schedule)
    assert len(set(rates)) > 1 and max(orthonormality(model).values()) < 1e-5

def test_learning_rate_as_a_tensor():
    p,q = weight(6, 3),weight(6, 3); p.grad = torch.randn(6, 3); q.grad = p.grad.clone()
    StiefelSGD([p], torch.tensor(.1), guard=.1).step(); StiefelSGD([q], .1, guard=.1).step(); torch.testing.assert_close(p, q)

@pytest.mark.parametrize('kwargs', [{}, dict(momentum=.9), dict(retraction='iterative', metric='euclidean'), dict(guard=.05, momentum=.5, renorm_every=3)])
def test_resume_gives_the_same_bits(kwargs):
    model,opt = setup(**kwargs); train(model, opt, 7)
    file = io.BytesIO(); torch.save((model.state_dict(), opt.state_dict()), file); file.seek(0)
    train(model, opt, 8, 1); saved = torch.load(file, weights_only=True)
    again,other = setup(9, lr=3., off_manifold='keep'); again.load_state_dict(saved[0]); other.load_state_dict(saved[1]); train(again, other, 8, 1)
    assert same(model, again) and opt.guard_rate() == other.guard_rate() and other.param_groups[0]['lr'] == .1
    if 'retraction' not in kwargs: assert max(orthonormality(again).values()) < 1e-5

def test_loaded_weights_pass_the_check_and_stay_orthonormal_after_a_step():
    model,opt = setup(); train(model, opt, 5); again = Net(); again.load_state_dict(model.state_dict())
    other = StiefelSGD(stiefel_groups(again), .1); assert same(model, again)
    train(again, other, 1); assert max(orthonormality(again).values()) < 1e-5

def test_deepcopy_and_pickle_go_on_alike():
    model,opt = setup(momentum=.9, guard=.5); train(model, opt, 3)
    for copied in (copy.deepcopy((model, opt)), pickle.loads(pickle.dumps((model, opt)))):
        one = copy.deepcopy(model); train(*copied, 4, 2)
        again,other = setup(momentum=.9, guard=.5); again.load_state_dict(one.state_dict()); other.load_state_dict(copy.deepcopy(opt.state_dict()))
        assert same(copied[0], train(again, other, 4, 2)) and isinstance(copied[1], StiefelSGD)
    groups = pickle.loads(pickle.dumps(stiefel_groups(model))); assert 'head' in repr(groups)

def test_add_param_group():
    model,opt = setup(); p = weight(9, 4); opt.add_param_group(dict(params=[('late', p)], lr=.2)); p.grad = torch.randn(9, 4)
    before = p.detach().clone(); opt.step(); assert off(p) < 1e-6 and not torch.equal(p, before)
    with pytest.raises(InputError, match='later is not orthonormal'): opt.add_param_group(dict(params=[('later', nn.Parameter(torch.ones(3, 2)))], off_manifold='refuse'))
    assert len(opt.param_groups) == 3

def test_parameters_stay_plain_parameters():
    model,opt = setup(); train(model, opt, 2)
    assert all(type(p) is nn.Parameter for p in model.parameters()) and set(model.state_dict()) == set(Net().state_dict())

def test_grad_scaler_and_clipping():
    model,opt = setup(); scaler = torch.amp.GradScaler('cpu', init_scale=8.)
    for i in range(3):
        opt.zero_grad(); scaler.scale(model(torch.randn(4, 1, 6, 6)).square().mean()).backward(); scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.); scaler.step(opt); scaler.update()
    assert max(orthonormality(model).values()) < 3e-5

def test_step_hooks_run():
    model,opt = setup(); seen = []; opt.register_step_post_hook(lambda *a: seen.append(1)); train(model, opt, 2); assert len(seen) == 2

# ---- memory order, types, devices

def test_channels_last_moves_the_same_way():
    p = weight(6, 4, 3, 3); q = nn.Parameter(p.detach().to(memory_format=torch.channels_last)); assert not q.is_contiguous()
    for a in (p, q): a.grad = torch.randn(6, 4, 3, 3, generator=generator(0, 'g'))
    for a in (p, q): StiefelSGD([a], .1, momentum=.5).step()
    torch.testing.assert_close(p, q, check_stride=False); assert not q.is_contiguous()

@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
def test_sixteen_bits_are_updated_in_float32(dtype):
    p,q = weight(40, 6, dtype=dtype),weight(40, 6); q.data = p.detach().float(); start = q.detach().clone()
    a,b = StiefelSGD([p], 1e-3),StiefelSGD([q], 1e-3, off_manifold='keep'); g = generator(0, 'g'); G = torch.randn(40, 6, generator=g)
    for _ in range(100): p.grad = G.to(dtype); q.grad = p.grad.float(); a.step(); b.step()
    full = p.float() + a.state[p]['rest']
    assert p.dtype == dtype and (full - q).norm() < .02*(q - start).norm() and off(full) < 2e-3

@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
def test_sixteen_bits_resume_to_the_bit(dtype):
    def go(p, opt, seeds):
        for s in seeds: p.grad = torch.randn(40, 6, generator=generator(s, 'g')).to(dtype); opt.step()
    p = weight(40, 6, dtype=dtype); opt = StiefelSGD([p], .01, momentum=.5); go(p, opt, range(5)); q = nn.Parameter(p.detach().clone())
    other = StiefelSGD([q], .01); other.load_state_dict(copy.deepcopy(opt.state_dict())); go(p, opt, range(5, 9)); go(q, other, range(5, 9)); assert torch.equal(p, q)

def test_large_float16_gradients_are_not_mistaken_for_infinite():
    p = weight(400, 60, dtype=torch.float16); p.grad = torch.full((400, 60), 1000.).half(); StiefelSGD([p], 1e-6).step(); assert p.isfinite().all()

def test_float64_stays_float64():
    model,opt = setup(); model = model.double()
    opt = StiefelSGD(stiefel_groups(model), .1, off_manifold='project'); opt.zero_grad(); model(torch.randn(4, 1, 6, 6).double()).sum().backward(); opt.step()
    assert max(orthonormality(model).values()) < 1e-13

def test_no_tensor_is_made_on_another_device():
    model = Net().to('meta'); opt = StiefelSGD(stiefel_groups(model), .1, momentum=.9, guard=.5)
    for _ in range(2): opt.zero_grad(); model(torch.randn(4, 1, 6, 6, device='meta')).sum().backward(); opt.step()

def test_dtensor_is_refused(tmp_path):
    dist = pytest.importorskip('torch.distributed', reason='torch was built without distributed')
    if not dist.is_available() or dist.is_initialized(): pytest.skip('no process group of our own here')
    from torch.distributed.tensor import DeviceMesh, Replicate, distribute_tensor
    dist.init_process_group('gloo', init_method=f'file://{tmp_path}/store', rank=0, world_size=1)
    try:
        p = nn.Parameter(distribute_tensor(weight(6, 3).detach(), DeviceMesh('cpu', [0]), [Replicate()]))
        with pytest.raises(InputError, match='DTensor'): StiefelSGD([('layer', p)], .1)
        StiefelSGD([dict(params=[('layer', p)], stiefel=False)], .1)
    finally: dist.destroy_process_group()

@pytest.mark.skipif(not shutil.which('gcc') and not shutil.which('cc'), reason='torch.compile needs a C compiler')
def test_compiled_functions_agree():
    W,G = rand_stiefel(12, 4),torch.randn(12, 4)
    for f,backend in ((cayley_exact, 'inductor'), (cayley_iterative, 'aot_eager')):
        compiled = torch.compile(f, fullgraph=True, dynamic=False, backend=backend)
        torch.testing.assert_close(compiled(W, G, .1), f(W, G, .1), atol=1e-6, rtol=1e-6)

def test_compiled_step_agrees():
    kwargs = dict(momentum=.5, guard=.01)
    ps,qs = ([weight(8, 3), weight(4, 9, seed=1)] for _ in range(2)); a,b = StiefelSGD(ps, .1, **kwargs),StiefelSGD(qs, .1, **kwargs)
    compiled = torch.compile(b.step, backend='aot_eager')
    for i in range(3):
        for p,q in zip(ps, qs): p.grad = torch.randn(p.shape, generator=generator(i, 'g')); q.grad = p.grad.clone()
        a.step(); compiled()
    for p,q in zip(ps, qs): torch.testing.assert_close(p, q)

# ---- the product by oneDNN

needs_onednn = pytest.mark.skipif(core.onednn is None, reason='oneDNN is used on x86 only')

@needs_onednn
@pytest.mark.parametrize('shape', [(150, 300), (300, 150), (160, 160), (128, 32, 3, 3)], ids=str)
@pytest.mark.parametrize('kwargs', [{}, dict(metric='euclidean', guard=.5), dict(retraction='iterative'), dict(momentum=.9, renorm_every=2)])
def test_the_library_changes_nothing_but_rounding(shape, kwargs, monkeypatch):
    "Large enough for oneDNN, in every order of memory; beside it the same steps by the BLAS, and in float64."
    ends,calls,real = [],[],core.onednn; counted = lambda *a: calls.append(1) or real(*a)
    for library,dtype in ((counted, torch.float32), (None, torch.float32), (None, torch.float64)):
        monkeypatch.setattr(core, 'onednn', library); p = weight(*shape, dtype=dtype); opt = StiefelSGD([p], .1, **kwargs); g = generator(0, 'g')
        for _ in range(4): p.grad = (torch.randn(shape, generator=g)/10).to(dtype); opt.step()
        ends.append(p.detach().double())
    fast,blas,true = ends
    assert calls and (fast-true).norm() < 2*(blas-true).norm()

def test_mm_steps_aside_for_those_who_follow():
    "Forward derivatives, vmap, fake tensors, subclasses, counters and compilers get the ordinary product."
    class Marked(torch.Tensor): pass
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.autograd import forward_ad
    from torch.utils.flop_counter import FlopCounterMode
    A,B = torch.randn(128, 130),torch.randn(130, 128); product = A @ B
    with forward_ad.dual_level(): assert torch.equal(forward_ad.unpack_dual(mm(forward_ad.make_dual(A, 2*A), B)).tangent, 2*A @ B)
    with FlopCounterMode(display=False) as counter: mm(A, B)
    assert counter.get_total_flops() == 2*A.numel()*128
    with FakeTensorMode() as mode: assert mm(mode.from_tensor(A), mode.from_tensor(B)).shape == product.shape
    assert type(mm(A.as_subclass(Marked), B)) is Marked
    assert torch.equal(torch.compile(mm, backend='eager', fullgraph=True)(A, B), product)
    with torch.autocast('cpu', dtype=torch.float16): assert mm(A, B).dtype == (A @ B).dtype
    assert torch.equal(mm(A.to_sparse(), B), A.to_sparse() @ B)
    with torch.inference_mode(): torch.testing.assert_close(mm(A, B), product, atol=1e-4, rtol=1e-4)

@needs_onednn
@pytest.mark.parametrize('threads', [1, 2])
def test_mm_gives_the_same_bits_again(threads):
    A,B = torch.randn(200, 333, generator=generator(0, 'a')),torch.randn(333, 100, generator=generator(0, 'b')); torch.set_num_threads(threads)
    try: first = mm(A, B); assert all(torch.equal(mm(A.clone(), B.clone()), first) for _ in range(20))
    finally: torch.set_num_threads(1)

def test_a_torch_without_the_pieces_gets_the_ordinary_product():
    code = "import torch; del torch._C._functorch.peek_interpreter_stack; from orthog_nb import core; A = torch.randn(128, 128); assert core.onednn is None and torch.equal(core.mm(A, A), A @ A)"
    subprocess.run([sys.executable, '-c', code], check=True)

# ---- long runs in float32

@pytest.mark.parametrize('n,p', [(64, 64), (65, 64), (96, 64), (300, 30)])
@pytest.mark.parametrize('metric', ['canonical', 'euclidean'])
def test_absurdly_long_steps_stay_on_the_manifold(n, p, metric):
    w = weight(n, p); opt = StiefelSGD([w], .5, metric=metric); g = generator(0, 'g')
    for _ in range(300): w.grad = torch.randn(n, p, generator=g); opt.step()
    assert off(w) < 2e-5

def test_drift_of_the_exact_form_and_of_the_iterative_one():
    a,b = weight(60, 8),weight(60, 8); A,B = StiefelSGD([a], .4),StiefelSGD([b], .4, retraction='iterative'); g = generator(0, 'g')
    for _ in range(1000):
        G = torch.randn(60, 8, generator=g); a.grad = G/G.norm(); b.grad = a.grad.clone(); A.step(); B.step()
    assert off(a) < 1e-5 and off(b) > 1e-3

def test_a_square_weight_keeps_the_sign_of_its_determinant():
    for seed in range(4):
        p = weight(7, 7, seed=seed); sign = torch.linalg.det(p.detach()).sign(); opt = StiefelSGD([p], 2.)
        for _ in range(50): p.grad = torch.randn(7, 7); opt.step()
        assert torch.linalg.det(p.detach()).sign() == sign

# ---- bad input

@pytest.mark.parametrize('value', [float('nan'), float('inf'), -float('inf'), 1e30])
@pytest.mark.parametrize('layer', ['conv', 'norm', 'a', 'head'])
def test_a_bad_gradient_refuses_the_step_and_names_the_layer(value, layer):
    model,opt = setup(momentum=.9, guard=.5); train(model, opt, 2); before = copy.deepcopy((model.state_dict(), opt.state_dict()))
    model(torch.randn(4, 1, 6, 6)).sum().backward(); dict(model.named_modules())[layer].weight.grad.flatten()[1] = value
    running = copy.deepcopy({k: v for k,v in model.state_dict().items() if 'running' in k or 'tracked' in k})
    with pytest.raises(InputError, match=f'gradient of {layer}.weight is not finite') as e: opt.step()
    assert '\n' not in str(e.value)
    for k,v in model.state_dict().items(): assert torch.equal(v, running.get(k, before[0][k]))
    after = opt.state_dict(); assert after['param_groups'][0]['count'] == before[1]['param_groups'][0]['count'] == 2
    for i,s in after['state'].items(): assert torch.equal(s['momentum_buffer'], before[1]['state'][i]['momentum_buffer'])

def test_several_bad_layers_are_all_named():
    model,opt = setup(); model(torch.randn(4, 1, 6, 6)).sum().backward()
    for p in (model.a.weight, model.head.bias): p.grad.fill_(float('nan'))
    with pytest.raises(InputError, match='a.weight, head.bias'): opt.step()

def test_sparse_and_complex_are_refused():
    e = nn.Embedding(5, 3, sparse=True); opt = StiefelSGD([dict(params=[('embed', e.weight)], stiefel=False)], .1); e(torch.tensor([1])).sum().backward()
    with pytest.raises(InputError, match='embed is sparse'): opt.step()
    with pytest.raises(InputError, match='complex64'): StiefelSGD([nn.Parameter(torch.ones(3, 2, dtype=torch.complex64))], .1)
    z = nn.Parameter(torch.ones(3, dtype=torch.complex64)); z.grad = torch.ones_like(z)
    with pytest.raises(InputError, match='is complex'): StiefelSGD([dict(params=[('z', z)], stiefel=False)], .1).step()

@pytest.mark.parametrize('kwargs,says', [(dict(lr=-.1), 'lr=-0.1'), (dict(lr=float('nan')), 'lr=nan'), (dict(metric='flat'), 'canonical, euclidean'), (dict(retraction='qr'), 'exact, iterative'),
    (dict(momentum=-1), 'momentum=-1'), (dict(weight_decay=-1), 'weight_decay=-1'), (dict(guard=-1), 'guard=-1'), (dict(steps=-1), 'steps=-1'), (dict(renorm_every=-5), 'renorm_every=-5'), (dict(off_manifold='fix'), 'refuse, project, keep')])
def test_wrong_settings(kwargs, says):
    with pytest.raises(InputError, match=says) as e: StiefelSGD([weight(4, 2)], **{'lr': .1, **kwargs})
    assert '\n' not in str(e.value)

def test_weights_off_the_manifold():
    p = nn.Parameter(torch.randn(6, 3)); before = p.detach().clone()
    with pytest.raises(InputError, match="parameter 0 .* is not orthonormal.*off_manifold='project'"): StiefelSGD([p], .1)
    assert torch.equal(p, before); StiefelSGD([p], .1, off_manifold='keep'); assert torch.equal(p, before)
    StiefelSGD([p], .1, off_manifold='project'); U,_,V = torch.linalg.svd(before, full_matrices=False); torch.testing.assert_close(p.detach(), U@V)
    with pytest.raises(InputError, match='not finite'): StiefelSGD([nn.Parameter(torch.full((3, 2), float('nan')))], .1, off_manifold='project')
    StiefelSGD([q := nn.Parameter(torch.zeros(6, 3))], .1, off_manifold='project'); assert off(q) < 1e-6
    with pytest.raises(InputError, match='no matrix'): StiefelSGD([nn.Parameter(torch.ones(3))], .1)

def test_shapes_that_do_not_fit():
    for f in (cayley_exact, cayley_iterative):
        for W,G in ((torch.ones(3, 6), torch.ones(3, 6)), (torch.ones(3), torch.ones(3))):
            with pytest.raises(InputError, match='n >= p'): f(W, G, .1)
        with pytest.raises(InputError, match='must be the same'): f(torch.ones(6, 3), torch.ones(6, 2), .1)
