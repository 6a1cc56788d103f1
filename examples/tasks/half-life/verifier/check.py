"""Passes an estimate near the true half-life whose uncertainty is plausible and holds.

The limits were set by trying answers: the full fit gives 26.56 ± 0.51 and passes, a fit without
background gives 34.7 ± 0.3 and one of the first hour alone 29.9 ± 0.7, and both fail.
"""

import json
import math
import os
import sys

TRUE = 26.8
ANSWER = "answer.json"


def read_answer():
    """The two numbers, or the reason why there are none. A link is no answer."""
    try:
        with os.fdopen(os.open(ANSWER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            answer = json.loads(file.read(10_000))
        numbers = [answer["half_life_min"], answer["uncertainty_min"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return None, f"{ANSWER} can't be used: {type(error).__name__}: {error}"
    for number in numbers:
        if type(number) not in (int, float) or not math.isfinite(number):
            return None, f"{number!r} is no number"
    return numbers, None


numbers, fault = read_answer()
if fault is None:
    value, uncertainty = numbers
    off = abs(value - TRUE)
    said = f"(answer {value:.2f} +- {uncertainty:.2f} min, true value {TRUE})"
    if off > 1.5:
        fault = f"half-life off by {off:.2f} min, more than 1.5 {said}"
    elif not 0.2 <= uncertainty <= 1.2:
        fault = f"uncertainty {uncertainty:.2f} min, outside 0.2 to 1.2 {said}"
    elif off > 3 * uncertainty:
        fault = f"off by {off:.2f} min, more than 3 of its own uncertainties {said}"
if fault is not None:
    print(f"FAIL: {fault}")
    sys.exit(1)
print(f"PASS: {said}")
with open("/logs/verifier/reward.txt", "w") as file:
    file.write("1\n")
