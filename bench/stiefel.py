"""One optimiser step on the Stiefel manifold, ours beside others, and how far the weights drift.

    python bench/stiefel.py speed --width 64 --threads 1   # one step over all kernels of ResNet18
    python bench/stiefel.py cost                           # one layer, against n and p
    python bench/stiefel.py drift                          # 10,000 steps of random gradients
    python bench/stiefel.py real                           # 500 steps of Split CIFAR (real data: ORTHOG_NB_DATA)
    python bench/stiefel.py all

Writes results/bench/stiefel.json, section by section. Machines differ and are busy: only ratios within one run are kept, medians of rounds in
which every competitor runs once. One thread is timed in CPU seconds, two in wall-clock seconds. Peers that are not installed
(bench/requirements.txt) are left out and named. Peers are timed as they come; what is written here, ours and the textbook forms, with
torch's product ("BLAS") and with `orthog_nb.core.mm` ("oneDNN"), so that fewer operations and a faster library are seen apart.
"""
import argparse, json, os, platform, statistics, sys, time
from importlib.metadata import version, PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
import torch, torch.nn.functional as F
from orthog_nb import core
from orthog_nb.core import as_tall, atomic_write, mm, rand_stiefel
from orthog_nb.cayley import cayley_exact
from orthog_nb.models import resnet18
from orthog_nb.optim import StiefelSGD, orthonormality, stiefel_groups

out = Path(__file__).resolve().parent.parent/'results'/'bench'/'stiefel.json'

def save(section, value):
    "Put one section into the file, beside what is there."
    whole = json.loads(out.read_text()) if out.exists() else {}
    whole[section] = value
    whole['machine'] = dict(cpu=platform.processor() or platform.machine(), python=platform.python_version(), torch=torch.__version__, threads='as each section says')
    with atomic_write(out) as f: f.write((json.dumps(whole, indent=1, sort_keys=True)+'\n').encode())
    print(f'{out}: {section}', flush=True)

def peer(name):
    "A module, or None where it is missing."
    try: return __import__(name)
    except ImportError: return None

def peer_versions():
    found = {}
    for n in 'geoopt','geotorch','pogo-torch':
        try: found[n] = version(n)
        except PackageNotFoundError: found[n] = 'missing'
    return found

def rounds_of(runs, rounds, clock, slow=(), slow_rounds=2):
    "Alternating runs: seconds of each, a list a competitor."
    times = {k: [] for k in runs}
    for r in range(rounds):
        for k,f in runs.items():
            if k in slow and r >= slow_rounds: continue
            start = clock(); f(); times[k].append(clock()-start)
    return times

def ratios(times, to):
    "Median over rounds of the time relative to that of `to` in the same round."
    return {k: round(statistics.median(a/b for a,b in zip(v, times[to])), 4) for k,v in times.items() if v}

# ---- competitors: each takes tall weights and gradients and returns a function that makes one step
def leaves(Ws, Gs):
    ps = [torch.nn.Parameter(W.clone()) for W in Ws]
    for p,G in zip(ps, Gs): p.grad = G.clone()
    return ps

def plain(Ws, Gs, lr): return torch.optim.SGD(leaves(Ws, Gs), lr, foreach=True).step

def loop(step):
    "A competitor from a function of one weight and its gradient."
    def make(Ws, Gs, lr):
        Ws = [W.clone() for W in Ws]
        def run():
            for W,G in zip(Ws, Gs): W.copy_(step(W, G, lr))
        return run
    return make

def blas(make):
    "A competitor of ours with torch's own product in place of oneDNN's."
    def made(*args):
        run = make(*args)
        def off():
            found,core.onednn = core.onednn,None
            try: return run()
            finally: core.onednn = found
        return off
    return made

def as_written(W, G, tau, s=2):
    "Algorithm 1, line by line: A is formed."
    A = mm(G, W.T) - mm(W, G.T)
    Y = W - tau*mm(A, W)
    for _ in range(s): Y = W - tau/2*mm(A, W+Y)
    return Y

def low_rank_iteration(W, G, tau, s=2):
    "Algorithm 1 with AV = G(WᵀV) − W(GᵀV): A is not formed."
    A = lambda V: mm(G, mm(W.T, V)) - mm(W, mm(G.T, V))
    Y = W - tau*A(W)
    for _ in range(s): Y = W - tau/2*A(W+Y)
    return Y

def low_rank_euclidean(W, G, tau):
    "The same in the Euclidean metric, as the authors ran it."
    return low_rank_iteration(W, G - mm(W, mm(W.T, G))/2, tau)

