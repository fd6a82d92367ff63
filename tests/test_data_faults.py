"""Damaged, missing and hostile data files: one clear line, no code run, nothing written outside the cache, nothing half-written in it.

    pytest tests/test_data_faults.py
"""
import http.server, io, json, os, pickle, re, resource, shutil, signal, struct, subprocess, sys, tarfile, threading, time, zipfile, zlib
from pathlib import Path
import numpy as np, pytest, torch
from PIL import Image
from orthog_nb import files, miniimagenet, streams
from orthog_nb.core import InputError, import_torchvision

@pytest.fixture(autouse=True)
def clean(tmp_path, monkeypatch):
    "No data but what a test puts there."
    monkeypatch.delenv('ORTHOG_NB_DATA', raising=False)
    monkeypatch.setenv('ORTHOG_NB_CACHE', str(tmp_path/'cache'))
    forget()
    yield
    forget()

def forget():
    for f in (files._mnist, files._cifar100, miniimagenet._mini): f.cache_clear()

def told(f, *args, path=None, says=(), **kwargs):
    "The one line of the `InputError` that a call raises; it names the path and contains some words."
    with pytest.raises(InputError) as e: f(*args, **kwargs)
    line = str(e.value)
    assert '\n' not in line and ';' in line, line  # what is wrong; what to do
    assert path is None or str(path) in line, line
    for word in [says] if isinstance(says, str) else says: assert word in line, line
    return line

def tree(folder): return {str(p.relative_to(folder)): p.stat().st_size for p in Path(folder).rglob('*') if p.is_file()}

class Evil:
    "Makes a folder when it is unpickled without care."
    def __init__(self, mark): self.mark = mark
    def __reduce__(self): return os.mkdir, (str(self.mark),)

# where data is looked for

def test_data_variable_must_be_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv('ORTHOG_NB_DATA', str(tmp_path/'typo'))
    told(streams.permuted_mnist, path=tmp_path/'typo', says='ORTHOG_NB_DATA')

def test_order_of_places(tmp_path, monkeypatch):
    monkeypatch.setenv('ORTHOG_NB_DATA', str(tmp_path))
    assert files.data_roots() == [tmp_path, tmp_path/'cache'] and files.data_roots('x') == [Path('x')]
    for r in (tmp_path, tmp_path/'cache'): (r/'MNIST'/'raw').mkdir(parents=True)
    assert files.find_or_fetch('MNIST', 'MNIST/raw') == tmp_path/'MNIST'/'raw'
    shutil.rmtree(tmp_path/'MNIST')
    assert files.find_or_fetch('MNIST', 'MNIST/raw') == tmp_path/'cache'/'MNIST'/'raw'

@pytest.mark.parametrize('maker', [streams.permuted_mnist, streams.split_cifar, streams.split_miniimagenet])
def test_named_root_is_the_only_one(maker, tmp_path, monkeypatch):
    (tmp_path/'empty').mkdir()
    monkeypatch.setattr(files, 'fetch', lambda *_: pytest.fail('a named root must not lead to a download'))
    told(maker, root=tmp_path/'empty', path=tmp_path/'empty')

# MNIST and CIFAR-100: published files

def mnist_folder(root):
    raw = root/'MNIST'/'raw'; raw.mkdir(parents=True)
    for n in files.MNIST_MD5: (raw/n).write_bytes(b'\0'*100)
    return raw

def test_missing_file(tmp_path):
    raw = mnist_folder(tmp_path); (raw/'train-images-idx3-ubyte').unlink()
    told(files.mnist, tmp_path, path=raw/'train-images-idx3-ubyte', says=('missing','put a good copy'))

def test_wrong_checksum(tmp_path):
    raw = mnist_folder(tmp_path)
    told(files.mnist, tmp_path, path=raw/'train-images-idx3-ubyte', says=('MD5','expected 6bbc9ace','put a good copy'))

def test_unreadable_file(tmp_path):
    raw = mnist_folder(tmp_path); p = raw/'train-images-idx3-ubyte'; p.unlink(); p.mkdir()
    told(files.mnist, tmp_path, path=p, says='cannot be read')

