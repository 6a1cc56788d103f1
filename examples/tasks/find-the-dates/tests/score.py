"""Precision, recall and their harmonic mean over the dates that were found."""

import json
import os
import re

EXPECTED = {
    "2023-03-03",
    "2023-03-07",
    "2023-03-09",
    "2023-03-21",
    "2023-03-23",
    "2022-11-01",
    "2024-12-31",
    "2023-03-10",
}

fault = None
lines = []
try:
    with os.fdopen(os.open("dates.txt", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
        lines = [line.strip() for line in file.read(10_000).splitlines() if line.strip()]
except (OSError, ValueError) as error:
    fault = f"dates.txt can't be read: {error}"
# A line that is no date, and a date given again, count as wrong finds.
found = {line for line in lines if re.fullmatch(r"\d{4}-\d\d-\d\d", line, re.ASCII)}
right = len(found & EXPECTED)
precision = right / len(lines) if lines else 0.0
recall = right / len(EXPECTED)
f1 = 2 * precision * recall / (precision + recall) if right else 0.0
scores = {"reward": round(f1, 4), "precision": round(precision, 4), "recall": round(recall, 4)}
print(f"{'PASS' if f1 == 1 else 'FAIL'}: {fault or scores}")
with open("/logs/verifier/reward.json", "w") as file:
    json.dump(scores, file)
with open("/logs/verifier/reward-details.json", "w") as file:
    json.dump({"missed": sorted(EXPECTED - found), "wrong": sorted(found - EXPECTED)}, file)
