"""Arguments and files that nobody meant: one clear line, never a traceback, never a crash.

    pytest tests/test_fuzz.py           # some hundred cases
    pytest tests/test_fuzz.py --soak    # more than five thousand
"""
import contextlib, hashlib, io, json, math, pickle, sys, tempfile
from pathlib import Path
import numpy as np, pytest, torch
from fastcore import script
from hypothesis import HealthCheck, given, settings, strategies as st
from PIL import Image
from orthog_nb import experiments, files, jobs, miniimagenet, report, streams
from orthog_nb.core import InputError
from orthog_nb.methods import methods
from orthog_nb.training import Result, Run, configure, known_settings, learn, load_state, reload, save_state
from victim import stream

torch.set_num_threads(1)
soak = '--soak' in sys.argv
def cases(n): return settings(max_examples=12*n if soak else n, deadline=None, derandomize=not soak, database=None, suppress_health_check=list(HealthCheck))

def clear(f, *args):
    "Call it; an `InputError` of one line is the only way to fail."
    try: return f(*args)
    except InputError as e: assert '\n' not in str(e) and len(str(e)) < 2000, str(e)

# files: good ones, changed

edits = st.lists(st.tuples(st.sampled_from(('flip','cut','insert','delete','copy')), st.floats(0, 1), st.binary(min_size=1, max_size=9)), min_size=1, max_size=4)

def changed(data, how):
    b = bytearray(data)
    for kind,where,new in how:
        i = int(where*max(len(b)-1, 0))
        if kind=='flip' and b: b[i] ^= new[0] or 1
        if kind=='cut': del b[i:]
        if kind=='insert': b[i:i] = new
        if kind=='delete': del b[i:i+len(new)]
        if kind=='copy': b[i:i+len(new)] = new
    return bytes(b)

class Quiet(dict):
    "Its contents would fill the screen when a case fails."
    def __repr__(self): return ', '.join(self)

@pytest.fixture(scope='module')
def good(tmp_path_factory):
    "One good file of every kind that is read."
    d = tmp_path_factory.mktemp('good'); s = stream('mnist', 2, 50, 20); x = np.zeros((6,84,84,3), np.uint8)
    r = learn(s, 'er_ring', quiet=True, keep=d/'kept.pt', root=d, width=8)
    np.savez_compressed(d/'a.npz', images=x, labels=[0,0,0,1,1,1]); Image.effect_noise((84,84), 90).convert('RGB').save(d/'a.png'); Image.effect_noise((84,84), 90).convert('RGB').save(d/'a.jpg')
    (d/'a.pkl').write_bytes(pickle.dumps(dict(image_data=x[:2,:,:,:], class_dict={'a': [0], 'b': [1]}), 2)); (d/'b.pkl').write_bytes(pickle.dumps(dict(images=x[:1], labels=[0]), 4))
    miniimagenet.keep_decoded(d/'c.npy', np.zeros((100,1,3,84,84), np.uint8), 1)
    return Quiet(folder=d, stream=s, result=r, **{p.name: p.read_bytes() for p in d.iterdir() if p.is_file()},
                **{'state.pt': next(d.glob('runs/*/state.pt')).read_bytes(), 'r.json': next(d.glob('results/runs/*.json')).read_bytes()})

@contextlib.contextmanager
def put(name, data):
    with tempfile.TemporaryDirectory() as d: (Path(d)/name).write_bytes(data); yield Path(d)/name

def mended(data):
    "A checkpoint whose digest fits again, so that what is behind it is looked at."
    return hashlib.sha256(data[32:]).digest() + data[32:]

def restored(stream, state): Run(stream, configure(stream, 'er_ring', width=8), torch.device('cpu')).load_state_dict(state)

@cases(45)
@given(how=edits, fits=st.booleans())
def test_checkpoint(good, figures, how, fits):
    figures.add('fuzz', checkpoint=1); data = changed(good['state.pt'], how)
    with put('state.pt', mended(data) if fits else data) as p: clear(lambda: restored(good['stream'], load_state(p)))

@cases(20)
@given(how=edits, fits=st.booleans())
def test_learner(good, figures, how, fits):
    figures.add('fuzz', learner=1); data = changed(good['kept.pt'], how)
    with put('kept.pt', mended(data) if fits else data) as p: clear(reload, p)

