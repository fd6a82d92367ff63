"""Run notebooks from the top and store what they print and draw: what readers see on the site.

    python docs/execute.py                # all of nbs/
    python docs/execute.py nbs/03_cayley.ipynb …

Cells marked `#| eval: false` or `#| slow` keep what they hold; a failing cell stops with its traceback and leaves the file as it was.
Figures are stored as PNG of 128 colours, a third of the size that matplotlib writes; nobody sees the difference, and the same figure gives the same bytes.
"""
import base64, io, os, re, sys, time
from pathlib import Path
import nbformat
from PIL import Image
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

def pack(png):
    "A figure (base64) with a palette of 128 colours, where that is smaller; one that has a palette is left alone."
    image, out = Image.open(io.BytesIO(base64.b64decode(png))), io.BytesIO()
    if image.mode == 'P' or image.convert('RGBA').getextrema()[3][0] < 255: return png
    image.convert('RGB').quantize(128, method=Image.Quantize.MEDIANCUT, kmeans=3, dither=Image.Dither.NONE).save(out, 'PNG', optimize=True)
    return min(png, base64.b64encode(out.getvalue()).decode()+'\n', key=len)

def pack_all(nb):
    "Pack every figure of a notebook, in place."
    for cell in nb.cells:
        for data in (o.get('data', {}) for o in cell.get('outputs', ())):
            if 'image/png' in data: data['image/png'] = pack(''.join(data['image/png']))

def execute(path):
    "Run one notebook and replace it atomically."
    start, nb = time.time(), nbformat.read(path, as_version=4)
    Client(nb, timeout=600, kernel_name='python3', resources={'metadata': {'path': str(path.parent)}}).execute()
    pack_all(nb)
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
