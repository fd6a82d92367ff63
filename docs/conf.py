"""Sphinx settings of the site. `build.py` adds what depends on the notebooks (title, links, `site_numbers`)."""
from pathlib import Path
from sphinx.domains.math import MathDomain

here = Path(__file__).parent
extensions = ['myst_nb', 'sphinx.ext.mathjax', 'sphinx_copybutton', 'sphinx_design']
nb_execution_mode = 'off'
nb_render_markdown_format = 'myst'
nb_output_stderr = 'show'
nb_merge_streams = True
myst_enable_extensions = ['dollarmath', 'colon_fence', 'attrs_inline', 'attrs_block', 'deflist', 'tasklist']
myst_heading_anchors = 4
myst_url_schemes = {'http': None, 'https': None, 'mailto': None, 'page': '{{path}}.html', 'anchor': '{{path}}.html#{{fragment}}'}
templates_path = []
exclude_patterns = []

# Numbers carry that of the notebook: Equation 3.2 is the second of 03_cayley.
numfig, numfig_format = True, {'figure': 'Figure %s', 'table': 'Table %s', 'code-block': 'Listing %s'}
math_eqref_format = 'Equation {number}'
python_maximum_signature_line_length = 76
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = 'hide'

html_theme = 'sphinx_book_theme'
html_static_path = [str(here/'static')]
html_css_files, html_js_files = ['site.css'], ['site.js']
html_favicon = str(here/'static'/'logo.svg')
html_logo = html_favicon
html_copy_source = html_show_sourcelink = html_use_index = False
html_show_sphinx = False
html_context = {'default_mode': 'auto'}
smartquotes = False

mathjax_path = 'mathjax/tex-chtml.js'
mathjax3_config = {'options': {'enableMenu': False}, 'chtml': {'scale': .96}}


class Equations(MathDomain):
    "Equations numbered by notebook."
    def note_equation(self, docname, labelid, location=None):
        super().note_equation(docname, labelid, location)
        number = self.env.config.site_numbers.get(docname, '')
        self.equations[labelid] = docname, f'{number}.{self.equations[labelid][1]}'.lstrip('.')


def number_figures(app, env):
    "Figures and tables numbered by notebook, after Sphinx has counted them."
    for docname, kinds in env.toc_fignumbers.items():
        number = env.config.site_numbers.get(docname)
        for ids in kinds.values():
            for i,name in enumerate(ids): ids[name] = (number, i+1) if number else (i+1,)
    return []


def setup(app):
    app.add_config_value('site_numbers', {}, 'env')
    app.add_domain(Equations, override=True)
    app.connect('env-get-updated', number_figures, priority=900)