plain = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9), lambda c: st.lists(c, max_size=4) | st.dictionaries(st.text(max_size=5), c, max_size=4), max_leaves=12)

def replaced(o, where, new):
    "A state with another value at a place, which numbers from 0 to 1 lead to."
    if not where or not isinstance(o, (dict,list,tuple)) or not o: return new
    i = int(where[0]*len(o)*.999); k = list(o)[i] if isinstance(o, dict) else i
    inner = replaced(o[k], where[1:], new)
    return o | {k: inner} if isinstance(o, dict) else type(o)([*o[:k], inner, *o[k+1:]])

values = plain | st.sampled_from([torch.zeros(0), torch.tensor(1.), torch.full((2,3), math.nan), torch.zeros(5, dtype=torch.long), torch.zeros(3,1,1), torch.ones(8, 8, dtype=torch.float64), torch.zeros(4, dtype=torch.uint8)])

@cases(40)
@given(which=st.sampled_from(('state.pt','kept.pt')), where=st.lists(st.floats(0, 1), min_size=1, max_size=5), new=values)
def test_states_with_other_values(good, figures, which, where, new):
    "A digest that fits, and something else inside: refused, or taken over."
    figures.add('fuzz', **{'checkpoint' if which=='state.pt' else 'learner': 1})
    with put(which, good[which]) as p:
        save_state(p, replaced(load_state(p), where, new))
        clear(lambda: reload(p) if which=='kept.pt' else restored(good['stream'], load_state(p)))

@cases(30)
@given(how=edits)
def test_result(good, figures, how):
    figures.add('fuzz', result=1)
    with put('r.json', changed(good['r.json'], how)) as p:
        r = clear(Result.load, p); assert r is None or r == good['result']

@cases(40)
@given(change=st.dictionaries(st.sampled_from([*Result.__dataclass_fields__, 'check', 'other']), plain, max_size=3), inside=st.dictionaries(st.sampled_from(['stream','width','lr','method','keep','x']), plain, max_size=2))
def test_result_with_other_values(good, figures, change, inside):
    "What is let through can be tabulated."
    figures.add('fuzz', result=1); d = json.loads(good['r.json']); d.pop('check'); d['config'] |= inside
    with tempfile.TemporaryDirectory() as root, contextlib.redirect_stderr(io.StringIO()):
        p = Path(root)/'results'/'runs'/'r.json'; p.parent.mkdir(parents=True); p.write_text(json.dumps(d | change))
        for r in jobs.load_results(root): repr(r); r.matrix; jobs.Job('rotated_digits', 'er_ring').find([r]); clear(lambda: jobs.stem(r.config) if 'method' in r.config and isinstance(r.config['method'], str) else None)
        clear(report.compare, 'demo', 'rotated_digits', root)

@cases(25)
@given(text=st.one_of(st.binary(max_size=60), plain.map(lambda o: json.dumps(o).encode()), plain.map(lambda o: json.dumps(dict(lr=o)).encode())))
def test_tuning(figures, text):
    figures.add('fuzz', tuning=1); job = jobs.Job('rotated_digits', 'finetune', 0, dict(lr='tuned'))
    with tempfile.TemporaryDirectory() as root:
        p = job.tune_path(root); p.parent.mkdir(parents=True); p.write_bytes(text)
        got = clear(job.resolve, root)
        if got: clear(lambda: configure(streams.rotated_digits(tasks=1), 'finetune', **got.settings))

@cases(45)
@given(name=st.sampled_from(('a.pkl','b.pkl','a.npz')), how=edits)
def test_arrays(good, figures, name, how):
    figures.add('fuzz', arrays=1)
    with put(name, changed(good[name], how)) as p: clear(miniimagenet.list_arrays, p)

@cases(30)
@given(o=st.dictionaries(st.sampled_from(('images','labels','class_dict','image_data','data')), plain, max_size=3), protocol=st.integers(0, 5))
def test_pickles_of_other_things(figures, o, protocol):
    figures.add('fuzz', arrays=1)
    if 'images' in o: o['images'] = np.zeros((2,84,84,3), np.uint8)
    with put('a.pkl', pickle.dumps(o, protocol)) as p: clear(miniimagenet.list_arrays, p)

