"""Golden numbers: what every method reached when it was right. `python tests/test_golden.py` writes them anew, after a change that is meant to change them.

Digits: three turning tasks of 1,000 images; CIFAR: two tasks of real Split CIFAR with 60 images a class, ResNet18 of width 8. A training amplifies its own rounding: in float32, another
processor changes these numbers by ten points. So they are measured in float64, where another instruction set moved no number on the digits, and on CIFAR accuracy by .0025 and forgetting by .03 (6 of 200 images); the tolerances are .01 and, on CIFAR, .03 and .05.
"""
import json, os
from pathlib import Path
import pytest, torch
from orthog_nb.streams import rotated_digits, split_cifar
from orthog_nb.training import learn, methods

golden = Path(__file__).with_name('golden.json')
digit_methods = ['finetune','ewc','vcl','vcl_random','agem','mer','er_ring','orthog','multitask']
cifar_methods = ['finetune','ewc','icarl','agem','mer','er_ring','orthog','multitask']

gentle = dict(ewc=dict(every=10), orthog=dict(lr=.05), mer=dict(lr=.01))  # a Fisher after 30 steps; at the full rates the first steps of these two are chaotic even in float64

def digits():
    s = rotated_digits(tasks=3)
    for t in s: t.train_ids = t.train_ids[:1000]
    return s

def cifar():
    s = split_cifar(tasks=2, per_class=60)
    for t in s: t.test_ids = t.test_ids.view(5,-1)[:,:40].flatten()
    return s

def measure(kind, method):
    torch.set_num_threads(1); torch.set_default_dtype(torch.float64)
    try: return in_float64(kind, method)
    finally: torch.set_default_dtype(torch.float32)

def in_float64(kind, method):
    r = learn(digits(), method, quiet=True) if kind=='digits' else learn(cifar(), method, width=8, quiet=True, **gentle.get(method, {}))
    return dict(accuracy=r.accuracy, forgetting=r.forgetting)

def check(kind, method, tol):
    want,got = json.loads(golden.read_text())[kind][method],measure(kind, method)
    for k in want: assert (want[k] is None) == (got[k] is None) and (want[k] is None or abs(want[k]-got[k]) <= tol[k]), f'{kind} {method}: {k} is {got[k]}, was {want[k]} when it was right'

@pytest.mark.parametrize('method', digit_methods)
def test_digits(method): check('digits', method, dict(accuracy=.01, forgetting=.01))

@pytest.mark.parametrize('method', cifar_methods)
@pytest.mark.skipif(not os.environ.get('ORTHOG_NB_DATA'), reason='real CIFAR-100: set ORTHOG_NB_DATA to the folder that holds cifar-100-python')
def test_cifar(method): check('cifar', method, dict(accuracy=.03, forgetting=.05))

def test_every_method_has_a_number(): assert set(methods) == set(digit_methods) | set(cifar_methods)

if __name__ == '__main__':
    golden.write_text(json.dumps(dict(digits={m: measure('digits', m) for m in digit_methods}, cifar={m: measure('cifar', m) for m in cifar_methods}), indent=1)+'\n')
    print(golden.read_text())
