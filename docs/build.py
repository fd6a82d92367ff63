"""Build the documentation site from the notebooks, without Quarto and without a network.

    nbs/*.ipynb  →  nbdev's processors  →  MyST (docs/translate.py)  →  Sphinx (docs/conf.py)  →  _docs/*.html

Notebooks are not executed: the site shows the outputs that they hold (docs/execute.py makes those). nbdev drops hidden cells and links
symbols; exported code is shown where it is explained. A warning of any step is an error: nothing is published that has a broken reference,
a figure without alt text, or a label used twice.
"""
examples = """
examples:
  python docs/build.py                      all notebooks, into _docs/
  python docs/build.py --only 00_core 03_cayley --out /tmp/site
                                            a few pages while writing them (references to other pages are then not found)
  python docs/build.py --fresh              forget what earlier builds kept in build/docs

A page can include files of its own: pictures anywhere below nbs/, and an interactive figure as plain JavaScript and JSON in
nbs/interactive/, which is copied to the site as it is. In a Markdown cell:
  <figure class="interactive" id="fig-turn"><img src="interactive/turn.png" alt="…"><figcaption>…</figcaption></figure>
  <script type="module" src="interactive/turn.js"></script>
The script finds the figure by its id and may fetch('interactive/turn.json'); without JavaScript (and in JupyterLab) the picture stays.
"""
import argparse, importlib, importlib.util, os, re, shutil, sys, time, warnings
from dataclasses import dataclass, field
from pathlib import Path
os.environ.setdefault('OMP_NUM_THREADS', '1')
sys.path.insert(0, str(Path(__file__).parent))
from execnb.nbio import nb2str, read_nb
from nbdev.config import get_config
from nbdev.processors import FilterDefaults
from nbdev.serve_drv import exec_nb
import api, translate

root = Path(__file__).resolve().parent.parent
groups = [(0, 'Foundations'), (5, 'Building blocks'), (9, 'Methods and training'), (13, 'Experiments'), (20, 'Results'), (30, 'Guides')]
mathjax = ['tex-chtml.js', 'output/chtml/fonts', 'input/tex/extensions']   # the part of MathJax that pages load

paper = 'https://arxiv.org/abs/2010.11635'
sections = dict(core='Sec. 2.2', projection='Sec. 3, Eq. (8) and (9), Fig. 1', tangent='Sec. 2.2, Eq. (4) and (5), App. A and B', cayley='Sec. 2.2, Eq. (6) and (7), Fig. 2',
    optim='Sec. 3, Alg. 1 lines 10–20', factors='Sec. 3, Alg. 1 lines 10–19', memory='Sec. 4.3, Alg. 1 lines 5, 6 and 21', files='Sec. 4.1', miniimagenet='Sec. 4.1', streams='Sec. 4.1', models='Sec. 4.3',
    metrics='Sec. 2.1, Eq. (2) and (3)', methods='Sec. 3 and 4.2, Alg. 1', baselines='Sec. 4.2, App. D', vcl='Sec. 4.2 and 4.3', fast='Sec. 4.3', training='Sec. 4.3, Alg. 1', algorithm='Sec. 3, Alg. 1',
    picture='Sec. 1, Fig. 1 and 2', interference='Sec. 3, Eq. (9) and (10), Fig. 3', jobs='Tables 1–3', sweeps='Sec. 4.1, App. D', tables='Sec. 4.4, Tables 1–3', experiments='Tables 1–3, App. D',
    report='Sec. 4.4, Tables 1–3', benchmarks='Sec. 4.4, App. C, Tables 1–3', speed='Sec. 3 and 4.3', differences='Sec. 3 and 4', mechanism='Sec. 4.4, Fig. 3 and 4', cifar='Sec. 4.4, Tables 1–3', diagnose='Sec. 3, Fig. 3',
    own_training='Sec. 2.2 and 3', own_stream='Sec. 4.1', gpm='Sec. 3 and 5', questions='Sec. 4')   # where the paper has what a page is about

@dataclass
class Page:
    "A notebook and what others may link to on its page."
    path: Path
    title: str = ''
    description: str = ''
    module: str = ''
    sections: set = field(default_factory=set)
    sources: list = field(default_factory=list)
    anchors: set = field(default_factory=set)
    gaps: set = field(default_factory=set)
    api: list = field(default_factory=list)
    def __post_init__(self):
        self.file, m = self.path.name, re.match(r'(\d+)([a-z]*)_(.+)', self.path.stem)
        self.number = f'{int(m[1])}{m[2]}' if m else ''
        self.label = f'{m[1]}{m[2]}' if m else ''
        self.name = self.docname = (m[3] if m else self.path.stem).lower()
        self.group = max((g for g in groups if g[0] <= int(m[1])))[1] if m else 'Guides'
        exp = re.search(r'#\|\s*default_exp\s+([\w.]+)', self.path.read_text(encoding='utf-8'))
        self.module = exp[1] if exp else ''