def test_cifar_is_not_unpickled_before_its_checksum(tmp_path):
    d = tmp_path/'cifar-100-python'; d.mkdir()
    for n in ('train','test','meta'): (d/n).write_bytes(pickle.dumps(Evil(tmp_path/'ran')))
    told(files.cifar100, tmp_path, path=d/'train', says='MD5')
    assert not (tmp_path/'ran').exists()

def test_hostile_tar_in_the_root_is_not_opened(tmp_path):
    with tarfile.open(tmp_path/'cifar-100-python.tar.gz', 'w:gz') as t: t.addfile(tarfile.TarInfo('../escaped'), io.BytesIO())
    told(files.cifar100, tmp_path, path=tmp_path, says='does not exist')
    assert not (tmp_path.parent/'escaped').exists()

# downloads, from a server on this machine

@pytest.fixture
def server(tmp_path, monkeypatch):
    "Serves what a test puts into `pages`; a value (body, n) claims the whole body and breaks off after n bytes."
    pages = {}
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = pages.get(self.path.split('/')[-1])
            if body is None: return self.send_error(404)
            body,n = body if isinstance(body, tuple) else (body, None)
            self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers()
            self.wfile.write(body[:n])
        def log_message(self, *_): pass
    s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    url = f'http://127.0.0.1:{s.server_port}/'; d = import_torchvision().datasets
    monkeypatch.setattr(d.MNIST, 'mirrors', [url]); monkeypatch.setattr(d.CIFAR100, 'url', url+d.CIFAR100.filename)
    for k in ('http_proxy','HTTP_PROXY','all_proxy','ALL_PROXY'): monkeypatch.delenv(k, raising=False)
    yield pages
    s.shutdown(); s.server_close()

def test_no_network(server, tmp_path):
    told(files.mnist, path=tmp_path/'cache', says=('could not be downloaded','ORTHOG_NB_DATA'))
    assert not tree(tmp_path/'cache') and not list((tmp_path/'cache').iterdir())

def hostile_tar(mark):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w:gz') as t:
        for name in ('../../escaped', str(mark), 'cifar-100-python/train'): i = tarfile.TarInfo(name); i.size = 4; t.addfile(i, io.BytesIO(b'evil'))
        i = tarfile.TarInfo('cifar-100-python/link'); i.type,i.linkname = tarfile.SYMTYPE,'/'; t.addfile(i)
    return out.getvalue()

@pytest.mark.parametrize('cut', [None, 50])
def test_downloaded_archive_with_another_checksum(server, tmp_path, cut):
    tar = hostile_tar(tmp_path/'ran'); server['cifar-100-python.tar.gz'] = (tar, cut)
    told(files.cifar100, path=tmp_path/'cache', says='could not be downloaded')
    assert not (tmp_path/'ran').exists() and not list(tmp_path.rglob('escaped')) and not list((tmp_path/'cache').iterdir())

def test_download_into_a_cache_that_cannot_be_written(server, tmp_path, monkeypatch):
    (tmp_path/'file').write_text('')
    monkeypatch.setenv('ORTHOG_NB_CACHE', str(tmp_path/'file'/'cache'))
    told(files.mnist, path=tmp_path/'file'/'cache', says='could not be downloaded')

def test_somebody_else_finished_the_download_first(tmp_path, monkeypatch):
    def other(root, download): (tmp_path/'cache'/'MNIST'/'raw').mkdir(parents=True); raise RuntimeError('too late')
    monkeypatch.setattr(import_torchvision().datasets, 'MNIST', other)
    assert files.find_or_fetch('MNIST', 'MNIST/raw') == tmp_path/'cache'/'MNIST'/'raw'

# miniImageNet: folders of images

@pytest.fixture(scope='session')
def whole_mini(tmp_path_factory):
    "100 classes of two training images and one test image."
    root = tmp_path_factory.mktemp('whole')
    for c in range(100):
        for i,part in enumerate(('train','train','test')):
            p = root/'mini-imagenet'/part/f'n{c:03}'/f'{i}.png'; p.parent.mkdir(parents=True, exist_ok=True)
            Image.new('RGB', (84,84), (c,10*i,0)).save(p)
    return root

