"Networks: what the page on models does not show (gradients against torchvision, devices, hooks, saving)."
import io
from functools import partial
from types import SimpleNamespace
import pytest, torch, torch.nn as nn, torch.nn.functional as F
from orthog_nb.core import InputError, as_tall, generator, import_torchvision, test_orthonormal as check_orthonormal
from orthog_nb.models import BasicBlock, mlp, model_for, resnet18, widen
from orthog_nb.projection import Subspaces

def grey(): return SimpleNamespace(classes=10, masks=None, shape=(1,28,28), mean=torch.zeros(1,1,1), std=torch.ones(1,1,1))
def colour(tasks=4):
    masks = torch.arange(5*tasks)//5 == torch.arange(tasks)[:,None]
    return SimpleNamespace(classes=5*tasks, masks=masks, shape=(3,8,8), mean=torch.full((3,8,8), .5), std=torch.full((3,1,1), .25))
def images(info, n=4): return torch.randint(0, 256, (n,*info.shape), dtype=torch.uint8, generator=generator(1, 'test'))

@pytest.mark.parametrize('c_in,c_out,stride', [(6,6,1), (6,12,2)])
def test_block_and_its_gradients_are_torchvisions(c_in, c_out, stride):
    tv = import_torchvision().models.resnet
    norm = partial(nn.BatchNorm2d, eps=1e-3)
    down = None if stride==1 else nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), norm(c_out))
    theirs, ours = tv.BasicBlock(c_in, c_out, stride, down, norm_layer=norm).double(), BasicBlock(c_in, c_out, stride).double()
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(3, c_in, 9, 9, dtype=torch.float64, generator=generator(0, 'test'))
    x = [x.clone().requires_grad_() for _ in range(2)]
    a,b = ours(x[0]), theirs(x[1])
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    a.square().sum().backward(); b.square().sum().backward()
    torch.testing.assert_close(x[0].grad, x[1].grad, rtol=1e-10, atol=1e-10)
    for p,q in zip(ours.parameters(), theirs.parameters()): torch.testing.assert_close(p.grad, q.grad, rtol=1e-10, atol=1e-10)

def test_normalisation_is_the_formula():
    info = colour(); net = resnet18(info, width=4); x = images(info)
    torch.testing.assert_close(net.normalise(x), (x.float()/255 - info.mean)/info.std)
    assert mlp(grey()).shift is None
    x = torch.rand(2, 1, 28, 28, requires_grad=True); mlp(grey())(x).sum().backward()
    assert x.grad.abs().sum() > 0

def test_same_generator_same_network_whatever_else_was_drawn():
    nets = []
    for seed in (0,1):
        torch.manual_seed(seed); nets.append(resnet18(colour(), width=4, orthonormal=True, generator=generator(0, 'init')))
    for p,q in zip(*(n.parameters() for n in nets)): assert torch.equal(p, q)

def test_no_biases_in_convolutions_and_fresh_norms():
    net = resnet18(colour(), width=4)
    for m in net.modules():
        if isinstance(m, nn.Conv2d): assert m.bias is None and m.weight.abs().max() <= (m.in_channels*m.kernel_size[0])**-.5
        if isinstance(m, nn.BatchNorm2d): assert (m.eps, m.momentum) == (1e-3, .1) and (m.weight==1).all() and (m.bias==0).all()
    assert net.head.weight.abs().max() <= net.dim**-.5 and (net.head.bias==0).all()

@pytest.mark.parametrize('info', [grey(), colour()])
@pytest.mark.parametrize('mixed', [False, True])
def test_a_step_on_the_meta_device(info, mixed):
    "Nothing is made on the CPU behind the user's back."
    with torch.device('cpu'): net = model_for(info, 16, generator=generator(0, 'init'))
    net.subspaces = Subspaces(net.dim, 4)
    net.to('meta'); x = images(info).to('meta'); y = torch.zeros(4, dtype=torch.long, device='meta')
    t = torch.zeros(4, dtype=torch.long, device='meta') if mixed else 0
    loss = F.cross_entropy(net(x, t), y); loss.backward()
    assert loss.device.type == 'meta' and all(p.grad is not None for p in net.parameters())