ops = st.lists(st.binary(min_size=1, max_size=3) | st.sampled_from([b'cnumpy\nndarray\n', b'cnumpy\ndtype\n', b'c_codecs\nencode\n', b'X\x03\x00\x00\x00abc', b'K\x05', b'(', b't', b'R', b'}', b']', b'q\x00', b'h\x00', b'\x85', b'b', b'N', b'J\xff\xff\xff\x7f', b'\x8a\x04\xff\xff\xff\x7f']), max_size=25)

@cases(40)
@given(ops=ops)
def test_pickle_machine(figures, ops):
    "Programs for the pickle machine."
    figures.add('fuzz', arrays=1); data = b'\x80\x04' + b''.join(ops) + b'.'
    clear(lambda: files.unpickle(io.BytesIO(data), len(data), 'x.pkl'))

@cases(40)
@given(name=st.sampled_from(('a.png','a.jpg')), how=edits)
def test_images(good, figures, name, how):
    figures.add('fuzz', images=1)
    with put(name, changed(good[name], how)) as p: clear(miniimagenet.read_image, p)

@cases(15)
@given(how=edits, note=st.one_of(st.none(), plain.map(json.dumps), st.text(max_size=30)), head=st.booleans())
def test_decoded_images(good, figures, how, note, head):
    "A cache is whole or made again."
    figures.add('fuzz', cache=1); data = good['c.npy']
    bad = changed(data[:200], how) + data[200:] if head else changed(data, how)
    with put('c.npy', bad) as p, contextlib.redirect_stderr(io.StringIO()):
        p.with_suffix('.json').write_text(good['c.json'].decode() if note is None else note, encoding='utf-8', errors='replace')
        got = miniimagenet.open_decoded(p); assert got is None or got[0].shape == (100,1,3,84,84)

# commands, in process, on digits that are few

@pytest.fixture(scope='module')
def few():
    "Streams of a hundred digits, so that any run is over at once."
    im = files.digits(); i = torch.arange(0, 5000, 50)
    small = files.make_images('digits', im.x[i], im.y[i], torch.arange(100) % 10 < 6)
    with pytest.MonkeyPatch.context() as m:
        m.setattr(streams, 'digits', lambda: small); m.setenv('ORTHOG_NB_DATA', tempfile.gettempdir()); m.setenv('ORTHOG_NB_CACHE', tempfile.gettempdir())
        m.setattr(files, 'fetch', lambda name, folder: (_ for _ in ()).throw(InputError(f'no {name} here; get it')))
        m.setattr(experiments.signal, 'signal', lambda *_: None)
        yield

def command(f, args):
    "Exit code, stdout and stderr of a command, run as from a shell."
    out,err = io.StringIO(),io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.MonkeyPatch.context() as m:
        m.setattr(sys, 'argv', [f.__name__, *args])
        try: code = script._run_cli(f.__wrapped__, False)
        except SystemExit as e: code = e.code
    return code or 0, out.getvalue(), err.getvalue()

def checked(f, args, figures):
    figures.add('fuzz', commands=1)
    code,out,err = command(f, args); figures.add('commands', **{f'exit {code}': 1})
    assert code in (0, 1, 2) and 'Traceback' not in out+err
    if code==2: assert err.strip(), args

word = st.one_of(st.text(st.characters(blacklist_categories=('Cs',), blacklist_characters='\0'), max_size=8), st.integers().map(str), st.floats().map(str), st.sampled_from(['', '0', '-1', '1e9', 'nan', 'inf', 'None', 'True', '[1]', '{}', '((((', '1'*5000, '~', '..', '2', '3', '.5', 'per_task', 'random', 'axes', 'iterative', 'euclidean', 'orthonormal', 'adam', 'sgd']))
number = st.one_of(st.integers(-2, 3).map(str), st.integers().map(str), word)
some = sorted({k for m in methods for k in known_settings(m)})
extra = st.builds('{}={}'.format, st.sampled_from([*some, 'tasks','angles','stream_seed','samples','x']), word) | word
def options(**kinds): return st.lists(st.one_of(*(st.tuples(st.just(f'--{k}'), v) for k,v in kinds.items())), max_size=3).map(lambda ps: [w for p in ps for w in p])
small_run = options(method=st.sampled_from([*methods]) | word, seed=number, width=st.sampled_from(['4','8']) | number, epochs=st.sampled_from(['1','2']) | word, threads=st.just('1') | word, device=st.sampled_from(['cpu','cuda','meta','mps','gpu','cuda:7']) | word)

