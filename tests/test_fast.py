"Steps by hand: the numbers of the plain ones, in a run that can be killed, and is told apart by its manifest."
import subprocess, sys
from pathlib import Path
import pytest, torch
from orthog_nb.core import InputError, Progress
from orthog_nb.fast import ByHand
from orthog_nb.jobs import Job
from orthog_nb.streams import rotated_digits
from orthog_nb.training import Run, configure, learn, stem

fast_methods = ['finetune','multitask','er_ring','agem','ewc','mer','orthog']

def short(tasks=3, n=300):
    s = rotated_digits(tasks=tasks)
    for t in s: t.train_ids,t.test_ids = t.train_ids[:n],t.test_ids[:200]
    return s

@pytest.fixture(autouse=True)
def one_thread(): torch.set_num_threads(1)

@pytest.mark.parametrize('method', fast_methods)
def test_same_weights(method):
    "After three tasks in double precision, plain and fast are the same network."
    torch.set_default_dtype(torch.float64)
    try:
        nets = []
        for fast in (False,True):
            s = short(); run = Run(s, configure(s, method, fast=fast), torch.device('cpu'), quiet=True)
            for i in range(run.lessons):
                with Progress(1, quiet=True) as bar: run.learn_lesson(bar, lambda: None, 10**9)
                run.method.end_task(run.t, s[run.t]); run.i,run.step = i+1,0
            nets.append([p.detach() for p in run.method.params])
        for a,b in zip(*nets): torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-9)
    finally: torch.set_default_dtype(torch.float32)

@pytest.mark.parametrize('method', ['er_ring','agem','ewc'])
def test_stopped_and_continued(method, tmp_path):
    "An exception in the middle of the second task, then the same call again: the matrix of a run that was left alone, to the bit."
    whole = learn(short(), method, quiet=True, fast=True); original,count = ByHand.factors,[0]
    def dies(self, *args):
        count[0] += 1
        if count[0] == 47: raise KeyboardInterrupt
        return original(self, *args)
    ByHand.factors = dies
    try:
        with pytest.raises(KeyboardInterrupt): learn(short(), method, root=tmp_path, save_every=5, quiet=True, fast=True)
    finally: ByHand.factors = original
    assert learn(short(), method, root=tmp_path, save_every=5, quiet=True, fast=True).R == whole.R

def test_manifest(tmp_path):
    "The result says how it was made, is kept apart from the plain one, and is made again the same way."
    s = short(2); plain,fast = (learn(s, 'orthog', root=tmp_path, quiet=True, **kw) for kw in ({}, dict(fast=True)))
    assert fast.config['fast'] is True and plain.config['fast'] is False and stem(fast.config) != stem(plain.config)
    assert len(list(tmp_path.glob('results/runs/*.json'))) == 2
    assert not Job('rotated_digits', 'orthog').matches(fast.config)
    assert abs(fast.accuracy-plain.accuracy) < .02

def test_results_from_before_it_existed():
    "A configuration without the setting is that of a plain run."
    s = short(2); c = configure(s, 'finetune'); old = {k: v for k,v in c.items() if k != 'fast'}
    assert stem(old) == stem(c) and not Run(s, old, torch.device('cpu'), quiet=True).method.fast

def test_command(tmp_path):
    "orthog_run takes it as a setting; what has no fast step is refused in one line."
    run = lambda *args: subprocess.run([Path(sys.executable).parent/'orthog_run', *args, '--root', str(tmp_path)], capture_output=True, text=True)
    bad = run('--method', 'vcl', '--benchmark', 'rotated_digits', 'fast=True', 'tasks=2')
    assert bad.returncode == 2 and 'no step for VCL' in bad.stderr and 'Traceback' not in bad.stderr

def test_refused():
    for kw,says in ((dict(method='orthog', stiefel=True), 'plain SGD'), (dict(method='finetune', dropout=.1), 'MLP alone')):
        with pytest.raises(InputError, match=says): learn(short(2), quiet=True, fast=True, **kw)
