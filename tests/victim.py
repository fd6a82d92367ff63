"""A small run for the kill tests: python victim.py ROOT METHOD. Says `ready` when it begins to learn, prints R as JSON when it is done."""
import json, sys
import torch
from orthog_nb.streams import rotated_digits
from orthog_nb.training import learn

def stream():
    "Three turning tasks, cut short."
    s = rotated_digits(tasks=3)
    for t in s: t.train_ids,t.test_ids = t.train_ids[:800],t.test_ids[:200]
    return s

if __name__ == '__main__':
    torch.set_num_threads(1)
    s = stream()
    print('ready', flush=True)
    r = learn(s, sys.argv[2], root=sys.argv[1], save_every=5, quiet=True, **({'mnist': {}, 'all': dict(replay=True, stiefel=True, init='orthonormal')}[sys.argv[3]]))
    print(json.dumps(r.R), flush=True)