def test_hooks_on_convolutions_see_inputs_and_gradients():
    "The block overwrites what norms return, never what a convolution reads or returns."
    info = colour(); net = resnet18(info, width=4, generator=generator(0, 'init')); x = images(info); kept = []
    hooks = [m.register_forward_hook(lambda m,i,o: kept.append((m, i[0], i[0].clone(), o, o.detach().clone()))) for m in net.modules() if isinstance(m, nn.Conv2d)]
    hooks += [m.register_full_backward_hook(lambda *_: None) for m in net.modules() if isinstance(m, nn.Conv2d) and m.in_channels != 3]
    net(x, 0)[:, :5].sum().backward()
    assert len(kept) == 20
    for _,i,i0,o,o0 in kept: assert torch.equal(i, i0) and torch.equal(o, o0)

@pytest.mark.parametrize('basis', ['axes', 'random'])
def test_widening_twice_keeps_old_outputs_and_old_parameters(basis):
    info = grey(); net = mlp(info, 32, Subspaces(32, 4, basis), generator(0, 'init')); x = images(info)
    old, params = net(x, 1), dict((id(p), p.clone()) for p in net.body.parameters())
    widen(widen(net, generator=generator(0, 'widen')), generator=generator(1, 'widen'))
    torch.testing.assert_close(net(x, 1), old, rtol=1e-6, atol=1e-6)
    assert (len(net.body[-1]), net.dim, net.subspaces.tasks, net.head.in_features) == (4, 128, 16, 128)
    now = {id(p): p for p in net.body.parameters()}
    assert all(torch.equal(now[i], p) for i,p in params.items()), 'old parameters are the same objects with the same values'
    for part in net.body[-1]: check_orthonormal(as_tall(part.weight), 1e-5)
    for block in net.head.weight.chunk(4, 1): check_orthonormal(as_tall(block), 1e-5)
    assert len({part.weight[0,0].item() for part in net.body[-1]}) == 4, 'siblings are not copies of each other'

def test_only_new_columns_learn_from_a_new_task():
    info = grey(); net = widen(mlp(info, 32, Subspaces(32, 4), generator(0, 'init'))); x = images(info)
    F.cross_entropy(net(x, 5), torch.tensor([0,1,2,3])).backward()
    old,new = net.body[-1]
    assert not old.weight.grad.any() and new.weight.grad.any()
    assert not net.head.weight.grad[:,:32].any() and net.head.weight.grad[:,32:].any()

def test_widened_resnet_in_training_keeps_old_statistics_apart():
    info = colour(); x = images(info)
    def run(wide):
        net = resnet18(info, width=4, subspaces=Subspaces(32, 4), orthonormal=True, generator=generator(0, 'init'))
        if wide: widen(net, torch.arange(25)//5 == torch.tensor([[4]]), generator(0, 'widen'))
        return net(x, 2)[:, 10:15], (net.body[9][0] if wide else net.body[9]).bn2.running_var
    for a,b in zip(run(True), run(False)): torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)

def test_bad_masks_for_new_tasks():
    net = resnet18(colour(), width=4, subspaces=Subspaces(32, 4))
    for masks in (None, torch.ones(1, 7, dtype=torch.bool)):
        with pytest.raises(InputError, match='pass masks='): widen(net, masks)
    assert net.dim == 32 and net.subspaces.dim == 32
    with pytest.raises(InputError, match='pass masks='): widen(mlp(grey(), 32, Subspaces(32, 4)), torch.ones(1, 10, dtype=torch.bool))

def test_saving_and_loading():
    info = colour(); x = images(info); make = lambda seed: resnet18(info, width=4, subspaces=Subspaces(32, 4, 'random', seed), generator=generator(seed, 'init'))
    grow = lambda net: widen(net, torch.arange(25)//5 == torch.tensor([[4]]))
    for f in (lambda net: net, grow):
        a,b = f(make(0)).eval(), f(make(1)).eval()
        torch.save(a.state_dict(), buffer := io.BytesIO()); buffer.seek(0)
        b.load_state_dict(torch.load(buffer, weights_only=True))
        assert torch.equal(a(x, 3), b(x, 3))

def test_a_network_has_its_own_copy_of_the_masks():
    info = colour(); before = info.masks.clone(); net = resnet18(info, width=4)
    net.masks.fill_(True)
    assert torch.equal(info.masks, before)

@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a GPU')
def test_cpu_and_gpu_begin_with_the_same_weights_and_agree():
    info = colour(); net = resnet18(info, width=4, subspaces=Subspaces(32, 4), generator=generator(0, 'init')).eval(); x = images(info)
    cpu = net(x, 1)
    torch.testing.assert_close(net.cuda()(x.cuda(), 1).cpu(), cpu, rtol=1e-3, atol=1e-3)
