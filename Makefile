PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-full check lock
demo: .venv/installed
	$(BIN)/k25serve demo
test: check
	$(BIN)/pytest -m "not full and not gpu"
test-full: check
	$(BIN)/pytest -m "not gpu"
check: .venv/installed
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy
.venv/installed: deploy/locks/cpu.txt deploy/locks/train.txt pyproject.toml
	@echo "Setting up .venv: about a minute, 6.6 GB"
	$(PYTHON) -m venv .venv && $(BIN)/pip install -q uv
	$(BIN)/uv pip install -q --python $(BIN)/python --compile-bytecode --no-deps -r deploy/locks/cpu.txt -r deploy/locks/train.txt
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps -e . && touch $@
lock:
	sh deploy/locks/make.sh
