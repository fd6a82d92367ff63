"""Learn without a pause, and say how the process is doing: python tests/soak.py MINUTES. Prints one JSON line a round, of all methods."""
import gc, json, os, shutil, sys, tempfile, time
from pathlib import Path
import psutil, torch
from orthog_nb.training import learn
from victim import cases, kinds, stream

def state(me, temp):
    gc.collect()
    return dict(cpu=round(time.process_time()/60, 2), rss=me.memory_info().rss, files=me.num_fds(), threads=me.num_threads(), temporary=sum(len(f) for _,_,f in os.walk(temp)))

if __name__ == '__main__':
    torch.set_num_threads(1); end,me = time.time()+60*float(sys.argv[1]),psutil.Process()
    streams = {k: stream(k) for k in kinds}
    with tempfile.TemporaryDirectory() as temp, tempfile.TemporaryDirectory() as root:
        tempfile.tempdir = temp; start,n,first = time.time(),0,{}
        while time.time() < end or n < 6:
            for method,kind in cases:
                r = learn(streams[kind], method, root=Path(root), save_every=20, quiet=True, **kinds[kind])
                assert first.setdefault((method,kind), r.R) == r.R, f'{method}: another result in round {n}'
                for d in ('runs','results'): shutil.rmtree(Path(root)/d)
            n += 1; print(json.dumps(dict(round=n, minutes=round((time.time()-start)/60, 2), runs=n*len(cases)) | state(me, temp)), flush=True)