class Site:
    "All pages, and where links between them lead."
    def __init__(self, pages, config):
        self.pages, self.config, self.package = pages, config, config.lib_path.name
        self.url = config.doc_host.rstrip('/') + '/' + config.doc_baseurl.strip('/')
        self.repo = f'{config.git_url}/blob/{config.branch}'
        self.by_name = {n: p for p in pages for n in (p.file, f'{p.docname}.html', f'{p.docname}.ipynb')}
        self.lines = {}

    @property
    def gaps(self): return {g for p in self.pages for g in p.gaps}

    def link(self, target):
        "Where a relative link of a notebook leads: a page, a place on it, a picture, or a file in the repository."
        file, _, name = target.partition('#')
        page = self.by_name.get(file.removeprefix('./'))
        if not page:
            at = next((p for p in (self.config.nbs_path/file, root/file) if p.exists()), None)
            if at is None: raise translate.Problem(f'link to {target}: no such file')
            if at.suffix in ('.png', '.svg', '.jpg', '.gif', '.webp') and at.resolve().is_relative_to(self.config.nbs_path): return target
            return f'{self.repo}/{at.resolve().relative_to(root).as_posix()}' + (f'#{name}' if name else '')
        while '.' in name and name not in page.anchors: name = name.rpartition('.')[0]   # a method that is shown within its class
        return f'anchor:{page.docname}#{name}' if name else f'page:{page.docname}'

    def source(self, name, page):
        "The line of the module in the repository where `name` is defined."
        if page.module not in self.lines: self.lines[page.module] = translate.lines((self.config.lib_path/f'{page.module}.py').read_text(encoding='utf-8'))
        line = self.lines[page.module].get(name)
        return line and f'{self.repo}/{self.package}/{page.module}.py#L{line}'

    def opening(self, page):
        "Title and description of a page, and where they come from."
        where = [f'[nbs/{page.file}]({self.repo}/nbs/{page.file})']
        if page.module: where.append(f'module `{self.package}.{page.module}`')
        if page.docname in sections: where.append(f'[paper]({paper}), {sections[page.docname]}')
        lines = [f'# {page.title}', '{.lead}\n' + page.description if page.description else '']
        return '\n\n'.join(lines + (['{.where}\n' + ' · '.join(where)] if page.number else []))

    def toctree(self):
        "The sidebar: pages in the order of their numbers, grouped."
        def tree(caption, entries): return translate.directive('toctree', '', '\n'.join(entries), hidden=' ', caption=caption)
        found = {g: [f'{p.label} · {p.title} <{p.docname}>'.removeprefix(' · ') for p in self.pages if p.group == g and p.docname != 'index'] for _,g in groups}
        return '\n\n'.join([tree(g, e) for g,e in found.items() if e] + [tree('Reference', ['api'])])

class Processors(FilterDefaults):
    "nbdev's own processors, on notebooks whose exported code is to be shown."
    def __call__(self, nb):
        translate.show_sources(nb)
        return super().__call__(nb)

def process(src, dst):
    "nbdev's part for one notebook; returns what is wrong with it, if anything."
    os.environ['IN_TEST'] = '1'   # as nbdev does it: no notebook exports while it is shown
    part = dst.with_suffix('.part')
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings('ignore', 'Found cells containing imports and other code')   # they run, which is what they need
            exec_nb(src, part, Processors)
        part.replace(dst)
    except Exception as e:
        why, where = e.__cause__ or e, str(e).rpartition('\n')[2]
        hint = ' (nbdev runs cells that import: keep imports in cells of their own)' if isinstance(why, NameError) and 'show_doc' not in where else ''
        return f'{src.name}: {type(why).__name__}: {why}{hint}' + (f', at: {where[:100]}' if e.__cause__ else '')
    finally: part.unlink(missing_ok=True)

def stale(pages, folder, config):
    "Notebooks that changed since they were processed, or all when what they depend on changed."
    inputs = [*config.lib_path.glob('*.py'), *Path(__file__).parent.glob('*.py'), config.config_file]
    newest = max(p.stat().st_mtime for p in inputs)
    return [(p.path, folder/p.file) for p in pages
            if not (folder/p.file).exists() or (folder/p.file).stat().st_mtime < max(newest, p.path.stat().st_mtime)]

def write(path, text):
    "Only if it is new, so that Sphinx reads only pages that changed."
    if not path.exists() or path.read_text(encoding='utf-8') != text: path.write_text(text, encoding='utf-8')

def sources(site, done, src):
    "The folder that Sphinx reads: a MyST notebook for each page, the API page, and the files beside the notebooks."
    src.mkdir(parents=True, exist_ok=True)
    books = {p.docname: read_nb(done/p.file) for p in site.pages}
    for p in site.pages: translate.survey(books[p.docname], p)
    write(src/'api.md', api.api_page(site))
    problems = [e for p in site.pages for e in translate.notebook(books[p.docname], p, site)]
    if 'index' in books: books['index'].cells.append(translate.text_cell(site.toctree()))
    else: write(src/'index.md', f"# {site.config.title}\n\n{site.config.description}\n\n{site.toctree()}\n")
    for name, nb in books.items(): write(src/f'{name}.ipynb', nb2str(nb))
    for old in src.glob('*.ipynb'):
        if old.stem not in books: old.unlink()
    if 'index' in books: (src/'index.md').unlink(missing_ok=True)
    skip = shutil.ignore_patterns('*.ipynb', '*.yml', '.*', '_*')
    shutil.copytree(site.config.nbs_path, src, ignore=skip, dirs_exist_ok=True)
    return problems

