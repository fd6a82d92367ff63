"""The streams of the paper on the real data of ORTHOG_NB_DATA: pinned, and what the protocol says.

    ORTHOG_NB_DATA=… pytest tests/test_real_data.py
"""
import gzip, hashlib, http.server, io, shutil, subprocess, sys, threading
from functools import lru_cache
import numpy as np, pytest, torch
from PIL import Image
from orthog_nb import files, miniimagenet, streams
from orthog_nb.core import InputError, import_torchvision

PINNED = {  # stream hash (what is drawn), data hash (the images)
    'permuted_mnist': ('7e9023b2b662305597c49577edd0d09c04befe82a50fd9142a414ba79a293072', '6616453058e27e42eca8a1609d9a14506c07814d78563b86c2ba23cdc78ef252'),
    'rotated_mnist': ('2524f2db6e92e3dcf121d7bcd4f5022f93243b6edaddf812da5e123eaaf489ad', '6616453058e27e42eca8a1609d9a14506c07814d78563b86c2ba23cdc78ef252'),
    'split_cifar': ('28f76a906e1476019a540bc47dd7d8e33c7473b099d75bfe103dbb5a0db4e737', '41494030713933c57ddf182dcba90bbffc09eb96e4eb9a70e18c1db7b2461e55'),
    'split_miniimagenet': ('8efd33929293d4fce52d902f6e160d622b4aba802a628c683279705e2d904fae', '5e85d34f9f18ab015ef7c272a0bd11693e357ee623ccb6499f13c212c982715b')}
SECOND = {  # stream hash of seed 4
    'permuted_mnist': 'f41fbc27c0d5f7fb320110d04aeca3227134b9f58067b7dae04ad0b73fe04efd',
    'rotated_mnist': 'f21cffc8f3842f5fa42bfcb0390f0b4a4cf1435caecb3c46a73881a730cde213',
    'split_cifar': '0bbc2568b14a90365fd9d18e5ffaef44744ff650f5da031ddb2bd02ddca95a3e',
    'split_miniimagenet': '535437b9340a36883dd333f05b68d523c81cbecfe32d751193e60e9601393053'}

@lru_cache
def real(name, seed=0): return streams.make_stream(name, seed)

@lru_cache
def report(): return {r['data']: r for r in streams.data_report()}

@pytest.fixture(params=list(PINNED))
def name(request, data_root):
    row = report()[request.param.split('_')[1]]
    if not row['ok']: pytest.skip(f"{request.param}: {row['remedy']}")
    return request.param

@pytest.fixture
def folder(data_root):
    "The folder of a data set, or a reason to skip."
    def find(below):
        if not (data_root/below).is_dir(): pytest.skip(f'ORTHOG_NB_DATA has no {below}')
        return data_root/below
    return find

def test_pinned(name):
    st = real(name)
    if name == 'split_miniimagenet' and st.config['per_class'] != 250: pytest.skip('the pinned copy of miniImageNet has 250 training images a class')
    assert (st.hash, st.data_hash) == PINNED[name]
    assert real(name, 4).hash == SECOND[name]

def test_same_in_another_process(data_root):
    names = [n for n in PINNED if report()[n.split('_')[1]]['ok']]
    code = f'from orthog_nb.streams import make_stream as m; print(*[m(n).hash for n in {names}])'
    assert subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout.split() == [real(n).hash for n in names]

def test_protocol(name):
    st,split = real(name),'split' in name
    assert len(st) == (17 if split else 20) and len(st.tuning) == 3 and st.info.tasks == len(st)
    for task in [*st, *st.tuning]:
        x,y = task.test()
        assert x.dtype == torch.uint8 and y.dtype == torch.int64 and tuple(x.shape[1:]) == st.info.shape
        assert len(y) == (500 if split else 10_000) and sorted(y.unique().tolist()) == sorted(task.classes)
        assert len(task.train_ids) == len(set(task.train_ids.tolist())) and not set(task.train_ids.tolist()) & set(task.test_ids.tolist())
        assert task.mask.nonzero()[:,0].tolist() == sorted(task.classes)
    assert (st.info.masks is None) != split

def test_seeds_differ(name): assert real(name, 0).hash != real(name, 4).hash

def test_data_is_shared_by_all_tasks(name):
    st = real(name)
    assert len({t.images.x.data_ptr() for t in [*st, *st.tuning, *real(name, 4)]}) == 1

