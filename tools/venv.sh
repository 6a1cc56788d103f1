#!/usr/bin/env bash
# Make or update the virtual environment: venv.sh FOLDER EXTRAS
# Quiet when all is well; on a failure the last line says what to do.
set -eu
cd "$(dirname "$0")/.."
venv=$1 extras=$2
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
export PIP_CONSTRAINT="$PWD/constraints.txt" # holds for build tools too

die() {
    printf '%s\n' "$*" >&2
    exit 1
}

needs=3.11.4 # as requires-python in pyproject.toml
choose="name one with PYTHON=/path/to/python3 before the command, as in PYTHON=/opt/python/bin/python3 make demo"

new_enough() { # prints the interpreter's own path: a shim need not be able to run it later
    "$1" -c 'import sys
needs = tuple(int(part) for part in sys.argv[1].split("."))
sys.version_info[:3] >= needs or sys.exit(1)
print(sys.executable)' "$needs" 2>/dev/null
}

find_python() { # the one that was named, and no other; else the first that is new enough
    local name
    if [ -n "${PYTHON:-}" ]; then
        new_enough "$PYTHON" || die "PYTHON=$PYTHON is $(version_of "$PYTHON"), and trialog needs Python $needs or newer: $choose, or leave PYTHON out"
        return
    fi
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        new_enough "$name" && return
    done
    return 1
}

version_of() { "$1" -V 2>/dev/null || echo "no Python that runs"; }

fits() { # the environment is whole, and made with the Python that was asked for
    local python
    new_enough "$venv/bin/python" >/dev/null && "$venv/bin/python" -m pip --version >/dev/null 2>&1 || return 1
    [ -z "${PYTHON:-}" ] || { python=$(find_python) && [ "$(base_of "$python")" = "$(base_of "$venv/bin/python")" ]; }
}

base_of() { "$1" -c 'import os, sys; print(os.path.realpath(sys.base_prefix), sys.version_info[:3])'; }

debian_root() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

install() {
    echo "Installing $* from the distribution's packages …"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || true # the lists that are there may do
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

[ -z "${PYTHON:-}" ] || find_python >/dev/null # says what is wrong with the one that was named
if ! fits; then
    if ! python=$(find_python); then
        debian_root || die "trialog needs Python $needs or newer, and python3 is $(version_of python3): install a newer one, or $choose"
        install python3 python3-venv
        python=$(find_python) || die "trialog needs Python $needs or newer, and this distribution's python3 is $(version_of python3): install a newer one, then $choose"
    fi
    if [ -x "$venv/bin/python" ]; then
        echo "$venv is made anew: it has $(version_of "$venv/bin/python"), not $("$python" -V)."
    fi
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        debian_root || die "$python has no venv module: install python3-venv, or $choose"
        package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
        install "$package"
    fi
    echo "Making $venv with $("$python" -V) …"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi

echo "Installing trialog[$extras] and what it needs into $venv …"
"$venv/bin/python" -m pip install -qq --editable ".[$extras]" ||
    die "Installing failed (see above): a package index must be reachable the first time."
