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

new_enough() { # prints the interpreter's own path: a shim need not be able to run it later
    "$1" -c 'import sys; sys.version_info >= (3, 11) or sys.exit(1); print(sys.executable)' 2>/dev/null
}

find_python() {
    local name
    for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        new_enough "$name" && return
    done
    return 1
}

debian_root() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

install() {
    echo "Installing $* from the distribution's packages …"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || true # the lists that are there may do
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

if ! new_enough "$venv/bin/python" >/dev/null || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    if ! python=$(find_python); then
        debian_root || die "trialog needs Python 3.11 or newer: install it, or name one with PYTHON=/path/to/python3 make …"
        install python3 python3-venv
        python=$(find_python) || die "This distribution's python3 is older than 3.11: install a newer one and name it with PYTHON=/path/to/python3 make …"
    fi
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        debian_root || die "$python has no venv module: install python3-venv, or name another with PYTHON=/path/to/python3 make …"
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
