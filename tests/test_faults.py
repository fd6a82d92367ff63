"""Disks that are full or may not be written, files that are cut, flipped, hostile or gone: the run goes on from the last good state or stops with one clear line, and the good file before is never lost."""
import ctypes.util, hashlib, io, json, os, pickle, shutil, subprocess, sys, zipfile
from contextlib import contextmanager
from pathlib import Path
import pytest, torch
from PIL import Image
from orthog_nb import miniimagenet, training
from orthog_nb.core import InputError
from orthog_nb.experiments import orthog_verify
from orthog_nb.files import read_checked
from orthog_nb.jobs import load_results, save_result
from orthog_nb.methods import methods
from orthog_nb.streams import split_miniimagenet
from orthog_nb.training import Result, learn, load_state, reload, save_state
from victim import stream

class Stop(Exception): pass

def told(f, *args, says=(), **kwargs):
    "The one line of the `InputError` that a call raises."
    with pytest.raises(InputError) as e: f(*args, **kwargs)
    line = str(e.value); assert '\n' not in line and ';' in line, line
    for word in [says] if isinstance(says, str) else says: assert word in line, line

def tiny(): return stream('mnist', 2, 300, 100)

def stopped(root, at, method='er_ring'):
    "The checkpoint of a run that died at step `at`."
    f,seen = methods[method].observe,[0]
    def dies(self, *args):
        seen[0] += 1
        if seen[0] > at: raise Stop
        return f(self, *args)
    with pytest.MonkeyPatch.context() as m:
        m.setattr(methods[method], 'observe', dies)
        with pytest.raises(Stop): learn(tiny(), method, root=root, save_every=5, quiet=True)
    return next(Path(root).glob('runs/*/state.pt'))

@pytest.fixture(scope='module')
def whole(): return learn(tiny(), 'er_ring', quiet=True).R

def go_on(root, method='er_ring'): return learn(tiny(), method, root=root, save_every=5, quiet=True).R

# damage

def damages(data):
    "A file cut at every twentieth of its length, and with one bit flipped in each."
    for i in range(20): yield f'cut at {i}/20', data[:len(data)*i//20]
    for i in range(20): b = bytearray(data); b[len(data)*i//20] ^= 1 << i%8; yield f'flipped at {i}/20', bytes(b)

def test_damaged_checkpoint_falls_back_and_gives_the_same(tmp_path, whole, capsys):
    p = stopped(tmp_path, 45); good,older = p.read_bytes(),p.with_suffix('.old').read_bytes()
    assert load_state(p)['at'] != (before := load_state(p.with_suffix('.old'))['at'])
    for i,(what,bad) in enumerate(damages(good)):
        p.write_bytes(bad); assert load_state(p)['at'] == before, what
        assert 'damaged, not used' in capsys.readouterr().err
        if i % 8: continue
        assert go_on(tmp_path) == whole, what
        shutil.rmtree(tmp_path/'results'); p.write_bytes(good); p.with_suffix('.old').write_bytes(older)

def test_a_damaged_checkpoint_never_takes_the_place_of_a_good_one(tmp_path, monkeypatch):
    p = tmp_path/'state.pt'
    for i in range(2): save_state(p, dict(i=i))
    p.write_bytes(b'damaged'); assert load_state(p)['i'] == 0
    def dies(a, b): raise Stop
    with monkeypatch.context() as m:
        m.setattr(os, 'replace', dies)
        with pytest.raises(Stop): save_state(p, dict(i=2))
    assert load_state(p)['i'] == 0
    save_state(p, dict(i=2)); assert load_state(p)['i'] == 2 and load_state(p.with_suffix('.old'))['i'] == 0

def test_both_checkpoints_damaged(tmp_path):
    p = stopped(tmp_path, 45)
    for q in (p, p.with_suffix('.old')): q.write_bytes(q.read_bytes()[:-1])
    told(go_on, tmp_path, says='delete both')

def test_damaged_result_is_refused_or_says_the_same(tmp_path, whole):
    assert go_on(tmp_path) == whole
    p, = tmp_path.glob('results/runs/*.json'); good = Result.load(p); data = p.read_bytes()
    flips = ((i, bytes(b)) for i in range(0, len(data), 3) for b in [bytearray(data)] if not b.__setitem__(i, b[i] ^ 1 << i%7))
    refused = 0
    for what,bad in [*damages(data), *flips]:
        p.write_bytes(bad)
        try: assert Result.load(p) == good, what
        except InputError: refused += 1
    assert refused > 300
    told(go_on, tmp_path, says='delete it and run again'); p.unlink(); assert go_on(tmp_path) == whole

def test_killed_while_a_learner_is_kept(tmp_path, monkeypatch, whole):
    "Half a learner is never there; the next call writes it whole, from the last checkpoint."
    kept = tmp_path/'kept.pt'; f = training.atomic_write
    @contextmanager
    def dies(path):
        with f(path) as out:
            if Path(path)==kept: out.write(b'half'); raise Stop
            yield out
    monkeypatch.setattr(training, 'atomic_write', dies)
    with pytest.raises(Stop): learn(tiny(), 'er_ring', root=tmp_path, keep=kept, quiet=True)
    assert not kept.exists() and not list(tmp_path.rglob('*.part')); monkeypatch.undo()
    assert learn(tiny(), 'er_ring', root=tmp_path, keep=kept, quiet=True).R == whole
    x,y = tiny()[1].test(); assert (reload(kept).predict(x, 1).argmax(1)==y).double().mean().item() == whole[1][1]

# full disks, folders that may not be written

def limited(root, size):
    "A run in a process that may not write files beyond a size."
    code = f'''
import sys, resource, signal; sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_faults import go_on
from orthog_nb.core import InputError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, ({size},)*2)
try: print(go_on({str(root)!r}))
except InputError as e: print('refused', e)'''
    r = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS='1'))
    assert r.returncode == 0, r.stderr
    return r.stdout.strip()

