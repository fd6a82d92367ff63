"""Does it pay to keep freed memory? Training steps of ResNet18 on 32×32 images in one process and in two at once, with and without `keep_memory`.

    python bench/memory.py                       # widths 20 and 64, batches of 20
    python bench/memory.py --widths 20 --rounds 5

Writes results/bench/memory.json. One thread a process, wall time, medians over rounds that alternate; ratios are what counts. On Linux's glibc only.
"""
import argparse, json, os, platform, resource, statistics, subprocess, sys, time
from pathlib import Path

def child(width, keep, seconds):
    "Take steps for a while; milliseconds a step and the share of processor time inside the system."
    import torch, torch.nn.functional as F
    from types import SimpleNamespace
    from orthog_nb.models import resnet18
    from orthog_nb.sweeps import keep_memory
    torch.set_num_threads(1); torch.manual_seed(0); keep and keep_memory()
    net = resnet18(SimpleNamespace(shape=(3,32,32), classes=100, masks=None, mean=torch.zeros(3,1,1), std=torch.ones(3,1,1)), width=width); params = list(net.parameters())
    x,y = torch.randint(0, 256, (20,3,32,32), dtype=torch.uint8), torch.randint(0, 100, (20,))
    def step():
        for p in params: p.grad = None
        F.cross_entropy(net(x), y).backward()
        with torch.no_grad(): torch._foreach_add_(params, [p.grad for p in params], alpha=-.01)
    step(); step(); print('ready', flush=True); sys.stdin.readline()
    n,start,use = 0,time.perf_counter(),resource.getrusage(resource.RUSAGE_SELF)
    while time.perf_counter()-start < seconds: step(); n += 1
    wall,end = time.perf_counter()-start,resource.getrusage(resource.RUSAGE_SELF); system,user = end.ru_stime-use.ru_stime,end.ru_utime-use.ru_utime
    print(json.dumps(dict(ms=1000*wall/n, system=system/(system+user))))

def together(width, keep, processes, seconds):
    "That many processes at once; their mean."
    ps = [subprocess.Popen([sys.executable, __file__, '--child', str(width), str(int(keep)), str(seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    for p in ps: assert p.stdout.readline() == 'ready\n', 'a process did not start'
    for p in ps: p.stdin.write('go\n'); p.stdin.flush()
    out = [json.loads(p.communicate()[0]) for p in ps]
    return {k: statistics.mean(o[k] for o in out) for k in out[0]}

if __name__ == '__main__':
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--widths', type=int, nargs='+', default=[20,64]); p.add_argument('--rounds', type=int, default=3); p.add_argument('--seconds', type=float, default=4); p.add_argument('--child', nargs=3, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.child: w,keep,seconds = a.child; sys.exit(child(int(w), int(keep), float(seconds)))
    import torch
    from orthog_nb.core import atomic_write
    rows,load = [],os.getloadavg()[0]
    for w in a.widths:
        for n in (1,2):
            runs = [{k: together(w, k=='with', n, a.seconds) for k in ('without','with')} for _ in range(a.rounds)]
            rows.append(dict(width=w, processes=n, ratio=round(statistics.median(r['with']['ms']/r['without']['ms'] for r in runs), 3), ms=round(statistics.median(r['without']['ms'] for r in runs), 1),
                             system={k: round(statistics.median(r[k]['system'] for r in runs), 3) for k in ('without','with')})); print(rows[-1], flush=True)
    out = Path(__file__).resolve().parent.parent/'results'/'bench'/'memory.json'
    with atomic_write(out) as f: f.write((json.dumps(dict(rows=rows, rounds=a.rounds, cores=os.cpu_count(), load=round(load, 2), clock='wall', torch=torch.__version__, cpu=platform.machine()), indent=1)+'\n').encode())
    print(out)
