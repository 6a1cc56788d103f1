"""The same five actions and one scorer in Inspect AI, with its mock model; needs no network.

    PYTHON inspect_peer.py SAMPLES AT_ONCE [LOGS]

Prints the seconds that the evaluation took, its log included, which stays in the folder LOGS.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time

os.environ.setdefault("INSPECT_DISPLAY", "none")

from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, accuracy, scorer
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool
from inspect_ai.util import store

ACTIONS = 5


@tool
def add():
    """The counter's one action."""

    async def execute(n: int) -> int:
        """Add to the counter.

        Args:
            n: How much.
        """
        value = store().get("value", 0) + n
        store().set("value", value)
        return value

    return execute


@scorer(metrics=[accuracy()])
def reached():
    """Whether the number was reached."""

    async def score(state, target) -> Score:  # scoring a stored log asks for the annotation
        value = state.store.get("value", 0)
        return Score(value=float(value == ACTIONS), explanation=f"it shows {value}")

    return score


def reply(messages, tools, tool_choice, config):
    """What the model says: five tool calls, then it is done."""
    said = sum(message.role == "assistant" for message in messages)
    if said < ACTIONS:
        output = ModelOutput.for_tool_call("mockllm/model", "add", {"n": 1})
    else:
        output = ModelOutput.from_content("mockllm/model", "done")
    # Without it tokens would be counted, by a table that is fetched over the network.
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def main() -> None:
    """Evaluate, and print the seconds."""
    samples, at_once, kept = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    task = Task(
        dataset=[
            Sample(input="Bring the counter to exactly 5.", target="5", id=number)
            for number in range(samples)
        ],
        solver=[use_tools(add()), generate()],
        scorer=reached(),
    )
    model = get_model("mockllm/model", custom_outputs=reply)
    with tempfile.TemporaryDirectory() as passing:
        logs = kept[0] if kept else passing
        begun = time.perf_counter()
        (log,) = eval(
            task, model=model, max_samples=at_once, max_connections=at_once, log_dir=logs,
            display="none",
        )  # fmt: skip
        seconds = time.perf_counter() - begun
    assert log.status == "success", log.error.message if log.error else None
    assert log.results is not None
    assert log.results.scores[0].metrics["accuracy"].value == 1.0
    print(seconds)


if __name__ == "__main__":
    main()
