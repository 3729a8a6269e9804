# make demo       sets everything up, draws the demo data set, scores it, prints the table
# make test       sets everything up and runs all checks (lint, types, tests)
# make test-full  the same in an environment with every extra (torchvision, open_clip, PyAV …)
# make bench      the benchmarks of benchmarks/README.md

PYTHON ?= python3
VENV ?= .venv
VENV_FULL ?= .venv-full
# Which torch to install. These pairs are tested; any torch that pyproject.toml allows will do.
TORCH ?= torch==2.13.0
TORCH_FULL ?= torch==2.14.1 torchvision==0.29.1

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test test-full bench clean

demo: $(VENV)/.installed
	$(VENV)/bin/beholder demo -o demo

test: $(VENV)/.installed-dev
	tools/check $(VENV)

test-full: $(VENV_FULL)/.installed-full
	tools/check $(VENV_FULL)

bench: $(VENV)/.installed-dev
	$(VENV)/bin/python -m benchmarks

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet "$(TORCH)"
	$(VENV)/bin/pip install --quiet --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(VENV)/bin/pip install --quiet --editable ".[dev]"
	touch $@

$(VENV_FULL)/.installed-full: pyproject.toml
	$(PYTHON) -m venv $(VENV_FULL)
	$(VENV_FULL)/bin/pip install --quiet $(TORCH_FULL)
	$(VENV_FULL)/bin/pip install --quiet --editable ".[all,dev]"
	touch $@

clean:
	rm -rf $(VENV) $(VENV_FULL) demo
