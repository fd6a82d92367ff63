"""Notebooks written for nbdev and Quarto, as MyST: what Sphinx and myst-nb read.

Quarto's Markdown and MyST agree on most things. What differs is translated here, everywhere but in code:

    $$ … $$ {#eq-name}                   a numbered equation                  →  ```{math} with a label
    @eq-name @fig-name @tbl-name         "Equation 3.1", "Figure 3.1"         →  roles
    ## Title {#sec-name} and @sec-name   a section, and a link to it          →  a target and a role
    > Note: …   ::: {.callout-note}      nbdev's and Quarto's callouts        →  admonitions
    ![caption](file){#fig-name}          a figure from a file                 →  ```{figure}
    : caption {#tbl-name}                below a table                        →  ```{table}
    [`name`](https://…/page.html#name)   nbdev's links to symbols             →  links within the site
    [text](03_cayley.ipynb)              links to notebooks and other files   →  links within the site, or to the repository
    #| label, fig-cap, fig-alt, echo …   options of a code cell               →  tags and metadata of the cell
"""
import ast, html, re
import yaml
from docutils.nodes import make_id
from execnb.nbio import mk_cell
from nbdev.doclinks import patch_name

class Problem(Exception):
    "Something in a notebook that can't be shown; its text says what to do."

# ---- Markdown ----

callouts = 'note|tip|warning|important|caution'
roles = dict(eq='eq', fig='numref', tbl='numref', sec='ref')
re_block = re.compile(r'^[ \t>]*(`{3,}|~{3,}).*?^[ \t>]*\1[ \t]*$', re.M|re.S)
re_attr = re.compile(r'([\w-]+)=(?:"([^"]*)"|(\S+))')
re_inline = re.compile(r'''
    (?P<block>^[ \t>]*(?P<f>`{3,}|~{3,}).*?^[ \t>]*(?P=f)[ \t]*$)            # code is left alone,
  | (?P<code>(?P<t>`+)(?!`).+?(?<!`)(?P=t)(?!`))                             # in blocks and in lines
  | (?P<lead>^[ \t>]*)?\$\$(?P<math>.+?)\$\$(?:\s*?\{\#(?P<eq>eq-[\w-]+)\})?
  | (?<![\w@/])\[?-?@(?P<ref>(?:eq|fig|tbl|sec)-\w+(?:-\w+)*)\]?
''', re.M|re.S|re.X)

def attributes(text):
    "Pandoc's `{#name .class key=value}`: the name, the classes, the rest."
    found = dict((k, a or b) for k,a,b in re_attr.findall(text or ''))
    bare = re_attr.sub('', text or '')
    return (re.findall(r'#([\w-]+)', bare) or [None])[0], re.findall(r'\.([\w-]+)', bare), found

def directive(kind, argument, body, mark='`', /, **options):
    "A MyST directive, fenced with one mark more than any fence in its body."
    fence = mark * (1 + max([2] + [len(m) for m in re.findall(rf'^\s*({mark}{{3,}})', body, re.M)]))
    return '\n'.join([f'{fence}{{{kind}}} {argument}'.rstrip(), *(f':{k}: {v}' for k,v in options.items() if v), '', body.strip('\n'), fence])

def inline(m, site):
    if m['block'] or m['code']: return m[0]
    if m['ref'] in site.gaps: return '*a figure that is not there yet*'
    if m['ref']: return f"{{{roles[m['ref'].split('-')[0]]}}}`{m['ref']}`"
    lead = m['lead'] or ''
    body = '\n'.join(l.strip(' \t>') if '>' in lead else l.strip() for l in m['math'].strip().split('\n'))
    block = directive('math', '', body, label=m['eq']).split('\n')
    return '\n'.join((lead+l).rstrip() for l in ['', *block, '', '']) + lead

def quote(m):
    body = re.sub(r'^ {0,3}> ?', '', m[0], flags=re.M)
    kind = re.match(rf'\s*\**(?:\[!({callouts})\]|({callouts}):)\**\s*', body, re.I)
    if not kind: return m[0]
    said = body[kind.end():]
    return directive((kind[1] or kind[2]).lower(), "", said[:1].upper()+said[1:], ":") + "\n\n"

