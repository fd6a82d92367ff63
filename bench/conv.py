"""Forward + backward of the paper's ResNet18 on a CPU: does another memory layout or a compiled network pay?

    python bench/conv.py                     # widths 20 and 64, batches of 10 and 20 images of 32×32
    python bench/conv.py --widths 20 --rounds 20

Writes results/bench/conv.json. One thread, CPU seconds, medians of rounds in which every competitor runs once; ratios to channels first.
The package lays out narrow networks (width below 32) with channels last and others with channels first. `torch.compile`, tried at batch 10, needs a C++
compiler; where there is none its rows are left out and the reason is kept.
"""
import argparse, copy, json, platform, statistics, time
from pathlib import Path
from types import SimpleNamespace
import torch, torch.nn.functional as F
from orthog_nb.core import atomic_write
from orthog_nb.models import resnet18

def competitors(net, compile):
    "The same network in both layouts, with its kernels in the second one too, and compiled."
    first,last,kernels,compiled = (copy.deepcopy(net) for _ in range(4)); first.layout = torch.contiguous_format
    for other in (last,kernels,compiled): other.layout = torch.channels_last
    kernels.to(memory_format=torch.channels_last)
    compiled.body = torch.compile(compiled.body)
    return {'channels first': first, 'channels last': last, 'channels last, kernels too': kernels} | ({'channels last, compiled': compiled} if compile else {})

def measure(width, batch, rounds):
    torch.manual_seed(0); info = SimpleNamespace(shape=(3,32,32), classes=100, masks=None, mean=torch.zeros(3,1,1), std=torch.ones(3,1,1))
    x,y = torch.randint(0, 256, (batch,3,32,32), dtype=torch.uint8), torch.randint(0, 100, (batch,))
    def step(net): F.cross_entropy(net(x), y).backward()
    ours = resnet18(info, width=width); nets,left_out = competitors(ours, batch==10),{}
    row = dict(width=width, batch=batch, rounds=rounds, ours='channels last' if ours.layout==torch.channels_last else 'channels first')
    for name in list(nets):
        t = time.perf_counter()
        try: step(nets[name])
        except Exception as e: left_out[name] = str(e).splitlines()[0]; del nets[name]; continue
        row[f'{name}: first call, seconds'] = round(time.perf_counter()-t, 1)
        step(nets[name])
    times = {name: [] for name in nets}
    for _ in range(rounds):
        for name,net in nets.items(): t = time.process_time(); step(net); times[name].append(time.process_time()-t)
    plain = statistics.median(times['channels first'])
    return row | dict(milliseconds=round(1000*plain, 1), ratio={name: round(statistics.median(v)/plain, 3) for name,v in times.items()}, left_out=left_out)

if __name__ == '__main__':
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--widths', type=int, nargs='+', default=[20,64]); p.add_argument('--batches', type=int, nargs='+', default=[10,20]); p.add_argument('--rounds', type=int, default=15)
    a = p.parse_args(); torch.set_num_threads(1); out = Path(__file__).resolve().parent.parent/'results'/'bench'/'conv.json'; rows = json.loads(out.read_text())['rows'] if out.exists() else []
    for w in a.widths:
        for b in a.batches:
            rows = sorted([r for r in rows if (r['width'],r['batch']) != (w,b)] + [measure(w, b, a.rounds)], key=lambda r: (r['width'],r['batch'])); print(next(r for r in rows if (r['width'],r['batch'])==(w,b)), flush=True)
            with atomic_write(out) as f: f.write((json.dumps(dict(rows=rows, threads=1, clock='cpu', torch=torch.__version__, cpu=platform.machine()), indent=1)+'\n').encode())
    print(out)
