"""result.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from helpers.given import (
    Item,
    action,
    agent_finished,
    at,
    output,
    sandbox,
    scored,
    slot,
    started,
    step_rewarded,
    trial,
    trial_scored,
    verifier_started,
    view,
)
from trialog.events.kinds import (
    AgentFailed,
    AgentMessage,
    AgentStarted,
    AppQueried,
    ArtifactsSaved,
    EpisodeEnded,
    HindsightCredited,
    HindsightFailed,
    HumanReviewRequested,
    HumanReviewSubmitted,
    JudgeSampled,
    ModelCalled,
    ProcessesKilled,
    RegradeScored,
    RegradeStarted,
    SandboxFailed,
    SandboxRemoved,
    StepRewardFailed,
    TamperFound,
    TrialErrored,
    TrialFinished,
    TrialUnscored,
    VerifierApplied,
    VerifierFailed,
    WarningRaised,
    WorkspaceHardened,
    WorkspaceSaved,
)
from trialog.events.kinds.parts import (
    Continues,
    Criterion,
    CriterionAsked,
    Install,
    Replays,
    RequestDifference,
    Target,
    Usage,
)
from trialog.events.kinds.trial import Artifact
from trialog.events.values import blob_ref
from trialog.projections.document import document
from trialog.projections.result import Result, result

FIELDS = (
    "schema task_name trial_name job attempt execution seed agent agent_version model parameters "
    "outcome passed rewards reward_source reward_valid score scores verifiers reward_totals "
    "reward_errors hindsight_errors answer n_steps n_tool_calls usage error error_category "
    "verifier_error verifier_error_category warnings tamper task_digest sandbox workspace "
    "artifacts started_at finished_at timing continues log"
).split()
VERIFIER_FIELDS = (
    "name kind version digest weight score scores criteria evidence feedback details model "
    "samples spread usage live_state exit_code sandbox_mode duration_sec error error_category"
).split()


def of(*items: Item) -> dict[str, Any]:
    """result.json, read back."""
    found = result(view(*items))
    assert isinstance(found, Result)
    return json.loads(document(found))


def finished(*items: Item, outcome: Any = "scored") -> dict[str, Any]:
    """result.json of a trial in which these happened between its start and its end."""
    return of(started(), *items, TrialFinished(outcome=outcome))


def test_every_field_is_there_in_its_order() -> None:
    """All fields in the documented order, null where there is nothing to say."""
    assert FIELDS == list(of(*trial()))
    assert FIELDS == list(finished(outcome="cancelled"))
    assert "trialog.result/1" == of(*trial())["schema"]


def test_there_is_none_before_the_end() -> None:
    """An unfinished execution has no result."""
    assert result(view(*trial()[:-1])) is None
    assert result(view(*trial())) is not None


def test_it_says_what_was_run() -> None:
    """Slot, execution, seed, parameters and digests come from the trial's start."""
    found = of(
        *trial(
            slot=slot(task="half-life", agent="chat", model="m", parameters={"t": 1}, attempt=2),
            execution=3,
            seed=7,
        )
    )

    assert ("half-life", "t__00000001", "j", 2, 3, 7, "chat", "m", {"t": 1}) == (
        found["task_name"], found["trial_name"], found["job"], found["attempt"],
        found["execution"], found["seed"], found["agent"], found["model"], found["parameters"],
    )  # fmt: skip
    assert "sha256:" + "a" * 64 == found["task_digest"]


def test_the_agent_says_its_version_and_model() -> None:
    """The version is the agent's own; its model stands where the slot names none."""
    found = finished(AgentStarted(name="chat", version="2.1", model="m"))

    assert ("oracle", "2.1", "m") == (found["agent"], found["agent_version"], found["model"])
    assert finished()["agent_version"] is None


def test_a_version_that_the_agent_said_itself() -> None:
    """It counts where nothing was known when the agent started, however its phase ended."""
    said = agent_finished(version="0.9")
    assert finished(AgentStarted(name="acp"), said)["agent_version"] == "0.9"
    assert finished(AgentStarted(name="acp", version="1"), said)["agent_version"] == "1"
    failed = AgentFailed(error="no", category="agent_setup_failed", duration=1, version="0.8")
    assert finished(AgentStarted(name="acp"), failed)["agent_version"] == "0.8"
    never_started = AgentFailed(error="no", category="agent_install_failed", duration=1)
    assert finished(never_started)["agent_version"] is None


