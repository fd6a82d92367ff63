"""The API page: every public name, with its parameters, from the signatures and docments of the exported modules."""
import inspect
from fastcore.docments import docments
from translate import directive, markdown

def public(module):
    "Functions and classes that a module exports, in the order of the notebook."
    return [(n, o) for n in module.__all__ if inspect.isfunction(o := getattr(module, n)) or inspect.isclass(o)]

def members(cls, package):
    "Public methods and properties of a class that are defined in this package, patched ones too."
    for n,o in vars(cls).items():
        f = getattr(o, '__func__', getattr(o, 'fget', o))
        if n[0] == '_' or not inspect.isfunction(f) or not f.__module__.startswith(package): continue
        if isinstance(o, property): yield 'property', n, text(f)
        else: yield 'method', n + signature(f, not isinstance(o, staticmethod)), text(f)

def annotation(a):
    return '' if a is inspect.Parameter.empty else a if isinstance(a, str) else getattr(a, '__name__', str(a))

def parameter(p):
    note, default = annotation(p.annotation), '' if p.default is p.empty else getattr(p.default, '__name__', repr(p.default))
    return ('**' if p.kind is p.VAR_KEYWORD else '*' if p.kind is p.VAR_POSITIONAL else '') + p.name + (f': {note}' if note else '') + (
        f' = {default}' if default else '')

def signature(obj, skip_self=False):
    try: sig = inspect.signature(obj)
    except ValueError: return '()'
    params = list(sig.parameters.values())[int(skip_self):]
    shown = [parameter(p) for p in params]
    star = next((i for i,p in enumerate(params) if p.kind is p.KEYWORD_ONLY), None)
    if star is not None and not any(p.kind is p.VAR_POSITIONAL for p in params): shown.insert(star, '*')
    back = annotation(sig.return_annotation)
    return f"({', '.join(shown)})" + (f' -> {back}' if back and not inspect.isclass(obj) else '')

def parameters(obj):
    "The docments of a function's parameters, as a list."
    try: docs = docments(obj, full=True, returns=True)
    except Exception: return ''   # constructors that are not ours
    rows = [(f'`{n}`' if n != 'return' else '*returns*', ' '.join(d.docment.split())) for n,d in docs.items() if d.docment]
    return '\n'.join(f'- {n}: {t}' for n,t in rows)

def text(obj):
    return '\n\n'.join(t for t in [inspect.getdoc(obj) if obj.__doc__ else '', parameters(obj)] if t)

def collect(module, package):
    "Name, kind, signature, text and methods of everything public in a module."
    return [(n, 'class' if inspect.isclass(o) else 'function', n + signature(o), text(o),
             list(members(o, package)) if inspect.isclass(o) else []) for n,o in public(module)]

def entry(name, kind, head, about, inner, page, site):
    "One function or class, with its methods, and where it is explained."
    links = [f'[in its notebook](anchor:{page.docname}#{name.lower()})'] if name.lower() in page.anchors else []
    if url := site.source(name, page): links.append(f'[source]({url})')
    parts = [markdown(about, site), '{.where}\n' + ' · '.join(links) if links else '', *(directive(f'py:{k}', h, markdown(t, site), ':') for k,h,t in inner)]
    return directive(f'py:{kind}', head, '\n\n'.join(p for p in parts if p), ':')

def api_page(site):
    "The page, as MyST."
    out = ['# API', '{.lead}\nEvery public name, by notebook. Each is explained, derived and tested on the page it links to.']
    for page in (p for p in site.pages if p.api):
        out += [f'## {site.package}.{page.module}', f'[{page.title}](page:{page.docname}): {page.description}',
                f'```{{py:currentmodule}} {site.package}.{page.module}\n```', *(entry(*e, page, site) for e in page.api)]
    return '\n\n'.join(out) + '\n'
