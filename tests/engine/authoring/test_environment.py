"""Environments, stepped through by hand in Gymnasium's order."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog import App, DeterministicVerifier, Environment, Step, Task, action, total_reward
from trialog.engine.authoring.task import TaskView
from trialog.engine.authoring.views import QueryRefused
from trialog.engine.errors import ConfigError
from trialog.engine.worlds.changes import StateRecorder
from trialog.engine.worlds.world import AppFault, World
from trialog.projections.patch import apply_patch


class Desk(msgspec.Struct):
    """A ticket on a desk."""

    status: str = "open"
    category: str | None = None
    notes: list[str] = []


class Support(App[Desk]):
    """A support desk."""

    def reset(self, task: TaskView) -> Any:
        """The ticket."""
        return f"{task.name}: {self.rng.randint(0, 10**9)}"

    @action
    def categorize(self, category: str) -> str:
        """Set the category."""
        if category not in ("billing", "bugs"):
            raise ValueError(f"no category {category!r}")
        self.state.category = category
        self.state.status = "triaged"
        return "done"

    @action
    def note(self, text: str = "") -> int:
        """Write a note, with a number."""
        self.state.notes.append(f"{self.rng.random()} {text}")
        return len(self.state.notes)

    @action
    def close(self) -> None:
        """Close the ticket."""
        self.state.status = "closed"

    @action
    def lose(self) -> None:
        """Lose the ticket."""
        self.state.status = "lost"

    @action(readonly=True)
    def status(self) -> str:
        """How it is."""
        return self.state.status

    def terminated(self) -> bool:
        """Once it is closed."""
        return self.state.status == "closed"

    def truncated(self) -> bool:
        """Once it is lost."""
        return self.state.status == "lost"


class Till(App[Desk]):
    """Another app."""

    @action
    def note(self, text: str = "") -> int:
        """As on the desk."""
        self.state.notes.append(text)
        return len(self.state.notes)


def progress(step: Step) -> float | None:
    """A quarter for triage, a tenth off for a mistake, nothing else."""
    if step.error:
        return -0.1
    return 0.25 if step.current_state["status"] != step.previous_state["status"] else None


def test_an_episode() -> None:
    """`reset` gives the first observation, `step` what Gymnasium's does, in its order."""
    environment = Environment([Support])

    first = environment.reset(Task("ticket-1"), seed=3, verifiers=[progress])
    observation, reward, terminated, truncated, info = environment.step(
        "categorize", category="billing"
    )

    assert first.startswith("ticket-1: ")
    assert (observation, reward, terminated, truncated) == ("done", 0.25, False, False)
    assert info == {"rewards": {"progress": 0.25}, "error": None, "app": "support"}


def test_errors_are_observations() -> None:
    """What is wrong with an action is told in `info`, is rewarded, and ends nothing."""
    environment = Environment([Support])
    environment.reset(verifiers=[progress])

    raised = environment.step("categorize", category="cats")
    wrong = environment.step("categorize", category=5)
    unknown = environment.step("fly")

    assert raised[0] is None
    assert raised[1] == -0.1
    assert raised[4]["error"] == "ValueError: no category 'cats'"
    assert wrong[4]["error"] == "categorize: argument 'category': Expected `str`, got `int`"
    assert unknown[4]["error"].startswith("there is no action 'fly'")
    assert not any(end for step in (raised, wrong, unknown) for end in step[2:4])


def test_no_signal() -> None:
    """A reward of None counts nothing, and stays None in `info`."""
    environment = Environment([Support])
    environment.reset(verifiers=[progress])

    _, reward, _, _, info = environment.step("note")

    assert (reward, info["rewards"]) == (0.0, {"progress": None})