def test_an_installation_is_part_of_the_start() -> None:
    """Its seconds are no seconds of the agent's."""
    bare = finished(AgentStarted(name="a"))["timing"]
    install = Install(duration=2.5, network=True)
    found = finished(AgentStarted(name="a", install=install))["timing"]
    assert found["start"] == (bare["start"] or 0) + 2.5
    assert found["agent"] == bare["agent"]


def test_what_an_agent_says_that_it_used_is_no_usage() -> None:
    """Only calls that were seen count; what it said stays in the log."""
    said = agent_finished(reported_usage=Usage(input_tokens=10, output_tokens=2, cost_usd=0.5))
    usage = finished(AgentStarted(name="acp"), said)["usage"]
    assert set(usage.values()) == {None}


def test_scored() -> None:
    """A scored trial has the verifier's rewards and passed or did not."""
    found = of(*trial(0.5))

    assert ("scored", False, {"reward": 0.5}, "verifier", True, 0.5) == (
        found["outcome"], found["passed"], found["rewards"], found["reward_source"],
        found["reward_valid"], found["score"],
    )  # fmt: skip
    assert of(*trial(1.0))["passed"] is True


def test_sub_scores() -> None:
    """Other scores stand beside the reward, and in `scores`."""
    found = finished(
        trial_scored(0.5, rewards={"reward": 0.5, "speed": 1.0}, scores={"speed": 1.0})
    )

    assert {"reward": 0.5, "speed": 1.0} == found["rewards"]
    assert {"speed": 1.0} == found["scores"]


def test_names_of_scores_are_as_given() -> None:
    """A score may have any name; stored with one `$` more, it is shown without."""
    stored = {"$$blob": 0.5, "$$$x": 0.25, "plain": 1.0}
    found = of(
        *trial()[:-3], scored(scores=stored, details={"$$blob": 1}),
        trial_scored(scores=stored, rewards={"reward": 1.0, **stored}),
        TrialFinished(outcome="scored"),
    )  # fmt: skip
    names = {"$blob": 0.5, "$$x": 0.25, "plain": 1.0}
    assert (names, {"reward": 1.0, **names}) == (found["scores"], found["rewards"])
    assert names == found["verifiers"][0]["scores"]
    assert {"$$blob": 1} == found["verifiers"][0]["details"]


def test_a_zero_of_the_engine_says_so() -> None:
    """A 0 that the engine gave is no valid reward."""
    found = finished(
        verifier_started(),
        scored(0.0, source="engine", warnings=["reward_missing"], exit_code=3),
        WarningRaised(code="reward_missing", message="Verifier scored 0: …"),
        trial_scored(0.0, reward_source="engine", reward_valid=False),
    )

    assert ("engine", False, {"reward": 0.0}, False) == (
        found["reward_source"], found["reward_valid"], found["rewards"], found["passed"],
    )  # fmt: skip
    assert [{"code": "reward_missing", "message": "Verifier scored 0: …"}] == found["warnings"]
    assert 3 == found["verifiers"][0]["exit_code"]


def test_a_missing_reward_as_an_error() -> None:
    """With --missing-reward error the rewards are null and the verifier's error says why."""
    found = finished(
        verifier_started(),
        scored(0.0, source="engine", missing=True),
        trial_scored(0.0, passed=False, rewards=None, reward_source="engine", reward_valid=False),
    )

    assert ("scored", False, None, 0.0) == (
        found["outcome"], found["passed"], found["rewards"], found["score"],
    )  # fmt: skip
    assert ("verifier wrote no usable reward", "verifier_no_reward") == (
        found["verifier_error"], found["verifier_error_category"],
    )  # fmt: skip
    entry = found["verifiers"][0]
    assert (None, "verifier wrote no usable reward", "verifier_no_reward") == (
        entry["score"], entry["error"], entry["error_category"],
    )  # fmt: skip


