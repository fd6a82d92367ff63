"""Small runs that are made to be killed: at a random moment, or held at a chosen place until the signal comes.

Tests start them with `Nursery`, a process that has loaded everything and forks, so that a kill costs a fraction of a second.
"""
import multiprocessing, os, signal, time
from contextlib import contextmanager
from pathlib import Path
import torch, torch._dynamo  # an optimiser imports the second, slowly
from orthog_nb import training
from orthog_nb.files import digits, make_images
from orthog_nb.methods import methods
from orthog_nb.streams import Task, rotated_digits, stream_of

kinds = dict(mnist={}, all=dict(replay=True, stiefel=True, init='orthonormal'), split={}, colour=dict(width=4, replay=True, stiefel=True, init='orthonormal'))
cases = [(m, 'split' if m=='icarl' else 'mnist') for m in ('finetune','ewc','vcl','vcl_random','icarl','agem','mer','er_ring','orthog','multitask')] + [('orthog','all'), ('er_ring','split'), ('orthog','colour')]
places = ('step','end','evaluate','checkpoint','moved','result','log')

def stream(kind, tasks=3, train=600, test=200):
    "Turning digits, or digits split by class, cut short; in three colours a ResNet learns them."
    if kind in ('mnist','all'):
        s = rotated_digits(tasks=tasks)
        for t in s: t.train_ids,t.test_ids = t.train_ids[:train],t.test_ids[:test]
        return s
    images = digits()
    if kind=='colour': images = make_images('colours', images.x.expand(-1,3,-1,-1).contiguous(), images.y, torch.arange(5000) % 500 < 400)
    of = lambda ids, c: torch.cat([ids[images.y[ids]==i] for i in c])
    def task(t, classes):
        mask = torch.zeros(10, dtype=torch.bool); mask[classes] = True
        ids = of(images.train, classes)
        return Task(t, classes, mask, images, ids[torch.randperm(len(ids), generator=torch.Generator().manual_seed(t))[:train]], of(images.test, classes)[:test])
    return stream_of(f'{kind}_digits', 0, [task(t, [3*t, 3*t+1, 3*t+2]) for t in range(tasks)], [], torch.zeros(1,1,1), torch.ones(1,1,1))

def hold_at(place, n, method, hold):
    "Make this process call `hold` the `n`-th time that it comes to a place."
    seen = [0]
    def count():
        seen[0] += 1
        if seen[0]==n: hold()
    def before(owner, name):
        f = getattr(owner, name)
        setattr(owner, name, lambda *a, **k: (count(), f(*a, **k))[1])
    if place=='step': before(methods[method], 'observe')
    if place=='end': before(methods[method], 'end_task')
    if place=='evaluate': before(training, 'evaluate')
    if place=='log': before(training, 'note')
    if place=='moved': before(os, 'replace')  # between writing a file and giving it its name, and between moving the old one and the new one
    if place in ('checkpoint','result'): training.atomic_write = half_written(training.atomic_write, '.pt' if place=='checkpoint' else '.json', count)

def half_written(write, suffix, count):
    "`atomic_write` that comes to `count` when half of the last piece is on the disk."
    class Slow:
        def __init__(self, f): self.f = f
        def __getattr__(self, name): return getattr(self.f, name)
        def write(self, data): self.f.write(data[:len(data)//2]); self.f.flush(); len(data) > 32 and count(); self.f.write(data[len(data)//2:])
    @contextmanager
    def slow(path):
        with write(path) as f: yield Slow(f) if str(path).endswith(suffix) else f
    return slow

def live(said, root, method, kind, place, n, handled):
    "One life: learn until it is over or the signal comes; what it says goes through the pipe `said`."
    torch.set_num_threads(1)
    if handled: signal.signal(signal.SIGTERM, signal.default_int_handler)  # as the commands do
    if place: hold_at(place, n, method, lambda: (said.send('here'), time.sleep(600)))
    said.send('ready')
    try: said.send(training.learn(stream(kind), method, root=root, save_every=5, quiet=True, **kinds[kind]).R)
    except KeyboardInterrupt: pass

class Nursery:
    "Starts lives and ends them."
    def __init__(self):
        path = os.environ.get('PYTHONPATH', '')
        os.environ.update(PYTHONPATH=os.pathsep.join([str(Path(__file__).parent), path]), OMP_NUM_THREADS='1')
        self.ctx = multiprocessing.get_context('forkserver'); self.ctx.set_forkserver_preload(['victim'])

    def start(self, *args):
        ours,theirs = self.ctx.Pipe()
        p = self.ctx.Process(target=live, args=(theirs, *args)); p.start(); theirs.close()
        assert ours.poll(120) and ours.recv()=='ready', 'it did not come to life'
        return p,ours

    def whole(self, root, method, kind):
        "R of a run, or of the rest of one, that nobody disturbs."
        p,says = self.start(root, method, kind, None, 0, False)
        R = says.recv(); p.join()
        return R

    def kill(self, root, method, kind, place, n, sig, handled, wait):
        "Kill a run at the `n`-th time at a place, or after `wait` seconds; False if it was over before."
        p,says = self.start(root, method, kind, place, n, handled)
        try: over = says.poll(None if place else wait) and says.recv() != 'here'
        except EOFError: raise AssertionError('it died by itself')
        if not over: os.kill(p.pid, sig)
        p.join()
        return not over

    def kill_often(self, root, method, kind, kills, rng, longest, where=places):
        "Kill a run up to `kills` times, each at another place or at a random moment; how many of each place."
        done = dict.fromkeys((*where, 'random'), 0)
        for i in range(kills):
            place = rng.choice([*where, None])
            n = rng.randint(1, 70) if place=='step' else rng.randint(1, 5) if place in ('evaluate','moved') else rng.randint(1, 2)
            sig = rng.choice([signal.SIGKILL, signal.SIGTERM])
            if self.kill(root, method, kind, place, 1 if place=='result' else n, sig, rng.random() < .5, rng.uniform(0, longest)): done[place or 'random'] += 1
            if list((Path(root)/'results'/'runs').glob('*.json')): break
        return done

digits()