def woodbury(W, G, tau):
    "The exact transform with one 2p×2p solve."
    U,V = torch.cat([G,W], 1),torch.cat([W,-G], 1)
    return W - tau*mm(U, torch.linalg.solve(torch.eye(2*W.shape[1]) + tau/2*mm(V.T, U), mm(V.T, W)))

def full_solve(W, G, tau):
    "The exact transform with one n×n solve."
    A,I = mm(G, W.T) - mm(W, G.T),torch.eye(len(W))
    return torch.linalg.solve(I + tau/2*A, W - tau/2*mm(A, W))

def ours(**kwargs):
    "StiefelSGD on weights stored as torch stores them: rows of filters."
    def make(Ws, Gs, lr):
        ps = leaves([W.T.contiguous() for W in Ws], [G.T.contiguous() for G in Gs])
        return StiefelSGD(ps, lr, **kwargs).step
    return make

def grouped(Ws, Gs, lr):
    "The exact step with equal shapes stacked into one batched product."
    shapes = sorted({W.shape for W in Ws})
    Ws = [W.T.contiguous().T for W in Ws]; Gs = [G.T.contiguous().T for G in Gs]
    def run():
        for s in shapes:
            same = [i for i,W in enumerate(Ws) if W.shape == s]
            new = cayley_exact(torch.stack([Ws[i].T for i in same]).mT, torch.stack([Gs[i].T for i in same]).mT, lr)
            for i,Y in zip(same, new): Ws[i].copy_(Y)
    return run

def geoopt_sgd(kind):
    def make(Ws, Gs, lr):
        import geoopt
        ps = [geoopt.ManifoldParameter(W.clone(), manifold=getattr(geoopt, kind)()) for W in Ws]
        for p,G in zip(ps, Gs): p.grad = G.clone()
        return geoopt.optim.RiemannianSGD(ps, lr).step
    return make

def pogo_sgd(Ws, Gs, lr):
    from pogo import POGO
    from pogo.base import SGD
    ps = leaves([W.T.contiguous()[None] for W in Ws], [G.T.contiguous()[None] for G in Gs])
    return POGO(ps, SGD(), lr).step

def parametrised(register):
    "A weight that is a function of a free one: compute it, back-propagate its gradient, step."
    def make(Ws, Gs, lr):
        mods = []
        for W in Ws:
            m = torch.nn.Linear(*W.shape, bias=False); m.weight.data.copy_(W.T); register(m); mods.append(m)
        opt = torch.optim.SGD([p for m in mods for p in m.parameters()], lr)
        def run():
            with torch.enable_grad():
                opt.zero_grad()
                for m,G in zip(mods, Gs): m.weight.backward(G.T)
            opt.step()
        return run
    return make

def torch_orthogonal(kind): return parametrised(lambda m: torch.nn.utils.parametrizations.orthogonal(m, 'weight', kind))
def geotorch_orthogonal(m):
    import geotorch
    geotorch.orthogonal(m, 'weight')

def competitors(width):
    both = {'ours, exact': ours(), 'ours, iterative': ours(retraction='iterative', guard=float('inf')), 'low-rank iteration': loop(low_rank_iteration), 'low-rank iteration, Euclidean': loop(low_rank_euclidean),
            'Woodbury 2p×2p': loop(woodbury), 'Algorithm 1 as written': loop(as_written)}
    c = {'plain SGD': plain, 'ours, exact, Euclidean, guarded': ours(metric='euclidean', guard=.5), 'ours, exact, equal shapes stacked': grouped, 'n×n solve': loop(full_solve)}
    for k,make in both.items(): c |= {k: make, f'{k} (BLAS)': blas(make)} if k.startswith('ours') else {f'{k} (oneDNN)': make, k: blas(make)}
    if peer('geoopt'): c |= {'geoopt EuclideanStiefel (QR)': geoopt_sgd('EuclideanStiefel'), 'geoopt CanonicalStiefel': geoopt_sgd('CanonicalStiefel')}
    if peer('pogo'): c['POGO'] = pogo_sgd
    if width <= 32:
        c |= {f'torch orthogonal ({k})': torch_orthogonal(k) for k in ('cayley','matrix_exp','householder')}
        if peer('geotorch'): c['geotorch orthogonal'] = parametrised(geotorch_orthogonal)
    return c

slow = 'Algorithm 1 as written','Algorithm 1 as written (oneDNN)','n×n solve','geoopt CanonicalStiefel','torch orthogonal (cayley)','torch orthogonal (matrix_exp)','torch orthogonal (householder)','geotorch orthogonal'