def test_errored() -> None:
    """A trial without work to grade did not pass, and has no score."""
    found = finished(
        AgentFailed(error="it broke", category="sandbox_lost", duration=1.0),
        TrialErrored(error="it broke", category="sandbox_lost"),
        outcome="errored",
    )

    assert ("errored", False, None, None, None, False) == (
        found["outcome"], found["passed"], found["rewards"], found["score"],
        found["reward_source"], found["reward_valid"],
    )  # fmt: skip
    assert ("it broke", "sandbox_lost") == (found["error"], found["error_category"])


def test_unscored() -> None:
    """A trial that nothing was assessed of neither passed nor failed."""
    found = finished(
        agent_finished(),
        TrialUnscored(error="lost", category="sandbox_lost", infrastructure=True),
        outcome="unscored",
    )

    assert (None, None, None) == (found["passed"], found["score"], found["error"])
    assert ("lost", "sandbox_lost") == (
        found["verifier_error"], found["verifier_error_category"],
    )  # fmt: skip


def test_cancelled() -> None:
    """A cancelled trial has no verdict, even where a score was known already."""
    found = finished(trial_scored(), outcome="cancelled")

    assert ("cancelled", None, None, None) == (
        found["outcome"], found["passed"], found["rewards"], found["score"],
    )  # fmt: skip
    assert "cancelled" == found["error_category"]
    assert found["error"]


def test_an_agent_that_failed_and_was_graded() -> None:
    """An agent's non-zero exit is an error beside the score."""
    found = finished(
        agent_finished(
            ended_by="agent_exit", exit_code=2, error="exit 2", error_category="agent_exit"
        ),
        trial_scored(),
    )  # fmt: skip

    assert (True, "exit 2", "agent_exit") == (
        found["passed"], found["error"], found["error_category"],
    )  # fmt: skip


def test_a_script_verifier() -> None:
    """A verifier's entry has every field, in order."""
    found = finished(
        verifier_started(sandbox_mode="separate"),
        scored(
            0.5,
            sandbox_mode="separate",
            scores={"a": 0.5},
            criteria=[Criterion(name="c", score=1.0, min_score=0.0, max_score=2.0, weight=1.0)],
            evidence=["e"],
            feedback="f",
            details={"log": [1]},
            duration=0.1234567,
        ),
        trial_scored(0.5),
    )

    entry = found["verifiers"][0]
    assert VERIFIER_FIELDS == list(entry)
    assert ("script", "script", None, 1.0, 0.5, {"a": 0.5}, ["e"], "f", {"log": [1]}) == (
        entry["name"], entry["kind"], entry["version"], entry["weight"], entry["score"],
        entry["scores"], entry["evidence"], entry["feedback"], entry["details"],
    )  # fmt: skip
    criterion = {
        "name": "c", "score": 1.0, "min_score": 0.0, "max_score": 2.0, "weight": 1.0,
        "blocker": False, "feedback": None,
    }  # fmt: skip
    assert [criterion] == entry["criteria"]
    assert 0.123457 == entry["duration_sec"]
    assert "separate" == entry["sandbox_mode"]


def test_a_failed_verifier() -> None:
    """A verifier that failed has no score, and says why and where in the user's file."""
    failed = VerifierFailed(
        verifier="check", verifier_kind="deterministic", version="1.0.0", digest="d", weight=2.0,
        error="KeyError: 'done'", category="verifier_raised", infrastructure=False,
        line="verify.py:14", exit_code=1, duration=0.5, usage=Usage(model_calls=1),
    )  # fmt: skip

    found = finished(verifier_started(verifier="check"), failed, outcome="unscored")

    entry = found["verifiers"][0]
    assert VERIFIER_FIELDS == list(entry)
    assert ("deterministic", None, 1, "KeyError: 'done' (at verify.py:14)", "verifier_raised") == (
        entry["kind"], entry["score"], entry["exit_code"], entry["error"], entry["error_category"],
    )  # fmt: skip
    assert 1 == entry["usage"]["model_calls"]


