"""What hooks are given and may give, wherever they run."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from helpers.counted import counting
from trialog.engine.authoring.views import QueryRefused
from trialog.engine.hooks.protocol import Hooks, RewardGiven
from trialog.projections.episode import AppData, QueryData, RewardData

from .conftest import Make


async def test_rewards_come_in_the_order_of_the_steps(hooks: Hooks, make: Make) -> None:
    """A reward sees its own step with the states around it, refused steps included."""
    source = make("""
        def reward(step):
            if step.error:
                return -0.5
            assert step.task.info["goal"] == 6 and step.task.expected == "six"
            assert step.apps["counter"].state == step.current_state
            if step.current_state["value"] == 6:
                return None
            return step.current_state["value"] - step.previous_state["value"]
    """)
    given = await hooks.rewards(source, counting(1, 2, -1, 3), [0, 1, 2, 3], None)
    assert given == [RewardGiven(value=v) for v in (1.0, 2.0, -0.5, None)]
    (last,) = await hooks.rewards(source, counting(1, 2, -1, 4), [3], None)
    assert last == RewardGiven(value=4.0)


async def test_only_what_the_host_saw_is_rewarded(hooks: Hooks, make: Make) -> None:
    """A step that only the agent's program reported earns nothing; the same one seen does."""
    source = make("def reward(step): return 1.0")
    seen = counting(1, 2, 3)
    told = msgspec.structs.replace(seen.steps[1], observed_by="agent")
    mixed = msgspec.structs.replace(seen, steps=[seen.steps[0], told, seen.steps[2]])
    values = [[g.value for g in await hooks.rewards(source, e, [0, 1, 2], None)]
              for e in (seen, mixed)]  # fmt: skip
    assert values == [[1.0, 1.0, 1.0], [1.0, None, 1.0]]
    given = await hooks.trial([source], mixed, None)
    assert [g.value for g in given.rewards["v"]] == [1.0, None, 1.0]


NUMBERS = """
class Like:
    def __init__(self, value): self.value = value
    def __float__(self): return self.value
class bool_(Like):
    pass
from fractions import Fraction
def reward(step):
    return {expression}
"""


@pytest.mark.parametrize(
    ("expression", "value"),
    [("1", 1.0), ("0.25", 0.25), ("None", None), ("Like(0.5)", 0.5), ("Fraction(1, 4)", 0.25)],
)
async def test_numbers(hooks: Hooks, make: Make, expression: str, value: float | None) -> None:
    """Integers, floats, and whatever has a float's value are rewards; None is no signal."""
    source = make(NUMBERS.replace("{expression}", expression))
    (given,) = await hooks.rewards(source, counting(1), [0], None)
    assert given == RewardGiven(value=value)


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("True", "the reward is True (bool); it must be a finite number or None; write float(…)"),
        ("bool_(1.0)", "it must be a finite number or None"),
        ("'high'", "the reward is 'high' (str); it must be a finite number or None"),
        ("float('nan')", "the reward is nan; it must be a finite number or None"),
        ("float('-inf')", "the reward is -inf; it must be a finite number or None"),
        ("10 ** 400", "the reward is too large; it must be a finite number or None"),
        ("[1.0]", "the reward is [1.0] (list); it must be a finite number or None"),
        ("1j", "the reward is 1j (complex); it must be a finite number or None"),
    ],
)
async def test_no_numbers(hooks: Hooks, make: Make, expression: str, error: str) -> None:
    """A truth value, text, NaN, an overflow or a list is a fault that shows it and where."""
    source = make(NUMBERS.replace("{expression}", expression))
    (given,) = await hooks.rewards(source, counting(1), [0], None)
    assert given.value is None
    assert given.fault is not None
    assert error in given.fault.error
    assert given.fault.line == "verify.py:7"


async def test_an_asynchronous_hook_is_refused(hooks: Hooks, make: Make) -> None:
    """Hooks are plain functions, and the fault says so."""
    source = make("async def reward(step): return 1.0")
    (given,) = await hooks.rewards(source, counting(1), [0], None)
    assert given.fault is not None
    assert given.fault.error == "the reward is asynchronous; it must be a plain function"


