"""Where a step's time goes, and how far it is from what the machine can do.

    python bench/step.py            # one thread; CPU seconds of this process
    python bench/step.py others     # only this part

Four parts of results/bench/step.json: `peak`, the matrix products of the MLP alone and the rate of a large one, from the BLAS and from oneDNN, and from oneDNN held to AVX2; `cache`, the same product with weights that lie
in more and more memory; `steps`, for each method, plain and fast: a whole step, its products alone, what torch's other operators take (those that copy, and elementwise ones), and what is left: Python, autograd and
the calls themselves; `others`, torch.compile and a hand-written loop. All are medians of alternating rounds.
"""
import argparse, json, os, statistics, subprocess, sys, time, warnings
from pathlib import Path
import torch, torch.nn as nn, torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile
from orthog_nb.core import atomic_write
from orthog_nb.fast import has_onednn, product
from orthog_nb.streams import permuted_digits
from orthog_nb.training import Run, configure, versions

out = Path(__file__).resolve().parent.parent/'results'/'bench'/'step.json'
whole = 'er_ring, whole memory'  # the paper's setting, in the last of 20 tasks
hp = {'finetune': {}, 'er_ring': dict(replay_batch=10), whole: dict(replay_batch=256), 'agem': dict(replay_batch=20), 'ewc': {}, 'orthog': {}}
passes = {'er_ring': [20], whole: [200], 'agem': [20,10]}  # examples of each pass through the network; otherwise one of 10
matmuls = ('mm','addmm','addmm_','_linear_pointwise','linear','matmul')
copies = ('cat','copy_','clone','contiguous','index_select','index','to','_to_copy','fill_','zero_')

by = dict(blas=product, onednn=lambda x,w: product(x, w, has_onednn(x), 0))

def us(f, n=50):
    "Microseconds of CPU a call."
    start = time.process_time()
    for i in range(n): f(i)
    return (time.process_time()-start)/n*1e6

def rounds(fs, n, each=50):
    "Alternating medians."
    got = {k: [] for k in fs}
    for _ in range(n):
        for k,f in fs.items(): got[k].append(us(f, each))
    return {k: round(statistics.median(v), 1) for k,v in got.items()}

def large(lib, n):
    "GFLOP/s of a 512×512 product."
    A = torch.rand(512, 512); return round(2*512**3/rounds({lib: lambda i: by[lib](A, A)}, n, 3)[lib]/1e3, 1)

def narrow():
    "The same from oneDNN without its widest instructions, in a process of its own."
    return float(subprocess.run([sys.executable, __file__, '--rate'], env=os.environ | dict(ONEDNN_MAX_CPU_ISA='AVX2'), capture_output=True, text=True, check=True).stdout)

def peak(n):
    "Rates of products: one large, and those of a step with k examples."
    rows = []
    for k in (10,20,40,200):
        for o,i in ((256,784),(256,256)):
            W,x,d = torch.rand(o, i),torch.rand(k, i),torch.rand(k, o)
            t = rounds({f'{what} {lib}': (lambda j, f=f, g=g: f(g)) for lib,g in by.items() for what,f in (('forward', lambda g: g(x, W)), ('back', lambda g: g(d, W.mT)), ('gradient', lambda g: g(d.mT, x.mT)))}, n, 20)
            rows.append(dict(k=k, out=o, inp=i) | {w: round(2*k*o*i/v/1e3, 1) for w,v in t.items()})
    return dict(gflops={lib: large(lib, n) for lib in by} | {'onednn, AVX2': narrow()}, rows=rows)

def cache(n):
    "Microseconds of the first layer's product and of its update, ten examples, when that many copies of the weights take turns."
    x,d,rows = torch.rand(10, 784),torch.rand(10, 256),[]
    for copies in (1,2,4,8,16,32,64,128):
        W = [torch.rand(256, 784) for _ in range(copies)]
        t = rounds(dict(forward=lambda i: by['onednn'](x, W[i % copies]), update=lambda i: W[i % copies].addmm_(d.mT, x, alpha=-1e-9)), n, max(2*copies, 50))
        rows.append(dict(mb=round(copies*W[0].nbytes/2**20, 2)) | t)
    return rows

