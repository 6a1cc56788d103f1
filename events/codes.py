"""Codes of warnings and categories of errors. They are part of the format: only ever added to.

Each has one sentence of meaning and one of what to do next; ``trialog explain`` prints them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Code(NamedTuple):
    """What a code means."""

    meaning: str
    next: str


WARNINGS: dict[str, Code] = {
    "reward_missing": Code(
        "The test script wrote no reward file that could be used.",
        "Read verifier/test-stdout.txt; the test should write a reward on every path.",
    ),
    "verifier_timeout": Code(
        "The test script ran past verifier.timeout_sec and was stopped.",
        "Read verifier/test-stdout.txt; raise verifier.timeout_sec if the test is honestly slow.",
    ),
    "reward_not_a_number": Code(
        "A reward or score is not a finite number.",
        "Write a plain JSON number; put details into reward-details.json.",
    ),
    "reward_out_of_range": Code(
        "A reward or score lies outside the task's range.",
        "Mend the test, or widen verifier.reward_range.",
    ),
    "reward_conflict": Code(
        "reward.txt and reward.json give different rewards; reward.txt decided.",
        "Write the reward in one place.",
    ),
    "reward_unusable": Code(
        "A reward file is no regular file, is over 1 MiB, or may not be read.",
        "Write a small plain file; a link, pipe, device or folder in its place is never read.",
    ),
    "reward_details": Code(
        "Entries of reward.json that are no numbers were kept as details and not scored.",
        "Write what is no score to reward-details.json.",
    ),
    "reward_aggregated": Code(
        "reward.json has no reward, and verifier.aggregate made one from its numbers.",
        "Nothing, if that is meant; else write `reward` too.",
    ),
    "reward_scores_lost": Code(
        "reward.json could not be used; reward.txt gave the reward, without further scores.",
        "Mend what writes reward.json.",
    ),
    "verifier_file_skipped": Code(
        "reward-details.json or ctrf.json was not kept.",
        "Write a plain file of at most 16 MiB.",
    ),
    "agent_report_malformed": Code(
        "A line that the agent's program reported is no action.",
        "Write one JSON object a line; see docs/agents.md.",
    ),
    "agent_report_cut": Code(
        "The agent's program reported more than is kept, or its report was no plain file.",
        "Report fewer or shorter actions; see docs/agents.md.",
    ),
}

Blame = Literal["agent", "verifier", "infrastructure", "user"]


class Category(NamedTuple):
    """What a category of error means, and who is at fault."""

    meaning: str
    next: str
    blame: Blame


CATEGORIES: dict[str, Category] = {
    "agent_exit": Category(
        "The agent's program ended with a non-zero exit code; its work was graded all the same.",
        "Read the agent's output with `trialog logs TRIAL`.",
        "agent",
    ),
    "agent_timeout": Category(
        "The agent ran past agent.timeout_sec and was stopped; its work was graded all the same.",
        "Raise agent.timeout_sec, or use --timeout-multiplier.",
        "agent",
    ),
    "idle_timeout": Category(
        "The agent printed and called nothing for agent.idle_timeout_sec and was stopped.",
        "Raise agent.idle_timeout_sec if the agent honestly works in silence.",
        "agent",
    ),
    "sandbox_failed": Category(
        "The sandbox could not be made or used.",
        "Read the error; `trialog resume JOB` runs the trial again.",
        "infrastructure",
    ),
    "sandbox_unavailable": Category(
        "No sandbox can be had on this machine.",
        "Start a Docker engine, or install bubblewrap.",
        "infrastructure",
    ),
    "image_unavailable": Category(
        "The task's image is not there and can't be built or pulled.",
        "Build or pull it, then `trialog resume JOB`.",
        "infrastructure",
    ),
    "build_timeout": Category(
        "Building the task's image took longer than build_timeout_sec.",
        "Raise build_timeout_sec, then `trialog resume JOB`.",
        "infrastructure",
    ),
    "start_timeout": Category(
        "The sandbox did not come up in time.",
        "Look at the engine's load, then `trialog resume JOB`.",
        "infrastructure",
    ),
    "sandbox_lost": Category(
        "The sandbox went away while it was in use.",
        "`trialog resume JOB` runs the trial again.",
        "infrastructure",
    ),
    "save_timeout": Category(
        "Saving the workspace took too long.",
        "`trialog resume JOB` runs the trial again; a smaller workspace helps.",
        "infrastructure",
    ),
    "reward_tampered": Category(
        "Something the agent left in the reward's place could not be removed, so nothing was graded.",
        "Read the tamper entries in result.json.",
        "infrastructure",
    ),
    "verifier_digest_mismatch": Category(
        "The verifier's files are not those that the job recorded when it started.",
        "Find out who changed them; `trialog resume JOB` grades again from the job's snapshot.",
        "infrastructure",
    ),
    "transfer_failed": Category(
        "Files could not be brought into the sandbox or out of it.",
        "Read the error; `trialog resume JOB` grades the trial again.",
        "infrastructure",
    ),
    "verifier_no_reward": Category(
        "The verifier wrote no usable reward, and --missing-reward error was given.",
        "Mend the test, then `trialog regrade JOB`.",
        "verifier",
    ),
    "log_unavailable": Category(
        "The log could not be written, for example because the disk is full.",
        "Make room, then `trialog resume JOB`.",
        "infrastructure",
    ),
    "engine_fault": Category(
        "The engine itself failed; this is a fault of trialog's.",
        "Report it with the traceback; `trialog resume JOB` runs the trial again.",
        "infrastructure",
    ),
    "cancelled": Category(
        "The trial was cancelled before its end.",
        "`trialog run --from JOB` starts anew.",
        "user",
    ),
}
