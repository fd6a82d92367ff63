"""The methods that Avalanche has too, beside ours: the same network, first weights, images, order, batch size and rate.

    python bench/peers.py speed                # steps a second on the MNIST MLP, one and two threads
    python bench/peers.py speed agem           # only this method's rows
    python bench/peers.py resnet               # the same on ResNet18 of widths 20 and 64, CIFAR images
    python bench/peers.py memory               # how far each pushes the peak of its process
    python bench/peers.py agree --seeds 3      # accuracy of both on all of Permuted MNIST (long)
    python bench/peers.py agree ewc ours fast  # only this method, and these of its runs
    python bench/peers.py all

Needs real data (ORTHOG_NB_DATA) and avalanche-lib (bench/requirements.txt; bench/run.sh makes an environment). Writes results/bench/peers.json,
section by section. Machines differ and are busy: competitors alternate, every ratio is a median over rounds of ratios within one round. One thread
is timed in CPU seconds of the process, two in wall-clock seconds: that needs two free cores (waiting threads spin; on a busy machine they are many times slower). Avalanche gets its images in two ways: as its own PermutedMNIST delivers them
(PIL images through ToTensor and PixelsPermutation), and, at its best, as float tensors that were made ready before the clock started. Only the steps of the third task are timed (replay, reference and
springs are at work by then), not the ends of tasks: Avalanche's EWC makes another pass over the data there, ours does not.
"""
import argparse, json, os, random, statistics, subprocess, sys, time, warnings
from pathlib import Path
import torch, torch.nn as nn, torch.nn.functional as F
from PIL import Image
from orthog_nb.core import Progress, atomic_write, import_torchvision
from orthog_nb.metrics import average_accuracy, forgetting
from orthog_nb.streams import permuted_mnist, split_cifar
from orthog_nb.training import Run, configure, evaluate, versions

root = Path(__file__).resolve().parent.parent
out = root/'results'/'bench'/'peers.json'
names = dict(finetune='Naive', er_ring='Replay', agem='A-GEM', ewc='EWC')
speed_hp = dict(finetune={}, er_ring=dict(replay_batch=10), agem=dict(replay_batch=20), ewc={})  # so many replayed examples in both
cpu = torch.device('cpu')

def avalanche():
    "Avalanche, with torchvision's import mended where its wheel does not fit torch."
    import_torchvision()
    try: import avalanche
    except ImportError: sys.exit('bench/peers.py needs avalanche-lib: pip install -r bench/requirements.txt, or make bench')
    warnings.simplefilter('ignore')
    return avalanche

def save(section, value):
    "Put one section into the file, beside what is there."
    from importlib.metadata import version
    whole = json.loads(out.read_text()) if out.exists() else {}
    whole[section] = value
    whole['versions'] = versions() | {'avalanche-lib': version('avalanche-lib')}
    whole['cpu'] = next((l.split(':')[1].strip() for l in open('/proc/cpuinfo') if l.startswith('model name')), '') if os.path.exists('/proc/cpuinfo') else ''
    with atomic_write(out) as f: f.write((json.dumps(whole, indent=1, sort_keys=True)+'\n').encode())
    print(f'{out}: {section}', flush=True)

# ---- ours
class Ours:
    "Our run, task by task."
    def __init__(self, stream, method, seed=0, **hp): self.run = Run(stream, configure(stream, method, seed, **hp), cpu, quiet=True)
    def train(self, t, clock):
        "Learn task `t`; the time of its steps."
        start = clock()
        with Progress(1, quiet=True) as bar: self.run.learn_lesson(bar, lambda: None, 10**9)
        spent = clock()-start
        self.run.method.end_task(t, self.run.stream[t]); self.run.i,self.run.step = t+1,0
        return spent
    def test(self, t): return evaluate(self.run.method, self.run.stream[t], cpu)

def fisher_by_pass(method):
    "EWC's importances from a pass over the task at its end, as Avalanche has them, not from the steps on the way."
    end = method.end_task
    def end_task(t, task):
        (x,y),squares = task.train(),[torch.zeros_like(p) for p in method.params]
        for xb,yb in zip(x.split(10), y.split(10)):
            method.opt.zero_grad(); method.backward(xb, yb, t); torch._foreach_addcmul_(squares, *[[p.grad for p in method.params]]*2)
        method.opt.zero_grad(); method.running = squares; end(t, task)
    method.end_task = end_task

