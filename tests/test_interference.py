"What the interference page promises, where a notebook can't show it well: whole runs, kills, sizes."
import copy, json, sys
from pathlib import Path
import pytest, torch
from orthog_nb.interference import GradientCosines, InactiveUnits, KernelSpectra
from orthog_nb.methods import methods
from orthog_nb.streams import Info, rotated_digits
from orthog_nb.training import Run, configure, learn, load_state

sys.path.insert(0, str(Path(__file__).resolve().parent.parent/'bench'))
watchers = lambda: [GradientCosines(every=3), KernelSpectra(), InactiveUnits()]
net = dict(orthog=dict(width=4, stiefel=True, init='orthonormal', projection=True, replay=True), er_ring=dict(width=4, dropout=.2), agem=dict(width=4))

def colour(tasks=3, n=60, size=8):
    "A stream of noise in colour, so that the network is the ResNet with its batch norm."
    g = torch.Generator().manual_seed(0)
    s = rotated_digits(tasks=tasks)
    x = torch.randint(0, 256, (2*n*tasks, 3, size, size), dtype=torch.uint8, generator=g); y = torch.randint(0, 10, (2*n*tasks,), generator=g)
    s.info = Info('split_cifar', tasks, 10, (3,size,size), False, None, torch.zeros(3,1,1), torch.ones(3,1,1))
    class Noise:
        pixels = angle = None
        def __init__(self, t): self.t,self.classes,self.train_ids,self.test_ids = t,list(range(10)),torch.arange(n),torch.arange(n)
        def train(self, device='cpu'): return x[2*n*self.t:2*n*self.t+n], y[2*n*self.t:2*n*self.t+n]
        def test(self, device='cpu'): return x[2*n*self.t+n:2*n*(self.t+1)], y[2*n*self.t+n:2*n*(self.t+1)]
    s.tasks = [Noise(t) for t in range(tasks)]
    return s

def ended(stream, method, watch, path):
    "Everything that a finished learner holds."
    learn(stream, method, quiet=True, watch=watch, keep=path, **net[method])
    return load_state(path)['method']

def same(a, b):
    if isinstance(a, torch.Tensor): return torch.equal(a, b)
    if isinstance(a, dict): return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list,tuple)): return len(a) == len(b) and all(map(same, a, b))
    return a == b

@pytest.mark.parametrize('method', ['orthog','er_ring','agem'])
def test_watching_changes_no_bit(method, tmp_path):
    "Weights, batch-norm statistics, memory, generators and optimiser at the end of a run with and without watchers."
    a = ended(colour(), method, (), tmp_path/'a.pt'); b = ended(colour(), method, watchers(), tmp_path/'b.pt')
    assert any('running_var' in k for k in a['model']) and same(a, b)

@pytest.mark.parametrize('method', ['orthog','er_ring','agem'])
def test_interrupted_run_has_seen_the_same(method, tmp_path):
    "Killed in the middle of the last task and continued by new watchers: the same counts as a run in one piece."
    whole = learn(colour(), method, quiet=True, watch=watchers(), **net[method])
    original,count = methods[method].observe,[0]
    def dies(self, *args):
        count[0] += 1
        if count[0] == 15: raise KeyboardInterrupt
        return original(self, *args)
    methods[method].observe = dies
    try:
        with pytest.raises(KeyboardInterrupt): learn(colour(), method, root=tmp_path, save_every=1, quiet=True, watch=watchers(), **net[method])
    finally: methods[method].observe = original
    again = learn(colour(), method, root=tmp_path, save_every=1, quiet=True, watch=watchers(), **net[method])
    assert again.R == whole.R and again.watch == whole.watch
    assert again.watch['GradientCosines']['tasks']['n'] == ([0,2,2] if method == 'er_ring' else [0,6,6])

def test_no_watcher_joins_halfway(tmp_path):
    "A checkpoint of an unwatched run is not continued by watchers that missed its beginning; the other way round is fine."
    from orthog_nb.core import InputError
    make = lambda watch: Run(s, configure(s, 'er_ring', **net['er_ring']), torch.device('cpu'), watch)
    s = colour(); seen,unseen = make(watchers()),make([])
    with pytest.raises(InputError, match='other watchers'): seen.load_state_dict(unseen.state_dict())
    unseen.load_state_dict(seen.state_dict())

