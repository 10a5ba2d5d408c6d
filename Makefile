# Everything runs in .venv in this checkout. Needs Python 3.11+ and make; PYTHON names another interpreter.
PYTHON ?= python3
FUZZ_S ?= 40
MUTANTS ?= 200
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint .constraints.txt

.PHONY: demo test sweep deep fuzz mutants lint bench wheel sbom audit man docs screenshots clean

demo: .venv/demo  ## the samples through the shipped mappings against the embedded exchange
	@rm -rf .loadsheet/demo && mkdir -p .loadsheet/demo && cp -R inbox_samples .loadsheet/demo/inbox
	@$(BIN)/loadsheet run --inbox .loadsheet/demo/inbox --mappings mappings --outbox outbox --state .loadsheet/demo/state --settle 0 --exit-zero

# half of the time of a test is waiting: three processes, with lint and types beside them, fill two cores
test: .venv/test  ## the whole suite, lint and types included
	@$(MAKE) --no-print-directory lint & lint=$$!; \
	$(BIN)/python -m pytest -n 3 --dist worksteal; tests=$$?; \
	wait $$lint && exit $$tests

sweep: .venv/test  ## the long sweeps that CI runs as well, random examples in full; those that measure go alone
	@LOADSHEET_EXAMPLES=all $(BIN)/python -m pytest -m "(sweep or examples) and not alone" -n 2 --dist worksteal --timeout 2400
	@$(BIN)/python -m pytest -m "sweep and alone" --timeout 1500

fuzz: .venv/test  ## coverage-guided fuzzing of reading, FUZZ_S seconds for each target (Linux; atheris has no wheels elsewhere)
	@$(INSTALL) --editable '.[fuzz]'
	@for target in csv xlsx xls xlsb ods header; do $(BIN)/python tests/fuzz/fuzz_reading.py $$target -seed=1 -max_total_time=$(FUZZ_S) || exit 1; done

mutants: .venv/test  ## changes to the source that no test notices: MUTANTS, SEED (default: the day), MINUTES, BASE (commit), ROOMS; dist/mutants.json
	@$(INSTALL) --editable '.[mutants]'
	@$(BIN)/python -m tests.mutation.mutants --mutants $(MUTANTS) $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(BASE),--base $(BASE)) $(if $(ROOMS),--rooms $(ROOMS))

deep: .venv/test  ## the same over every single effect of a run: some hours
	@LOADSHEET_SWEEP_EVERY=1 $(BIN)/python -m pytest -m "sweep and not alone" -n 2 --dist worksteal --timeout 9000

lint: .venv/test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: .venv/test  ## orders/s and CPU per order, split by stage, beside a plain script; reading, translation, commands, workers
	@for name in whole_run nights reading translation commands fleet; do $(BIN)/python -m tests.benchmarks.$$name || exit 1; done

wheel: .venv/test  ## dist/loadsheet-VERSION.whl; the same source gives the same bytes
	@rm -f dist/*.whl
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .

sbom: .venv/shipped  ## dist/loadsheet.cdx.json: what an installation of the wheel consists of (CycloneDX)
	@$(BIN)/python -m cyclonedx_py environment --pyproject pyproject.toml --output-reproducible --output-file dist/loadsheet.cdx.json .venv/shipped/bin/python
	@echo dist/loadsheet.cdx.json

audit: .venv/shipped  ## known vulnerabilities in it, where the service that knows them can be reached
	@$(BIN)/python .ci/audit.py "$$(.venv/shipped/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" --timeout 15

man: .venv/test  ## dist/man: a man page for every command
	@$(BIN)/python .ci/man.py dist/man

docs: .venv/docs  ## dist/docs: the documentation as a site that needs no server and no network
	@$(BIN)/python .ci/site_pages.py build/docs
	@$(BIN)/zensical build --strict --clean --config-file build/docs/zensical.toml
	@! grep -rlE '<(script|link|img|iframe)[^>]*(src|href)="(https?:)?//' build/docs/site --include '*.html' || { echo 'these pages load something from the network' >&2; false; }
	@mkdir -p dist && rm -rf dist/docs && mv build/docs/site dist/docs
	@echo dist/docs/index.html

screenshots: .venv/test  ## docs/pictures, made anew from a run of the demo; needs chromium, soffice and pdftoppm
	@$(BIN)/python .ci/screenshots.py docs/pictures

clean:
	rm -rf .venv .loadsheet .pytest_cache .mypy_cache .ruff_cache .hypothesis .fuzz build dist

.venv/demo: pyproject.toml .constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "loadsheet needs Python 3.11 or newer; this is " + sys.version.split()[0])'
	@echo 'setting up .venv; this is done once' >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(INSTALL) --editable '.[all]'
	@touch $@

.venv/test: .venv/demo
	@$(INSTALL) --editable '.[dev]'
	@touch $@

.venv/docs: .venv/test
	@$(INSTALL) --editable '.[docs]'
	@touch $@

.venv/shipped: .venv/test wheel
	@$(INSTALL) --editable '.[ship]'
	@$(BIN)/python -m venv --clear $@
	@$@/bin/python -m pip install --quiet --disable-pip-version-check --constraint .constraints.txt dist/*.whl