@pytest.fixture
def mini(whole_mini, tmp_path):
    shutil.copytree(whole_mini/'mini-imagenet', tmp_path/'mini-imagenet')
    return tmp_path/'mini-imagenet'

def test_whole(mini, tmp_path, capsys):
    im = miniimagenet.mini_imagenet(tmp_path)
    assert len(im.train) == 200 and len(im.test) == 100 and im.x[im.test[3],:,0,0].tolist() == [3,20,0]
    (mini/'train'/'n000'/'.DS_Store').write_bytes(b'x'); (mini/'train.csv').write_text('x')
    forget(); assert miniimagenet.mini_imagenet(tmp_path).hash == im.hash
    assert capsys.readouterr().err == ''

def test_too_few_images(mini, tmp_path):
    (mini/'train'/'n042'/'1.png').unlink()
    told(streams.split_miniimagenet, root=tmp_path, path=mini, says=('class n042 has 1 train','complete it'))

def test_class_without_images(mini, tmp_path):
    (mini/'test'/'n042'/'2.png').unlink()
    told(streams.split_miniimagenet, root=tmp_path, path=mini, says='class n042 has 0 test')

def test_too_few_classes(mini, tmp_path):
    for part in ('train','test'): shutil.rmtree(mini/part/'n042')
    assert '99 classes' in str(pytest.raises(InputError, streams.split_miniimagenet, root=tmp_path).value)

def test_one_folder_wants_600_images(mini, tmp_path):
    for d in (mini/'train').iterdir(): d.rename(mini/d.name)
    shutil.rmtree(mini/'train'); shutil.rmtree(mini/'test')
    told(streams.split_miniimagenet, root=tmp_path, path=mini, says='class n000 has 2 images; 500 for training')

@pytest.mark.parametrize('name', ['notes.txt', '3.jpg.part', 'subfolder'])
def test_stray_file(mini, tmp_path, name):
    p = mini/'train'/'n007'/name
    p.mkdir() if name == 'subfolder' else p.write_text('stray')
    told(streams.split_miniimagenet, root=tmp_path, path=p, says=('not an image','move it'))

