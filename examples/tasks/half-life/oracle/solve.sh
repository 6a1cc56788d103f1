#!/bin/bash
# Runs in the workspace; what it needs beside the prompt lies next to it.
set -eu
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
python3 -I "$here/fit.py" "$here/counts.csv"
