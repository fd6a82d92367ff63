"""The documentation site, built once and opened page by page in a browser, as a reader on a desk and on a phone would."""
import functools, http.server, re, subprocess, sys, threading
from pathlib import Path
from urllib.parse import urlsplit
import pytest

root = Path(__file__).resolve().parent.parent

@pytest.fixture(scope='module')
def built(tmp_path_factory):
    "The site's folder, and what building it said if that failed."
    tmp = tmp_path_factory.mktemp('docs')
    done = subprocess.run([sys.executable, root/'docs'/'build.py', '--out', tmp/'site', '--work', tmp/'work'], cwd=root, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return tmp/'site', done.stdout if done.returncode else ''

@pytest.fixture(scope='module')
def site(built):
    if built[1]: pytest.skip('the site does not build: see test_builds')
    return built[0]

@pytest.fixture(scope='module')
def url(site):
    "Where a server on this machine shows it."
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args): pass
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f'http://127.0.0.1:{server.server_port}'
    server.shutdown()

look = r'''async () => {
  if (window.MathJax?.startup) await window.MathJax.startup.promise;
  const all = q => [...document.querySelectorAll(q)], article = (document.querySelector('article') || document.querySelector('main')).cloneNode(true);
  const links = all('a[href]').map(a => a.href), ids = all('[id]').map(e => e.id);
  article.querySelectorAll('pre, code, script, style, mjx-container').forEach(e => e.remove());
  return {links, ids, text: article.textContent,
    noalt: all('img:not([alt]), img[alt=""]').filter(i => i.closest('article')).map(i => i.getAttribute('src')),
    nocaption: all('article div.cell_output img').filter(i => !i.closest('figure')?.querySelector('figcaption')).map(i => i.getAttribute('src')),
    badmath: all('mjx-merror, [data-mjx-error]').map(e => e.title || e.textContent), math: all('.math').length, typeset: all('.math > mjx-container').length,
    twice: ids.filter((x, i) => ids.indexOf(x) < i)};
}'''
wide = r'''() => {
  const box = document.scrollingElement, article = document.querySelector('article') || document.querySelector('main');
  if (box.scrollWidth <= innerWidth && article.scrollWidth <= article.clientWidth + 1) return [];
  const found = [...article.querySelectorAll('*')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && ![...function*(p) { for (; p !== article; p = p.parentElement) yield p }(e.parentElement)]
      .some(p => ['auto', 'scroll', 'hidden'].includes(getComputedStyle(p).overflowX)));
  return [`${box.scrollWidth} of ${innerWidth}`, ...found.slice(0, 5).map(e => e.outerHTML.slice(0, 120))];
}'''

@pytest.fixture(scope='module')
def pages(site, url, browser):
    "What a browser saw on every page: errors, requests, text, links, pictures, and how wide it is on a phone."
    context, seen = browser.new_context(viewport=dict(width=1280, height=900)), {}
    for path in sorted(site.glob('*.html')):
        page, errors, strangers = context.new_page(), [], []
        page.on('console', lambda m: errors.append(m.text) if m.type in ('error', 'warning') else None)
        page.on('pageerror', lambda e: errors.append(str(e)))
        page.on('response', lambda r: errors.append(f'{r.status} {r.url}') if r.status >= 400 else None)
        page.on('request', lambda r: strangers.append(r.url) if r.url.startswith('http') and not r.url.startswith(url) else None)
        page.goto(f'{url}/{path.name}', wait_until='load')
        found = page.evaluate(look)
        page.set_viewport_size(dict(width=390, height=844))
        page.wait_for_timeout(100)
        seen[path.name] = dict(found, errors=errors, strangers=strangers, wide=page.evaluate(wide))
        page.close()
    context.close()
    return seen

def none(pages, key, what):
    bad = {name: p[key] for name,p in pages.items() if p[key]}
    assert not bad, f'{what}: {bad}'

def test_builds(built):
    "Without a warning: one page for each notebook, the API, and search."
    if built[1]: pytest.fail(built[1], pytrace=False)
    books = [p for p in (root/'nbs').glob('*.ipynb') if p.name[0] not in '_.']
    assert len(list(built[0].glob('*.html'))) >= len(books)+2 and (built[0]/'objects.inv').exists()

def test_no_errors(pages): none(pages, 'errors', 'errors in the console')

def test_no_requests_elsewhere(pages): none(pages, 'strangers', 'requests that leave the site')

def test_mathematics(pages):
    "All formulas are typeset and valid, and none is left as source."
    none(pages, 'badmath', 'formulas with errors')
    for name,p in pages.items():
        assert p['math'] == p['typeset'], f"{name}: {p['math']} formulas, {p['typeset']} typeset"
        raw = re.findall(r'\$[^$\n]{1,200}\$', p['text'])
        assert not raw, f'{name}: {raw[:5]} left on the page'

def test_no_markup_left(pages):
    "References are resolved, callouts and labels translated."
    for name,p in pages.items():
        left = re.findall(r'\??@(?:eq|fig|tbl|sec)-[\w-]+|\{#[\w-]+|\{(?:eq|ref|numref)\}|^:::.*|^#\| .*|\{\.[\w-]+\}|\]\((?:page:|anchor:|[\w./-]+\.ipynb)', p['text'], re.M)
        assert not left, f'{name}: {left[:5]}'

def test_links(pages, url, site):
    "Every link within the site leads to a page that is there, and to a place that is on it."
    broken = set()
    for name,p in pages.items():
        for link in p['links']:
            to = urlsplit(link)
            if not link.startswith(url): continue
            target = to.path.lstrip('/') or 'index.html'
            if target not in pages: broken |= {(name, link)} if not (site/target).exists() else set()
            elif to.fragment and to.fragment not in pages[target]['ids']: broken.add((name, f'{target}#{to.fragment}'))
    assert not broken, sorted(broken)

def test_figures(pages):
    none(pages, 'noalt', 'pictures without alt text')
    none(pages, 'nocaption', 'figures without a caption')

def test_ids(pages): none(pages, 'twice', 'ids used twice')

def test_phone(pages): none(pages, 'wide', 'pages that scroll sideways at 390 pixels')

def test_search(url, browser):
    "A reader types a word and finds pages."
    page = browser.new_page()
    page.goto(f'{url}/index.html')
    page.keyboard.press('Control+k')
    page.keyboard.type('orthonormal')
    page.keyboard.press('Enter')
    page.wait_for_url('**/search.html?q=orthonormal*')
    page.wait_for_selector('#search-results ul.search li a')
    titles = page.locator('#search-results ul.search li > a').all_inner_texts()
    assert any('Core' in t or 'orthonormal' in t for t in titles), titles
    page.close()

def test_dark_mode(url, browser):
    "The switch darkens the page, figures stay on a light card, and the choice is kept."
    page = browser.new_context(color_scheme='light').new_page()
    page.goto(f'{url}/core.html')
    shade = "() => getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
    assert page.evaluate(shade) > 700
    page.locator('button.theme-switch-button').click()
    page.locator('button.theme-change-button[data-mode=dark]').click()
    page.wait_for_timeout(300)
    assert page.locator('html').get_attribute('data-theme') == 'dark' and page.evaluate(shade) < 150
    page.reload()
    assert page.evaluate(shade) < 150
    card = page.locator('figure img').first.evaluate('e => getComputedStyle(e).backgroundColor.match(/[\\d.]+/g).map(Number)')
    assert min(card[:3]) > 200 and (len(card) == 3 or card[3] == 1)
    page.context.close()
