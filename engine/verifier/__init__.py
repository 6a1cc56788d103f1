"""The script verifier: running a task's test script and judging the reward it wrote."""