def test_full_disk_in_mid_run(tmp_path, whole):
    p = stopped(tmp_path, 45); at = load_state(p)['at']
    said = limited(tmp_path, 500_000)
    assert said.startswith('refused') and 'make room' in said and '\n' not in said and load_state(p)['at'] == at
    assert not list(tmp_path.rglob('*.part')) and go_on(tmp_path) == whole

def test_every_command_on_a_full_disk(tmp_path):
    "One line and exit 2; the result and the report that were there stay."
    from orthog_nb.report import orthog_report
    root = str(tmp_path); learn(tiny(), 'finetune', root=tmp_path, quiet=True); orthog_report('demo', root=root, out=f'{root}/out'); good = {p: p.read_bytes() for p in tmp_path.rglob('*') if p.is_file()}
    assert {'.json','.md','.html'} <= {p.suffix for p in good}
    code = f'''
import sys, resource; sys.path.insert(0, {str(Path(__file__).parent)!r})
from orthog_nb.experiments import orthog_run, orthog_tune; from orthog_nb.report import orthog_report
from test_fuzz import command
resource.setrlimit(resource.RLIMIT_FSIZE, (100,)*2)
for f,args in ((orthog_run, ['--benchmark=rotated_digits', '--method=er_ring', 'tasks=1']), (orthog_tune, ['--benchmark=rotated_digits', '--method=finetune', '--lrs=.1']), (orthog_report, ['--preset=demo', '--out={root}/out'])):
    print(command(f, [*args, '--root={root}']))'''
    r = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS='1')); assert r.returncode == 0, r.stderr
    for line in r.stdout.splitlines():
        rc,out,err = eval(line); assert rc == 2 and 'File too large' in err and err.count('\n') == 1, line
    assert all(p.read_bytes() == b for p,b in good.items()) and not list(tmp_path.rglob('*.part'))

@pytest.fixture
def small_disk(tmp_path):
    "A file system of its own, and a function that mounts it anew with other options."
    d = tmp_path/'disk'; d.mkdir()
    mount = lambda opts: subprocess.run(['mount', '-t', 'tmpfs', '-o', opts, 'tmpfs', d], capture_output=True).returncode
    if not shutil.which('mount') or mount('size=2500k'): pytest.skip('no right to mount a small file system here')
    yield d, lambda opts: mount(f'remount,{opts}')
    subprocess.run(['umount', '-l', d])

