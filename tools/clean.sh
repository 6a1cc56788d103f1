#!/usr/bin/env bash
# Remove what the Makefile's targets made. Jobs and the cached base image's files stay:
# jobs/ is the user's, and the cache (~/.cache/trialog) is shared by all checkouts.
set -eu
cd "$(dirname "$0")/.."
if [ -e .test-services/engine.json ] && [ -x .venv/bin/python ]; then
    .venv/bin/python tools/services.py down
fi
rm -rf .venv .test-services build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis \
    .import_linter_cache .coverage .coverage.* htmlcov
find . -name __pycache__ -type d -prune -exec rm -rf {} +
