"""One run of Split CIFAR with watchers: gradient cosines, singular values of the kernels and switched-off units end in the result's `watch`.

    python bench/watch_cifar.py orthog 0 width=20                      # method, seed, settings that differ from the paper's
    python bench/watch_cifar.py orthog 0 width=20 stiefel=false --root .
    python bench/watch_cifar.py er_ring 0 width=20 --tasks 3 --per-class 50 --root /tmp/try

Writes ROOT/results/runs/<stem>.json and can be stopped and called again. Watching changes no number: where the same run was done without
watchers, it is done again, its matrix R must come out the same, and the result gets its `watch`.
"""
import argparse, json
from dataclasses import replace
from pathlib import Path
import torch
from orthog_nb.core import InputError
from orthog_nb.interference import GradientCosines, InactiveUnits, KernelSpectra
from orthog_nb.jobs import drop_checkpoint
from orthog_nb.streams import split_cifar
from orthog_nb.training import Result, configure, learn, stem

def value(v):
    "A setting as it was typed: a number, true, false, null, or a word."
    try: return json.loads(v.lower() if v in ('True','False') else v)
    except ValueError: return v

def watched(method, seed, settings, root, quiet=False, **stream):
    "The result of a run with its `watch`, read or made."
    s = split_cifar(seed, **stream)
    path = Path(root)/'results'/'runs'/f'{stem(configure(s, method, seed, **settings))}.json'
    known = Result.load(path) if path.exists() else None
    if known and known.watch: return path, known
    at = Path(root) if known is None else Path(root)/'runs'/'watched'
    result = learn(s, method, seed, device='cpu', root=at, quiet=quiet, watch=[GradientCosines(), KernelSpectra(), InactiveUnits()], **settings)
    if known:
        if known.R != result.R: raise InputError(f'{path}: another R than with watchers; it was made elsewhere, or by another version: move it away and run again')
        replace(known, watch=result.watch).save(path)
        (at/'results'/'runs'/path.name).unlink()
    drop_checkpoint(result, at)
    return path, result

if __name__ == '__main__':
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('method'); p.add_argument('seed', type=int); p.add_argument('settings', nargs='*', help='name=value')
    p.add_argument('--root', default=str(Path(__file__).resolve().parent.parent)); p.add_argument('--threads', type=int, default=1)
    p.add_argument('--tasks', type=int, default=17); p.add_argument('--per-class', type=int, default=500)
    a = p.parse_args(); torch.set_num_threads(a.threads)
    try: path,result = watched(a.method, a.seed, {k: value(v) for k,v in (o.split('=', 1) for o in a.settings)}, a.root, tasks=a.tasks, per_class=a.per_class)
    except InputError as e: raise SystemExit(f'watch_cifar: {e}')
    print(result); print(path)