async def test_a_fault_names_the_authors_line(hooks: Hooks, make: Make) -> None:
    """The error is the traceback's last line; the place is the last one in the author's files."""
    source = make(
        """
        import json
        import scoring
        def reward(step):
            if step.turn == 1:
                return step.current_state["done"]
            if step.turn == 2:
                return scoring.value(step)
            return json.loads("no json")
        """,
        files={"scoring.py": "\ndef value(step):\n    raise ValueError\n"},
    )
    given = await hooks.rewards(source, counting(1, 2, 3), [0, 1, 2], None)
    faults = [g.fault for g in given]
    assert [(f.error, f.line) for f in faults if f] == [
        ("KeyError: 'done'", "verify.py:5"),
        ("ValueError", "scoring.py:2"),
        ("JSONDecodeError: Expecting value: line 1 column 1 (char 0)", "verify.py:8"),
    ]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("def again(n): return again(n + 1)\n    again(0)", "RecursionError"),
        ("class E(Exception):\n        def __str__(self): raise ValueError\n    raise E", "E"),
        ("raise ValueError('x' * 100_000)", "ValueError: xxx"),
        ("raise ValueError('\\ud800')", "ValueError: \ufffd"),
    ],
)
async def test_whatever_is_raised_is_a_fault(
    hooks: Hooks, make: Make, statement: str, error: str
) -> None:
    """Exits, endless recursion and exceptions that can't be shown cost their own call only."""
    source = make(f"def check(episode):\n    {statement}\ndef reward(step):\n    return 1.0\n")
    given = await hooks.check(source, counting(1), None)
    assert given.fault is not None
    assert given.fault.error.startswith(error.partition(".")[0])
    assert len(given.fault.error) <= 2000
    assert (given.fault.line or "").startswith("verify.py:")
    assert await hooks.rewards(source, counting(1), [0], None) == [RewardGiven(value=1.0)]


async def test_a_check_sees_the_episode(hooks: Hooks, make: Make) -> None:
    """State, apps, trajectory, answer, expected, outcome, step rewards, usage, artifacts."""
    source = make("""
        from trialog.engine.authoring.verifiers import VerifierOutput
        def check(episode):
            assert episode.state == episode.apps["counter"].final == {"value": 3}
            assert episode.apps["counter"].initial == {"value": 0}
            assert episode.apps["counter"].control == "owned"
            assert [s["arguments"]["n"] for s in episode.trajectory] == [1, 2]
            assert episode.trajectory[1]["previous_state"] == {"value": 1}
            assert episode.observation == 3
            assert episode.answer == episode.expected == "six"
            assert episode.outcome.terminated and not episode.outcome.truncated
            assert [(r.verifier, r.value) for r in episode.rewards] == [("w", 0.5)]
            assert episode.usage == {"model_calls": 1}
            assert episode.artifacts == [{"path": "a"}]
            return VerifierOutput(
                score=0.5, scores={"exact": 1}, evidence=["one"], feedback="good"
            )
    """)
    rewards = [
        RewardData(verifier="w", version="1.0.0", value=0.5, source="step", event_id="e1"),
        RewardData(verifier="w", version="1.0.0", value=1.0, source="verifier", event_id="x"),
    ]
    episode = counting(1, 2, rewards=rewards, usage={"model_calls": 1}, artifacts=[{"path": "a"}])
    given = await hooks.check(source, episode, None)
    assert given.fault is None
    assert (given.score, given.scores) == (0.5, {"exact": 1.0})
    assert (given.evidence, given.feedback) == (["one"], "good")