# ---- Avalanche's
def last_of_each(data):
    "What our memory keeps of a task: the last example of each class."
    return data.subset(list({int(y): i for i,y in enumerate(data.targets)}.values()))

def ring_buffer(size):
    "Our memory as a storage policy of Avalanche."
    from avalanche.training.storage_policy import ExemplarsBuffer
    class Ring(ExemplarsBuffer):
        def update(self, strategy, **kwargs):
            new = last_of_each(strategy.experience.dataset); self._buffer = new if len(self.buffer)==0 else self.buffer.concat(new)
        def resize(self, strategy, new_size): pass
    return Ring(size)

def ring_agem(per_task, sample):
    "Avalanche's A-GEM with our memory."
    from avalanche.training.plugins import AGEMPlugin
    class Ring(AGEMPlugin):
        def update_memory(self, dataset, **kwargs): super().update_memory(last_of_each(dataset), **kwargs)
    return Ring(per_task, sample)

def scaled_ewc(strength):
    "Avalanche's EWC with the importances scaled to [0, 1] over the network, as the paper's authors do."
    from avalanche.training.plugins import EWCPlugin
    class Scaled(EWCPlugin):
        def compute_importances(self, *args, **kwargs):
            imp = super().compute_importances(*args, **kwargs)
            lo,hi = min(v.data.min() for v in imp.values()),max(v.data.max() for v in imp.values())
            for v in imp.values(): v.data = (v.data-lo)/(hi-lo)
            return imp
    return Scaled(strength, mode='online', decay_factor=0.)

class Pictures(torch.utils.data.Dataset):
    "Like torchvision's MNIST: bytes in memory, PIL images on demand."
    def __init__(self, task): self.x,self.targets = (o.index_select(0, task.train_ids) for o in (task.images.x, task.images.y)); self.targets = self.targets.tolist()
    def __len__(self): return len(self.targets)
    def __getitem__(self, i): return Image.fromarray(self.x[i,0].numpy(), mode='L'), self.targets[i]

class Theirs:
    "Avalanche's strategy on the same tensors, from the same weights."
    def __init__(self, stream, method, seed=0, like_ours=False, ready=True, **hp):
        av = avalanche()
        from avalanche.training.templates import SupervisedTemplate
        from avalanche.training.plugins import AGEMPlugin, EWCPlugin, EvaluationPlugin, ReplayPlugin
        from avalanche.core import SupervisedPlugin
        random.seed(seed); torch.manual_seed(seed)
        twin = Run(stream, configure(stream, 'finetune', seed, **hp), cpu, quiet=True).method.model
        self.net = nn.Sequential(twin.body, nn.ReLU(), twin.head); self.stream,self.prepare = stream,twin.normalise
        size = 10*len(stream)
        plugin = dict(finetune=lambda: [], er_ring=lambda: [ReplayPlugin(size, batch_size_mem=10, storage_policy=ring_buffer(size) if like_ours else None)],
                      agem=lambda: [(ring_agem if like_ours else AGEMPlugin)(10, 20)], ewc=lambda: [scaled_ewc(10.) if like_ours else EWCPlugin(10., mode='online', decay_factor=.1)])[method]()
        outer = self
        class Clock(SupervisedPlugin):
            def before_training_epoch(self, strategy, **kw): outer.start = outer.clock()
            def after_training_epoch(self, strategy, **kw): outer.spent = outer.clock()-outer.start
        self.strategy = SupervisedTemplate(model=self.net, optimizer=torch.optim.SGD(self.net.parameters(), .1 if stream.info.shape[0]==1 else .03), criterion=nn.CrossEntropyLoss(),
                                           train_mb_size=10, train_epochs=1, eval_mb_size=500, device='cpu', plugins=[*plugin, Clock()], evaluator=EvaluationPlugin())
        self.experiences = av.benchmarks.benchmark_from_datasets(train=[(self.tensors if ready else self.images)(t) for t in stream]).train_stream
    def tensors(self, task):
        "Normalised and permuted beforehand."
        from avalanche.benchmarks.utils.classification_dataset import _make_taskaware_tensor_classification_dataset as make
        x,y = task.train(); return make(self.prepare(x), y, task_labels=0)
    def images(self, task):
        "As Avalanche's PermutedMNIST has them."
        from avalanche.benchmarks.classic.cmnist import PixelsPermutation
        from avalanche.benchmarks.utils.classification_dataset import _make_taskaware_classification_dataset as make
        from torchvision.transforms import Compose, ToTensor
        return make(Pictures(task), transform=Compose([ToTensor(), PixelsPermutation(task.pixels)]), task_labels=0)
    def train(self, t, clock):
        self.clock = clock
        with warnings.catch_warnings(): warnings.simplefilter('ignore'); self.strategy.train(self.experiences[t], shuffle=False)
        return self.spent
    @torch.no_grad()
    def test(self, t):
        x,y = self.stream[t].test(); self.net.eval()
        return sum((self.net(self.prepare(a)).argmax(1)==b).sum().item() for a,b in zip(x.split(500), y.split(500)))/len(y)

