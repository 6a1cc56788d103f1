"""Calls the agent's function in a process of its own, and judges what it gave back here.

One call a process: the agent's code can neither end this script nor change how it judges.
"""

import json
import subprocess
import sys

CASES = [
    # values, weights, expected (None: ValueError)
    ([1, 2, 3], [1, 1, 1], 2),
    ([3, 1, 2], [1, 1, 1], 2),
    ([1, 2, 3, 4], [1, 1, 1, 1], 2),
    ([10, 20], [1, 3], 20),
    ([10, 20], [3, 1], 10),
    ([5], [0.5], 5),
    ([1, 2, 3], [0, 0, 1], 3),
    ([1, 2, 3], [0, 1, 1], 2),
    ([7, 7, 8], [1, 1, 5], 8),
    ([-1.5, 0, 2.5], [2, 1, 1], -1.5),
    ([], [], None),
    ([1, 2], [1], None),
    ([1, 2], [-1, 3], None),
    ([1, 2], [0, 0], None),
]

SLOW = "took over 3 s"

CALL = """
import json, runpy, sys
values, weights = json.load(sys.stdin)
function = runpy.run_path("stats.py")["weighted_median"]
before = json.dumps([values, weights])
try:
    outcome = {"value": function(values, weights)}
except ValueError:
    outcome = {"value": None, "refused": True}
outcome["changed"] = json.dumps([values, weights]) != before
print(json.dumps(outcome))
"""


def fault(values, weights, expected):
    """What is wrong with the function's answer; None when nothing is."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", CALL],
            input=json.dumps([values, weights]),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=3,
        )
        outcome = json.loads(done.stdout.splitlines()[-1])
        value, refused = outcome["value"], outcome.get("refused", False)
        changed = outcome["changed"]
    except subprocess.TimeoutExpired:
        return SLOW
    except (ValueError, LookupError, TypeError):
        last = done.stderr.strip().splitlines()[-1:] or ["it printed no answer"]
        return f"failed: {last[0][:200]}"
    if changed:
        return "changed its arguments"
    if expected is None:
        return None if refused else f"gave {value!r}, should raise ValueError"
    if refused or type(value) not in (int, float) or value != expected:
        return f"gave {'ValueError' if refused else repr(value)}, expected {expected!r}"
    return None


faults = []
right = 0
for case in CASES:
    said = fault(*case)
    if said is None:
        right += 1
    else:
        faults.append((case, said))
    if said == SLOW:
        break  # one endless call is enough to know
print(f"{'FAIL' if faults else 'PASS'}: {right} of {len(CASES)} calls right")
for (values, weights, _), said in faults:
    print(f"  weighted_median({values}, {weights}): {said}")
sys.exit(1 if faults else 0)