@pytest.mark.parametrize(
    ("reads", "live"),
    [
        ("episode.state", True),
        ('episode.apps["counter"].final', True),
        ('episode.apps["counter"].initial', True),
        ("episode.trajectory", True),
        ('episode.apps["counter"].control', False),
        ("episode.answer, episode.outcome, episode.rewards", False),
    ],
)
async def test_who_reads_a_shared_state_is_known(
    hooks: Hooks, make: Make, reads: str, live: bool
) -> None:
    """A check that looks at the state of an app that others share is told from one that does not;
    with an app of the trial's own there is nothing to tell."""
    source = make(f"def check(episode):\n    {reads}\n    return {{'score': 1}}\n")
    episode = counting(1, 2)
    shared = {
        name: msgspec.structs.replace(app, control="live") for name, app in episode.apps.items()
    }
    given = await hooks.check(source, msgspec.structs.replace(episode, apps=shared), None)
    assert (given.score, given.live) == (1.0, live)
    assert not (await hooks.check(source, episode, None)).live


async def test_no_answer_is_not_an_empty_one(hooks: Hooks, make: Make) -> None:
    """`answer` is None when there was none, and "" when it was empty."""
    source = make("""
        def check(episode):
            return {"score": 0, "evidence": [repr(episode.answer)]}
    """)
    found = [(await hooks.check(source, counting(1, answer=a), None)).evidence
             for a in (None, [""])]  # fmt: skip
    assert found == [["None"], ["''"]]


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("None", "the check gave None; it must give a VerifierOutput, or a mapping with a score"),
        ("1.0", "the check gave 1.0 (float); it must give a VerifierOutput"),
        ("{}", "the check's output has no score"),
        ("{'score': float('nan')}", "the score is nan; it must be a finite number"),
        ("{'score': True}", "the score is True (bool); it must be a finite number; write float(…)"),
        ("{'score': None}", "the score is None; it must be a finite number"),
        ("{'scor': 1}", "the check's output has 'scor' (str); it may have score, scores, evidence,"
                        " feedback; did you mean 'score'?"),
        ("{'score': 1, 'scores': [1]}", "scores is [1] (list); it must be a mapping"),
        ("{'score': 1, 'scores': {1: 1}}", "scores has the name 1 (int); names are texts"),
        ("{'score': 1, 'scores': {'a': 'b'}}", "the score 'a' is 'b' (str)"),
        ("{'score': 1, 'evidence': 'text'}", "evidence is 'text' (str); it must be a list"),
        ("{'score': 1, 'evidence': [1]}", "evidence has 1 (int); it must be a list of texts"),
        ("{'score': 1, 'feedback': 1}", "feedback is 1 (int); it must be a text"),
        ("{'score': 1, 'feedback': 'x' * 5_000_000}", "the check gave 5,000,0"),
    ],
)  # fmt: skip
async def test_a_wrong_output_is_a_fault(
    hooks: Hooks, make: Make, expression: str, error: str
) -> None:
    """What is no output gives no score, and the fault says what it was and what it must be."""
    source = make(f"def check(episode):\n    return {expression}\n")
    given = await hooks.check(source, counting(1), None)
    assert given.score is None
    assert given.fault is not None
    assert given.fault.error.startswith(error)
    assert given.fault.line == "verify.py:1"


async def test_text_that_is_no_unicode_is_mended(hooks: Hooks, make: Make) -> None:
    """Lone surrogates become U+FFFD; they end nothing."""
    source = make("def check(episode): return {'score': 1, 'evidence': ['a\\ud800b']}")
    assert (await hooks.check(source, counting(1), None)).evidence == ["a\ufffdb"]


async def test_total_reward_sums_its_own_step_rewards(hooks: Hooks, make: Make) -> None:
    """The score is the exact sum of this verifier's rewards of this version; nothing else's."""
    source = make("def reward(step): return 0.1", check="total_reward")

    def of(verifier: str, value: float, **more: Any) -> RewardData:
        given: dict[str, Any] = {"version": "0.1.0", "source": "step", "event_id": "e1"} | more
        return RewardData(verifier=verifier, value=value, **given)

    own = [of("v", 0.1) for _ in range(10)]
    other = [of("w", 5.0), of("v", 5.0, version="0.0.9"), of("v", 5.0, source="hindsight")]
    given = await hooks.check(source, counting(1, rewards=[*other, *own]), None)
    assert given.score == math.fsum([0.1] * 10) == 1.0
    assert sum([0.1] * 10) != 1.0
    assert (await hooks.check(source, counting(1), None)).score == 0.0
    assert (await hooks.trial([source], counting(*range(10)), None)).checks["v"].score == 1.0