def test_small_disk(small_disk, whole):
    d,again = small_disk
    told(go_on, d, says=('cannot be written (No space left on device)','make room'))
    p = next(d.glob('runs/*/state.pt'), None) or next(d.glob('runs/*/state.old')); assert load_state(p)['at'][2] > 0
    told(go_on, d, says='make room')
    assert not again('size=20m') and go_on(d) == whole

def test_read_only_file_system(small_disk, whole):
    d,again = small_disk; again('size=20m'); p = stopped(d, 45); at = load_state(p)['at']
    assert not again('ro')
    told(go_on, d, says='cannot be written (Read-only file system)'); assert load_state(p)['at'] == at
    told(learn(tiny(), 'finetune', quiet=True).save, d/'r.json', says='Read-only'); told(learn, tiny(), 'finetune', root=d, quiet=True, says='Read-only')
    assert not again('rw,size=20m') and go_on(d) == whole

def test_read_only_folder(closed, tmp_path, whole):
    d,humble = closed; p = stopped(tmp_path, 45); shutil.copytree(p.parent, d/'runs'/p.parent.name); at = load_state(p)['at']
    for f in d.rglob('*'): f.chmod(0o555)
    with humble():
        told(go_on, d, says='Permission denied'); told(save_state, d/'new.pt', {}, says='Permission denied')
        told(learn(tiny(), 'finetune', quiet=True).save, d/'r.json', says='Permission denied')
    assert load_state(d/'runs'/p.parent.name/'state.pt')['at'] == at and not list(d.rglob('*.part'))

@pytest.mark.parametrize('what', ['runs','results'])
def test_a_file_where_a_folder_should_be(tmp_path, what):
    (tmp_path/what).write_text(''); told(go_on, tmp_path, says='cannot be written')

def test_killed_writers_leave_nothing_for_long(tmp_path):
    p = stopped(tmp_path, 45); left = p.with_name('.state.pt.99999.part'); left.write_bytes(b'half')
    go_on(tmp_path); assert not left.exists()

# data that goes away

@pytest.fixture
def mini(tmp_path, monkeypatch):
    "A miniImageNet of two training images and one test image a class."
    for c in range(100):
        for i,part in enumerate(('train','train','test')):
            p = tmp_path/'data'/'mini-imagenet'/part/f'n{c:03}'/f'{i}.png'; p.parent.mkdir(parents=True, exist_ok=True)
            Image.new('RGB', (84,84), (2*c,20*i,c)).save(p)
    monkeypatch.setenv('ORTHOG_NB_DATA', str(tmp_path/'data')); monkeypatch.setenv('ORTHOG_NB_CACHE', str(tmp_path/'cache')); miniimagenet._mini.cache_clear()
    yield tmp_path/'data'
    miniimagenet._mini.cache_clear()

def test_data_removed_in_mid_run(mini, tmp_path):
    def go(root, log=None): return learn(split_miniimagenet(tasks=2), 'finetune', width=2, root=root, log=log, quiet=True).R
    def away(event=None):
        if (mini/'mini-imagenet').exists(): shutil.move(mini/'mini-imagenet', tmp_path/'away'); shutil.rmtree(tmp_path/'cache')
        miniimagenet._mini.cache_clear()
    def back(): shutil.move(tmp_path/'away', mini/'mini-imagenet')
    def killed(event): raise Stop
    R = go(tmp_path/'a')
    assert go(tmp_path/'b', away) == R  # it holds what it needs
    with pytest.raises(InputError, match='miniImageNet is in none of'): go(tmp_path/'c')
    back()
    with pytest.raises(Stop): go(tmp_path/'c', killed)
    away()
    with pytest.raises(InputError, match='miniImageNet is in none of'): go(tmp_path/'c')
    back(); assert go(tmp_path/'c') == R

# networks in a layout in which torch 2.13 can write past its memory

