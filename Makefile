# The two commands are `make demo` and `make test`; each makes its own environment in .venv first (scripts/setup.sh).
PY := .venv/bin/python
PEER := .venv-peer/bin/python
OTHERS := .venv-others/bin/python
JOBS ?= auto
ARGS ?=

.PHONY: help demo test test-gpu test-gpu2 lab lint docs dist bench workbench elsewhere figures peer-gradients names cpu-runtime nightly mutations setup clean
help:
	@echo "make demo     run a lesson of the course without a browser, check its gradients, write the inspector as HTML"
	@echo "make test     the test suite            (JOBS=2, ARGS='-k name')"
	@echo "make test-gpu tests that need an NVIDIA GPU, without network or installation; out/gpu_report.md"
	@echo "make test-gpu2  gradients over two GPUs of one host: figures, and whether they are right"
	@echo "make lab      the course, in JupyterLab"
	@echo "make lint     ruff, mypy --strict"
	@echo "make docs     the documentation as HTML in out/docs; a warning is an error"
	@echo "make dist     wheel and sdist in dist/"
	@echo "make bench    race the pip package quadrants on the same kernels   (ARGS='--quick --only launch')"
	@echo "make workbench  measure the notebook: seconds, bytes, and which are over their limits   (ARGS='--only graphs')"
	@echo "make elsewhere  the inspector in Notebook 7, in marimo and in pages of nbconvert, of an installed wheel"
	@echo "make figures  size and shape of the project beside their aims, into docs/architecture.md"
	@echo "make peer-gradients  every program's gradient beside the pip package's, into docs/peer_gradients.md"
	@echo "make names    compare every public name of the pip package with ours"
	@echo "make cpu-runtime  compile the CPU runtime from C to the LLVM text that is checked in (needs clang 19)"
	@echo "make nightly  the long tests: more random kernels, slow cases"
	@echo "make mutations  plant mistakes in the product, and say which of them no test notices"

setup:
	@rm -f out/.apt-failed
	@scripts/setup.sh test

demo:
	@scripts/setup.sh demo
	@$(PY) scripts/demo.py $(ARGS)

test:
	@scripts/setup.sh test
	@$(PY) -m pytest -q -n $(JOBS) --dist worksteal $(ARGS)

# Runs under any interpreter that has numpy, llvmlite, pytest and hypothesis.
test-gpu:
	@$${PYTHON:-python3} scripts/test_gpu.py $(ARGS)

test-gpu2:
	@$${PYTHON:-python3} scripts/test_gpu2.py $(ARGS)

lab:
	@scripts/setup.sh demo
	@cd notebooks && ../$(PY) -m jupyterlab $(ARGS)

lint:
	@scripts/setup.sh test
	@$(PY) -m ruff check .
	@$(PY) -m mypy

docs:
	@scripts/setup.sh test
	@$(PY) -m sphinx -q -E -W --keep-going -d out/doctrees docs out/docs
	@echo "docs: out/docs/index.html"

dist:
	@scripts/setup.sh test
	@$(PY) -m build -q --no-isolation .

bench: $(PEER) $(OTHERS)
	@scripts/setup.sh test
	@$(PY) -m benchmarks $(ARGS)

workbench:
	@scripts/setup.sh test
	@$(PY) scripts/workbench.py $(ARGS)

elsewhere:
	@scripts/setup.sh test
	@$(PY) scripts/elsewhere.py $(ARGS)

figures:
	@python3 scripts/figures.py --write $(ARGS)

peer-gradients: $(PEER)
	@scripts/setup.sh test
	@$(PY) tests/peer/gradients.py

names: $(PEER)
	@scripts/setup.sh test
	@$(PEER) scripts/names.py --walk quadrants | grep -E '^(qd\.|from |import )' > docs/quadrants_names.txt
	@$(PY) scripts/names.py

cpu-runtime:
	@scripts/setup.sh test
	@$(PY) scripts/cpu_runtime.py

nightly:
	@scripts/setup.sh test
	@QL_NIGHTLY=1 $(PY) -m pytest -q --timeout 7200 -n $(JOBS) --dist worksteal $(ARGS)

# By night, too: most of an hour on two cores.
mutations:
	@scripts/setup.sh test
	@$(PY) tests/mutations.py $(ARGS)

# The peer lives in an environment of its own; its compiled library need not share a process with ours.
$(PEER):
	@scripts/setup.sh demo
	@echo "bench: pip install quadrants==1.3.3 into .venv-peer"
	@$(PY) -m venv .venv-peer
	@$(PEER) -m pip install -q --disable-pip-version-check quadrants==1.3.3 || { rm -rf .venv-peer; exit 1; }

$(OTHERS):
	@scripts/setup.sh demo
	@echo "bench: pip install jax, drjit and numba into .venv-others"
	@$(PY) -m venv .venv-others
	@$(OTHERS) -m pip install -q --disable-pip-version-check jax==0.10.2 drjit==1.5.0 numba==0.68.1 || \
		{ rm -rf .venv-others; echo "bench: goes on without them"; }

clean:
	rm -rf .venv .venv-peer .venv-others build dist out *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
