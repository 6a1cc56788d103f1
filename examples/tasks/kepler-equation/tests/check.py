"""Compares the answer with the root that bisection finds, within an absolute tolerance.

Three decimals are not enough, nor is an answer in degrees, nor the mean anomaly itself.
"""

import os
import re
import sys
from math import sin

ECCENTRICITY, MEAN, TOLERANCE = 0.967, 0.25, 1e-8


def root():
    """M = E - e·sin(E) grows with E, so halving the interval finds its one root."""
    low, high = 0.0, 4.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle - ECCENTRICITY * sin(middle) < MEAN:
            low = middle
        else:
            high = middle
    return low


def fail(reason):
    print(f"FAIL: {reason}")
    sys.exit(1)


try:
    with os.fdopen(os.open("answer.txt", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
        text = file.read(1000).strip()
except (OSError, ValueError) as error:
    fail(f"answer.txt can't be read: {error}")
if not re.fullmatch(r"[+-]?\d+(\.\d*)?([eE][+-]?\d{1,3})?", text, re.ASCII):
    fail(f"{text[:40]!r} is not one decimal number")
off = abs(float(text) - root())
if not off <= TOLERANCE:
    fail(f"off by {off:.3g}, more than {TOLERANCE:g} (answer {text})")
print(f"PASS: off by {off:.3g} (answer {text})")
with open("/logs/verifier/reward.txt", "w") as file:
    file.write("1\n")