async def test_hindsight_credits(hooks: Hooks, make: Make) -> None:
    """It sees score, steps, calls, apps and rewards, and credits steps, calls and spans."""
    source = make("""
        def hindsight(trial):
            assert trial.score == 0.75
            assert trial.apps["counter"].final == {"value": 3}
            assert [r.source for r in trial.rewards] == ["step", "verifier"]
            assert [s["error"] is None for s in trial.steps("add")] == [True, False, True]
            assert trial.steps("other") == []
            yield trial.credit(trial.steps("add")[-1], 1, why="last")
            call = trial.model_calls()[0]["event_id"]
            yield trial.credit(call, -0.5, field="text", start=0, end=4)
    """)
    rewards = [
        RewardData(verifier="v", version="1", value=0.5, source=s, event_id="e1")
        for s in ("step", "verifier", "hindsight")
    ]  # type: ignore[arg-type]  # the sources are written out
    given = await hooks.hindsight(source, counting(1, -1, 2, rewards=rewards), 0.75)
    assert given.fault is None
    first, second = given.credits
    assert (first.event_id, first.target, first.value) == ("e3", "step", 1.0)
    assert first.metadata == {"why": "last"}
    assert (second.event_id, second.target, second.start, second.end) == ("m1", "event", 0, 4)


async def test_hindsight_may_give_a_list(hooks: Hooks, make: Make) -> None:
    """Any iterable of credits will do, an empty one too."""
    source = make("def hindsight(trial): return [trial.credit('e1', 1.0)] if trial.score else ()")
    found = [len((await hooks.hindsight(source, counting(1), s)).credits) for s in (1.0, None)]
    assert found == [1, 0]


@pytest.mark.parametrize(
    ("body", "error", "line"),
    [
        ("yield trial.credit('e9', 1.0)", "UnknownEvent: the trial has no event 'e9' to credit", 3),
        ("yield Credit(event_id='e9', value=1.0)", "the trial has no event 'e9' to credit", 3),
        ("yield 1.0", "the hindsight gave 1.0 (float); it must give what trial.credit()", 3),
        ("yield trial.credit('e1', float('inf'))", "a credit's value is inf; it must be", 3),
        ("yield trial.credit('e1', True)", "a credit's value is True (bool)", 3),
        ("yield trial.credit('e1', 1.0, start=3)", "a span needs both its ends", 3),
        ("yield trial.credit('e1', 1.0, start=3, end=1)", "there is no span from 3 (int) to 1", 3),
        ("yield trial.credit('e1', 1.0, field=3)", "a credit of the hindsight has a wrong", 2),
        ("yield trial.credit('e1', 1.0, bad=object())", "the hindsight gave what is no JSON", 2),
        ("return None", "the hindsight gave None; it must yield credits, or give", 2),
        ("raise KeyError('done')", "KeyError: 'done'", 3),
    ],
)  # fmt: skip
async def test_a_wrong_credit_takes_all_with_it(
    hooks: Hooks, make: Make, body: str, error: str, line: int
) -> None:
    """The fault names what is wrong, and none of the verifier's credits is kept."""
    good = "" if body.startswith("return") else "yield trial.credit('e1', 1.0); "
    source = make(
        "from trialog.engine.authoring.views import Credit\n"
        f"def hindsight(trial):\n    {good}{body}\n"
    )
    given = await hooks.hindsight(source, counting(1), 1.0)
    assert given.credits == []
    assert given.fault is not None
    assert given.fault.error.startswith(error)
    assert given.fault.line in (f"verify.py:{line}", "verify.py:3")