def batches(k):
    "Eighty batches of digits."
    x,y = permuted_digits(tasks=3)[2].train(); return [(x[k*i:k*i+k], y[k*i:k*i+k]) for i in range(80)]

def learner(method, fast):
    "A method in its last task: the third, or the twentieth where all memory is replayed."
    s = permuted_digits(tasks=20 if method==whole else 3); m = Run(s, configure(s, method.split(',')[0], fast=fast, **hp[method]), torch.device('cpu'), quiet=True).method
    for t in range(len(s)-1):
        x,y = s[t].train(); m.begin_task(t)
        for i in range(20): m.observe(x[10*i:10*i+10], y[10*i:10*i+10], t)
        m.end_task(t, s[t])
    m.begin_task(len(s)-1); return m

def products(m, sizes, moved=None, formed=True, two=False):
    "The matrix products of a step and nothing else: five to move information through the network, three for the gradient of `moved` rows, formed or added to the weights."
    W = [l.weight.detach().clone() for l in (m.model.body[1], m.model.body[3], m.model.head)]
    data = [([torch.rand(k, w.shape[1]) for w in W], [torch.rand(k, w.shape[0]) for w in W]) for k in sizes]; two = two and has_onednn(W[0])
    def f(i):
        for A,D in data:
            for w,a in zip(W, A): product(a, w, two)
            for w,d in zip(W[1:], D[1:]): product(d, w.mT, two)
            for w,a,d in zip(W, A, D):
                a,d = a[:moved],d[:moved]
                if formed or two and d.numel()*a.shape[1] >= 2**22: product(d.mT, a.mT, two, 2**22)
                else: w.addmm_(d.mT, a, alpha=-1e-9)
    return f

def springs(m):
    "What EWC's fast step does to every weight: squares of the gradient, springs, the step."
    like = lambda: [torch.rand_like(p) for p in m.params]; squares,grads,weights,star,pull = (like() for _ in range(5))
    def f(i): torch._foreach_addcmul_(squares, grads, grads); torch._foreach_lerp_(weights, star, pull); torch._foreach_add_(weights, grads, alpha=-1e-9)
    return f

def operators(m, data, t):
    "Microseconds a step inside torch's operators other than products: those that copy, and the rest; and how many calls. Each is counted with its median time, so that a pause of the process is not counted."
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as p:
        for i in range(30): m.observe(*data[i], t)
    seen = {}
    for e in p.events():
        if e.name.startswith(('aten::','mkldnn::')): seen.setdefault((e.name.split('::')[1], str(e.input_shapes)), []).append(e.self_cpu_time_total)
    total = lambda test: sum(len(v)*statistics.median(v) for (k,_),v in seen.items() if test(k))/30
    return dict(copying=total(lambda k: k in copies), elementwise=total(lambda k: k not in copies and k not in matmuls), calls=sum(map(len, seen.values()))/30)

def steps(n):
    rows,data = [],batches(10)
    for method in hp:
        m = {f: learner(method, f) for f in (False,True)}; sizes = passes.get(method, [10]); t = 19 if method==whole else 2
        fs = {f'{who} step': (lambda i, m=m[who=='fast']: m.observe(*data[i], t)) for who in ('plain','fast')}
        fs |= {'plain products': products(m[False], sizes), 'fast products': products(m[True], [sum(sizes)], 10 if method=='agem' else None, method=='ewc', True)}
        if method=='ewc': fs['springs'] = springs(m[True])
        got = rounds(fs, n); flops = 2*sum(sizes)*(3*sum(p.numel() for p in m[True].params if p.ndim==2) - 256*784)
        for who in ('plain','fast'):
            o = operators(m[who=='fast'], data, t); step = got[f'{who} step']
            parts = dict(products=got[f'{who} products'], copying=o['copying'], elementwise=o['elementwise'])
            parts['python'] = max(step-sum(parts.values()), 0)
            rows.append(dict(method=method, fast=who=='fast', step_us=step, examples=sum(sizes), mflop=round(flops/1e6, 1), gflops=round(flops/step/1e3, 1), calls=round(o['calls']), parts_us={k: round(v, 1) for k,v in parts.items()}))
            if who=='fast' and 'springs' in got: rows[-1]['springs_us'] = got['springs']
            print(rows[-1], flush=True)
    return rows

