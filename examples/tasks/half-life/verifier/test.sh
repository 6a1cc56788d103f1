#!/bin/bash
# Pass or fail. A 0 is there from the start, so that no way out is without a reward; -I keeps
# Python from importing what the agent left in the workspace.
echo 0 > /logs/verifier/reward.txt
python3 -I /verifier/check.py