async def test_what_a_hook_changes_nobody_sees(hooks: Hooks, make: Make) -> None:
    """A hook may spoil all that it is given; later steps and hooks get it as it was recorded."""
    spoiler = make(
        """
        def reward(step):
            seen = repr((step.task, step.arguments, step.previous_state, step.current_state))
            step.task.info.clear()
            step.arguments["n"] = "spoiled"
            step.previous_state["value"] = step.current_state["value"] = -1
            step.apps["counter"].state.clear()
            return 1.0 if "spoiled" not in seen and "-1" not in seen and "goal" in seen else 0.0
        def check(episode):
            fine = episode.state == {"value": 3} and episode.trajectory[0]["arguments"] == {"n": 1}
            episode.state.clear()
            episode.trajectory[0]["arguments"].clear()
            episode.trajectory.clear()
            episode.rewards.clear()
            episode.task.info.clear()
            return {"score": float(fine)}
        def hindsight(trial):
            fine = trial.steps()[0]["arguments"] == {"n": 1} and len(trial.rewards) == 4
            trial.steps()[0]["arguments"].clear()
            trial.model_calls().clear()
            trial.rewards.clear()
            yield trial.credit("e1", float(fine))
        """,
        name="spoiler",
    )  # fmt: skip
    other = make(
        """
        def reward(step): return step.current_state["value"] + step.arguments["n"]
        def check(episode): return {"score": float(len(episode.trajectory) == 2)}
        def hindsight(trial): yield trial.credit(trial.model_calls()[0], len(trial.steps()))
        """,
        name="other",
    )
    given = await hooks.trial([spoiler, other], counting(1, 2), None)
    assert [g.value for g in given.rewards["spoiler"]] == [1.0, 1.0]
    assert [g.value for g in given.rewards["other"]] == [2.0, 5.0]
    assert [given.checks[name].score for name in ("spoiler", "other")] == [1.0, 1.0]
    assert [given.hindsight[n].credits[0].value for n in ("spoiler", "other")] == [1.0, 2.0]


async def test_two_verifiers_never_mix(hooks: Hooks, make: Make) -> None:
    """Each has its own verify.py and helpers, and its own globals; the project is importable."""
    code = """
        import helper
        from shared import level
        calls = []
        def reward(step):
            import late
            calls.append(step.turn)
            return helper.VALUE + late.VALUE + len(calls) * 0 + level.LEVEL
    """
    first = make(code, name="first", files={"helper.py": "VALUE = 1", "late.py": "VALUE = 10"})
    shared = first.root / "shared"
    shared.mkdir()
    (shared / "level.py").write_text("LEVEL = 100")
    second = make(code, name="second", files={"helper.py": "VALUE = 2", "late.py": "VALUE = 20"})
    values = []
    for source in (first, second, first, second):
        values += [g.value for g in await hooks.rewards(source, counting(1), [0], None)]
    assert values == [111.0, 122.0, 111.0, 122.0]
    given = await hooks.trial([first, second], counting(1), None)
    assert {name: g[0].value for name, g in given.rewards.items()} == {
        "first": 111.0, "second": 122.0,
    }  # fmt: skip


async def test_an_edited_verifier_is_another(hooks: Hooks, make: Make) -> None:
    """Another digest is loaded anew from the same folder, even in the same second and size."""
    first = make("import helper\ndef reward(step): return helper.V", files={"helper.py": "V = 1"})
    assert [g.value for g in await hooks.rewards(first, counting(1), [0], None)] == [1.0]
    second = make("import helper\ndef reward(step): return helper.V", files={"helper.py": "V = 2"})
    assert [g.value for g in await hooks.rewards(second, counting(1), [0], None)] == [2.0]
    assert not list(first.folder.rglob("__pycache__"))


async def test_a_name_of_a_library_is_no_obstacle(hooks: Hooks, make: Make) -> None:
    """A verifier's json.py is its own code, and hides the library's from nobody."""
    source = make(
        "",
        files={"json.py": "def reward(step): return 2.0"},
        reward="json.py:reward",
    )
    other = make("import json\ndef reward(step): return json.loads('3')", name="other")
    assert [g.value for g in await hooks.rewards(source, counting(1), [0], None)] == [2.0]
    assert [g.value for g in await hooks.rewards(other, counting(1), [0], None)] == [3.0]