def test_a_verifier_that_was_cut_off() -> None:
    """A verifier that was let go and gave nothing has an entry with nothing in it."""
    found = finished(verifier_started(model="m"), outcome="cancelled")

    entry = found["verifiers"][0]
    assert ("script", None, None, "m", None) == (
        entry["name"], entry["score"], entry["error"], entry["model"], entry["usage"],
    )  # fmt: skip


def test_a_verifier_that_ran_again_after_an_interruption() -> None:
    """The newest answer holds, and the verifier is listed once."""
    lost = VerifierFailed(
        verifier="script", verifier_kind="script", digest="d", weight=1.0, error="lost",
        category="sandbox_lost", infrastructure=True, duration=0.5,
    )  # fmt: skip

    found = finished(verifier_started(), lost, verifier_started(), scored(), trial_scored())

    assert [(1.0, None)] == [(entry["score"], entry["error"]) for entry in found["verifiers"]]
    again = finished(verifier_started(), scored(), verifier_started(), lost, outcome="unscored")
    assert [(None, "lost")] == [(entry["score"], entry["error"]) for entry in again["verifiers"]]


def judged(**changes: Any) -> list[Item]:
    """A judge that answered twice."""
    sample: dict[str, Any] = {
        "verifier": "judge", "sample": 1, "valid": True, "reply": "{}", "model": "m",
        "latency": 1.0,
    }  # fmt: skip
    known: dict[str, Any] = {"verifier": "judge", "verifier_kind": "agent", "version": "1.0.0"}
    return [
        verifier_started(verifier="judge", verifier_kind="agent", model="m"),
        JudgeSampled(attempt=1, usage=Usage(input_tokens=3, cost_usd=0.1), **sample),
        JudgeSampled(attempt=2, usage=Usage(input_tokens=4, cost_usd=0.2), **sample),
        scored(0.75, **known, samples=[0.5, 1.0], spread=0.25, model="m", **changes),
    ]


def test_a_judge() -> None:
    """A judge's samples, spread and model stand in its entry; its replies' usage is added up."""
    entry = finished(*judged(), trial_scored(0.75))["verifiers"][0]

    assert ([0.5, 1.0], 0.25, "m", "agent") == (
        entry["samples"], entry["spread"], entry["model"], entry["kind"],
    )  # fmt: skip
    usage = {
        "model_calls": 2, "input_tokens": 7, "output_tokens": None, "cached_tokens": None,
        "cost_usd": 0.30000000000000004,
    }  # fmt: skip
    assert usage == entry["usage"]


def test_a_judge_that_says_what_it_used() -> None:
    """A verifier's own figure holds over what its replies add up to."""
    own = Usage(model_calls=5)

    entry = finished(*judged(usage=own), trial_scored(0.75))["verifiers"][0]

    assert (5, None) == (entry["usage"]["model_calls"], entry["usage"]["input_tokens"])


def test_a_judge_that_starts_again_forgets_its_first_replies() -> None:
    """After an interruption only the replies since then count."""
    entry = finished(*judged()[:2], *judged(), trial_scored(0.75))["verifiers"][0]

    assert 7 == entry["usage"]["input_tokens"]


ASKED = HumanReviewRequested(
    verifier="person",
    version="1.0.0",
    digest="d",
    weight=2.0,
    instructions="look",
    criteria=[CriterionAsked(name="c", description="d", weight=1.0, min_score=0.0, max_score=4.0)],
)


def test_a_person() -> None:
    """A person's entry has the criteria as they were scored, and the feedback."""
    given = HumanReviewSubmitted(
        verifier="person",
        reviewer="ann",
        score=0.5,
        criteria=[Criterion(name="c", score=2.0, min_score=0.0, max_score=4.0, weight=1.0)],
        feedback="fine",
    )

    entry = finished(ASKED, given, trial_scored(0.5))["verifiers"][0]

    assert ("person", "human", "1.0.0", 2.0, 0.5, "fine", 2.0) == (
        entry["name"], entry["kind"], entry["version"], entry["weight"], entry["score"],
        entry["feedback"], entry["criteria"][0]["score"],
    )  # fmt: skip


def test_a_person_who_was_not_waited_for() -> None:
    """A cancelled trial that waited for a person has an entry without a score."""
    entry = finished(ASKED, outcome="cancelled")["verifiers"][0]

    assert ("person", None, [], None) == (
        entry["name"], entry["score"], entry["criteria"], entry["feedback"],
    )  # fmt: skip


