"A run killed at any moment and started again gives the matrix of an undisturbed one, to the bit."
import json, os, random, signal, subprocess, sys, time
from pathlib import Path
import pytest

here = Path(__file__).parent
cases = [('orthog','all'), ('er_ring','mnist'), ('ewc','mnist'), ('mer','mnist'), ('vcl_random','mnist'), ('agem','mnist'), ('orthog','mnist'), ('finetune','mnist'), ('vcl','mnist'), ('multitask','mnist')]

def start(root, method, kind):
    env = dict(os.environ, OMP_NUM_THREADS='1')
    p = subprocess.Popen([sys.executable, here/'victim.py', root, method, kind], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    assert p.stdout.readline().strip() == 'ready', p.stderr.read()
    return p

def finish(p):
    out = p.stdout.read()  # not communicate(): it would lose what readline has buffered
    assert p.wait() == 0, p.stderr.read()
    return json.loads(out)

def kill_until_done(root, method, kind, kills, rng, longest):
    "Kill up to `kills` times at random moments, then let it finish."
    done = 0
    for _ in range(kills):
        p = start(root, method, kind)
        try: p.wait(rng.uniform(0, longest))
        except subprocess.TimeoutExpired: p.send_signal(rng.choice([signal.SIGKILL, signal.SIGTERM])); p.wait(); done += 1
        p.stdout.close(); p.stderr.close()
        if list((Path(root)/'results'/'runs').glob('*.json')): break
    return finish(start(root, method, kind)), done

@pytest.mark.parametrize('method,kind', cases[:5])
def test_killed_and_resumed(method, kind, tmp_path):
    t = time.time(); whole = finish(start(tmp_path/'whole', method, kind)); longest = max(time.time()-t-2, .5)
    rng = random.Random(f'{method}{kind}')
    R,kills = kill_until_done(tmp_path/'killed', method, kind, 2, rng, longest)
    assert R == whole
    assert not list((tmp_path/'killed').rglob('*.part')) or kills

@pytest.mark.soak
@pytest.mark.parametrize('method,kind', cases)
def test_killed_often(method, kind, tmp_path):
    whole = finish(start(tmp_path/'whole', method, kind))
    rng,kills,n = random.Random(0),0,0
    while kills < 20:
        R,k = kill_until_done(tmp_path/f'killed{n}', method, kind, 6, rng, 1.5)
        assert R == whole
        kills,n = kills+k,n+1
