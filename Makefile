# The whole course in a few words: `make lab` to learn, `make test` to check everything. `make` alone lists them.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
# The stamps carry the folder's checksum: a course that was moved is installed again, once.
INSTALLED := $(VENV)/installed-$(shell pwd | cksum | cut -d ' ' -f 1)
# Containers run as root, and without a screen there is no browser: Jupyter then prints the address to open.
JUPYTER_FLAGS = $(shell [ "$$(id -u)" = 0 ] && echo --allow-root) \
	$(shell [ "$$(uname)" = Linux ] && [ -z "$$DISPLAY$$WAYLAND_DISPLAY$$BROWSER" ] && echo --no-browser)

.PHONY: help lab test format notebooks book pictures clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 12

lab: $(INSTALLED)  ## install what is missing and open the course in JupyterLab
	$(PY) -m jupyterlab --ip=localhost --LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb $(JUPYTER_FLAGS)

test: $(INSTALLED)-test  ## style, types, tests, and every notebook as shipped
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	OMP_NUM_THREADS=1 $(PY) -m pytest -n auto --dist loadfile
	$(PY) -m pytest --nbval --nbval-current-env --nbval-cell-timeout 120 notebooks

format: $(INSTALLED)-test  ## put code and notebooks in the house style
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

notebooks: $(INSTALLED)  ## run every notebook as shipped and save its outputs
	$(PY) -m helpers refresh

pictures: $(INSTALLED)-test  ## draw the pictures of README
	$(PY) docs/pictures.py

book: $(INSTALLED)  ## record the answer book, and the page of mistakes, from solutions/
	$(PY) -m helpers.judge.record
	$(PY) -m helpers.judge.matrix

clean:  ## remove what was built; notebooks and progress stay
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache
	find helpers solutions tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo 'The course needs Python 3.11 or newer. If you have one, name it: make lab PYTHON=/path/to/python3.11'; exit 1; }
	$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }

$(INSTALLED): pyproject.toml constraints.txt | $(PY)
	$(PY) -m pip install -c constraints.txt -e .
	@touch $@

$(INSTALLED)-test: pyproject.toml constraints.txt | $(PY)
	$(PY) -m pip install -c constraints.txt -e '.[test]'
	@touch $(INSTALLED) $@
