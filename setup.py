"Reads settings.ini: the one place for name, version, requirements and commands."
from configparser import ConfigParser
from pathlib import Path
from setuptools import setup, find_packages

config = ConfigParser(delimiters=['='])
config.read('settings.ini', encoding='utf-8')
cfg = config['DEFAULT']
extras = {k.removesuffix('_requirements'): cfg[k].split() for k in cfg if k.endswith('_requirements')}

setup(
    name=cfg['lib_name'], version=cfg['version'], description=cfg['description'], keywords=cfg['keywords'],
    author=cfg['author'], author_email=cfg['author_email'], url=cfg['git_url'], license='Apache-2.0',
    long_description=Path('README.md').read_text(encoding='utf-8'), long_description_content_type='text/markdown',
    packages=find_packages(include=['orthog_nb', 'orthog_nb.*']), include_package_data=True,
    python_requires='>=' + cfg['min_python'], install_requires=cfg['requirements'].split(), extras_require=extras,
    entry_points={'console_scripts': cfg['console_scripts'].split(), 'nbdev': [f"{cfg['lib_path']}={cfg['lib_path']}._modidx:d"]},
    classifiers=['Development Status :: 3 - Alpha', 'Intended Audience :: Science/Research', 'Programming Language :: Python :: 3',
                 'Topic :: Scientific/Engineering :: Artificial Intelligence'],
    zip_safe=False)
