"""README.md from nbs/index.ipynb, without Quarto.

Hidden cells are dropped, code keeps its outputs, pictures become files beside it, links to symbols and pages lead to the published site.
The same notebook always gives the same bytes.
"""
examples = """
examples:
  python docs/readme.py             write README.md and its pictures (docs/readme/)
  python docs/readme.py --check     write nothing; exit 1 and say so if they are not up to date
"""
import argparse, base64, os, re, sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).parent))
import nbformat
from nbdev.config import get_config
from nbdev.doclinks import NbdevLookup
from translate import options, re_block

root = Path(__file__).resolve().parent.parent
pictures = 'docs/readme'
hidden = {'hide', 'export', 'exporti', 'default_exp'}
suffixes = {'image/svg+xml': 'svg', 'image/png': 'png', 'image/jpeg': 'jpg'}

def link(target, site):
    "A relative link of the notebook, as one from the top folder or to the site."
    file, _, name = target.partition('#')
    if not file or re.match(r'\w+:', target): return target
    if m := re.fullmatch(r'(?:\./)?(?:\d+[a-z]*_)?([\w-]+)\.(?:ipynb|html)', file):
        if file.endswith('.html') or (root/'nbs'/file).exists(): return f'{site}/{m[1]}.html' + (f'#{name}' if name else '')
    at = next((p for p in (root/'nbs'/file, root/file) if p.exists()), None)
    if at is None: raise SystemExit(f'readme: link to {target} in index.ipynb: no such file')
    return os.path.relpath(at.resolve(), root).replace(os.sep, '/') + (f'#{name}' if name else '')

def markdown(md, site):
    "Prose: what only the site understands is said in plain Markdown."
    def prose(s):
        s = re.sub(r'(\]\()([^)\s]+)(?=\))', lambda m: m[1] + link(m[2], site), s)
        s = re.sub(r'^(#{1,6} .*?)[ \t]*\{[#.][^}]*\}[ \t]*$', r'\1', s, flags=re.M)
        s = re.sub(r'(\$\$)\s*\{#eq-[\w-]+\}', r'\1', s)
        s = re.sub(r'^(!\[.*\]\(.*\))\{.*\}$', r'\1', s, flags=re.M)
        return re.sub(r'^> (Note|Tip|Warning|Important|Caution): ?', lambda m: f'> [!{m[1].upper()}]\n> ', s, flags=re.M)
    out, last = [], 0
    for m in re_block.finditer(md):
        out += [prose(md[last:m.start()]), m[0]]; last = m.end()
    return ''.join(out + [prose(md[last:])])

def output(out, opts, name, site):
    "One output of a cell: Markdown to add, and a picture to write."
    if out.output_type == 'stream': return fenced(out.text), {}
    if out.output_type == 'error': return fenced(f'{out.ename}: {out.evalue}'), {}
    data = out.data
    for mime, suffix in suffixes.items():
        if mime in data:
            file = f'{pictures}/{name}.{suffix}'
            alt = ' '.join(str(opts.get('fig-alt') or opts.get('fig-cap') or '').split())
            cap = f"\n\n*@{name}: {opts['fig-cap']}*" if opts.get('fig-cap') else ''
            raw = ''.join(data[mime])
            return f'![{alt}]({file})' + cap, {file: raw.encode() if suffix == 'svg' else base64.b64decode(raw)}
    if 'text/markdown' in data: return markdown(''.join(data['text/markdown']), site), {}
    if '<table' in ''.join(data.get('text/html', '')): return re.sub(r'<style.*?</style>', '', ''.join(data['text/html']), flags=re.S), {}
    return fenced(''.join(data.get('text/plain', ''))), {}

def fenced(text, lang='text'):
    return f'```{lang}\n' + re.sub(r'\x1b\[[0-9;]*m', '', text).strip('\n') + '\n```' if text.strip() else ''

def code(cell, i, site):
    "A code cell: its source, unless it is not to be shown, and its outputs."
    opts, source = options(cell.source)
    if hidden & opts.keys() or opts.get('include') is False: return [], {}
    parts, files = [] if opts.get('echo') is False or not source else [fenced(source, 'python')], {}
    for j,o in enumerate([] if opts.get('output') is False else cell.outputs):
        md, found = output(o, opts, f"{opts.get('label', f'cell-{i}')}{f'-{j}' if j else ''}", site)
        parts.append(md); files |= found
    return parts, files

def numbered(text, files):
    "References to figures, by their place in the README."
    for i,f in enumerate(files): text = re.sub(rf'@{Path(f).stem}\b(?!-)', f'Figure {i+1}', text)
    if m := re.search(r'(?<![\w`])@(fig|eq|tbl|sec)-[\w-]+', text): raise SystemExit(f'readme: {m[0]} in index.ipynb is not on that page; link to the page instead')
    return text

def readme(path):
    "The text of README.md and the pictures it shows, by file name."
    config, nb = get_config(), nbformat.read(path, as_version=4)
    site = config.doc_host.rstrip('/') + '/' + config.doc_baseurl.strip('/')
    lookup = NbdevLookup(incl_libs=config.lib_path.name)
    parts, files = ['<!-- Made from nbs/index.ipynb by docs/readme.py: edit the notebook. -->'], {}
    for i,c in enumerate(nb.cells):
        if c.cell_type == 'markdown': parts.append(markdown(lookup.linkify(c.source) or '', site))
        elif c.cell_type == 'code':
            more, found = code(c, i, site)
            parts += more; files |= found
    return numbered('\n\n'.join(p.strip('\n') for p in parts if p.strip()) + '\n', list(files)), files

def main():
    parser = argparse.ArgumentParser(description=__doc__, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--check', action='store_true', help='only compare')
    args = parser.parse_args()
    os.chdir(root)
    index = root/'nbs'/'index.ipynb'
    if not index.exists(): raise SystemExit('readme: nbs/index.ipynb is missing')
    text, files = readme(index)
    wanted = {'README.md': text.encode(), **files}
    present = {p.relative_to(root).as_posix() for p in (root/pictures).glob('*')}
    changed = [f for f,b in wanted.items() if not (root/f).exists() or (root/f).read_bytes() != b] + sorted(present - wanted.keys())
    if args.check:
        if changed: raise SystemExit(f"readme: not up to date with nbs/index.ipynb: {', '.join(changed)}; run: python docs/readme.py")
        return print('readme: up to date')
    for f in present - wanted.keys(): (root/f).unlink()
    for f,b in wanted.items():
        (root/f).parent.mkdir(parents=True, exist_ok=True)
        (root/f).write_bytes(b)
    print(f"readme: README.md and {len(files)} pictures, {'changed: ' + ', '.join(changed) if changed else 'nothing changed'}")

if __name__ == '__main__': main()
