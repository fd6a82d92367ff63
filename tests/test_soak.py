"""Learning for an hour (`--minutes`): memory, open files, threads and temporary files stay where they were."""
import json, os, subprocess, sys
from pathlib import Path
import pytest

def rounds(minutes):
    r = subprocess.run([sys.executable, Path(__file__).parent/'soak.py', str(minutes)], capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS='1'))
    assert r.returncode == 0, r.stderr
    return [json.loads(line) for line in r.stdout.splitlines()]

@pytest.mark.soak
def test_nothing_grows(request, figures):
    seen = rounds(request.config.getoption('--minutes'))
    settled = seen[max(2, len(seen)//5):]  # what is loaded and cached at the start is not growth
    a,b = settled[0],settled[-1]; half = settled[len(settled)//2:]
    growth = sorted(s['rss'] for s in half)[len(half)//2] - sorted(s['rss'] for s in settled[:len(half)])[len(half)//2]
    step = max(1, len(seen)//60)
    figures['soak'] = dict(minutes=b['minutes'], cpu_minutes=b['cpu'], rounds=len(seen), runs=b['runs'], growth_bytes=growth, rss=b['rss'], open_files=[a['files'], b['files']], threads=[a['threads'], b['threads']],
                           temporary_files=b['temporary'], trace=[[s['minutes'], round(s['rss']/2**20, 1)] for s in seen[::step]])
    assert growth < 16*2**20 and b['files'] <= a['files'] and b['threads'] <= a['threads'] and b['temporary'] == 0