def test_several_rewards() -> None:
    """The step's reward is the exact sum; each verifier's part is under its own name."""
    environment = Environment([Support])
    tenth = DeterministicVerifier("tenth", check=total_reward, reward=lambda step: 0.1)
    fifth = DeterministicVerifier("fifth", check=total_reward, reward=lambda step: 0.2)
    huge = DeterministicVerifier("huge", check=total_reward, reward=lambda step: 1e16)
    less = DeterministicVerifier("less", check=total_reward, reward=lambda step: -1e16)
    checks = DeterministicVerifier("checks", check=["true"])
    environment.reset(verifiers=[huge, tenth, fifth, less, checks])

    _, reward, _, _, info = environment.step("note")

    assert reward == 0.30000000000000004
    assert info["rewards"] == {"huge": 1e16, "tenth": 0.1, "fifth": 0.2, "less": -1e16}


def test_what_a_reward_sees() -> None:
    """A reward sees the task, the action, both states, and may ask every app what is read-only."""
    seen: list[Step] = []

    def watch(step: Step) -> None:
        seen.append(step)
        assert step.apps["support"].query("status") == "triaged"
        assert step.apps["support"].snapshot() == step.current_state
        with pytest.raises(QueryRefused, match="note can change state"):
            step.apps["support"].query("note")

    environment = Environment([Support, Till])
    task = Task("ticket-1", info={"id": 7}, metadata={"m": 1}, expected="billing")
    environment.reset(task, verifiers=[watch])
    environment.step("categorize", category="billing")

    (step,) = seen
    assert (step.app, step.action, step.arguments) == (
        "support", "categorize", {"category": "billing"},
    )  # fmt: skip
    assert (step.turn, step.observation, step.error) == (1, "done", None)
    assert (step.task.name, step.task.info, step.task.metadata, step.task.expected) == (
        "ticket-1", {"id": 7}, {"m": 1}, "billing",
    )  # fmt: skip
    assert (step.previous_state["status"], step.current_state["status"]) == ("open", "triaged")
    assert set(step.apps) == {"support", "till"}


def test_a_reward_that_raises() -> None:
    """At a prompt, a reward that raises is for whoever wrote it to see."""

    def broken(step: Step) -> float:
        raise KeyError("done")

    environment = Environment([Support])
    environment.reset(verifiers=[broken])

    with pytest.raises(KeyError, match="done"):
        environment.step("note")


def test_terminated_and_truncated() -> None:
    """An app ends the episode, or cuts it off."""
    environment = Environment([Support, Till])
    environment.reset()
    assert environment.step("close")[2:4] == (True, False)
    environment.reset()
    assert environment.step("lose")[2:4] == (False, True)


def test_max_turns() -> None:
    """An episode is cut off at its last turn, refused actions counted, unless that one ends it."""
    environment = Environment([Support], max_turns=3)
    environment.reset()
    assert [environment.step(name)[3] for name in ("note", "fly", "note")] == [False, False, True]
    environment.reset()
    assert [environment.step(name)[2:4] for name in ("note", "note", "close")] == [
        (False, False), (False, False), (True, False),
    ]  # fmt: skip


def test_seeds() -> None:
    """The same seed gives the same episode, and so does none at all; another one another."""
    environment = Environment([Support])

    first = [environment.reset(seed=seed) for seed in (1, 1, 2, None, None)]

    assert first[0] == first[1] != first[2]
    assert first[3] == first[4]


def test_initial_state() -> None:
    """A task's initial state is where the world begins."""
    environment = Environment([Support])
    environment.reset(Task("t", initial_state={"status": "triaged", "notes": ["a"]}))
    assert environment.step("status")[0] == "triaged"
    assert environment.step("note")[0] == 2
    environment.reset(TaskView(name="t"))
    assert environment.step("status")[0] == "open"


def test_a_wrong_initial_state() -> None:
    """An initial state that does not fit the app is an error that names app and field."""
    environment = Environment([Support])

    with pytest.raises(AppFault, match=r"app 'support': reset .*Expected `str`.*\$.status"):
        environment.reset(Task("t", initial_state={"status": 5}))


def test_several_apps() -> None:
    """An action that two apps have needs the app's name."""
    environment = Environment([Support, Till])

    first = environment.reset()
    both = environment.step("note")
    one = environment.step("note", app="till", text="x")

    assert list(first) == ["support", "till"]
    assert "several apps have an action 'note'" in both[4]["error"]
    assert (one[0], one[4]["app"]) == (1, "till")


