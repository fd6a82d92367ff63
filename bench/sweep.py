"""What two processes gain over one, and what the orchestration around the runs costs, alternating in one go.

    python bench/sweep.py                        # Permuted MNIST if its data is here, else the offline digits
    python bench/sweep.py --runs 8 --tasks 5 --rounds 3

Writes results/bench/sweep.json. Ratios are what counts; on a machine that is busy with other work two processes can't gain much, so the load is noted too.
"""
import argparse, json, os, statistics, tempfile, time
from pathlib import Path
from orthog_nb.core import atomic_write
from orthog_nb.sweeps import Job, sweep
from orthog_nb.streams import data_report
from orthog_nb.training import versions

def once(jobs, workers):
    "Wall time of a sweep, and of its runs alone."
    with tempfile.TemporaryDirectory() as d:
        start = time.perf_counter(); results,failed = sweep(jobs, d, workers=workers, threads=1, device='cpu', quiet=True); wall = time.perf_counter()-start
    assert not failed, failed
    return wall, sum(r.seconds for r in results)

if __name__ == '__main__':
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--runs', type=int, default=4); p.add_argument('--tasks', type=int, default=4); p.add_argument('--rounds', type=int, default=3)
    p.add_argument('--out', default=str(Path(__file__).resolve().parent.parent/'results/bench/sweep.json'))
    a = p.parse_args()
    name = next(r['streams'][0] for r in sorted(data_report(), key=lambda r: r['data'] != 'mnist') if r['ok'])
    jobs = [Job(name, ('finetune','orthog')[s%2], s, stream=dict(tasks=a.tasks)) for s in range(a.runs)]
    for w in (1,2): once(jobs[:2], w)  # imports, data and processes are warm from here on
    load,rounds = os.getloadavg()[0],[(once(jobs, 1), once(jobs, 2)) for _ in range(a.rounds)]
    ratio = statistics.median(two/one for (one,_),(two,_) in rounds); overhead = statistics.median((wall-runs)/runs for (wall,runs),_ in rounds)
    print(f'two processes: {ratio:.2f} of the time of one; around the runs: {100*overhead:.1f} % of their time (load before: {load:.1f})')
    with atomic_write(a.out) as f: f.write(json.dumps(dict(schema=1, bench='sweep', benchmark=name, runs=a.runs, tasks=a.tasks, rounds=a.rounds, two_over_one=ratio, overhead=overhead, load=load, cores=os.cpu_count(), versions=versions()), indent=1).encode())
    print(a.out)