def div(m):
    _, classes, attrs = attributes(m['attrs'])
    kind = next((c.removeprefix('callout-') for c in classes if c.startswith('callout-')), None)
    if not kind: return f"{m['colons']}{{div}} {' '.join(classes)}"
    fold = ' dropdown' if attrs.get('collapse') == 'true' else ''
    return f"{m['colons']}{{admonition}} {attrs.get('title', kind.title())}\n:class: {kind}{fold}\n"

def heading(m):
    name = attributes(m['attrs'])[0]
    return (f'({name})=\n' if name else '') + m['head']

def picture(m):
    name, _, attrs = attributes(m['attrs'])
    alt = attrs.get('fig-alt', m['text'])
    if not name: return f"![{alt}]({m['file']})"
    return directive('figure', m['file'], m['text'], name=name, alt=alt, width=attrs.get('width'))

def table(m):
    return directive('table', m['text'], m['table'], name=m['name']) + '\n'

rules = [(r'^(?P<colons>:{3,})[ \t]*\{(?P<attrs>[^}]*[.#=][^}]*)\}[ \t]*$', div),
         (r'(?:^ {0,3}>.*(?:\n|\Z)(?:^(?![ \t]*(?:$|>|[-*|:#]|\d+\.|!\[)).*(?:\n|\Z))*)+', quote),
         (r'^(?P<head>#{1,6} .*?)[ \t]*\{(?P<attrs>[#.][^}]*)\}[ \t]*$', heading),
         (r'^!\[(?P<text>.*?)\]\((?P<file>[^)\s]+)\)(?:\{(?P<attrs>[^}]*)\})?[ \t]*$', picture),
         (r'(?P<table>(?:^\|.*\|[ \t]*\n)+)\n?^:[ \t]+(?P<text>.*?)[ \t]*\{#(?P<name>tbl-[\w-]+)[^}]*\}[ \t]*$', table)]

def markdown(md, site):
    "One piece of Markdown."
    def prose(s):
        s = re.sub(r'\[\[(`[^`\]]+`)\]\([^)\s]+\)\](?=\()', r'[\1]', s)   # a link whose text nbdev made a link as well
        for pattern,f in rules: s = re.sub(pattern, f, s, flags=re.M)
        return re.sub(r'(?<=\]\()(?!https?:|mailto:|#|page:|anchor:)([^)\s]+)(?=\))', lambda m: site.link(m[1]),
                      s.replace(f']({site.url}/', ']('))
    out, last = [], 0
    for m in re_block.finditer(md):
        out += [prose(md[last:m.start()]), m[0]]; last = m.end()
    return re_inline.sub(lambda m: inline(m, site), ''.join(out + [prose(md[last:])]))

# ---- Code cells ----

def text_cell(md): return mk_cell(md, 'markdown')


def options(source):
    "The options `#| key: value` above a cell's code, and the code."
    opts, lines = {}, source.splitlines()
    while lines and (m := re.match(r'#\|\s*([\w-]+):?\s*(.*)', lines[0])):
        opts[m[1]] = yaml.safe_load(m[2]) if m[2] else True
        lines.pop(0)
    return opts, '\n'.join(lines).strip('\n')