@torch.no_grad()
def speed(width, threads, rounds, lr=1e-3):
    "One step over all kernels of ResNet18, relative to forward + backward of a batch of 10 at 32×32."
    torch.manual_seed(0); torch.set_num_threads(threads)
    info = SimpleNamespace(shape=(3,32,32), classes=100, masks=None, mean=torch.zeros(3,1,1), std=torch.ones(3,1,1))
    net = resnet18(info, width=width, orthonormal=True)
    x,y = torch.randint(0, 256, (10,3,32,32), dtype=torch.uint8),torch.randint(0, 100, (10,))
    def forward_backward():
        with torch.enable_grad(): net.zero_grad(); F.cross_entropy(net(x), y).backward()
    forward_backward()
    ps = [p for _,p in stiefel_groups(net)[0]['params']]
    Ws,Gs = [as_tall(p).contiguous() for p in ps],[as_tall(p.grad).contiguous() for p in ps]
    runs,products = {'forward + backward': forward_backward},{}
    for size in ((512,512,512),(512,512,4608),(512,4608,512),(1024,1024,1024)):
        A,B = torch.randn(size[:2]),torch.randn(size[1:])
        products |= {f'{library}, '+'×'.join(map(str, size)): (2*size[0]*size[1]*size[2], lambda f=f,A=A,B=B: f(A, B)) for library,f in (('BLAS', torch.mm), ('oneDNN', mm))}
    runs |= {k: f for k,(_,f) in products.items()}
    for k,make in competitors(width).items():
        with torch.enable_grad(): runs[k] = make(Ws, Gs, lr)
    for k,f in runs.items():
        if k not in slow: f()
    clock = time.process_time if threads == 1 else time.perf_counter
    times = rounds_of(runs, rounds, clock, slow)
    rates = {k: flops/statistics.median(times.pop(k))/1e9 for k,(flops,_) in products.items()}; peak = max(rates, key=rates.get)
    flops = sum(8*W.numel()*W.shape[1] for W in Ws)
    to_fb,to_exact,to_blas = (ratios(times, k) for k in ('forward + backward','ours, exact','ours, exact (BLAS)'))
    for k in sorted(to_fb, key=to_fb.get): print(f'{k:36s}{to_fb[k]:9.3f}{to_exact[k]:9.2f}{to_blas[k]:9.2f}', flush=True)
    return dict(width=width, threads=threads, rounds=rounds, batch=10, kernels=len(ps), clock='cpu' if threads==1 else 'wall', load=round(os.getloadavg()[0], 1), relative_to_forward_backward=to_fb, relative_to_exact=to_exact, relative_to_exact_by_blas=to_blas,
                gflop_of_four_products=round(flops/1e9, 2), gflop_per_second={k: round(r) for k,r in rates.items()}, peak=peak, share_of_peak=round(flops/1e9/statistics.median(times['ours, exact'])/rates[peak], 3), peers=peer_versions())

@torch.no_grad()
def cost(rounds=9, lr=1e-3):
    "One layer: against n at p = 64, against p at n = 9p. Relative to the exact step at 576×64."
    torch.manual_seed(0); torch.set_num_threads(1)
    makes = {'plain SGD': plain, 'ours, exact': ours(), 'ours, exact (BLAS)': blas(ours()), 'ours, iterative': ours(retraction='iterative', guard=float('inf')), 'low-rank iteration': blas(loop(low_rank_iteration)), 'Algorithm 1 as written': blas(loop(as_written))}
    if peer('geoopt'): makes['geoopt EuclideanStiefel (QR)'] = geoopt_sgd('EuclideanStiefel')
    shapes = [(n,64) for n in (64,128,256,576,1152,2304)] + [(9*p,p) for p in (8,16,32,128,256)]
    table = []
    base = ours()([rand_stiefel(576, 64)], [torch.randn(576, 64)/24], lr)
    for n,p in shapes:
        W,G = rand_stiefel(n, p),torch.randn(n, p)/n**.5
        runs = {'base': base}
        for k,make in makes.items():
            with torch.enable_grad(): runs[k] = make([W], [G], lr)
        reps = max(1, int(4e7/(8*n*p*p)))
        many = {k: (lambda f=f: [f() for _ in range(reps)]) for k,f in runs.items()}
        for f in many.values(): f()
        table.append(dict(n=n, p=p, **ratios(rounds_of(many, rounds, time.process_time), 'base')))
        del table[-1]['base']; print(table[-1], flush=True)
    return table

