"""How the cost of a step grows: with the number of tasks, the width of the features, the memory a class, the size of the images.

    python bench/growth.py             # one thread; CPU seconds of this process

Writes results/bench/growth.json: for each axis the value, steps a second and bytes held beside the weights. The points of an axis take turns, so that a busy machine
slows all of them alike; what counts is the shape of a curve. The cost with many tasks is measured at the last of them, with the memory of all others filled.
"""
import argparse, json, statistics, time
from pathlib import Path
import torch
from orthog_nb.core import atomic_write
from orthog_nb.methods import build, generators, methods
from orthog_nb.streams import Info
from orthog_nb.training import versions

out = Path(__file__).resolve().parent.parent/'results'/'bench'/'growth.json'
wants = dict(finetune={}, er_ring=dict(replay_batch=10), agem=dict(replay_batch=10), ewc={}, orthog=dict(projection=True, replay=True))

def info(tasks, size=28, channels=1): return Info('permuted_mnist' if channels==1 else 'split_cifar', tasks, 10, (channels,size,size), False, None, torch.zeros(1,1,1), torch.ones(1,1,1))

def batch(i, n, labels=10):
    "A batch that holds every class, so that all rings fill."
    return torch.randint(0, 256, (n,*i.shape), dtype=torch.uint8), torch.arange(n) % labels

def ready(method, tasks, width=None, memory=1, size=28, channels=1, fast=False, **hp):
    "A method in its last task, all earlier ones remembered."
    i = info(tasks, size, channels); hp = dict(wants[method]) | hp
    bp = dict(width=width) | {k: hp.pop(k) for k in ('projection',) if k in hp}
    if method in ('er_ring','agem','orthog'): hp['memory'] = memory
    m = methods[method](build(i, **bp), i, generators(0), **hp)
    for t in range(tasks-1):
        if m.memory is not None: m.memory.add(*batch(i, 10*memory), t)
        m.end_task(t)
    m.begin_task(tasks-1)
    if fast:
        from orthog_nb.fast import make_fast
        make_fast(m)
    x,y = batch(i, 200)
    return m,[(x[10*j:10*j+10], y[10*j:10*j+10]) for j in range(20)],tasks-1

def cost(points, rounds, steps):
    "Median microseconds a step at every point, taking turns; bytes held."
    got = {k: [] for k in points}
    for _ in range(rounds):
        for k,(m,data,t) in points.items():
            start = time.process_time()
            for j in range(steps): m.observe(*data[j % 20], t)
            got[k].append((time.process_time()-start)/steps*1e6)
    return [dict(at=k, us=round(statistics.median(v), 1), bytes=points[k][0].nbytes()) for k,v in got.items()]

def axes(rounds):
    "The four axes; the first two for every method, the others where they say something."
    found = dict(tasks={}, width={}, memory={}, image={})
    for m in wants:
        for fast in (False,True): found['tasks'][f'{m}, fast' if fast else m] = cost({T: ready(m, T, fast=fast) for T in (10,20,50,100,200)}, rounds, 20); print(m, fast, found['tasks'][f'{m}, fast' if fast else m], flush=True)
    for m in ('finetune','orthog'):
        for fast in (False,True): found['width'][f'{m}, fast' if fast else m] = cost({w: ready(m, 20, width=w, fast=fast) for w in (64,128,256,512,1024)}, rounds, 10)
    for m in ('er_ring','orthog'): found['memory'][m] = cost({n: ready(m, 20, memory=n) for n in (1,2,5,10,20)}, rounds, 10)
    found['memory']['er_ring, all of it'] = cost({n: ready('er_ring', 20, memory=n, replay_batch=10**6) for n in (1,2,5)}, rounds, 3)
    found['image']['finetune, MLP'] = cost({s*s: ready('finetune', 20, size=s) for s in (14,28,56,84)}, rounds, 10)
    found['image']['finetune, ResNet18 of width 8'] = cost({s*s: ready('finetune', 20, width=8, size=s, channels=3) for s in (16,32,64)}, rounds, 2)
    return found

if __name__ == '__main__':
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--rounds', type=int, default=9); a = p.parse_args(); torch.set_num_threads(1); torch.manual_seed(0)
    with atomic_write(out) as f: f.write((json.dumps(axes(a.rounds) | dict(rounds=a.rounds, batch=10, versions=versions()), indent=1)+'\n').encode())
    print(out)
