#!/bin/bash
# Partial credit: a third for each check that the answer passes.
echo '{"reward": 0}' > /logs/verifier/reward.json
python3 -I /verifier/check.py