# ---- sections
def cut(stream, warm, timed):
    "Two short tasks to fill memories, one to time."
    for t,n in zip(stream, (warm,warm,timed)): t.train_ids = t.train_ids[:n]
    return stream

def third(who, clock, stream):
    "Steps a second in the third task."
    for t in (0,1): who.train(t, clock)
    return (len(stream[2].train_ids)//10)/who.train(2, clock)

class Network:
    "Nothing but the passes through our network that a method's step needs, forward and back."
    def __init__(self, stream, method, **hp):
        self.net = Run(stream, configure(stream, 'finetune', **hp), cpu, quiet=True).method.model
        x,y = stream[2].train(); self.sizes,self.x,self.y = dict(er_ring=(20,), agem=(10,20)).get(method, (10,)),x,y
    def train(self, t, clock):
        start = clock()
        for i in range(len(self.y)//10):
            for n in self.sizes: F.cross_entropy(self.net(self.x[-n:], 2), self.y[-n:]).backward()
        return clock()-start

def race(stream, rounds, threads, kinds, method, hp={}, theirs={}):
    "Steps a second of all competitors with one method, alternating, and their ratios."
    torch.set_num_threads(threads); clock = time.process_time if threads==1 else time.perf_counter; got = {k: [] for k in kinds}
    def make(kind):
        if kind.startswith('avalanche'): return Theirs(stream, method, ready=kind.endswith('ready'), **theirs)
        if kind == 'network': return Network(stream, method, **theirs)
        return Ours(stream, method, **speed_hp[method], **hp, **(dict(fast=True) if kind=='fast' else {}))
    for _ in range(rounds):
        for k in kinds: got[k].append(third(make(k), clock, stream))
    row = {k: round(statistics.median(v), 2 if max(v) < 100 else 1) for k,v in got.items()}
    for a in 'plain','fast':
        for b in 'avalanche','avalanche ready','network':
            if a in kinds and b in kinds:
                r = [u/v for u,v in zip(got[a], got[b])]; row[f'{a} / {b}'] = [round(f(r), 3) for f in (statistics.median, min, max)]
    print(f'{method:9} {threads} thread(s)', row, flush=True)
    return {method: row | dict(rounds=rounds)}

def add(section, rows, **about):
    "Save rows beside those of other methods in their section."
    before = json.loads(out.read_text()).get(section, {}).get('rows', {}) if out.exists() else {}
    save(section, dict(rows=before | rows, **about))

def speed(a):
    "One section for each number of threads."
    for n in a.threads:
        for m in a.more or names: add(f'speed_{n}', race(cut(permuted_mnist(tasks=3), 300, a.timed), a.rounds, n, ('plain','fast','avalanche','avalanche ready'), m), steps=a.timed//10, replayed={m: hp.get('replay_batch', 0) for m,hp in speed_hp.items()})

def resnet(a):
    "One section for each width; the wider network is slow, so it makes fewer steps."
    for width in a.widths:
        steps = 10 if width < 64 else 4
        for m in a.more or names:
            row = race(cut(split_cifar(tasks=3), 20, 10*steps), a.rounds, 1, ('plain','avalanche ready','network'), m, dict(width=width) | (dict(memory=2) if m in ('er_ring','agem') else {}), dict(width=width))
            add(f'resnet_{width}', row, steps=steps, width=width)

def peak(method, kind):
    "In a process of its own: how far three tasks push its resident memory above what stood before them, in bytes."
    torch.set_num_threads(1); status = lambda k: 1024*int(next(l for l in open('/proc/self/status') if l.startswith(k)).split()[1])
    stream = cut(permuted_mnist(tasks=3), 2000, 2000)
    who = Theirs(stream, method, ready=kind.endswith('ready')) if kind.startswith('avalanche') else Ours(stream, method, **speed_hp[method], **(dict(fast=True) if kind=='fast' else {}))
    open('/proc/self/clear_refs', 'w').write('5'); before = status('VmRSS')
    for t in range(3): who.train(t, time.process_time)
    return dict(grows=status('VmHWM')-before, peak=status('VmHWM'))

def memory(a):
    rows = {}
    for method in names:
        rows[method] = {k: json.loads(subprocess.run([sys.executable, __file__, 'peak', method, k], capture_output=True, text=True, check=True).stdout.splitlines()[-1]) for k in ('plain','fast','avalanche','avalanche ready')}
        print(method, rows[method], flush=True); save('memory', dict(rows=rows, steps=600))

def whole(who, T):
    "Learn all tasks; accuracy and forgetting from the matrix, and CPU seconds of the steps."
    R,spent = torch.full((T,T), float('nan'), dtype=torch.float64),0.
    for t in range(T):
        spent += who.train(t, time.process_time)
        for j in range(t+1): R[t,j] = who.test(j)
    return dict(accuracy=round(float(average_accuracy(R)), 5), forgetting=round(float(forgetting(R)), 5), seconds=round(spent, 1), final=[round(v, 4) for v in R[-1].tolist()])

@torch.no_grad()
def nudge(method, seed):
    "Change every first weight by about one unit in the last place."
    g = torch.Generator().manual_seed(seed)
    for p in method.params: p *= 1 + 6e-8*torch.randn(p.shape, generator=g).sign()

def agree(a):
    "Rows: Avalanche as it comes, Avalanche with our protocol where that differs, ours, ours fast, and what rounding alone does."
    torch.set_num_threads(1)
    own = 'ours','fast','nudged 1','nudged 2'; kinds = dict(finetune=('avalanche',*own), er_ring=('avalanche','avalanche, our memory',*own),
        agem=('avalanche','avalanche, our memory',*own), ewc=('avalanche','avalanche, our scale','ours, its Fisher',*own))
    asked = lambda names: [n for n in names if n in a.more] or list(names)
    rows = json.loads(out.read_text()).get('agree', {}).get('rows', []) if out.exists() else []
    for seed in range(a.seeds):
        stream = permuted_mnist(seed, tasks=a.tasks, samples=a.samples)
        for t in stream: t.test_ids = t.test_ids[:a.tests]
        for method in asked(kinds):
            for k in asked(kinds[method]):
                this = dict(method=method, kind=k, seed=seed, tasks=a.tasks, samples=a.samples, tests=a.tests)
                if any(this.items() <= r.items() for r in rows): continue
                who = Theirs(stream, method, seed, ',' in k) if k.startswith('avalanche') else Ours(stream, method, seed, **speed_hp[method], **(dict(fast=True) if k=='fast' else {}))
                if k=='ours, its Fisher': fisher_by_pass(who.run.method)
                if k.startswith('nudged'): nudge(who.run.method, int(k[-1]))
                rows.append(this | whole(who, len(stream)))
                print({x: rows[-1][x] for x in ('method','kind','seed','accuracy','forgetting','seconds')}, flush=True)
                save('agree', dict(rows=rows))

if __name__ == '__main__':
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('what', choices=('speed','resnet','memory','agree','all','peak')); p.add_argument('more', nargs='*')
    p.add_argument('--rounds', type=int, default=7); p.add_argument('--threads', type=int, nargs='*', default=[1,2]); p.add_argument('--timed', type=int, default=2000, help='images of the timed task'); p.add_argument('--seeds', type=int, default=1)
    p.add_argument('--widths', type=int, nargs='*', default=[20,64]); p.add_argument('--tasks', type=int, default=20); p.add_argument('--samples', type=int, default=10_000); p.add_argument('--tests', type=int, default=10_000)
    a = p.parse_args()
    if a.what == 'peak': print(json.dumps(peak(*a.more)))
    else:
        for f in (speed, resnet, memory, agree) if a.what=='all' else (dict(speed=speed, resnet=resnet, memory=memory, agree=agree)[a.what],): f(a)
