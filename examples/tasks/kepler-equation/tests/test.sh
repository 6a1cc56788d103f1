#!/bin/bash
# The number itself is checked, against a value found by another method than the solution's.
echo 0 > /logs/verifier/reward.txt
python3 -I /tests/check.py
