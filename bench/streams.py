"""What the data costs: building all four streams of the paper, and fetching a batch beside a training step on it.

    ORTHOG_NB_DATA=… python bench/streams.py

Building is measured in a process of its own (seconds, and memory by VmHWM), once miniImageNet is decoded. A batch is a slice of the tensor that `Task.train` makes
for the whole task, so the cost of a batch is the slice and its share of making that tensor; it is compared with forward, backward and SGD step on the same
batch, rounds of both alternating. Writes results/bench/streams.json.
"""
import argparse, json, os, platform, statistics, subprocess, sys, time
from pathlib import Path
import torch, torch.nn.functional as F
from orthog_nb.core import atomic_write, generator
from orthog_nb.memory import RingMemory
from orthog_nb.models import mlp, resnet18
from orthog_nb.streams import make_stream

FOUR = ('permuted_mnist','rotated_mnist','split_cifar','split_miniimagenet')
BUILD = '''
import json, time, sys
start = time.perf_counter()
from orthog_nb.streams import make_stream
peak = lambda: int(next(l for l in open('/proc/self/status') if l.startswith('VmHWM')).split()[1])*1024
rows = dict(imports=dict(seconds=time.perf_counter()-start, peak_bytes=peak())); all_streams = []
for name in sys.argv[1:]:
    start = time.perf_counter()
    all_streams.append(make_stream(name)); all_streams[-1].hash; all_streams[-1][0].train()
    rows[name] = dict(seconds=time.perf_counter()-start, peak_bytes=peak())
print(json.dumps(rows))'''

def build():
    "Seconds and peak memory of building all four, in a fresh process."
    out = subprocess.run([sys.executable, '-c', BUILD, *FOUR], capture_output=True, text=True, check=True)
    return json.loads(out.stdout)

def fetch(task, batch=10):
    "Seconds for a batch: making the task's tensors and slicing them, over all its batches."
    start = time.perf_counter()
    x,y = task.train()
    for i in range(0, len(y), batch): x[i:i+batch],y[i:i+batch]
    return (time.perf_counter()-start) / -(-len(y)//batch)

def step(net, task, steps, batch=10):
    "Seconds for a training step on batches of the task."
    opt = torch.optim.SGD(net.parameters(), .03); x,y = task.train(); start = time.perf_counter()
    for i in range(0, steps*batch, batch):
        opt.zero_grad(); F.cross_entropy(net(x[i:i+batch], task.t), y[i:i+batch]).backward(); opt.step()
    return (time.perf_counter()-start) / steps

def remember(task, steps=200, batch=10):
    "Seconds to add a batch to the ring memory."
    x,y = task.train(); mem = RingMemory(1); batches = [(x[i:i+batch], y[i:i+batch]) for i in range(0, steps*batch, batch)]; start = time.perf_counter()
    for b in batches: mem.add(*b, 0)
    return (time.perf_counter()-start) / steps

def share(name, make_net, steps, rounds):
    "Medians of fetching, remembering and training, and their ratio."
    st = make_stream(name); net = make_net(st.info, generator=generator(0, 'init')); rows = []
    for r in range(rounds): task = st[r % len(st)]; rows.append((fetch(task), step(net, task, steps), remember(task, min(steps, 100))))
    f,s,m = (statistics.median(v) for v in zip(*rows))
    return dict(fetch_us=f*1e6, add_to_memory_us=m*1e6, step_us=s*1e6, share=statistics.median(a/b for a,b,_ in rows))

if __name__ == '__main__':
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--rounds', type=int, default=5)
    p.add_argument('--out', default=str(Path(__file__).resolve().parent.parent/'results/bench/streams.json'))
    a = p.parse_args(); torch.set_num_threads(1)
    make_stream('split_miniimagenet')  # decoded, if it was not
    built = build(); total = sum(v['seconds'] for k,v in built.items() if k in FOUR); peak = max(v['peak_bytes'] for v in built.values())
    print(f'all four streams: {total:.1f} s, peak memory {peak/1e9:.2f} GB', flush=True)
    rows = {}
    for name,net,steps in (('permuted_mnist', mlp, 500), ('rotated_mnist', mlp, 500), ('split_cifar', lambda i, generator: resnet18(i, width=20, generator=generator), 20),
                           ('split_miniimagenet', lambda i, generator: resnet18(i, width=20, generator=generator), 5)):
        rows[name] = share(name, net, steps, a.rounds)
        print(f"{name:20} batch {rows[name]['fetch_us']:.0f} µs, step {rows[name]['step_us']:.0f} µs: {100*rows[name]['share']:.2f} %; memory {rows[name]['add_to_memory_us']:.0f} µs", flush=True)
    result = dict(build=built, seconds=total, peak_bytes=peak, fetch=rows, network=dict(mnist='mlp 256-256', cifar='resnet18 width 20', mini='resnet18 width 20'), batch=10, threads=1,
                  rounds=a.rounds, load=os.getloadavg()[0], versions=dict(python=platform.python_version(), torch=torch.__version__))
    with atomic_write(a.out) as f: f.write(json.dumps(result, indent=1).encode())
    print(a.out)
