"""A third of the reward each: near the true half-life, a plausible uncertainty, the two agree."""

import json
import math
import os

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
if fault is not None:
    checks = dict.fromkeys(("close_enough", "plausible_uncertainty", "consistent"), False)
    print(f"reward 0.0: {fault}")
else:
    value, uncertainty = numbers
    off = abs(value - TRUE)
    checks = {
        "close_enough": off <= 1.5,
        "plausible_uncertainty": 0.2 <= uncertainty <= 1.2,
        "consistent": uncertainty > 0 and off <= 3 * uncertainty,
    }
reward = round(sum(checks.values()) / len(checks), 4)
if fault is None:
    verdict = ", ".join(f"{name} {'pass' if ok else 'fail'}" for name, ok in checks.items())
    print(f"reward {reward}: {verdict}")
with open("/logs/verifier/reward.json", "w") as file:
    json.dump({"reward": reward}, file)
# What is no score goes into a file of its own.
with open("/logs/verifier/reward-details.json", "w") as file:
    json.dump({"checks": checks, "fault": fault}, file)