def test_no_app() -> None:
    """An environment with no app can be made and reset; there is nothing to do in it."""
    environment = Environment([])

    assert environment.reset() is None
    assert environment.step("note")[4]["error"] == "there is no action 'note'; there are: none"


def test_an_object_for_a_class() -> None:
    """An app may be given as an object, which stands for its class: each episode has a new one."""
    environment = Environment([Support()])
    environment.reset()
    environment.step("close")
    environment.reset()

    assert environment.step("status")[0] == "open"


def test_settings() -> None:
    """An app has the settings that its environment gives it."""

    class Set(App[Desk]):
        """Shows them."""

        def reset(self, task: TaskView) -> Any:
            """What it was given."""
            return dict(self.settings)

    assert Environment([Set], settings={"set": {"a": 1}}).reset() == {"a": 1}
    assert Environment([Set]).reset() == {}


def test_two_apps_of_one_name() -> None:
    """Two apps of one name are refused."""
    with pytest.raises(ConfigError, match="environment 'e' has two apps of the name 'support'"):
        Environment([Support, Support], name="e")


def test_faulty_apps() -> None:
    """An app with a faulty action or state is refused when the environment is made."""

    class Loose(App[Desk]):
        """Has no annotation."""

        @action
        def do(self, what) -> None:  # type: ignore[no-untyped-def]
            """Do it."""

    with pytest.raises(ConfigError, match="needs a type annotation"):
        Environment([Loose])


def test_step_before_reset() -> None:
    """`step` before `reset` is refused with what to do."""
    with pytest.raises(ConfigError, match=r"call reset\(\) before step\(\)"):
        Environment([Support]).step("note")


def test_actions_are_plain_methods() -> None:
    """An asynchronous action is refused to the agent."""

    class Later(App[Desk]):
        """Has one."""

        @action
        async def do(self) -> int:
            """Do it later."""
            return 1

    environment = Environment([Later])
    environment.reset()

    with pytest.warns(RuntimeWarning, match="never awaited"):
        error = environment.step("do")[4]["error"]
    assert error == "do is asynchronous; an action is a plain method"


ACTIONS = st.one_of(
    st.tuples(st.just("note"), st.fixed_dictionaries({"text": st.text(max_size=5)})),
    st.tuples(st.just("categorize"), st.fixed_dictionaries({"category": st.sampled_from(
        ["billing", "bugs", "cats"])})),
    st.tuples(st.sampled_from(["close", "lose", "status", "fly"]), st.just({})),
)  # fmt: skip


@given(st.integers(), st.lists(ACTIONS, max_size=12))
def test_same_seed_same_world(seed: int, actions: list[tuple[str, dict[str, Any]]]) -> None:
    """The same seed and actions give the same observations, errors and states, to the byte."""
    runs: list[bytes] = []
    for _ in range(2):
        world = World(Environment([Support]), TaskView(name="t"), seed=seed)
        told: list[Any] = [world.reset()]
        told += [world.act(name, arguments) for name, arguments in actions]
        runs.append(msgspec.json.encode([*told, world.final()]))

    assert runs[0] == runs[1]


@given(st.lists(ACTIONS, max_size=12))
def test_recorded_states_are_the_worlds(actions: list[tuple[str, dict[str, Any]]]) -> None:
    """The states as they are recorded, patches among them, lead to the world's final state."""
    world, recorder = World(Environment([Support]), TaskView(name="t"), seed=1), StateRecorder()
    state = world.reset().apps["support"].state
    recorder.start("support", state)

    for name, arguments in actions:
        for changed in world.act(name, arguments).states.values():
            change = recorder.record("support", changed).change
            if change.patch is not None:
                state = apply_patch(state, change.patch)
            else:
                assert change.full is not None
                (state,) = change.full

    assert msgspec.json.encode(state) == msgspec.json.encode(world.final()["support"])
