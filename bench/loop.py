"""What the loop itself costs: our steps a second beside a bare hand-written PyTorch loop doing the same arithmetic, alternating in one run.

    python bench/loop.py                       # finetune, er_ring, orthog on the MNIST MLP, one thread
    python bench/loop.py --rounds 9 --tasks 3

Writes results/bench/loop.json; CPU seconds of the process on one thread, and ratios are what counts, since machines are noisy.
"""
import argparse, json, statistics, time
from pathlib import Path
import torch, torch.nn as nn, torch.nn.functional as F
from orthog_nb.core import atomic_write, generator
from orthog_nb.streams import rotated_digits
from orthog_nb.training import Run, configure, lesson, versions
from orthog_nb.core import Progress

def bare_net():
    "The MLP with nothing around it."
    return nn.Sequential(nn.Linear(784,256), nn.ReLU(), nn.Linear(256,256), nn.ReLU(), nn.Linear(256,10))

def bare(stream, method):
    "A hand-written loop over all tasks; the time of its steps alone."
    net = bare_net(); opt = torch.optim.SGD(net.parameters(), .1); spent = 0; mem = {}; g = torch.Generator().manual_seed(0)
    mask = torch.zeros(len(stream), 256); r = 256//len(stream)
    for t in range(len(stream)): mask[t, t*r:(t+1)*r] = 1
    for t,task in enumerate(stream):
        x,y = task.train(); start = time.process_time(); past = list(mem.values())
        xm,ym = (torch.stack([e[0] for e in past]), torch.stack([e[1] for e in past])) if past else (None, None)
        for i in range(0, len(y), 10):
            xb,yb = x[i:i+10],y[i:i+10]
            xs,ys = (torch.cat([xb,xm]), torch.cat([yb,ym])) if method=='er_ring' and past else (xb,yb)
            h = xs.flatten(1)*(1/255)
            if method=='orthog': z = net[4](F.relu(net[2](F.relu(net[0](h)))*mask[t]))
            else: z = net(h)
            opt.zero_grad(); F.cross_entropy(z, ys).backward(); opt.step()
            if method=='er_ring':
                for xi,yi in zip(xb,yb): mem[t,int(yi)] = (xi,yi)
        spent += time.process_time()-start
    return sum(-(-len(t.train_ids)//10) for t in stream)/spent

def ours(stream, method):
    "The steps of `Run`, evaluation left out."
    run = Run(stream, configure(stream, method), torch.device('cpu')); spent = 0
    for t in range(len(stream)):
        start = time.process_time()
        with Progress(1, quiet=True) as bar: run.learn_lesson(bar, lambda: None, 10**9)
        spent += time.process_time()-start
        run.method.end_task(t, stream[t]); run.i,run.step = t+1,0
    return run.steps/spent

if __name__ == '__main__':
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--rounds', type=int, default=7); p.add_argument('--tasks', type=int, default=3)
    p.add_argument('--out', default=str(Path(__file__).resolve().parent.parent/'results/bench/loop.json'))
    a = p.parse_args(); torch.set_num_threads(1); stream = rotated_digits(tasks=a.tasks); rows = {}
    for method in ('finetune','er_ring','orthog'):
        pairs = [(ours(stream, method), bare(stream, method)) for _ in range(a.rounds)]
        rows[method] = dict(ours=statistics.median(o for o,_ in pairs), bare=statistics.median(b for _,b in pairs), ratio=statistics.median(o/b for o,b in pairs))
        print(f"{method:10} ours {rows[method]['ours']:.0f} steps/s, bare loop {rows[method]['bare']:.0f}: {rows[method]['ratio']:.2f} of it", flush=True)
    with atomic_write(a.out) as f: f.write(json.dumps(dict(rows=rows, rounds=a.rounds, tasks=a.tasks, threads=1, versions=versions()), indent=1).encode())
    print(a.out)
