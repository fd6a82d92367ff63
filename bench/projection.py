"""What the projection costs: forward + backward of a training step, with and without it.

Two places, each with a small and a large batch:
  mlp    the MNIST network, 784-256-256-10, projected before the second ReLU (m = 256, T = 20)
  last   the end of a ResNet18, features in, loss out: relu(P h), then 512 -> 100 (m = 512, T = 17);
         nothing else shares the bill, so this is the worst case, not the cost of training a ResNet

Four ways: `none` no projection, `axes` a mask, `random` two thin products, `dense` the m x m matrix of the paper.
All four run in alternation, in an order that changes from round to round; a ratio is the median over rounds of
(time with) / (time without) in the same round, so a busy machine slows both sides alike. On one thread it is CPU time
that counts, on more it is wall time. 1.00 means free.

Examples:
  python bench/projection.py                        # one to two minutes; writes results/bench/projection.json
  python bench/projection.py --rounds 5 --out ''    # a quick look, nothing written
"""
import argparse, json, platform, random, time
from pathlib import Path
from statistics import median, quantiles
import torch, torch.nn.functional as F
from torch import nn
import orthog_nb
from orthog_nb.core import atomic_write, generator
from orthog_nb.projection import Subspaces

root = Path(__file__).resolve().parent.parent
ways = ('none','axes','random','dense')

def projection(way, dim, tasks, seed, t=3):
    "`h -> P_t h` done in one of four ways."
    if way == 'none': return lambda h: h
    s = Subspaces(dim, tasks, 'random' if way == 'dense' else way, seed)
    if way == 'dense': P = s.matrix(t)
    return (lambda h: h @ P) if way == 'dense' else (lambda h: s(h, t))

def mlp(batch, g):
    "Forward and backward of the MNIST network: a function of the projection."
    a,b,c = nn.Linear(784,256), nn.Linear(256,256), nn.Linear(256,10)
    params = [p for l in (a,b,c) for p in l.parameters()]
    x,y = torch.rand(batch, 784, generator=g), torch.randint(10, (batch,), generator=g)
    return lambda P: torch.autograd.grad(F.cross_entropy(c(F.relu(P(b(F.relu(a(x)))))), y), params)

def last(batch, g):
    "Forward and backward of the end of a ResNet18, down to its features."
    head = nn.Linear(512, 100)
    h,y = torch.rand(batch, 512, generator=g).requires_grad_(), torch.randint(100, (batch,), generator=g)
    return lambda P: torch.autograd.grad(F.cross_entropy(head(F.relu(P(h))), y), [h, *head.parameters()])

def seconds(f, n):
    "Mean time of `n` calls: CPU time on one thread, so that waiting for a busy machine does not count, else wall time."
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    for _ in range(n): f()
    return (clock()-start) / n

def compare(step, Ps, rounds, rng, block=.02):
    "Median seconds of each way, and the quartiles of its ratio to `none`."
    n = max(3, int(block / seconds(lambda: step(Ps['none']), 5)))
    times = {w: [] for w in ways}
    for _ in range(rounds):
        for w in rng.sample(ways, len(ways)): times[w].append(seconds(lambda: step(Ps[w]), n))
    quarts = {w: quantiles([a/b for a,b in zip(times[w], times['none'])], n=4) for w in ways}
    return dict(microseconds={w: round(1e6*median(v),1) for w,v in times.items()}, ratio={w: round(q[1],3) for w,q in quarts.items()},
                quartiles={w: [round(q[0],3), round(q[2],3)] for w,q in quarts.items()})

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--rounds', type=int, default=200, help='how often the four ways take turns (200)')
    p.add_argument('--threads', type=int, default=1, help='threads of torch (1)')
    p.add_argument('--seed', type=int, default=0, help='of inputs, weights and subspaces (0)')
    p.add_argument('--out', default='results/bench/projection.json', help="where the JSON goes, relative to the repository; '' for nowhere (%(default)s)")
    a = p.parse_args()
    if a.rounds < 2 or a.threads < 1: p.error('rounds must be at least 2 and threads at least 1')
    torch.set_num_threads(a.threads); torch.manual_seed(a.seed)
    rng,rows = random.Random(a.seed), []
    for net,make,dim,tasks,batches in (('mlp',mlp,256,20,(10,256)), ('last',last,512,17,(10,256))):
        Ps = {w: projection(w, dim, tasks, a.seed) for w in ways}
        for batch in batches:
            rows.append(dict(net=net, dim=dim, tasks=tasks, batch=batch, **compare(make(batch, generator(a.seed,'bench')), Ps, a.rounds, rng)))
            print(f"{net:5} batch {batch:4}  " + '  '.join(f"{w} {rows[-1]['ratio'][w]:.2f}" for w in ways), flush=True)
    if not a.out: return
    data = dict(schema=1, bench='projection', rows=rows, rounds=a.rounds, threads=a.threads, seed=a.seed, clock='cpu' if a.threads == 1 else 'wall', device='cpu', machine=platform.machine(),
                versions=dict(python=platform.python_version(), torch=torch.__version__, orthog_nb=orthog_nb.__version__))
    with atomic_write(root/a.out) as f: f.write((json.dumps(data, indent=1)+'\n').encode())
    print(a.out)

if __name__ == '__main__': main()