@pytest.mark.parametrize("live", [False, True])
def test_a_check_that_read_a_shared_app(live: bool) -> None:
    """A check that asked a shared app is marked, in whatever way it ended."""
    asked = AppQueried(verifier="script", app="crm", action="find", live=live)
    lost = VerifierFailed(
        verifier="script", verifier_kind="script", digest="d", weight=1.0, error="lost",
        category="sandbox_lost", infrastructure=True, duration=0.5,
    )  # fmt: skip

    for rest in ([scored(), trial_scored()], [lost], []):
        found = finished(verifier_started(), asked, *rest)
        assert live is found["verifiers"][0]["live_state"]
    assert finished(verifier_started(), scored(live_state=True))["verifiers"][0]["live_state"]


def test_a_reward_hook_is_no_verdict() -> None:
    """A hook that asked a shared app is not listed among the verifiers."""
    found = finished(AppQueried(verifier="progress", app="crm", action="find", live=True))

    assert [] == found["verifiers"]


def credit(value: float, **changes: Any) -> HindsightCredited:
    """Hindsight for a step."""
    known: dict[str, Any] = {
        "verifier": "progress", "version": "1.0.0", "digest": "d", "value": value, "weight": 1.0,
        "target": Target(target="step", event_id="s1"), "space": "action",
    }  # fmt: skip
    return HindsightCredited(**(known | changes))


def test_reward_totals_are_exact() -> None:
    """Step rewards and hindsight are added up apart, by verifier; null where there are none."""
    found = finished(
        *(step_rewarded("s1", value) for value in (1e16, 1.0, -1e16)),
        credit(0.5, verifier="care"),
        credit(0.25, verifier="care"),
    )

    assert {
        "progress": {"step": 1.0, "hindsight": None},
        "care": {"step": None, "hindsight": 0.75},
    } == found["reward_totals"]


def test_reward_errors() -> None:
    """A hook's failures are counted over the steps, with the first error and its line."""
    known: dict[str, Any] = {"verifier": "progress", "version": "1.0.0", "digest": "d"}
    found = finished(
        StepRewardFailed(step="s1", error="KeyError: 'done'", line="verify.py:14", **known),
        StepRewardFailed(step="s2", error="other", **known),
        HindsightFailed(error="no such event", **known),
    )

    assert [
        {"verifier": "progress", "steps": 2, "error": "KeyError: 'done' (at verify.py:14)"}
    ] == found["reward_errors"]
    assert [{"verifier": "progress", "error": "no such event"}] == found["hindsight_errors"]


OVER = EpisodeEnded(apps={}, terminated=True, truncated=False, answer=[{"x": 1}])


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([], None),
        ([agent_finished(answer=["42"])], "42"),
        ([agent_finished(answer=[None])], None),
        ([agent_finished(answer=[""])], ""),
        ([OVER], {"x": 1}),
        ([OVER, agent_finished(answer=["a"])], "a"),
        ([agent_finished(answer=[blob_ref(b"x")])], {"$blob": blob_ref(b"x").blob, "size": 1}),
        ([agent_finished(answer=blob_ref(b"x"))], {"$blob": blob_ref(b"x").blob, "size": 1}),
        ([AgentFailed(error="e", category="c", duration=0.0)], None),
    ],
)  # fmt: skip
def test_the_answer(items: list[Item], expected: Any) -> None:
    """The answer is what the agent gave; one over 16 KiB stays the name of its blob."""
    assert expected == finished(*items)["answer"]


def test_steps_and_tool_calls() -> None:
    """Every action is a step; those that a tool call asked for are counted apart."""
    found = finished(action(), action(tool_call="c1"), action(tool_call="c2"))

    assert (3, 2) == (found["n_steps"], found["n_tool_calls"])


def called(**usage: Any) -> ModelCalled:
    """A model call."""
    return ModelCalled(
        model="m", request={}, usage=Usage(**usage), started_at=at(1), latency=0.5, retries=0
    )