@pytest.mark.parametrize('kind', ['permuted','rotated'])
def test_mnist(folder, kind):
    folder('MNIST/raw'); st = real(f'{kind}_mnist')
    assert all(len(t.train_ids) == 10_000 and t.train_ids.max() < 55_000 for t in st) and st.info.classes == 10
    x,y = st[7].train()
    theirs = import_torchvision().datasets.MNIST(files.find_or_fetch('MNIST', 'MNIST/raw').parent.parent)
    i = int(st[7].train_ids[3]); assert y[3] == theirs.targets[i]
    if kind == 'permuted': assert torch.equal(x[3].flatten(), theirs.data[i].flatten()[st[7].pixels])
    else: assert (x[3,0].numpy() == np.array(Image.fromarray(theirs.data[i].numpy()).rotate(st[7].angle, Image.Resampling.NEAREST))).mean() > .995
    short = streams.make_stream(f'{kind}_mnist', tasks=20, samples=10)
    assert all(torch.equal(a.train_ids, b.train_ids[:10]) for a,b in zip(short, st))

def test_rotation_is_stratified(folder):
    folder('MNIST/raw'); angles = [t.angle for t in real('rotated_mnist')]
    assert all(9*t <= a < 9*(t+1) for t,a in enumerate(angles))
    free = [t.angle for t in streams.rotated_mnist(angles='random')]
    assert free != sorted(free)

def test_cifar_agrees_with_torchvision(folder):
    folder('cifar-100-python'); st = real('split_cifar'); im = st[0].images
    for train in (True, False):
        theirs = import_torchvision().datasets.CIFAR100(files.find_or_fetch('CIFAR100', 'cifar-100-python').parent, train=train)
        ids = im.train if train else im.test
        assert np.array_equal(im.x[ids].permute(0,2,3,1).numpy(), theirs.data) and im.y[ids].tolist() == theirs.targets
        if train: torch.testing.assert_close(st.info.mean.double(), torch.from_numpy(theirs.data.mean((0), dtype=np.float64)/255).permute(2,0,1), atol=1e-6, rtol=0)
    assert all(len(t.train_ids) == 2500 for t in st) and torch.bincount(st[0].train()[1])[st[0].classes].tolist() == [500]*5
    half = streams.split_cifar(per_class=250)
    assert all(torch.bincount(t.train()[1])[t.classes].tolist() == [250]*5 for t in half) and [t.classes for t in half] == [t.classes for t in st]

def test_mini_is_what_the_folder_holds(folder):
    d = folder('mini-imagenet/train').parent; st = real('split_miniimagenet'); names = sorted(p.name for p in (d/'train').iterdir())
    for task in (st[0], st[16]):
        i,y = int(task.train_ids[0]), int(task.train()[1][0]); n = len(st[0].images.x)//100
        files_of = [*sorted((d/'train'/names[y]).iterdir()), *sorted((d/'test'/names[y]).iterdir())]
        assert np.array_equal(task.train()[0][0].permute(1,2,0).numpy(), np.asarray(Image.open(files_of[i % n]).convert('RGB')))

@pytest.mark.parametrize('what', ['truncated','one bit'])
def test_damaged_copy(folder, tmp_path, what):
    shutil.copytree(folder('MNIST/raw'), tmp_path/'MNIST'/'raw')
    p = tmp_path/'MNIST'/'raw'/'t10k-images-idx3-ubyte'; b = bytearray(p.read_bytes())
    if what == 'truncated': del b[-1:]
    else: b[5000] ^= 1
    p.write_bytes(b)
    with pytest.raises(InputError, match='t10k-images-idx3-ubyte is damaged'): files.mnist(tmp_path)

def test_download(folder, tmp_path, monkeypatch):
    "The real files, fetched by torchvision from a server on this machine, end up whole in the cache."
    raw = folder('MNIST/raw'); datasets = import_torchvision().datasets
    pages = {f'{n}.gz': gzip.compress((raw/n).read_bytes(), 1) for n in files.MNIST_MD5}
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = pages[self.path.split('/')[-1]]
            self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)
        def log_message(self, *_): pass
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(datasets.MNIST, 'mirrors', [f'http://127.0.0.1:{server.server_port}/'])
    monkeypatch.setattr(datasets.MNIST, 'resources', [(n, hashlib.md5(b).hexdigest()) for n,b in pages.items()])
    monkeypatch.delenv('ORTHOG_NB_DATA'); monkeypatch.setenv('ORTHOG_NB_CACHE', str(tmp_path/'cache'))
    for k in ('http_proxy','HTTP_PROXY','all_proxy','ALL_PROXY'): monkeypatch.delenv(k, raising=False)
    try: assert files.mnist().hash == PINNED['permuted_mnist'][1]
    finally: server.shutdown(); server.server_close(); files._mnist.cache_clear()
    assert [p.name for p in (tmp_path/'cache').iterdir()] == ['MNIST']
