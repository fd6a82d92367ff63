"""What watching costs: steps of one learner on the ResNet18, looked at and not looked at in turns.

    python bench/interference.py                       # width 64 (the paper's) and 20, one thread
    python bench/interference.py --steps 40 --widths 20

Random images of CIFAR's shape, batch 10, two past tasks in memory. A pair of steps, one of them watched, gives one ratio of CPU times; the
median of the pairs counts, and the quartiles say how sure it is. er_ring is looked at every tenth step only, so its cost is a tenth of what one look costs.
Writes results/bench/interference.json.
"""
import argparse, json, statistics, time
from pathlib import Path
import torch
from orthog_nb.core import atomic_write
from orthog_nb.interference import GradientCosines
from orthog_nb.methods import build, generators, methods
from orthog_nb.streams import Info
from orthog_nb.training import known_settings, settings, versions

def learner(name, width):
    "A learner with two past tasks in memory, and batches of a third."
    g = torch.Generator().manual_seed(0); masks = torch.zeros(17, 85, dtype=torch.bool)
    for t in range(17): masks[t, 5*t:5*t+5] = True
    info = Info('split_cifar', 17, 85, (3,32,32), True, masks, torch.zeros(3,1,1), torch.ones(3,1,1))
    hp = settings('split_cifar', name, width=width)
    net = build(info, 0, **{k: hp.pop(k) for k in known_settings('multitask') if k in hp and k in ('width','projection','basis','init','dropout')})
    m = methods[name](net, info, generators(0), **hp); m.model.train()
    batch = lambda t: (torch.randint(0, 256, (10,3,32,32), dtype=torch.uint8, generator=g), 5*t+torch.arange(10)%5, t)
    for t in (0,1): m.begin_task(t); m.observe(*batch(t)); m.end_task(t)
    m.begin_task(2)
    return m, lambda: batch(2)

def cost(name, width, steps):
    "CPU seconds of a plain step, and the ratios of watched to plain ones."
    m,batch = learner(name, width); eye = GradientCosines(); eye.begin(m); plain,ratios = [],[]
    def look(t, now, past=None): eye(t, 0, *(now() if callable(now) else (now, past)))
    def timed(watch):
        m.watch = watch; args = batch(); start = time.process_time(); m.observe(*args)
        return time.process_time()-start
    timed(None); timed(look)
    for i in range(steps):
        pair = {w: timed(w) for w in ((None,look) if i%2 else (look,None))}
        plain.append(pair[None]); ratios.append(pair[look]/pair[None])
    every = eye.every if name == 'er_ring' else 1
    lo,mid,hi = (1+(q-1)/every for q in statistics.quantiles(ratios, n=4))
    return dict(seconds=round(statistics.median(plain), 4), ratio=round(mid, 4), quartiles=[round(lo, 4), round(hi, 4)], every=every, steps=steps,
                state_bytes=sum(v.nbytes for v in eye.state_dict().values()))

if __name__ == '__main__':
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--steps', type=int, default=12); p.add_argument('--widths', type=int, nargs='+', default=[64,20])
    p.add_argument('--out', default=str(Path(__file__).resolve().parent.parent/'results/bench/interference.json'))
    a = p.parse_args(); torch.set_num_threads(1); rows = []
    for width in a.widths:
        for name in ('orthog','agem','er_ring'):
            rows.append(dict(method=name, width=width, **cost(name, width, a.steps if width > 32 else 3*a.steps))); r = rows[-1]
            print(f"{name:8} width {width}: a step takes {r['seconds']:.3f} s; watched {100*(r['ratio']-1):+.1f} % (quartiles {100*(r['quartiles'][0]-1):+.1f} to {100*(r['quartiles'][1]-1):+.1f})", flush=True)
    with atomic_write(a.out) as f: f.write(json.dumps(dict(rows=rows, threads=1, versions=versions()), indent=1).encode())
    print(a.out)
