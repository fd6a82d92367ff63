"""A run killed at any moment and started again gives the matrix of an undisturbed one, to the bit.

    pytest tests/test_kill.py           # at least ten kills: every method
    pytest tests/test_kill.py --soak    # twenty of each
"""
import random, signal, time
from pathlib import Path
import pytest
from victim import Nursery, cases, places

@pytest.fixture(scope='module')
def nursery(): return Nursery()

def litter(root): return [p for p in Path(root).rglob('*') if p.name.endswith('.part')]

@pytest.mark.parametrize('i,method,kind', [(i, *c) for i,c in enumerate(cases[:10])])
def test_killed_and_resumed(nursery, i, method, kind, tmp_path):
    "Every method once, each at another place."
    whole,place = nursery.whole(tmp_path/'whole', method, kind),places[i % 6]
    joint = method=='multitask'
    n = 1 if joint or place=='result' else dict(step=95, end=2, evaluate=3, checkpoint=3, moved=5).get(place, 2)
    sig = signal.SIGKILL if i % 2 else signal.SIGTERM
    assert nursery.kill(tmp_path/'killed', method, kind, place, n, sig, i % 4==0, 0)
    assert nursery.whole(tmp_path/'killed', method, kind) == whole
    assert not litter(tmp_path)

@pytest.mark.soak
@pytest.mark.parametrize('method,kind', cases)
def test_killed_often(nursery, method, kind, tmp_path, figures):
    start,whole = time.time(),nursery.whole(tmp_path/'whole', method, kind); longest = time.time()-start
    rng,kills,life = random.Random(f'{method}{kind}'),0,0
    while kills < 20:
        root = tmp_path/f'life{life}'; life += 1
        for place,n in nursery.kill_often(root, method, kind, 7, rng, longest).items(): figures.add('kills', **{place: n}); kills += n
        same = nursery.whole(root, method, kind) == whole
        figures.add('kills', lives=1, differences=int(not same), litter=len(litter(root)))
        assert same and not litter(root)
