"""The exact Stiefel step from the gradient's factors, beside the p×p form and plain SGD.

    python bench/factors.py layers    # one layer, against the number of rows k
    python bench/factors.py resnet    # ResNet18: the step, and a whole iteration, beside forward + backward
    python bench/factors.py drift     # thousands of steps of random factors
    python bench/factors.py run       # the MLP on rotated digits with and without: the same R, how much faster
    python bench/factors.py all

Writes results/bench/factors.json, section by section. One thread, CPU seconds; only ratios within one run are kept, medians of rounds in which
every competitor runs once. Ours is timed with `orthog_nb.core.mm` and, marked "(BLAS)", with torch's own product; plain SGD with torch's own
and, marked "(oneDNN)", with `mm`.
"""
import argparse, copy, statistics, sys, time
from pathlib import Path
from types import SimpleNamespace
import torch, torch.nn.functional as F
sys.path.insert(0, str(Path(__file__).resolve().parent))
import stiefel
from stiefel import blas, ratios, rounds_of, save
from orthog_nb.core import as_tall, mm, rand_stiefel
from orthog_nb.cayley import exact_delta
from orthog_nb.factors import FactoredSGD, add_product_, factor_delta, pays
from orthog_nb.models import resnet18
from orthog_nb.optim import StiefelSGD, move_, orthonormality, stiefel_groups

stiefel.out = stiefel.out.with_name('factors.json')

def linear(n, p, k, make, lr):
    "A linear layer after its backward pass, and what its optimiser needs for a step."
    torch.manual_seed(0); layer = torch.nn.Linear(n, p, bias=False); layer.weight.data.copy_(rand_stiefel(n, p).mT)
    x = (torch.randn(k, n)/n**.5).requires_grad_(); opt = make([layer.weight], lr)
    layer(x).backward(torch.randn(k, p)/p**.5/k); layer.weight.requires_grad_(False)
    return layer, opt, x.detach()

@torch.no_grad()
def layers(rounds, lr=1e-3):
    """One step on one linear layer whose forward and backward are done, relative to plain SGD that forms its gradient. 'form' rows are the functions alone, 'step' rows whole optimiser steps;
    steps are short (lr‖A‖‖D‖ = 1e-3), and the correction every 50 steps, the same for both, is not counted."""
    table = []
    for n,p in ((256,256),(512,512),(1024,1024),(784,256),(4608,512)):
        for k in (1,2,4,10,16,32,64,128,256,512,1024):
            if k > 2*p or (n == 4608 and k > 512): continue  # far beyond the crossing
            with torch.enable_grad():
                exact,opt,x = linear(n, p, k, StiefelSGD, lr)
                ours,opt2,_ = linear(n, p, k, FactoredSGD, lr)
            passes,dy,w = ours.weight.passes,torch.randn(k, p)/p**.5/k,ours.weight.detach().clone()
            W,buffer,X,G = rand_stiefel(n, p).mT.contiguous(),torch.empty(p, n),as_tall(w).mT,as_tall(dy.mT @ x).mT
            A,D = torch.randn(k, n)/n**.5,torch.randn(k, p)/p**.5/k; B,E = torch.cat([A, D @ X]),torch.cat([A @ X.mT, D])
            def fresh(opt, f=None):
                opt.param_groups[0]['count'] = 0
                for o in passes: o.kept['p'] = (ours.weight, ours.weight._version)  # as if forward and backward had just run
                opt.step()
            def sgd(): torch.mm(dy.mT, x, out=buffer); W.add_(buffer, alpha=-lr)
            def sgd_onednn(): W.add_(mm(dy.mT, x), alpha=-lr)
            def form_gradient(): L,R,_ = exact_delta(X, G, lr); move_(X, G, L, R)
            def form_factors():
                L,rows,_ = factor_delta(X, B.clone(), E.clone(), lr, turn=False); add_product_(X, L, rows)
            def step_gradient(): torch.mm(dy.mT, x, out=exact.weight.grad) if exact.weight.grad.shape == buffer.shape else None; fresh(opt)
            ours_runs = {'form: p×p': form_gradient, 'step: p×p': step_gradient}
            if k <= p: ours_runs['form: factors'] = form_factors
            if passes: ours_runs['step: factors'] = lambda: fresh(opt2)
            runs = {'plain SGD': sgd, 'plain SGD (oneDNN)': sgd_onednn, **ours_runs, **{f'{name} (BLAS)': blas(lambda f=f: f)() for name,f in ours_runs.items()}}
            reps = {name: max(1, int(1e7/(n*p*p))) if 'p×p' in name else max(2, int((2e7 if 'SGD' in name else 8e6)/(n*p*k))) for name in runs}
            for f in runs.values(): f()
            times = rounds_of({name: (lambda f=f,r=reps[name]: [f() for _ in range(r)]) for name,f in runs.items()}, rounds, time.process_time)
            times = {name: [t/reps[name] for t in v] for name,v in times.items()}
            row = dict(n=n, p=p, k=k, form='factors' if pays(n, p, k) else 'gradient', **ratios(times, 'plain SGD'))
            row |= {f'p×p ÷ factors, {what}{by}': ratios(times, f'{what}: factors{by}')[f'{what}: p×p{by}'] for what in ('form','step') for by in ('',' (BLAS)') if f'{what}: factors' in runs}
            table.append(row); print(row, flush=True)
    return dict(rounds=rounds, relative_to='plain SGD that forms G', rows=table)