@torch.no_grad()
def drift_run(n, p, lr, norm, steps, **kwargs):
    "‖WᵀW − I‖_F along `steps` random gradients of Frobenius norm `norm`, and its largest value (looked at every 50 steps)."
    gen = torch.Generator().manual_seed(1)
    W = torch.nn.Parameter(rand_stiefel(n, p, generator=torch.Generator().manual_seed(0), dtype=torch.float64).float().T.contiguous())
    opt = StiefelSGD([W], lr, **kwargs)
    marks,curve,worst = {1,2,5,10,20,50,100,200,500,1000,2000,5000,10000},{},0.
    for i in range(1, steps+1):
        W.grad = torch.randn(p, n, generator=gen); W.grad *= norm/W.grad.norm()
        opt.step()
        if i in marks or i % 50 == 49:
            X = W.double(); off = (X @ X.T - torch.eye(p, dtype=torch.double)).norm().item(); worst = max(worst, off)
            if i in marks: curve[i] = float(f'{off:.3g}')
    s = torch.linalg.svdvals(W.double())
    return dict(n=n, p=p, lr=lr, norm=round(norm, 3), curve=curve, worst=float(f'{worst:.3g}'), sigma_min=round(s.min().item(), 6), sigma_max=round(s.max().item(), 6))

forms = {'exact': {}, 'exact, no renormalisation': dict(renorm_every=0), 'iterative, s = 2': dict(retraction='iterative', guard=float('inf'))}

def drift(steps):
    "Every shape, rate, gradient size and form; saved as it goes."
    torch.set_num_threads(1); rows = []
    for n,p in ((360,40),(576,64),(256,256)):
        for size in (1., p**.5):
            for lr in (1e-4,.03,.4):
                for form,kwargs in forms.items():
                    row = dict(form=form, **drift_run(n, p, lr, size, steps, **kwargs))
                    rows.append(row); save('drift', dict(steps=steps, dtype='float32', rows=rows))
                    print({k: row[k] for k in ('n','p','lr','norm','form','worst','sigma_min')}, flush=True)
    return rows

def real(width, steps=500, lr=.4):
    "The drift in a real training: the first tasks of Split CIFAR, batches of 10, for the exact and the iterative form."
    from orthog_nb.streams import split_cifar
    torch.set_num_threads(1); stream = split_cifar(seed=0); rows = []
    for form,kwargs in {'exact': {}, 'exact, guarded': dict(guard=.5), 'iterative, s = 2, guarded': dict(retraction='iterative')}.items():
        torch.manual_seed(0); net = resnet18(stream.info, width=width, orthonormal=True, generator=torch.Generator().manual_seed(0))
        opt,worst,done,loss = StiefelSGD(stiefel_groups(net), lr, metric='euclidean', **kwargs),0.,0,None
        for task in stream:
            x,y = task.train()
            for i in range(0, len(x)-9, 10):
                if done == steps: break
                opt.zero_grad(); loss = F.cross_entropy(net(x[i:i+10], task.t), y[i:i+10]); loss.backward(); opt.step(); done += 1
                if done % 10 == 0: worst = max(worst, max(orthonormality(opt).values()))
        sigma = min(torch.linalg.svdvals(as_tall(p.detach())).min().item() for g in opt.param_groups if g['stiefel'] for p in g['params'])
        bound = opt.guard_rate()
        rows.append(dict(form=form, worst=float(f'{worst:.3g}'), last=float(f'{max(orthonormality(opt).values()):.3g}'), sigma_min=round(sigma, 6), guard_bound=round(sum(bound.values())/len(bound), 4), loss=round(loss.item(), 3)))
        print(rows[-1], flush=True)
    return dict(benchmark='split_cifar', width=width, steps=steps, lr=lr, metric='euclidean', batch=10, rows=rows)

if __name__ == '__main__':
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument('what', choices=['speed','cost','drift','real','all']); a.add_argument('--width', type=int, default=64); a.add_argument('--threads', type=int, default=1)
    a.add_argument('--rounds', type=int, default=7); a.add_argument('--steps', type=int, default=10_000)
    a = a.parse_args()
    missing = [k for k,v in peer_versions().items() if v == 'missing']
    if missing and a.what != 'drift': print(f"not installed, so not measured: {', '.join(missing)} (pip install -r bench/requirements.txt)", file=sys.stderr)
    for w,t in ([(64,1),(64,2),(20,1),(20,2)] if a.what == 'all' else [(a.width,a.threads)] if a.what == 'speed' else []):
        save(f'speed, width {w}, threads {t}', speed(w, t, a.rounds))
    if a.what in ('cost','all'): save('cost', cost())
    if a.what in ('drift','all'): drift(a.steps)
    if a.what in ('real','all'): save('real training', real(min(a.width, 20)))