@pytest.mark.parametrize('fault', ['text','truncated','empty','eps','gif'])
def test_image_that_is_none(mini, tmp_path, fault):
    p = mini/'train'/'n007'/'0.png'; Image.effect_noise((84,84), 90).convert('RGB').save(p); good = p.read_bytes()
    gif = io.BytesIO(); Image.new('P', (84,84)).save(gif, 'GIF')
    p.write_bytes(dict(text=b'hello', truncated=good[:len(good)//2], empty=b'', eps=b'%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 84 84\n', gif=gif.getvalue())[fault])
    told(streams.split_miniimagenet, root=tmp_path, path=p, says=('cannot be decoded','replace it'))
    assert not tree(tmp_path/'cache')

@pytest.mark.parametrize('size', [5000, 12_000, 60_000])
def test_image_that_claims_to_be_huge(mini, tmp_path, size):
    chunk = lambda kind, data: struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind+data))
    png = b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', size, size, 8, 2, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(bytes(1000))) + chunk(b'IEND', b'')
    p = mini/'train'/'n007'/'0.png'; p.write_bytes(png)
    told(streams.split_miniimagenet, root=tmp_path, path=p, says=('pixels','replace it'))

def test_other_sizes_and_modes_are_converted(mini, tmp_path):
    Image.new('L', (200,100), 77).save(mini/'train'/'n007'/'0.png')
    im = miniimagenet.mini_imagenet(tmp_path)
    assert im.x[im.train[14]].unique().tolist() == [77]

# miniImageNet: files of arrays

def arrays(n=300): return np.arange(n, dtype=np.uint8)[:,None,None,None] + np.zeros((84,84,3), np.uint8)

@pytest.mark.parametrize('protocol', range(6))
def test_good_pickle(tmp_path, protocol):
    p = tmp_path/'mini-imagenet-cache-train.pkl'
    p.write_bytes(pickle.dumps(dict(image_data=arrays(6), class_dict={'a': [0,2], 'b': np.array([1,3])}), protocol))
    got = miniimagenet.list_arrays(p)
    assert [[int(i[0,0,0]) for i in v] for v in got.values()] == [[0,2], [1,3]]

def test_parts_in_three_files(tmp_path):
    for part,c in (('train',range(64)), ('val',range(64,80)), ('test',range(80,100))):
        labels = [i for i in c for _ in range(2)]
        (tmp_path/f'miniImageNet_category_split_{part}.pickle').write_bytes(pickle.dumps(dict(data=arrays(len(labels)), labels=labels), 2))
    parts = miniimagenet.mini_parts(miniimagenet.find_mini(tmp_path))
    assert {k: len(v) for k,v in parts.items()} == dict(train=64, val=16, test=20)
    shutil.copy(tmp_path/'miniImageNet_category_split_val.pickle', tmp_path/'miniImageNet_category_split_train_phase_val.pickle')
    told(miniimagenet.mini_imagenet, tmp_path, says=("second file for the part 'val'",'leave only one'))

def test_hostile_pickles(tmp_path):
    p,mark = tmp_path/'miniImageNet_full.pickle',tmp_path/'ran'
    run = f'__import__("os").mkdir({str(mark)!r})'
    by_hand = [b'cposix\nmkdir\n(V' + str(mark).encode() + b'\ntR.',                       # GLOBAL
               b'(V' + str(mark).encode() + b'\niposix\nmkdir\n.',                         # INST
               b'(cposix\nmkdir\nV' + str(mark).encode() + b'\no.',                        # OBJ
               b'\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c' + bytes([len(run)]) + run.encode() + b'\x85R.',  # STACK_GLOBAL
               b'\x80\x04\x8c\x05numpy\x8c\x0endarray.tofile\x93.',                         # an attribute of something that is allowed
               b'\x80\x02cnumpy\nndarray\nN}V__call__\ncnumpy\ndtype\ns\x86b.',             # sets attributes of a stand-in
               b'\x80\x02P1\n.', b'\x80\x02\x82\x01.', b'\x80\x05\x97.']                     # persistent id, extension, buffer from outside
    for data in [pickle.dumps(o, pr) for o in (Evil(mark), {'images': Evil(mark)}, {Evil(mark): 1}, np.array([Evil(mark)], dtype=object)) for pr in range(6)] + by_hand:
        p.write_bytes(data)
        told(miniimagenet.mini_imagenet, tmp_path, path=p, says=('nothing in it was run','good copy'))
    assert not mark.exists() and not tree(tmp_path/'cache')

def test_pickle_bombs(tmp_path):
    "Small files that ask for much: they are refused, or read, in little memory."
    code = '''
import resource, sys, io; from orthog_nb.files import unpickle; from orthog_nb.core import InputError
resource.setrlimit(resource.RLIMIT_AS, (6*2**30,)*2)
table = b'\\x80\\x02}r\\xff\\xff\\xff\\x7f.'
claim = b'\\x80\\x04\\x8e' + (2**36).to_bytes(8, 'little') + b'abc.'
twice = b'\\x80\\x02(X\\x00\\x00\\x10\\x00' + b'a'*2**20 + b'q\\x000' + b'c_codecs\\nencode\\nh\\x00X\\x06\\x00\\x00\\x00latin1\\x86R'*20000 + b'l.'
nest = b'\\x80\\x02' + b'('*10**5 + b't'*10**5 + b'.'
for bomb in (table, claim, twice, nest):
    try: unpickle(io.BytesIO(bomb), len(bomb), 'x.pkl')
    except InputError as e: pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss//1024)'''
    r = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    assert int(r.stdout) < 1500

@pytest.mark.parametrize('content,says', [
    (dict(images=arrays(4).astype(np.float32), labels=[0]*4), 'uint8'), (dict(images=arrays(4)[:,:80], labels=[0]*4), '84'), (dict(images=arrays(4)), 'labels'),
    (dict(labels=[1]), 'images'), ([1,2], 'not a dict'), (dict(image_data=arrays(2), class_dict={'a': [0,7]}), 'class_dict'), (dict(image_data=arrays(2), class_dict={'a': 'xy'}), 'class_dict'),
    (dict(image_data=arrays(2), class_dict=[0,1]), 'class_dict'), (dict(images=arrays(2), labels='ab'), 'labels'), (dict(images=arrays(2), labels=[0]), 'labels'), (dict(images=arrays(2), labels=[[0],[1,2]]), 'labels')])
def test_wrong_contents(tmp_path, content, says):
    p = tmp_path/'miniImageNet_full.pickle'; p.write_bytes(pickle.dumps(content, 2))
    told(miniimagenet.mini_imagenet, tmp_path, path=p, says=says)

def test_npz(tmp_path):
    p = tmp_path/'mini-imagenet.npz'
    np.savez_compressed(p, images=arrays(4), labels=[0,0,1,1]); assert len(miniimagenet.list_arrays(p)['001']) == 2
    whole = p.read_bytes(); refused = lambda *says: told(miniimagenet.mini_imagenet, tmp_path, path=p, says=says)
    p.write_bytes(whole[:len(whole)//2]); refused('.npz of plain arrays','good copy')
    p.write_bytes(b'no zip'); refused('good copy')
    np.savez(p, images=np.array([Evil(tmp_path/'ran')], dtype=object), labels=[0]); refused('good copy')
    assert not (tmp_path/'ran').exists()

def test_npz_bomb_and_names(tmp_path):
    p = tmp_path/'mini-imagenet.npz'; header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, dict(descr='|u1', fortran_order=False, shape=(10**7,84,84,3)))
    with zipfile.ZipFile(p, 'w', zipfile.ZIP_DEFLATED) as z:
        z.writestr('images.npy', header.getvalue() + bytes(10**7)); z.writestr('../../escaped.npy', b'x'); z.writestr('/escaped.npy', b'x')
    told(miniimagenet.mini_imagenet, tmp_path, path=p, says='claim 197 GiB')
    assert not list(tmp_path.parent.rglob('escaped*')) and not tree(tmp_path/'cache')

def test_npz_of_items_without_size(tmp_path):
    "An array of a million million empty strings takes no room in a file; as numbers it would."
    p = tmp_path/'mini-imagenet.npz'; header = io.BytesIO(); np.lib.format.write_array_header_1_0(header, dict(descr='<U0', fortran_order=False, shape=(10**12,)))
    with zipfile.ZipFile(p, 'w') as z:
        with z.open('images.npy', 'w') as f: np.save(f, arrays(4))
        z.writestr('labels.npy', header.getvalue())
    told(miniimagenet.mini_imagenet, tmp_path, path=p, says='claim 931 GiB')

# the cache of decoded images

def cached(tmp_path): return next((tmp_path/'cache'/'decoded').glob('*.npy'))

def test_second_time_comes_from_the_cache(mini, tmp_path, monkeypatch):
    first = miniimagenet.mini_imagenet(tmp_path); forget()
    monkeypatch.setattr(miniimagenet, 'decode_mini', lambda *_: pytest.fail('decoded again'))
    assert miniimagenet.mini_imagenet(tmp_path).hash == first.hash

def test_changed_source_is_decoded_anew(mini, tmp_path):
    first = miniimagenet.mini_imagenet(tmp_path); forget()
    Image.new('RGB', (84,84), (200,200,200)).save(mini/'train'/'n000'/'0.png')
    assert miniimagenet.mini_imagenet(tmp_path).hash != first.hash

def damage(path, kind, mark):
    note = path.with_suffix('.json')
    if kind == 'bit': b = bytearray(path.read_bytes()); b[-5000] ^= 1; path.write_bytes(b)
    if kind == 'truncated': path.write_bytes(path.read_bytes()[:-100])
    if kind == 'empty': path.write_bytes(b'')
    if kind == 'objects': np.save(path, np.array([Evil(mark)], dtype=object), allow_pickle=True)
    if kind == 'pickle': path.write_bytes(pickle.dumps(Evil(mark)))
    if kind == 'other shape': np.save(path, np.zeros((3,3), np.uint8))
    if kind == 'no note': note.unlink()
    if kind == 'bad note': note.write_text('{"train":')
    if kind == 'other note': note.write_text('[1]')
    if kind == 'no array': path.unlink()

@pytest.mark.parametrize('kind', ['bit','truncated','empty','objects','pickle','other shape','no note','bad note','other note','no array'])
def test_damaged_cache_is_made_again(mini, tmp_path, kind, capsys):
    first = miniimagenet.mini_imagenet(tmp_path).hash; forget(); p = cached(tmp_path); good = tree(tmp_path/'cache')
    damage(p, kind, tmp_path/'ran')
    assert miniimagenet.mini_imagenet(tmp_path).hash == first
    assert not (tmp_path/'ran').exists() and tree(tmp_path/'cache') == good
    said = capsys.readouterr().err
    assert said.count('\n') <= 1 and (kind.startswith('no ') or 'is damaged: decoding again' in said)

def test_cache_that_cannot_be_written(mini, tmp_path, monkeypatch, capsys):
    (tmp_path/'file').write_text('')
    monkeypatch.setenv('ORTHOG_NB_CACHE', str(tmp_path/'file'/'cache'))
    assert len(miniimagenet.mini_imagenet(tmp_path).train) == 200
    line, = capsys.readouterr().err.splitlines()
    assert 'could not be written' in line and str(tmp_path/'file'/'cache') in line and 'ORTHOG_NB_CACHE' in line

def test_read_only_cache(closed, whole_mini, monkeypatch, capsys):
    d,humble = closed; shutil.copytree(whole_mini/'mini-imagenet', d/'data'/'mini-imagenet'); monkeypatch.setenv('ORTHOG_NB_CACHE', str(d))
    with humble(): assert len(miniimagenet.mini_imagenet(d/'data').train) == 200
    assert 'could not be written (Permission denied)' in capsys.readouterr().err

def test_full_disk(mini, tmp_path):
    "A limit on the size of files breaks the write off in the middle, as a full disk does."
    code = f'''
import resource; from orthog_nb.miniimagenet import mini_imagenet
resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6))
print(len(mini_imagenet({str(tmp_path)!r}).train))'''
    r = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert r.stdout.strip() == '200', r.stderr
    line, = r.stderr.splitlines()
    assert 'could not be written' in line and 'make room' in line
    assert not tree(tmp_path/'cache')

def test_killed_while_writing(mini, tmp_path):
    "After a kill in the middle of the write the next process finds no half file and decodes again."
    code = f'''
import numpy as np, os, signal; from orthog_nb import miniimagenet
def half(f, x): f.write(b'half a file'); f.flush(); os.kill(os.getpid(), signal.SIGKILL)
miniimagenet.np.save = half
miniimagenet.mini_imagenet({str(tmp_path)!r})'''
    assert subprocess.run([sys.executable, '-c', code], capture_output=True).returncode == -signal.SIGKILL
    assert not list((tmp_path/'cache'/'decoded').glob('mini*'))
    assert len(miniimagenet.mini_imagenet(tmp_path).train) == 200 and cached(tmp_path)

def test_two_processes_at_once(mini, tmp_path):
    code = f'from orthog_nb.miniimagenet import mini_imagenet; print(mini_imagenet({str(tmp_path)!r}).hash)'
    both = [subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert len({p.communicate()[0] for p in both}) == 1
    assert sorted(p.suffix for p in (tmp_path/'cache'/'decoded').iterdir()) == ['.json','.npy']

# the report

def test_report_of_nothing_and_of_damage(mini, tmp_path, monkeypatch):
    monkeypatch.setattr(files, 'fetch', lambda *_: pytest.fail('a report downloads nothing'))
    mnist_folder(tmp_path)
    rows = {r['data']: r for r in streams.data_report(tmp_path)}
    assert [rows[k]['ok'] for k in ('digits','mnist','cifar','miniimagenet')] == [True, False, False, True]
    assert rows['mnist']['check'] == 'damaged' and 'put a good copy' in rows['mnist']['remedy'] and rows['cifar']['check'] == 'not found'
    assert [r['streams'] for r in rows.values()] == [['permuted_digits','rotated_digits'], ['permuted_mnist','rotated_mnist'], ['split_cifar'], ['split_miniimagenet']]
    assert all('\n' not in r['remedy'] for r in rows.values())