def test_memory_does_not_grow():
    "The state of the watcher has the size it started with, however long the run."
    s = colour(); run = Run(s, configure(s, 'orthog', **net['orthog']), torch.device('cpu'), [w := GradientCosines()])
    size = lambda: sum(v.nbytes for v in w.state_dict().values())
    before,grads = size(),[torch.randn_like(p) for p in run.method.params]
    for i in range(500): w(1, i, grads, grads)
    assert size() == before < 100_000 and w.summary()['tasks']['n'][1] == 500

def test_summary_is_small():
    "17 tasks on the ResNet18, all three watchers: under 50 KB in the result's file."
    s = colour(17, 20); r = learn(s, 'orthog', quiet=True, watch=watchers(), **net['orthog'] | dict(width=8))
    big = copy.deepcopy(r.watch); big['GradientCosines']['counts'] = [[12345]*len(c) for c in big['GradientCosines']['counts']]
    text = json.dumps(dict(watch=big), indent=1).replace('\n   ', ' ')
    assert len(text) < 50_000, len(text)

def test_watching_a_run_that_was_done_unwatched(tmp_path, monkeypatch):
    "bench/watch_cifar.py adds what was seen to a result that was made without watchers, and refuses if R differs."
    import watch_cifar
    from orthog_nb.core import InputError
    monkeypatch.setattr(watch_cifar, 'split_cifar', lambda seed, **kw: colour())
    plain = learn(colour(), 'er_ring', root=tmp_path, quiet=True, width=4)
    path,_ = watch_cifar.watched('er_ring', 0, dict(width=4), tmp_path, quiet=True)
    d = json.loads(path.read_text())
    assert d['watch']['GradientCosines'] and d['R'] == plain.R and d['seconds'] == plain.seconds
    del d['check']; d['watch'] = None; d['R'][0][0] += .01; path.write_text(json.dumps(d))
    with pytest.raises(InputError, match='another R'): watch_cifar.watched('er_ring', 0, dict(width=4), tmp_path, quiet=True)

@pytest.fixture(scope='module')
def served(tmp_path_factory):
    "A page with both interactive figures as the notebook has them, on a server of this machine."
    import functools, http.server, re, shutil, threading
    nbs = Path(__file__).resolve().parent.parent/'nbs'; site = tmp_path_factory.mktemp('site')
    shutil.copytree(nbs/'interactive', site/'interactive')
    text = '\n'.join(''.join(c['source']) for c in json.loads((nbs/'12c_picture.ipynb').read_text())['cells'] if c['cell_type'] == 'markdown')
    (site/'index.html').write_text('<meta charset="utf-8">' + '\n'.join(re.findall(r'<figure class="interactive".*?</script>', text, re.S)))
    quiet = type('Quiet', (http.server.SimpleHTTPRequestHandler,), dict(log_message=lambda *a: None))
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f'http://127.0.0.1:{server.server_port}/index.html'
    server.shutdown()

def test_sliders(served, browser):
    "Both figures replace their picture by a drawing that follows its slider, and nothing goes wrong in the console."
    page,errors = browser.new_page(),[]
    page.on('pageerror', lambda e: errors.append(str(e)))
    page.goto(served)
    for name,at,says in (('turn', 25, 'iteration, s = 2 off by 0.099'), ('growing', 1, 'After 1 tasks')):
        page.wait_for_selector(f'#fig-{name} svg')
        before = page.get_attribute(f'#fig-{name} svg', 'aria-label')
        page.eval_on_selector(f'#fig-{name} input', f"e => {{ e.value = {at}; e.dispatchEvent(new Event('input')) }}")
        after = page.get_attribute(f'#fig-{name} svg', 'aria-label')
        assert says in after != before and page.query_selector(f'#fig-{name} img') is None
    assert not errors
    page.close()

def test_pictures_without_javascript(served, browser):
    "Where scripts are off, the pictures stay, with their alternative text."
    page = browser.new_context(java_script_enabled=False).new_page(); page.goto(served)
    pictures = page.query_selector_all('figure.interactive img')
    assert len(pictures) == 2 and all(p.get_attribute('alt') and p.bounding_box()['width'] > 300 for p in pictures)
    page.close()