def resnet(width, batches, rounds, lr=1e-3, metric='canonical'):
    "All kernels of ResNet18 at 32×32: the step alone and the whole iteration, relative to plain forward + backward. `batches`: sizes of the backward passes before one step."
    torch.manual_seed(0); info = SimpleNamespace(shape=(3,32,32), classes=100, masks=None, mean=torch.zeros(3,1,1), std=torch.ones(3,1,1))
    nets = [resnet18(info, width=width, orthonormal=True)]; nets += [copy.deepcopy(nets[0]) for _ in range(4)]
    data = [(torch.randint(0, 256, (b,3,32,32), dtype=torch.uint8), torch.randint(0, 100, (b,))) for b in batches]
    opts = [torch.optim.SGD(nets[0].parameters(), lr)] + [cls(stiefel_groups(net), lr, metric=metric) for cls,net in zip((StiefelSGD,FactoredSGD)*2, nets[1:])]
    runs,names = {},('SGD','p×p','factors','p×p (BLAS)','factors (BLAS)')
    for name,net,opt in zip(names, nets, opts):
        def passes(net=net, opt=opt):
            opt.zero_grad()
            for x,y in data: F.cross_entropy(net(x), y).backward()
        by = blas if 'BLAS' in name else lambda make: make
        runs |= {f'{name}: {what}': by(lambda f=f: f)() for what,f in (('forward + backward', passes), ('step', opt.step))}
    for f in runs.values(): f()
    times = rounds_of(runs, rounds, time.process_time)
    for name in names: times[f'{name}: iteration'] = [a+b for a,b in zip(times[f'{name}: forward + backward'], times[f'{name}: step'])]
    result = ratios(times, 'SGD: forward + backward'); apart = max((a-b).abs().max().item() for a,b in zip(nets[1].parameters(), nets[2].parameters()))
    print(width, batches, metric, result, flush=True)
    used = [v.split(':')[0] for v in opts[2].routing().values()]
    return dict(width=width, batches=batches, metric=metric, rounds=rounds, relative_to='forward + backward', forms={u: used.count(u) for u in sorted(set(used))}, largest_difference_of_weights=float(f'{apart:.2g}'), off_manifold={k: float(f'{max(orthonormality(o).values()):.2g}') for k,o in (('p×p',opts[1]),('factors',opts[2]))}, **result)

def drift_run(make, n, p, k, size, steps):
    "‖WᵀW − I‖_F after steps of random factors with lr‖G‖_F near `size`, no corrections; its largest value, looked at every 100 steps."
    g = torch.Generator().manual_seed(1); layer = torch.nn.Linear(n, p, bias=False); layer.weight.data.copy_(rand_stiefel(n, p, generator=torch.Generator().manual_seed(0), dtype=torch.float64).mT)
    opt,worst = make([layer.weight], size, renorm_every=0),0.
    for i in range(1, steps+1):
        x,dy = torch.randn(k, n, generator=g)/n**.5,torch.randn(k, p, generator=g)/(k*p)**.5
        opt.zero_grad(); layer(x).backward(dy); opt.step()
        if i % 100 == 0:
            X = layer.weight.detach().double(); worst = max(worst, (X@X.mT - torch.eye(p, dtype=torch.double)).norm().item())
            if not worst < 1e3: return float('inf')
    return float(f'{worst:.2g}')