@cases(60)
@given(args=small_run, more=st.lists(extra, max_size=2))
def test_orthog_run(few, figures, args, more):
    with tempfile.TemporaryDirectory() as root: checked(experiments.orthog_run, [*args, '--benchmark', 'rotated_digits', '--root', root, 'tasks=2', *more], figures)

@cases(15)
@given(benchmark=st.sampled_from([*streams.streams]) | word, root=word.filter(lambda w: '/' not in w and w not in ('', '~', '..')))
def test_benchmarks_and_roots(few, figures, benchmark, root):
    with tempfile.TemporaryDirectory() as d: checked(experiments.orthog_run, [f'--benchmark={benchmark}', f'--root={d}/{root}', '--width=8', '--method=finetune', 'tasks=1'], figures)

@cases(20)
@given(args=options(preset=st.sampled_from([*experiments.presets]) | word, out=st.just('x')))
def test_orthog_report(few, figures, args):
    with tempfile.TemporaryDirectory() as d: checked(report.orthog_report, [*args, f'--root={d}', f'--out={d}/out'], figures)

@cases(25)
@given(args=options(preset=st.just('demo') | word, benchmarks=st.sampled_from(['rotated_digits','permuted_digits,rotated_digits']) | word, methods=word, seeds=word, threads=word, device=word), one=st.just('nothing') | word)
def test_orthog_sweep(few, figures, args, one):
    "Every run of a sweep fails before it starts, or all arguments are refused."
    with tempfile.TemporaryDirectory() as d, pytest.MonkeyPatch.context() as m:
        m.setattr(experiments, 'sweep', lambda jobs, root, **kw: ([None]*len(jobs), {}))
        checked(experiments.orthog_sweep, [*args, f'--root={d}'], figures)

@cases(15)
@given(args=options(method=word, lrs=st.sampled_from(['.1','.1,.2']) | word, seeds=word, epochs=word, width=word, threads=word, workers=word), more=st.lists(extra, max_size=2))
def test_orthog_tune(few, figures, args, more):
    with tempfile.TemporaryDirectory() as d, pytest.MonkeyPatch.context() as m:
        m.setattr(experiments, 'tune', lambda job, root, lrs, *a, **kw: (job.tune_path(root).parent.mkdir(parents=True), dict(lrs=lrs or [.1], accuracy=[[.5]]*len(lrs or [.1]), lr=(lrs or [.1])[0]))[1])
        checked(experiments.orthog_tune, [*args, '--benchmark=rotated_digits', f'--root={d}', *more], figures)

@cases(20)
@given(how=edits)
def test_orthog_verify(few, good, figures, how):
    with put('r.json', changed(good['r.json'], how)) as p: checked(experiments.orthog_verify, [str(p)], figures)

@cases(12)
@given(config=st.dictionaries(st.sampled_from([*some, 'method','seed','batch','epochs','keep','root']), plain, max_size=2), of=st.dictionaries(st.sampled_from(['tasks','seed','angles','root','of','name']), plain, max_size=2), top=st.dictionaries(st.sampled_from(['benchmark','method','threads','seed']), plain | st.just('rotated_digits_tuning'), max_size=1))
def test_orthog_verify_of_other_manifests(few, good, figures, config, of, top):
    d = json.loads(good['r.json']); d.pop('check'); d['config']['stream'] |= of; d['config'] |= config
    with put('r.json', json.dumps(d | top).encode()) as p: checked(experiments.orthog_verify, [str(p)], figures)

@cases(5)
@given(root=word)
def test_orthog_data(few, figures, root): checked(experiments.orthog_data, [f'--root={root}'], figures)

def test_enough_cases(figures):
    "Both kinds of commands were among them: those that ran, and those that were refused."
    n = sum(figures.get('fuzz', {}).values()); assert n >= (5000 if soak else 300), n
    assert {'exit 0','exit 2'} <= figures['commands'].keys()