@pytest.mark.parametrize(
    ("code", "what", "error", "line"),
    [
        ("x = 1", "verify.py:reward", "NoFunction: verify.py has no function 'reward'", None),
        ("reward = 1", "verify.py:reward", "NoFunction: verify.py has no function 'reward'", None),
        ("", "other.py:reward", "FileNotFoundError: ", None),
        ("\ndef reward(step:\n", "verify.py:reward", "SyntaxError: ", "verify.py:1"),
        ("a = 1\nimport nowhere\n", "verify.py:reward",
         "ModuleNotFoundError: No module named 'nowhere'", "verify.py:2"),
        ("raise SystemExit(1)", "verify.py:reward", "SystemExit: 1", "verify.py:1"),
    ],
)  # fmt: skip
async def test_code_that_can_not_be_loaded_is_a_fault(
    hooks: Hooks, make: Make, code: str, what: str, error: str, line: str | None
) -> None:
    """Every call of such a verifier has the fault, with the line; others go on."""
    source = make(code, reward=what)
    given = await hooks.rewards(source, counting(1, 2), [0, 1], None)
    for one in given:
        assert one.fault is not None
        assert one.fault.error.startswith(error)
        assert one.fault.line == line
    fine = make("def reward(step): return 1.0", name="fine")
    assert await hooks.rewards(fine, counting(1), [0], None) == [RewardGiven(value=1.0)]


async def test_a_method_can_be_a_hook(hooks: Hooks, make: Make) -> None:
    """``verify.py:Class.method`` names a static method."""
    code = "class Mine:\n    @staticmethod\n    def good(step): return 4.0\n"
    source = make(code, reward="verify.py:Mine.good")
    assert await hooks.rewards(source, counting(1), [0], None) == [RewardGiven(value=4.0)]


QUERIES = """
    kept = []
    def reward(step):
        kept.append(step.apps["counter"].query)
        return step.apps["counter"].query("double", n=step.arguments["n"])
    def check(episode):
        return {"score": episode.apps["counter"].query("double", n=7)}
    def hindsight(trial):
        try:
            kept[0]("double", n=1)
        except Exception as error:
            yield trial.credit("e1", 1.0, error=f"{type(error).__name__}: {error}")
"""


async def test_apps_are_asked_while_the_trial_runs(hooks: Hooks, make: Make) -> None:
    """A reward and a check can ask; the answers are the app's, and a refusal is raised in them."""
    asked: list[tuple[str, str, dict[str, Any]]] = []

    async def ask(app: str, action: str, arguments: dict[str, Any]) -> Any:
        asked.append((app, action, arguments))
        if arguments["n"] == 2:
            raise QueryRefused("counter.double can change state")
        return arguments["n"] * 2

    source = make(QUERIES, queries=True)
    given = await hooks.rewards(source, counting(1, 2, 3), [0, 1, 2], ask)
    assert [g.value for g in given] == [2.0, None, 6.0]
    assert given[1].fault is not None
    assert given[1].fault.error == "QueryRefused: counter.double can change state"
    assert given[1].fault.line == "verify.py:4"
    assert (await hooks.check(source, counting(1), ask)).score == 14.0
    assert asked == [("counter", "double", {"n": n}) for n in (1, 2, 3, 7)]
    credit = (await hooks.hindsight(source, counting(1), 1.0)).credits[0]
    assert credit.metadata["error"].startswith("QueryRefused: app 'counter' can't be asked for")
    assert "the hook that could ask is over" in credit.metadata["error"]


async def test_a_broken_world_is_a_refusal(hooks: Hooks, make: Make) -> None:
    """Whatever goes wrong with an answer, the hook is told, and never waits for ever."""

    async def ask(app: str, action: str, arguments: dict[str, Any]) -> Any:
        raise RuntimeError("the world is gone")

    given = await hooks.check(make(QUERIES), counting(1), ask)
    assert given.fault is not None
    assert given.fault.error == "QueryRefused: RuntimeError: the world is gone"


