#!/usr/bin/env bash
# make bench: every speed benchmark beside its peers, in an environment of its own (.venv-bench), so that the peers never meet the package's pins.
set -eu
cd "$(dirname "$0")/.."
if [ ! -e .venv-bench/.installed ]; then
  echo "Creating .venv-bench with the peers of bench/requirements.txt ..."
  python3 -m venv .venv-bench
  .venv-bench/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt setuptools wheel
  .venv-bench/bin/python -m pip install -q --disable-pip-version-check --no-build-isolation -c constraints.txt -e . -r bench/requirements.txt
  touch .venv-bench/.installed
fi
for b in projection streams loop sweep step growth conv memory interference; do echo "== $b"; .venv-bench/bin/python bench/$b.py; done
for b in stiefel factors; do echo "== $b"; .venv-bench/bin/python bench/$b.py all; done
echo "== guard"; .venv-bench/bin/python bench/guard.py  # needs real data: ORTHOG_NB_DATA
echo "== peers"; .venv-bench/bin/python -W ignore bench/peers.py all  # needs real data: ORTHOG_NB_DATA
