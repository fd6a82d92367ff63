"""Run notebooks from the top and store what they print and draw: what readers see on the site.

    python docs/execute.py                # all of nbs/
    python docs/execute.py nbs/03_cayley.ipynb …

Cells marked `#| eval: false` or `#| slow` keep what they hold; a failing cell stops with its traceback and leaves the file as it was.
"""
import os, re, sys, time
from pathlib import Path
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbdev.clean import clean_nb
from execnb.nbio import read_nb, write_nb

root = Path(__file__).resolve().parent.parent
skips = re.compile(r'^#\|\s*(eval:\s*false|slow)\b', re.M)

class Client(NotebookClient):
    async def async_execute_cell(self, cell, *args, **kwargs):
        if cell.cell_type == 'code' and skips.search(cell.source): return cell
        return await super().async_execute_cell(cell, *args, **kwargs)

def execute(path):
    "Run one notebook and replace it atomically."
    start, nb = time.time(), nbformat.read(path, as_version=4)
    Client(nb, timeout=600, kernel_name='python3', resources={'metadata': {'path': str(path.parent)}}).execute()
    part = path.with_suffix('.part')
    nbformat.write(nb, part)
    clean = read_nb(part)
    clean_nb(clean)
    write_nb(clean, part)
    part.replace(path)
    print(f'{path.name}: {time.time()-start:.0f} s', flush=True)

if __name__ == '__main__':
    os.environ.setdefault('PYDEVD_DISABLE_FILE_VALIDATION', '1')
    paths = [Path(p).resolve() for p in sys.argv[1:]] or sorted((root/'nbs').glob('*.ipynb'))
    for p in paths:
        try: execute(p)
        except CellExecutionError as e: sys.exit(f'{p.name}: {e}')