def static(folder):
    "MathJax from its PyPI package: one script, fonts, and the extensions that it may load."
    spec = importlib.util.find_spec('sphinx-mathjax-offline')
    if not spec: raise SystemExit('docs: MathJax is missing; run: pip install -c constraints.txt sphinx-mathjax-offline')
    base = Path(spec.submodule_search_locations[0])/'static'/'mathjax'
    for name in mathjax:
        to = folder/'mathjax'/name
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists(): (shutil.copytree if (base/name).is_dir() else shutil.copy2)(base/name, to)
    return folder

def sphinx(site, src, out, work):
    "HTML from the sources; True if there was no warning."
    from sphinx.application import Sphinx
    from sphinx.util import console
    if not console.color_terminal(): console.nocolor()
    c, interactive = site.config, src/'interactive'
    settings = dict(project=c.title, author=c.author, copyright=c.copyright, version=c.version, release=c.version, html_title=c.title,
        site_numbers={p.docname: p.number for p in site.pages}, html_static_path=[str(root/'docs'/'static'), str(static(work/'static'))],
        html_theme_options=dict(repository_url=c.git_url, repository_branch=c.branch, use_repository_button=True, use_issues_button=True,
            use_download_button=False, home_page_in_toc=True, show_navbar_depth=1, show_toc_level=2, toc_title='On this page',
            logo=dict(text=c.title), navbar_persistent=[], pygments_light_style='github-light-colorblind', pygments_dark_style='github-dark-colorblind',
            extra_footer=f'Built from the notebooks of <a href="{c.git_url}">{c.title}</a> {c.version}.'))
    app = Sphinx(src, root/'docs', out, work/'doctrees', 'html', settings, status=None, warningiserror=True)
    app.build()
    if interactive.exists(): shutil.copytree(interactive, out/'interactive', dirs_exist_ok=True)
    return app.statuscode == 0

def build(out, nbs=None, only=(), work=None):
    "Build the site; returns the number of pages, or stops with a list of what is wrong."
    os.chdir(root)
    config = get_config()
    if nbs: config.d['nbs_path'] = str(Path(nbs).resolve())
    out, work = Path(out).resolve(), Path(work or root/'build'/'docs').resolve()
    paths = [p for p in sorted(config.nbs_path.glob('*.ipynb')) if p.name[0] not in '_.' and (not only or p.stem in only)]
    if not paths: raise SystemExit(f'docs: no notebooks to show in {config.nbs_path}')
    pages, done = [Page(p) for p in paths], work/'nbs'
    done.mkdir(parents=True, exist_ok=True)
    todo = stale(pages, done, config)
    print(f'docs: {len(pages)} notebooks, {len(todo)} to process', flush=True)
    for p in pages:   # before nbdev runs exported cells again
        if p.module: p.api = api.collect(importlib.import_module(f'{config.lib_path.name}.{p.module}'), config.lib_path.name)
    problems = [e for pair in todo if (e := process(*pair))]
    if not problems:
        site = Site(pages, config)
        problems = sources(site, done, work/'src')
    for p in problems: print(f'docs: {p}', file=sys.stderr)
    if problems or not sphinx(site, work/'src', out, work):
        shutil.rmtree(work/'doctrees', ignore_errors=True)   # the next build reads all pages, and warns again
        raise SystemExit(f'docs: not published, {"see above" if problems else "because of the warnings above"}')
    return len(list(out.glob('*.html')))

def main():
    parser = argparse.ArgumentParser(description=__doc__, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', default=root/'_docs', type=Path, help='where the site goes (default: _docs)')
    parser.add_argument('--nbs', type=Path, help='folder of the notebooks (default: nbs_path of settings.ini)')
    parser.add_argument('--only', nargs='+', default=(), metavar='NAME', help='only these notebooks, named without .ipynb')
    parser.add_argument('--work', type=Path, help='folder for what lies between (default: build/docs)')
    parser.add_argument('--fresh', action='store_true', help='start from nothing')
    args = parser.parse_args()
    start, out = time.time(), args.out.resolve()
    if args.fresh:
        shutil.rmtree(args.work or root/'build'/'docs', ignore_errors=True)
        if (out/'.buildinfo').exists(): shutil.rmtree(out)   # only what Sphinx made
    count = build(out, args.nbs, args.only, args.work)
    print(f'docs: {count} pages in {time.time()-start:.0f} s: {os.path.relpath(out)}/index.html')

if __name__ == '__main__': main()
