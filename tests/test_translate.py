"""Quarto's Markdown as MyST, and README.md from a notebook: the small cases that pages are made of."""
import base64, io, json, subprocess, sys
from pathlib import Path
from types import SimpleNamespace
import numpy as np, pytest
from PIL import Image
pytest.importorskip('nbdev', reason='the documentation tools are not installed')
import execute, readme, translate

root = Path(__file__).resolve().parent.parent
site = SimpleNamespace(url='https://example.org/pkg', link=lambda target: f'<{target}>', gaps={'fig-gap'})
def md(text): return translate.markdown(text, site)

def test_equations():
    assert md('$$ a = b $$ {#eq-x}').strip() == '```{math}\n:label: eq-x\n\na = b\n```'
    assert md('$$\na\n= b\n$$').strip() == '```{math}\n\na\n= b\n```'
    assert '   ```{math}\n   :label: eq-y\n' in md('1. first\n\n   $$ a $$ {#eq-y}\n')
    assert md('@fig-gap') == '*a figure that is not there yet*'
    assert md('see @eq-x-y, [@fig-z] and @sec-w.') == 'see {eq}`eq-x-y`, {numref}`fig-z` and {ref}`sec-w`.'

def test_code_is_left_alone():
    for text in ('`@eq-x` and `$$ a $$ {#eq-x}`', '```python\n@eq-x\n> Note: no\n$$ a $$ {#eq-x}\n[a](b.md)\n```', 'mail me@eq-x'): assert md(text) == text

def test_callouts():
    assert md('> Note: one\n> two $x$\n\nafter').split() == ':::{note} One two $x$ ::: after'.split()
    assert md('> [!WARNING]\n> hot\n').split() == ':::{warning} Hot :::'.split()
    assert ':::{admonition} Mind\n:class: tip\n' in md('::: {.callout-tip title="Mind"}\nx\n:::')
    assert md('> just a quotation') == '> just a quotation'
    assert md('> Note: one\ntwo, without a mark\n\nafter').split() == ':::{note} One two, without a mark ::: after'.split()
    assert md('> Note: one\n- a list').split() == ':::{note} One ::: - a list'.split()
    inner = md('> Note: as in\n> $$ a $$ {#eq-n}\n> here')
    assert '```{math}\n:label: eq-n\n\na\n```' in inner and '>' not in inner

def test_figures_tables_sections():
    assert md('## A title {#sec-a}') == '(sec-a)=\n## A title'
    picture = md('![What it shows](a.png){#fig-a fig-alt="A line" width=50%}')
    assert picture.startswith('```{figure} a.png\n:name: fig-a\n:alt: A line\n:width: 50%\n\nWhat it shows')
    table = md('| a | b |\n|---|---|\n| 1 | 2 |\n\n: Numbers {#tbl-n}\n')
    assert table.startswith('```{table} Numbers\n:name: tbl-n\n\n| a | b |') and '{#' not in table

def test_links():
    assert md('[`f`](https://example.org/pkg/core.html#f) [x](https://elsewhere.org)') == '[`f`](<core.html#f>) [x](https://elsewhere.org)'
    assert md('[[`f`](https://example.org/pkg/core.html#f)](03_a.ipynb)') == '[`f`](<03_a.ipynb>)'

def test_figures_are_packed():
    "Few colours keep every pixel; many stay close to what was drawn; packing twice changes nothing; what is transparent is left alone."
    def png(image): out = io.BytesIO(); image.save(out, 'PNG'); return base64.b64encode(out.getvalue()).decode()+'\n'
    def pixels(data): return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert('RGB')).astype(int)
    x = np.add.outer(np.arange(64), np.arange(64))
    few,many = (Image.fromarray(np.stack([v, v//2, 255-v], -1).astype(np.uint8)).convert('RGBA') for v in (x//32*60, 2*x))
    for image,far in ((few, 0), (many, 3)):
        packed = execute.pack(png(image))
        assert len(packed) <= len(png(image)) and abs(pixels(packed)-pixels(png(image))).max() <= far
        assert execute.pack(packed) == packed == execute.pack(png(image))
    many.putalpha(100)
    assert execute.pack(png(many)) == png(many)

def test_options():
    opts, code = translate.options('#| label: fig-a\n#| fig-cap: "It: works"\n#| echo: false\nx = 1\n#| not an option\n')
    assert opts == {'label': 'fig-a', 'fig-cap': 'It: works', 'echo': False} and code == 'x = 1\n#| not an option'

def test_names():
    assert translate.defined('x=1\ndef f(): pass\nclass C: pass\n@patch\ndef g(self:C): pass') == ['f', 'C', 'C.g']

def cell(kind, source, outputs=()):
    return dict(cell_type=kind, metadata={}, source=source, **(dict(outputs=list(outputs), execution_count=None) if kind == 'code' else {}))

def test_readme(tmp_path):
    "Directives go, outputs stay, pictures become files."
    dot = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='
    cells = [cell('markdown', '# Name\n> What it is'), cell('code', '#| hide\nsecret'), cell('markdown', 'As @fig-dot shows.\n\n> Note: mind\n'),
             cell('code', '1+1', [dict(output_type='execute_result', data={'text/plain': '2'}, metadata={}, execution_count=None)]),
             cell('code', '#| label: fig-dot\n#| fig-cap: "A dot."\n#| fig-alt: "one dot"\n#| echo: false\ndraw()',
                  [dict(output_type='display_data', data={'image/png': dot}, metadata={})])]
    book = tmp_path/'index.ipynb'
    book.write_text(json.dumps(dict(cells=cells, metadata={}, nbformat=4, nbformat_minor=4)))
    text, files = readme.readme(book)
    assert (text, files) == readme.readme(book) and list(files) == ['docs/readme/fig-dot.png']
    assert 'secret' not in text and '#|' not in text and 'draw()' not in text and '> [!NOTE]\n> mind' in text
    assert '```python\n1+1\n```\n\n```text\n2\n```' in text and '![one dot](docs/readme/fig-dot.png)\n\n*Figure 1: A dot.*' in text and 'As Figure 1 shows.' in text

@pytest.mark.parametrize('command', ['build', 'readme'])
def test_help(command):
    out = subprocess.run([sys.executable, root/'docs'/f'{command}.py', '--help'], text=True, capture_output=True)
    assert out.returncode == 0 and 'examples:' in out.stdout

def test_quarto_finds_its_files(tmp_path):
    "For those who have Quarto: nbdev writes every file that _quarto.yml names, and a sidebar with all notebooks."
    import shutil, yaml
    for f in ('settings.ini', '_quarto.yml'): shutil.copy(root/f, tmp_path)
    shutil.copytree(root/'nbs', tmp_path/'nbs', ignore=shutil.ignore_patterns('.*', 'nbdev.yml', 'sidebar.yml'))
    code = 'from nbdev.quarto import nbdev_sidebar, refresh_quarto_yml as r; r(); nbdev_sidebar.__wrapped__()'
    subprocess.run([sys.executable, '-c', code], cwd=tmp_path, check=True)
    config = yaml.safe_load((root/'_quarto.yml').read_text(encoding='utf-8'))
    missing = [f for f in config['metadata-files'] if not (tmp_path/'nbs'/f).exists()]
    assert not missing, f'{missing}: with custom_sidebar = True in settings.ini nbdev writes no sidebar.yml'
    pages = yaml.safe_load((tmp_path/'nbs'/'sidebar.yml').read_text())['website']['sidebar']['contents']
    assert set(pages) == {p.name for p in (root/'nbs').glob('*.ipynb') if p.name[0] not in '_.'}