async def test_a_replay_answers_from_the_record(hooks: Hooks, make: Make) -> None:
    """The same question gets the recorded answer of that verifier at that step; no other does."""
    source = make(QUERIES, queries=True)

    def record(answer: int, n: int, step: str | None, verifier: str = "v") -> QueryData:
        return QueryData(
            verifier=verifier, app="counter", action="double", arguments={"n": n}, answer=answer,
            step=step,
        )  # fmt: skip

    queries = [record(9, 1, "e1", "w"), record(5, 1, "e1"), record(6, 1, "e2"), record(8, 7, None)]
    episode = counting(1, 1, 1, queries=queries)
    given = await hooks.rewards(source, episode, [0, 1, 2], None)
    assert [g.value for g in given] == [5.0, 6.0, None]
    assert given[2].fault is not None
    assert "was not asked for 'double'" in given[2].fault.error
    assert (await hooks.check(source, episode, None)).score == 8.0
    assert [g.value for g in await hooks.rewards(source, episode, [1], None)] == [6.0]


async def test_integers_of_any_size_arrive_whole(hooks: Hooks, make: Make) -> None:
    """What the log holds, hooks are given, beyond 64 bits too."""
    large = 10**30
    source = make(f"def check(episode): return {{'score': float(episode.state == {large})}}")
    apps = {"counter": AppData(initial=0, final=large)}
    assert (await hooks.check(source, counting(apps=apps), None)).score == 1.0


async def test_printing_harms_nothing(
    hooks: Hooks, make: Make, capfd: pytest.CaptureFixture[str]
) -> None:
    """A hook may print, to the descriptors too."""
    source = make("""
        import os, sys
        def reward(step):
            print("printed" * 10)
            print("\\ud800 is no text", file=sys.stderr) if __name__ == "x" else None
            os.write(1, b"x" * 100_000); os.write(2, b"y" * 100_000)
            return 1.0
    """)
    given = await hooks.rewards(source, counting(*range(5)), range(5), None)
    assert [g.value for g in given] == [1.0] * 5


async def test_a_failed_check_leaves_no_score_to_look_back_on(hooks: Hooks, make: Make) -> None:
    """In a trial at once, hindsight isn't called when a check failed; else it has the score."""
    credit = "def hindsight(trial): yield trial.credit('e1', trial.score)"
    good = make(f"def check(episode): return {{'score': 0.5}}\n{credit}", name="good", weight=3.0)
    zero = make("def check(episode): return {'score': 0.0}", name="zero")
    bad = make("def check(episode): raise ValueError", name="bad")
    fine = await hooks.trial([good, zero], counting(1), None)
    assert [c.value for c in fine.hindsight["good"].credits] == [0.375]
    failed = await hooks.trial([good, bad], counting(1), None)
    assert failed.checks["good"].score == 0.5
    assert failed.hindsight["good"].credits == []
    assert failed.hindsight["good"].fault is None
    alone = await hooks.trial([good], counting(1), None, hindsight=False)
    assert alone.hindsight == {}


async def test_a_trials_scores_are_among_its_rewards(hooks: Hooks, make: Make) -> None:
    """Hindsight sees the scores under the ids of the events that they will be in."""
    source = make("""
        def reward(step): return 0.5
        def check(episode): return {"score": 1.0, "evidence": [str(len(episode.rewards))]}
        def hindsight(trial):
            for r in trial.rewards:
                yield trial.credit("e1", r.value, source=r.source, id=r.event_id)
    """)
    given = await hooks.trial([source], counting(1), None, verdicts={"v": "score-1"})
    assert given.checks["v"].evidence == ["1"]
    assert [(c.metadata["source"], c.metadata["id"]) for c in given.hindsight["v"].credits] == [
        ("step", "e1"), ("verifier", "score-1"),
    ]  # fmt: skip
    assert given.seconds["v"] >= 0
    rewarded = await hooks.trial([source], counting(1), None, rewarded=["v"])
    assert rewarded.rewards == {}
    assert rewarded.checks["v"].evidence == ["0"]