def test_a_replay_says_what_answered_it() -> None:
    """Only there for a trial that replays another, with the first difference if there is one."""
    replays = Replays(job="j1", trial="t__1")
    differs = RequestDifference(
        trial="t__1", call=3, path="messages[1].content", recorded="a", request_now=blob_ref(b"{}")
    )
    start: list[Item] = [started(replays=replays)]
    end = TrialFinished(outcome="errored")
    call = msgspec.structs.replace(called(), difference=differs)

    assert "replay" not in finished()
    assert {"job": "j1", "trial": "t__1", "difference": None} == of(*start, end)["replay"]
    assert {
        "call": 3, "path": "messages[1].content", "recorded": "a", "now": None,
    } == of(*start, call, end)["replay"]["difference"]  # fmt: skip


def test_usage_that_nobody_saw_is_null() -> None:
    """Without a model call every figure is null, not 0."""
    assert [None] * 5 == list(finished()["usage"].values())


def test_usage_is_added_up() -> None:
    """What calls say is added up; what none of them says stays null."""
    found = finished(
        called(input_tokens=10, output_tokens=2, cost_usd=0.1),
        called(input_tokens=5, cost_usd=0.2),
        called(model_calls=3),
    )

    assert {
        "model_calls": 5, "input_tokens": 15, "output_tokens": 2, "cached_tokens": None,
        "cost_usd": 0.30000000000000004,
    } == found["usage"]  # fmt: skip


def test_a_warning_that_came_twice_is_listed_once() -> None:
    """A trial that was taken up again lists what was found again once."""
    warning = WarningRaised(code="limits_ignored", message="no cgroups")

    found = finished(sandbox(), warning, sandbox(), warning, WarningRaised(code="x", message="y"))

    assert ["limits_ignored", "x"] == [entry["code"] for entry in found["warnings"]]


def test_tampering() -> None:
    """What could have changed the grade is listed with its hash."""
    entry = TamperFound(path="/logs/verifier/reward.txt", sha256="ab", what="planted reward")

    assert [
        {"path": "/logs/verifier/reward.txt", "sha256": "ab", "what": "planted reward"}
    ] == finished(entry, entry)["tamper"]


def test_the_sandbox() -> None:
    """The sandbox is the agent's own, with its digests, and the mode of the verifier."""
    found = finished(
        sandbox(backend="docker", image="i", image_digest="sha256:1", repository_digest="r@2"),
        verifier_started(),
        sandbox(purpose="verifier", backend="docker", image="other"),
        scored(),
        trial_scored(),
    )

    assert {
        "backend": "docker", "image": "i", "image_digest": "sha256:1", "repository_digest": "r@2",
        "mode": "shared",
    } == found["sandbox"]  # fmt: skip


@pytest.mark.parametrize(("of", "shown"), [
    ([("agent", "a"), ("agent", "b")], "b"),
    ([("verifier", "v"), ("agent", "a")], "a"),
    ([("agent", "a"), ("verifier", "v")], "a"),
    ([("verifier", "v"), ("verifier", "w")], "v"),
])  # fmt: skip
def test_which_sandbox(of: list[tuple[str, str]], shown: str) -> None:
    """The agent's newest; without one for an agent, the first."""
    found = finished(*(sandbox(purpose=purpose, image=image) for purpose, image in of))
    assert shown == found["sandbox"]["image"]


def test_a_sandbox_that_failed() -> None:
    """Where no sandbox came up, the one that was tried is named; without a try it is null."""
    failed = SandboxFailed(
        purpose="agent", backend="docker", image="i", phase="build", error="e",
        category="image_unavailable", duration=2.0,
    )  # fmt: skip

    found = finished(failed, TrialErrored(error="e", category="c"), outcome="errored")

    assert ("docker", "i", None, None) == (
        found["sandbox"]["backend"], found["sandbox"]["image"],
        found["sandbox"]["image_digest"], found["sandbox"]["mode"],
    )  # fmt: skip
    assert finished(outcome="cancelled")["sandbox"] is None