def others(n):
    "The plain step by other means: a bare loop, torch.compile around the loss, and around a step written out."
    data = batches(10)
    def net(): torch.manual_seed(0); return nn.Sequential(nn.Flatten(), nn.Linear(784,256), nn.ReLU(), nn.Linear(256,256), nn.ReLU(), nn.Linear(256,10))
    def loop(f, model):
        opt = torch.optim.SGD(model.parameters(), .1)
        def one(i): opt.zero_grad(); f(*data[i]).backward(); opt.step()
        return one
    a,b,c = net(),net(),[p.detach() for p in net().parameters()]; eye = torch.eye(10)
    def hand(x, y, W1, b1, W2, b2, W3, b3):
        v = x.flatten(1)*(1/255); h = torch.addmm(b1, v, W1.mT).relu(); f = torch.addmm(b2, h, W2.mT).relu(); logp = torch.addmm(b3, f, W3.mT).log_softmax(1)
        D3 = (logp.exp()-eye[y])/10; D2 = (D3 @ W3)*(f > 0); D1 = (D2 @ W2)*(h > 0)
        for W,b,D,A in ((W1,b1,D1,v), (W2,b2,D2,h), (W3,b3,D3,f)): W.addmm_(D.mT, A, alpha=-.1); b.sub_(D.sum(0), alpha=.1)
        return F.nll_loss(logp, y)
    loss = lambda m: lambda x,y: F.cross_entropy(m(x*(1/255)), y)
    fs = dict(bare=loop(loss(a), a)); seconds = {}
    for name,make in (('compiled loss', lambda: loop(torch.compile(loss(b)), b)), ('compiled hand-written step', lambda: (lambda g: lambda i: g(*data[i], *c))(torch.compile(hand)))):
        start = time.time()
        try: f = make(); f(0); f(1); fs[name],seconds[name] = f,round(time.time()-start, 1)
        except Exception as e: print(f'{name}: left out, {str(e).splitlines()[0]}')
    for name,fast in (('ours, plain',False), ('ours, fast',True)): fs[name] = (lambda m: lambda i: m.observe(*data[i], 0))(learner('finetune', fast))
    return dict(us=rounds(fs, n), compile_seconds=seconds)

if __name__ == '__main__':
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('what', nargs='*', help='peak, cache, steps, others; all if not given'); p.add_argument('--rounds', type=int, default=9); p.add_argument('--rate', action='store_true', help=argparse.SUPPRESS); a = p.parse_args(); torch.set_num_threads(1); warnings.simplefilter('ignore')
    if a.rate: sys.exit(print(large('onednn', a.rounds)))
    cpu = next((l.split(':')[1].strip() for l in open('/proc/cpuinfo') if l.startswith('model name')), '') if Path('/proc/cpuinfo').exists() else ''
    parts = dict(peak=peak, cache=cache, steps=steps, others=others)
    for part in a.what or parts:
        found = (json.loads(out.read_text()) if out.exists() else {}) | {part: parts[part](a.rounds)} | dict(cpu=cpu, versions=versions())
        with atomic_write(out) as f: f.write((json.dumps(found, indent=1)+'\n').encode())
        print(part, out, flush=True)