def test_narrow_networks_stay_in_their_memory():
    """Narrow ResNets keep channels last. There torch's gradient of a strided 1×1 convolution writes past the end of its block (it crashes a width of 2 at 84 × 84 at once), which is why
    `Shortcut` reads a slice instead: widths and sizes of all kinds, in a process of their own, with glibc's checks of the heap where they are."""
    code = '''
import torch, torch.nn.functional as F; from types import SimpleNamespace; from orthog_nb.models import resnet18
for width,size in ((2,84), (3,33), (7,61), (8,32), (17,45), (20,84), (31,32)):
    net = resnet18(SimpleNamespace(classes=5, shape=(3,size,size), masks=None, mean=torch.zeros(3,1,1), std=torch.ones(3,1,1)), width); assert net.layout is torch.channels_last
    for n in (10, 3):
        net.zero_grad(); F.cross_entropy(net(torch.full((n,3,size,size), 100, dtype=torch.uint8)), torch.arange(n) % 5).backward()
        assert all(p.grad.isfinite().all() for p in net.parameters())'''
    check = dict(LD_PRELOAD='libc_malloc_debug.so.0', MALLOC_CHECK_='3') if ctypes.util.find_library('c_malloc_debug') else {}
    r = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS='1', **check)); assert r.returncode == 0, r.stderr

# hostile checkpoints, results and manifests

@pytest.mark.parametrize('make', [os.mkfifo, lambda p: p.symlink_to('/dev/zero'), lambda p: p.mkdir()])
def test_pipes_and_devices_are_not_read(tmp_path, make):
    "One waits for ever, the other never ends; no reader opens them."
    for name in ('state.pt','r.json','a.pkl','a.npz','a.png'): make(tmp_path/name)
    for f,name in ((load_state, 'state.pt'), (reload, 'state.pt'), (Result.load, 'r.json'), (miniimagenet.list_arrays, 'a.pkl'), (miniimagenet.list_arrays, 'a.npz'), (miniimagenet.read_image, 'a.png')):
        told(f, tmp_path/name, says='not a file')
    told(lambda: read_checked(tmp_path/'r.json', ''), says='not a file')

def test_commands_without_enough_memory(tmp_path):
    r = subprocess.run(['bash', '-c', f'ulimit -v 6000000; exec orthog_run --benchmark rotated_digits --method mer --root {tmp_path} memory=1000000 tasks=1'], capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS='1'))
    assert r.returncode == 1 and r.stderr.strip().splitlines()[-1].startswith('orthog_run: this needs more memory') and 'Traceback' not in r.stderr, r.stderr

def sealed(path, body):
    "A checkpoint with a digest that fits."
    path.write_bytes(hashlib.sha256(body).digest() + body)

def archive(state):
    buf = io.BytesIO(); torch.save(state, buf); return buf.getvalue()