def drift(steps):
    rows = []
    for n,p,k in ((360,40,5),(784,256,10),(64,64,5),(256,256,10)):
        for size in (.01, .3, 12.):
            some = steps if n*p < 30_000 else steps//10
            def safely(make):
                try: worst = drift_run(make, n, p, k, size, some)
                except ValueError: worst = float('inf')
                return worst if worst < 1e3 else None
            rows.append(dict(n=n, p=p, k=k, lr_times_norm=size, steps=some, gradient=safely(StiefelSGD), factors=safely(FactoredSGD))); print(rows[-1], flush=True)
    return dict(dtype='float32', corrections=0, rows=rows)

def learn_digits(stream, cls, seed, tasks, nudge=0.):
    "orthog with memory and manifold: R by rows, and steps a CPU second. `nudge` moves the first weights by so much, relatively."
    from orthog_nb import methods as mod
    mod.FactoredSGD = cls
    m = mod.Orthog(mod.build(stream.info, seed, projection=True), stream.info, mod.generators(seed), stiefel=True, lr=.1); mod.FactoredSGD = FactoredSGD
    assert type(m.opt) is cls
    with torch.no_grad():
        for p in m.params: p.mul_(1 + nudge*torch.randn(p.shape, generator=torch.Generator().manual_seed(seed)))
    R,spent,steps = [],0.,0
    for t in range(tasks):
        x,y = stream[t].train(); m.begin_task(t); m.model.train(); start = time.process_time()
        for xb,yb in zip(x.split(10), y.split(10)): m.observe(xb, yb, t); steps += 1
        spent += time.process_time()-start; m.end_task(t)
        R.append([(m.predict(stream[j].test()[0], j).argmax(1) == stream[j].test()[1]).double().mean().item() for j in range(t+1)])
    return R, steps/spent, steps, m

def apart(R, S): return round(max(abs(a-b) for r,s in zip(R, S) for a,b in zip(r, s)), 6)

def run(seed=0, tasks=3):
    "Both optimisers on rotated digits, in float64 and float32; beside them the p×p form from weights moved by one rounding of float32."
    from orthog_nb.streams import rotated_digits
    stream,out = rotated_digits(seed=seed, tasks=5),{}
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype); some = tasks if dtype == torch.float32 else 2
        R,rate,steps,_ = learn_digits(stream, StiefelSGD, seed, some); S,rate2,_,m = learn_digits(stream, FactoredSGD, seed, some)
        row = dict(steps=steps, tasks=some, speedup=round(rate2/rate, 2), steps_per_cpu_second={'p×p': round(rate), 'factors': round(rate2)}, largest_difference_in_R=apart(R, S), forms=m.opt.routing())
        if dtype == torch.float32: row['largest_difference_in_R_after_one_rounding'] = apart(R, learn_digits(stream, StiefelSGD, seed, some, 6e-8)[0])
        out[str(dtype).removeprefix('torch.')] = row; print(row, flush=True)
    torch.set_default_dtype(torch.float32)
    return out

if __name__ == '__main__':
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument('what', choices=['layers','resnet','drift','run','all']); a.add_argument('--rounds', type=int, default=5); a.add_argument('--steps', type=int, default=5_000)
    a = a.parse_args(); torch.set_num_threads(1)
    if a.what in ('layers','all'): save('layers', layers(a.rounds))
    if a.what in ('resnet','all'):
        few,rows = 4*a.rounds,[]
        for width,batches,rounds,metric in ((64,[10],a.rounds,'canonical'),(64,[5,10],a.rounds,'euclidean'),(64,[1],2*a.rounds,'canonical'),(64,[32],3,'canonical'),(20,[10],few,'canonical'),(20,[5,10],few,'euclidean')):
            rows.append(resnet(width, batches, rounds, metric=metric)); save('resnet', rows)
    if a.what in ('drift','all'): save('drift', drift(a.steps))
    if a.what in ('run','all'): save('run', run())
