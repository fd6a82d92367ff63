"""Which steps does the authors' guard cut, and which does ours? Both norms of the skew matrix A along a real training of orthog.

    python bench/guard.py                   # width 64, the first task of Split CIFAR, every tenth step
    python bench/guard.py --steps 50 --width 20

The authors bound the step by 1/‖A‖₁ (the largest row sum of an n×n matrix), we by 2q/‖A‖_F with q = 0.3125, which is the same where ‖A‖₁ = 1.6 ‖A‖_F.
A is formed as it stands in their code, but of our tall weights: the 1×1 shortcuts, which theirs leaves wide, are other matrices there. The training itself takes our steps. Needs the real data. Writes results/bench/guard.json: for every kernel the ratio of the norms
(median, smallest, largest) and the share of steps that either bound cuts.
"""
import argparse, json, statistics
from pathlib import Path
import torch
from orthog_nb.core import as_tall, atomic_write
from orthog_nb.experiments import clip
from orthog_nb.methods import build, generators, methods
from orthog_nb.streams import make_stream
from orthog_nb.training import versions

def norms(p):
    "‖A‖₁ and ‖A‖_F of one kernel, Euclidean metric, from the n×n matrix."
    W,G = as_tall(p.detach()),as_tall(p.grad)
    B = G @ W.mT; B -= .5*W @ (W.mT @ B); A = B - B.mT
    return A.abs().sum(1).max().item(),A.norm().item()

if __name__ == '__main__':
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument('--width', type=int, default=64); a.add_argument('--steps', type=int, default=250); a.add_argument('--every', type=int, default=10); a.add_argument('--lr', type=float, default=.4); a.add_argument('--seed', type=int, default=0)
    a = a.parse_args(); torch.set_num_threads(1); torch.manual_seed(a.seed)
    stream = make_stream('split_cifar', seed=a.seed); task = stream.tasks[0]
    net = build(stream.info, a.seed, a.width, projection=True, init='orthonormal_all').train()
    m = methods['orthog'](net, stream.info, generators(a.seed), lr=a.lr, stiefel=True, metric='euclidean', retraction='iterative', guard=clip, lr_decay='per_task'); m.begin_task(0)
    kernels = {n: p for n,p in net.named_parameters() if any(p is q for g in m.opt.param_groups if g['stiefel'] for q in g['params'])}
    seen = {n: [] for n in kernels}
    for i,ids in enumerate(task.train_ids.split(10)[:a.steps]):
        m.opt.zero_grad(); loss = m.backward(task.images.x[ids], task.images.y[ids], 0)
        if i % a.every == 0:
            for n,p in kernels.items(): seen[n].append(norms(p))
            print(f'step {i}: loss {loss:.2f}', flush=True)
        m.update()
    rows = []
    for n,v in seen.items():
        ratio = [o/f for o,f in v]
        rows.append(dict(kernel=n, shape=list(kernels[n].shape), ratio=dict(median=round(statistics.median(ratio), 2), min=round(min(ratio), 2), max=round(max(ratio), 2)),
                         cut_theirs=round(statistics.mean(a.lr*o > 1 for o,_ in v), 3), cut_ours=round(statistics.mean(a.lr*f > 2*clip for _,f in v), 3)))
    out = Path(__file__).resolve().parent.parent/'results'/'bench'/'guard.json'
    with atomic_write(out) as f: f.write((json.dumps(dict(rows=rows, width=a.width, lr=a.lr, steps=a.steps, every=a.every, seed=a.seed, versions=versions()), indent=1)+'\n').encode())
    print(out)