def lines(source):
    "The functions, classes and patched methods that a cell or module defines, and the line of each."
    found = [(patch_name(o), o.lineno) for o in ast.parse(source).body if isinstance(o, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
    return {n: line for names,line in found for n in ([names] if isinstance(names, str) else names)}

def defined(source): return list(lines(source))

def imports_only(source):
    return all(isinstance(o, (ast.Import, ast.ImportFrom)) for o in ast.parse(source).body)

def show_sources(nb):
    "Exported code is part of the story: shown on its page, unless it only imports."
    for c in nb.cells:
        if c.cell_type == 'code' and re.search(r'^#\|\s*export\s*$', c.source, re.M) and not imports_only(c.source):
            c.source = re.sub(r'^#\|\s*export\s*$', '#| exports', c.source, flags=re.M)

def bar(names, page, site):
    "What stands above exported code: its names, as anchors, and links to the API page and the source."
    cells = [f'<a class="symbol-name"{anchor} href="#{n.lower()}">{html.escape(n)}</a>'
             for n in names for anchor in [f' id="{n.lower()}"' if n.lower() not in page.sections else '']]
    links = [f'<a href="api.html#{site.package}.{page.module}.{names[0]}">api</a>'] if any(e[0] == names[0] for e in page.api) else []
    if url := site.source(names[0], page): links.append(f'<a href="{url}">source</a>')
    return f'<div class="symbol"><span>{" ".join(cells)}</span><span class="symbol-links">{" ".join(links)}</span></div>'

def shown_doc(md, page, site):
    "A `show_doc` that the notebook calls itself: its signature and text below a bar."
    name = re.search(r'^### (.+)$', md, re.M)[1].strip()
    return bar([name], page, site) + '\n\n' + md.partition(f'### {name}')[2].strip()

def pictures(cell): return [o for o in cell.get('outputs', []) if any(k.startswith('image/') for k in o.get('data', {}))]

def code(cell, page, site, sources):
    "The cells for one code cell: none, itself, or a bar and itself."
    opts, cell.source = options(cell.source)
    if opts.get('include') is False: return []
    if m := re.match(r'show_doc\(\s*([\w.]+)', cell.source):
        if m[1] in sources: return []
        return [text_cell(shown_doc(''.join(o.data['text/markdown']), page, site)) for o in cell.outputs]
    images = pictures(cell)
    if images and not opts.get('fig-alt'): raise Problem(f"figure without `#| fig-alt:` in the cell that begins {cell.source[:60]!r}")
    if opts.get('label') in site.gaps and not cell.outputs: raise Problem(f"nothing in the cell labelled {opts['label']}: run docs/execute.py on it")
    if len(images) > 1 and opts.get('label'): raise Problem(f"{len(images)} pictures in the cell labelled {opts['label']}: draw one figure a cell")
    hidden = {'remove-input': opts.get('echo') is False, 'remove-output': opts.get('output') is False, 'hide-input': opts.get('code-fold') is True}
    cell.metadata = dict(tags=[t for t,on in hidden.items() if on])
    if images:
        figure = dict(caption=markdown(str(opts.get('fig-cap', '')), site), name=opts.get('label'))
        cell.metadata['mystnb'] = dict(image=dict(alt=opts['fig-alt']), figure={k:v for k,v in figure.items() if v})
    for o in cell.get('outputs', []):
        if 'text/markdown' in o.get('data', {}): o.data['text/markdown'] = markdown(''.join(o.data['text/markdown']), site)
    if opts.get('code-summary') == 'Exported source': cell.metadata['tags'].append('exported')
    names = [n for n in defined(cell.source) if n in sources and not n.rpartition('.')[2].startswith('_')]
    return [text_cell(bar(names, page, site)), cell] if names else [cell]

# ---- Notebooks ----

def survey(nb, page):
    "What a page offers to others: its title, sections and symbols."
    front = yaml.safe_load(nb.cells[0].source.strip().strip('-')) if nb.cells and nb.cells[0].cell_type == 'raw' else {}
    page.title, page.description = front.get('title', page.name), front.get('description', '')
    text = '\n'.join(re_block.sub('', c.source) for c in nb.cells if c.cell_type == 'markdown')
    page.sections = {make_id(h) for h in re.findall(r'^#{1,6} (.+?)(?:\s*\{.*\})?\s*$', text, re.M)}
    page.sources = [n for c in nb.cells if c.cell_type == 'code' and 'Exported source' in c.source for n in defined(c.source)]
    labels = {options(c.source)[0].get('label', ''): c for c in nb.cells if c.cell_type == 'code'}
    page.gaps = {l for l,c in labels.items() if l.startswith('fig-') and not pictures(c)}   # what they show was not made yet
    page.anchors = {n.lower() for n in page.sources} | set(re.findall(r'\{#([\w-]+)\}', text)) | page.sections

def notebook(nb, page, site):
    "A processed notebook, translated in place; returns what is wrong with it."
    cells, problems = [], []
    for c in nb.cells:
        try:
            if c.cell_type == 'markdown': cells.append(text_cell(markdown(c.source, site)))
            elif c.cell_type == 'code': cells += code(c, page, site, page.sources)
        except Problem as e: problems.append(f'{page.file}: {e}')
    nb.cells = [text_cell(site.opening(page)), *cells]
    for i,c in enumerate(nb.cells): c['id'] = f'cell-{i}'
    nb.metadata = dict(language_info=dict(name='python', pygments_lexer='ipython3'))
    return problems