def test_bomb_in_a_checkpoint(tmp_path):
    "Deflated: a thousand times larger in memory. Refused by what it claims, before it is read."
    plain,p = archive(dict(w=torch.zeros(100_000_000//4))),tmp_path/'state.pt'; out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(plain)) as a, zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED) as b:
        for i in a.infolist(): b.writestr(i.filename, a.read(i))
    del plain; body = out.getvalue(); assert len(body) < 10**6
    sealed(p, body); told(load_state, p, says=('not a checkpoint of ours','larger than it is'))

def test_tensor_that_repeats_itself(tmp_path):
    sealed(tmp_path/'state.pt', archive(dict(w=torch.zeros(1).expand(10**12)))); told(load_state, tmp_path/'state.pt', says='larger than it is')

def test_laughing_lists(tmp_path):
    o = ['ha']
    for _ in range(100): o = [o, o]
    sealed(tmp_path/'state.pt', archive(dict(o=o))); assert load_state(tmp_path/'state.pt')

class Evil:
    def __init__(self, mark): self.mark = mark
    def __reduce__(self): return os.mkdir, (str(self.mark),)

@pytest.mark.parametrize('make', [lambda e: archive(dict(config=e)), lambda e: archive(e), lambda e: archive({e: 1}), lambda e: pickle.dumps(e)])
def test_checkpoints_and_learners_run_no_code(tmp_path, make):
    sealed(tmp_path/'state.pt', make(Evil(tmp_path/'ran')))
    for f in (load_state, reload): told(f, tmp_path/'state.pt', says='not a checkpoint of ours')
    assert not (tmp_path/'ran').exists()

@pytest.mark.parametrize('change', [dict(version=2), dict(config='{}'), dict(method={}), dict(method=None), dict(R=torch.zeros(9, 9)), dict(at=[0]), dict(at='abc'), dict(at=[-1,0,0]), dict(at=[9,0,0]), dict(version=torch.zeros(2)), dict(rng=torch.zeros(3)), dict(clock=None), dict(R=None)])
def test_checkpoint_with_other_contents(tmp_path, change):
    p = stopped(tmp_path, 45); state = load_state(p) | change
    save_state(p, state); told(go_on, tmp_path, says='checkpoint')

@pytest.mark.parametrize('method', ['er_ring','mer'])
def test_checkpoint_with_another_memory(tmp_path, method):
    "Whole, of this run, and yet with examples that are none of this stream."
    p = stopped(tmp_path, 45, method=method); good = load_state(p); memory = good['method']['memory']; held = memory.get('items') or {k: memory[k] for k in 'xyt'}
    for change in (dict(x=held['x'][:,:,:5]), dict(x=held['x'].float()), dict(y=held['y']+10**6), dict(t=held['t']-1), dict(y=held['y'][:-1]), dict(x=None), *(dict({k: v[:1] for k,v in held.items()}),)):
        other = dict(items=held | change) if 'items' in memory else change
        save_state(p, good | dict(method=good['method'] | dict(memory=memory | other))); told(go_on, tmp_path, method, says='the checkpoint does not fit')

def test_learner_with_other_contents(tmp_path):
    p = tmp_path/'kept.pt'; learn(tiny(), 'finetune', keep=p, quiet=True); good = load_state(p)
    for change in (dict(config='{'), dict(config='[]'), dict(config='{"method": "x"}'), dict(info={}), dict(method={}), dict(config=json.dumps(json.loads(good['config']) | dict(width=10**9))),
                   *(dict(info=good['info'] | d) for d in (dict(shape=(1,10**4,10**4)), dict(shape=(10**6,28,28)), dict(classes=10**7), dict(tasks=10**6)))):
        save_state(p, good | change); told(reload, p)

def test_a_manifest_cannot_write_files(tmp_path):
    r = learn(tiny(), 'finetune', quiet=True)
    for key in ('keep','root','log','watch','device'):
        r.config[key] = str(tmp_path/'written'); r.save(tmp_path/'r.json')
        told(orthog_verify, str(tmp_path/'r.json'), says=f"setting in the manifest '{key}' is not known"); del r.config[key]
    assert [p.name for p in tmp_path.iterdir()] == ['r.json']

def test_results_that_are_none(tmp_path, capsys):
    runs = tmp_path/'results'/'runs'; save_result(learn(tiny(), 'finetune', quiet=True), tmp_path); whole = json.loads(next(runs.glob('*.json')).read_text())
    (runs/'folder.json').mkdir(); (runs/'dangling.json').symlink_to(tmp_path/'nowhere'); (runs/'deep.json').write_text('['*200_000); (runs/'zero.json').symlink_to('/dev/zero')
    for i,change in enumerate((dict(R=7), dict(R=[]), dict(R=[['x']]), dict(R=[[1.,2.]]), dict(config=[]), dict(config=dict(stream=3)), dict(accuracy='high'), dict(bytes=dict(memory='much')), dict(seed='one'), dict(seed=None))):
        (runs/f'{i}.json').write_text(json.dumps({k: v for k,v in whole.items() if k != 'check'} | change))
    (runs/'long.json').write_bytes(b' '*(2**24+1))
    assert len(load_results(tmp_path)) == 1
    said = capsys.readouterr().err; assert len(said.splitlines()) == 15 and 'Traceback' not in said