def test_saved_work() -> None:
    """The workspace's archive and the artifacts are named with their sizes."""
    archive, data = blob_ref(b"tar"), blob_ref(b"data")
    found = finished(
        ArtifactsSaved(
            artifacts=[Artifact(path="a/b.txt", blob=data, sha256="ab", size=4)], duration=0.125
        ),
        WorkspaceSaved(archive=archive, size=10, files=2, duration=0.25),
    )

    assert {"blob": archive.blob, "size": 10, "files": 2} == found["workspace"]
    assert [{"path": "a/b.txt", "size": 4, "sha256": "ab"}] == found["artifacts"]
    assert finished()["workspace"] is None
    assert [] == finished()["artifacts"]


def test_timing_adds_up_what_was_recorded() -> None:
    """Each phase is the sum of what was recorded of it; the total is the sum of the phases."""
    saved = WorkspaceSaved(archive=blob_ref(b""), size=0, files=0, duration=0.25)
    found = finished(
        sandbox(build_seconds=3.0, start_seconds=0.5),
        agent_finished(duration=10.0),
        ArtifactsSaved(duration=0.125),
        saved,
        WorkspaceHardened(duration=0.0625),
        sandbox(purpose="verifier", start_seconds=0.25),
        scored(duration=2.0),
    )

    assert {
        "build": 3.0, "start": 0.75, "agent": 10.0, "save": 0.375, "verifier": 2.0625,
        "total": 16.1875,
    } == found["timing"]  # fmt: skip


@pytest.mark.parametrize(("phase", "expected"), [("build", (2.0, None)), ("start", (None, 2.0))])
def test_timing_of_a_sandbox_that_failed(phase: Any, expected: Any) -> None:
    """The time until a sandbox failed belongs to the phase that failed; others are null."""
    failed = SandboxFailed(
        purpose="agent", backend="docker", phase=phase, error="e", category="c", duration=2.0
    )

    timing = finished(failed, outcome="errored")["timing"]

    assert expected == (timing["build"], timing["start"])
    assert (None, None, 2.0) == (timing["agent"], timing["verifier"], timing["total"])


def test_places_in_the_log() -> None:
    """The result names its own place in the log, and the one that it goes on from."""
    place = Continues(stream="trial/t__00000000", version=7, hash="ab")

    found = of(*trial(continues=place))

    assert {"stream": "trial/t__00000000", "version": 7, "hash": "ab"} == found["continues"]
    assert ("trial/t__00000001", 9) == (found["log"]["stream"], found["log"]["version"])
    assert 64 == len(found["log"]["hash"])
    assert (at(1), at(9)) == (found["started_at"], found["finished_at"])
    assert of(*trial())["continues"] is None


def test_nothing_later_changes_a_byte() -> None:
    """Whatever comes after the end, the result stays as it was."""
    before = of(*trial())
    known: dict[str, Any] = {"verifier": "progress", "version": "1.0.0", "digest": "d"}

    after = of(
        *trial(),
        SandboxRemoved(sandbox_id="s1"),
        RegradeStarted(regrade_id="r", task_digest="d", verifiers={}),
        RegradeScored(regrade_id="r", verdicts=[], passed=False, score=0.0),
        VerifierApplied(verifier_kind="deterministic", score=0.0, **known),
        step_rewarded("s1", 1.0, applied="a"),
        StepRewardFailed(step="s1", error="e", applied="a", **known),
        credit(1.0, applied="a"),
        HindsightFailed(error="e", applied="a", **known),
        WarningRaised(code="late", message="late"),
        verifier_started(),
        scored(0.0),
        output_of_a_late_agent(),
    )

    assert before == after


def output_of_a_late_agent() -> Item:
    """Something that a trial's stream can't have after its end."""
    return agent_finished(output=output(), duration=99.0)


def test_other_events_of_a_trial_change_nothing() -> None:
    """What is of no account in a result leaves it as it was, but for its place in the log."""
    found = finished(ProcessesKilled(), AgentMessage(role="assistant", text="hi"))

    for entry in (found, bare := finished()):
        for key in ("log", "finished_at"):
            del entry[key]
    assert bare == found


def test_every_field_is_documented() -> None:
    """docs/files.md names every field of the result and of a verifier's entry."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "files.md").read_text("utf-8")

    assert [] == [field for field in FIELDS + VERIFIER_FIELDS if f"`{field}`" not in page]
