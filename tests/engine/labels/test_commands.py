"""The commands, over a project that was run for real."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from helpers.altering import change as change_log
from helpers.desk import JUDGE, PERSON, change, write_desk
from helpers.judges import Endpoint, completion
from helpers.judges import said as said_by_judge
from trialog.engine.console.agreement import show_agreement
from trialog.engine.console.exporting import export_thing
from trialog.engine.console.label_report import DIFFERENCES_SHOWN
from trialog.engine.console.labels import apply_labels, try_labels
from trialog.engine.console.regrading import regrade_thing
from trialog.engine.console.rewards import show_rewards
from trialog.engine.console.showing import show_thing
from trialog.engine.errors import CommandRefused, ConfigError
from trialog.engine.labels.workers import in_order
from trialog.engine.location import NotFound
from trialog.engine.regrade.run import Wish
from trialog.events.codec import decode
from trialog.events.kinds import JudgeSampled, VerifierApplied
from trialog.events.open import open_log
from trialog.projections.rebuild import check as check_files

from .conftest import Desk, Said


async def tried(desk: Desk, name: str = "exact", **changes: Any) -> Said:
    """`trialog verifier try`."""
    known = {"tasks_root": None, "check": False, "call_models": False}
    options = {key: changes.pop(key, value) for key, value in known.items()}
    return await desk.say(try_labels, name, desk.job, **options, **changes)


async def applied(desk: Desk, name: str = "exact", **changes: Any) -> Said:
    """`trialog verifier apply`."""
    known = {"tasks_root": None, "reason": None, "call_models": False}
    options = {key: changes.pop(key, value) for key, value in known.items()}
    return await desk.say(apply_labels, name, desk.job, **options, **changes)


async def test_an_unchanged_verifier_gives_what_the_run_gave(desk: Desk) -> None:
    """With the same code `try --check` finds no difference, appends nothing and exits with 0."""
    before = await desk.events()

    said = await tried(desk, check=True, as_json=True)

    assert 0 == said.code
    assert [[], []] == [one["differences"] for one in said.objects]
    (first, _) = said.objects
    assert (1.0, [1.0, -0.5, 1.0, 1.0], [0.25]) == (
        first["score"],
        [one["value"] for one in first["rewards"]],
        [one["value"] for one in first["credits"]],
    )
    assert before == await desk.events()


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("score=1.0", "score=0.5", {"score"}),
        ('"reached"', '"arrived"', {"scores"}),
        ("it is", "now", {"evidence"}),
        ("return -0.5", "return None", {"reward"}),
        ("return -0.5", "raise KeyError('x')", {"reward"}),
        ("trial.score / 4", "0.5", {"credits"}),
        ("it was the last", "why not", {"credits"}),
        ("return VerifierOutput", "raise KeyError('x')\n    return VerifierOutput", {
            "check", "score", "scores", "evidence"}),
    ],
)  # fmt: skip
async def test_every_change_is_found(desk: Desk, before: str, after: str, what: set[str]) -> None:
    """Whatever the code gives otherwise is shown, and `--check` exits with 1."""
    assert 0 == (await tried(desk, check=True)).code
    change(desk.root, before, after)

    said = await tried(desk, check=True, as_json=True)

    assert 1 == said.code
    assert [what, what] == [{d["what"] for d in one["differences"]} for one in said.objects]
    assert 0 == (await tried(desk)).code  # without --check it is only shown


async def test_what_is_shown(desk: Desk) -> None:
    """A person is shown scores, sums, differences, and where rewards failed."""
    change(desk.root, "return -0.5", "raise KeyError('x')")

    said = await tried(desk)

    (first, line, *_) = said.out.splitlines()
    assert first.endswith(": score 1.00, 3 rewards (3), 1 credit (0.25)")
    assert line.strip().startswith("reward of step 2 (refuse): ")
    assert "(recorded by 0.1.0: -0.5)" in line
    assert "! Verifier exact's reward raised on 2 steps in 2 Trials, which earns it no" in said.out
    assert "    there: KeyError: 'x' (at verify.py:" in said.out
    assert said.out.endswith("tried on 2 trials; 2 differ from what was recorded\n")
    assert "verifier exact 0.1.0 (deterministic)" in said.err


async def test_applying_is_one_append(desk: Desk) -> None:
    """A new version's labels come behind the trial's end, all under one VerifierApplied; the
    ledger grows by them and no other file changes."""
    (trial, _) = await desk.trials()
    before = {name: desk.file(trial, name) for name in ("rewards.jsonl", "result.json")}
    events = await desk.events(trial)
    change(desk.root, "trial.score / 4", "0.5", version="0.2.0")

    said = await applied(desk, reason="half of it")

    assert 0 == said.code
    assert "applied to 2 trials, labels added to 2; 2 differ" in said.out
    after = await desk.events(trial)
    assert events == after[: len(events)]
    new = after[len(events) :]
    assert ["VerifierApplied", *["StepRewarded"] * 4, "HindsightCredited"] == [e.kind for e in new]
    first = decode(new[0])
    assert isinstance(first, VerifierApplied)
    assert ("0.2.0", 1.0, "half of it") == (first.version, first.score, first.reason)
    assert first.author
    assert {new[0].id} == {event.causation for event in new[1:]}
    grown = desk.file(trial, "rewards.jsonl")
    assert grown.startswith(before["rewards.jsonl"])
    assert 5 == grown.count(b"\n") - before["rewards.jsonl"].count(b"\n")
    assert before["result.json"] == desk.file(trial, "result.json")
    async with open_log(desk.jobs / "trialog.db") as log:
        assert [] == await check_files(log, desk.job, desk.jobs)


async def test_applying_again_adds_nothing(desk: Desk) -> None:
    """The same label twice adds nothing, and neither does what the run itself gave."""
    before = await desk.events()
    assert "labels added to 0" in (await applied(desk)).out
    assert before == await desk.events()
    change(desk.root, "trial.score / 4", "0.5", version="0.2.0")
    await applied(desk)
    once = await desk.events()

    said = await applied(desk, as_json=True)

    assert [0, 0] == [one["appended"] for one in said.objects]
    assert once == await desk.events()
    assert 0 == (await tried(desk, check=True)).code


async def test_what_was_applied_last_stands(desk: Desk) -> None:
    """A version lower than one applied before stands from then on, and that is told with how to
    see the other; one that was applied again does not, and that is told too."""
    change(desk.root, "trial.score / 4", "0.5", version="0.10.0")
    assert "stands" not in (await applied(desk)).out
    change(desk.root, "0.5,", "0.75,", version="0.9.0")

    said = await applied(desk)

    assert (
        "! 0.9.0 is lower than 0.10.0, which labelled 2 trials too: 0.9.0 stands there now, since "
        "it was applied last\n    `--as-of exact@0.10.0` of rewards and export shows 0.10.0\n"
    ) in said.out
    rows = (await exported(desk)).objects
    assert {"exact": "0.9.0"} == rows[-1]["versions"]
    change(desk.root, "0.75,", "0.5,", version="0.10.0")
    again = await applied(desk)
    assert "! 0.10.0 was applied before 0.9.0 in 2 trials: 0.9.0 still stands there" in again.out
    assert "labels added to 0" in again.out


async def test_a_regraded_trial_is_told_as_such(tmp_path: Path) -> None:
    """An unscored trial that a finished regrade gave a verdict is masked by that regrade's name,
    and nobody is advised to mend the test any more."""
    desk = Desk(write_desk(tmp_path / "desk"), tmp_path / "jobs")
    change(desk.root, "return VerifierOutput", "raise KeyError('x')\n    return VerifierOutput")
    await desk.run()
    before = await desk.say(show_thing, desk.job)
    assert "next: mend the test" in before.out
    row = (await exported(desk)).objects[-1]
    assert "unscored" == row["mask_reason"]
    change(desk.root, "    raise KeyError('x')\n", "")
    means: dict[str, Any] = {"dry_run": False, "resume": False, "sandbox": None}
    wish = Wish(tasks_root=desk.root)

    assert 0 == (await desk.say(regrade_thing, desk.job, wish=wish, concurrency=None, **means)).code

    (trial,) = await desk.trials()
    id = json.loads(desk.file(trial, "regrade.json"))["regrade_id"]
    after = await desk.say(show_thing, desk.job)
    assert "next: mend the test" not in after.out
    assert f"  1 unscored in the run, graded by regrade {id}: count" in after.out
    rows = (await exported(desk)).objects
    assert {("regraded", None)} == {(r["mask_reason"], r.get("reward")) for r in rows[-1:]}
    assert rows[-1]["mask_detail"].startswith(
        f"regrade {id} gave it a verdict (passed, score 1), which is in regrade.json; in the run "
        "it was unscored: verifier_failed: KeyError: 'x'"
    )
    (trl,) = (await exported(desk, form="trl")).objects
    assert ("regraded", None) == (trl["mask_reason"], trl["reward"])


async def test_other_code_must_raise_the_version(desk: Desk) -> None:
    """The same version with other files is refused before anything is appended."""
    before = await desk.events()
    change(desk.root, "trial.score / 4", "0.5")

    with pytest.raises(CommandRefused, match=r"raise the version"):
        await applied(desk)

    assert before == await desk.events()


class Killed(BaseException):
    """Nothing catches it."""


async def test_a_kill_in_the_middle_is_made_good(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the process dies between two trials, one has all labels and one none; applying again
    adds those that are missing."""
    from trialog.engine.labels import applying

    monkeypatch.setattr(applying, "in_order", partial(in_order, at_once=1))
    change(desk.root, "trial.score / 4", "0.5", version="0.2.0")
    real = applying._apply_one
    done: list[str] = []

    async def dies(*words: Any) -> Any:
        if done:
            raise Killed
        done.append("one")
        return await real(*words)

    monkeypatch.setattr(applying, "_apply_one", dies)
    with pytest.raises(Killed):
        await applied(desk)
    lengths = {len(await desk.events(trial)) for trial in await desk.trials()}
    assert 2 == len(lengths)
    monkeypatch.setattr(applying, "_apply_one", real)

    said = await applied(desk, as_json=True)

    assert [0, 6] == sorted(one["appended"] for one in said.objects)
    assert 1 == len({len(await desk.events(trial)) for trial in await desk.trials()})


async def test_which_files_are_used(fresh_desk: Desk, tmp_path: Path) -> None:
    """--tasks-root first, then the project here, then the one that ran, then the job's copy."""
    desk = fresh_desk
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = write_desk(tmp_path / "other")
    change(other, "score=1.0", "score=0.25", version="0.3.0")

    async def origin(**named: Any) -> tuple[str, float]:
        said = await tried(desk, as_json=True, **named)
        return said.err, said.objects[0]["score"]

    assert str(desk.root) in (await origin())[0]
    assert ("--tasks-root", 0.25) == (
        "--tasks-root" if "--tasks-root" in (await origin(tasks_root=other))[0] else "",
        (await origin(tasks_root=other))[1],
    )
    assert 0.25 == (await origin(here=other))[1]
    assert str(desk.root) in (await origin(here=elsewhere))[0]
    shutil.rmtree(desk.root)
    said, score = await origin(here=elsewhere)
    assert ("the job's own copy" in said, score) == (True, 1.0)


async def test_no_such_verifier(fresh_desk: Desk, tmp_path: Path) -> None:
    """An unknown name is an error that says what there is, with a project and without."""
    desk = fresh_desk
    with pytest.raises(ConfigError, match="exact"):
        await tried(desk, "exat")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(desk.root)
    with pytest.raises(ConfigError, match="the job's own are: exact"):
        await tried(desk, "exat", here=elsewhere)


async def test_a_verifier_that_no_task_lists(desk: Desk) -> None:
    """A new verifier is tried on all trials, and everything that it says is new."""
    manifest = desk.root / "verifiers/fresh/verifier.yaml"
    manifest.parent.mkdir()
    manifest.write_text("name: fresh\nversion: 1.0.0\nkind: deterministic\nreward: v.py:r\n")
    (manifest.parent / "v.py").write_text("def r(step):\n    return step.turn / 10\n")

    said = await tried(desk, "fresh", as_json=True)

    assert [None, None] == [one["recorded_version"] for one in said.objects]
    assert [4, 4] == [len(one["differences"]) for one in said.objects]
    assert "labels added to 2" in (await applied(desk, "fresh")).out


async def test_many_differences_are_cut(desk: Desk) -> None:
    """Of one trial only some differences are shown; --json has all."""
    manifest = desk.root / "verifiers/fresh/verifier.yaml"
    manifest.parent.mkdir()
    manifest.write_text(
        "name: fresh\nkind: deterministic\nreward: v.py:r\ncheck: v.py:c\nhindsight: v.py:h\n"
    )
    (manifest.parent / "v.py").write_text(
        "def r(step):\n    return 1.0\n"
        "def c(episode):\n    return {'score': 1.0, 'scores': {'a': 1}}\n"
        "def h(trial):\n    raise KeyError('y')\n    yield\n"
    )

    said = await tried(desk, "fresh")

    assert f"  … and {7 - DIFFERENCES_SHOWN} more" in said.out
    assert "! Verifier fresh's hindsight raised in 2 Trials, which earns it no credit" in said.out
    assert 7 == len((await tried(desk, "fresh", as_json=True)).objects[0]["differences"])


async def test_total_reward_is_of_the_current_code(tmp_path: Path) -> None:
    """`check: total_reward` scores by the rewards that the code gives now."""
    manifest = (
        "name: exact\nversion: 0.1.0\nkind: deterministic\ncheck: total_reward\n"
        "reward: verify.py:reward\n"
    )
    desk = Desk(write_desk(tmp_path / "desk", manifest=manifest), tmp_path / "jobs")
    await desk.run()
    assert 0 == (await tried(desk, check=True)).code
    change(desk.root, "return -0.5", "return 0.5", version="0.2.0")

    (one,) = (await tried(desk, as_json=True)).objects

    assert (3.5, [2.5]) == (
        one["score"], [d["recorded"] for d in one["differences"] if d["what"] == "score"],
    )  # fmt: skip


async def test_people_are_kept_and_waited_for(tmp_path: Path) -> None:
    """A person's verifier shows what was given and can't be applied; while a trial waits nothing
    is applied."""
    desk = Desk(write_desk(tmp_path / "desk", {"person": PERSON}), tmp_path / "jobs")
    await desk.run()
    change(desk.root, "trial.score / 4", "0.5", version="0.2.0")

    assert 0 == (await tried(desk, "person", check=True)).code
    with pytest.raises(CommandRefused, match="is a person"):
        await applied(desk, "person")
    before = await desk.events()
    with pytest.raises(CommandRefused, match="wait for people"):
        await applied(desk)
    assert before == await desk.events()
    assert 0 == (await tried(desk)).code


async def test_a_trial_that_was_altered_is_told(desk: Desk) -> None:
    """Nothing is tried on forged events: the trial is named with the place and left out."""
    lost, _ = await desk.trials()
    change_log(
        desk.jobs,
        "UPDATE events SET at = 'yesterday' WHERE kind = 'AgentFinished' AND "
        "stream = (SELECT id FROM streams WHERE name = ?)",
        f"trial/{lost}",
    )

    said = await tried(desk, check=True)

    assert 1 == said.code
    assert f"stream 'trial/{lost}' version" in said.out
    assert "tried on 1 trial;" in said.out


async def test_a_pruned_state_is_told(desk: Desk) -> None:
    """A trial whose events can't be read back is named and left out; with --check that is a 1."""
    from trialog.engine.labels import trying

    real, (lost, _) = trying.read_trial, await desk.trials()

    async def fails(log: Any, trial: str, **how: Any) -> Any:
        from trialog.events.errors import BlobMissing

        if trial == lost:
            raise BlobMissing("sha256:0", "the store")
        return await real(log, trial, **how)

    trying.read_trial = fails
    try:
        said = await tried(desk, check=True)
    finally:
        trying.read_trial = real

    assert 1 == said.code
    assert "! 1 trial left out: " in said.out
    assert "tried on 1 trial;" in said.out


async def test_what_verifiers_told_is_shown(desk: Desk) -> None:
    """A trial is shown with its verifiers' sub-scores and evidence."""
    (trial, _) = await desk.trials()
    shown = await desk.say(show_thing, trial)
    assert "\n    scores: reached=1\n    evidence: it is 3\n" in shown.out


async def test_rewards_of_a_trial(desk: Desk) -> None:
    """The ledger shows which labels stand; --as-of shows what stood then, and --json the lines."""
    (trial, _) = await desk.trials()
    change(desk.root, "trial.score / 4", "0.5", version="0.2.0")
    await applied(desk)

    whole = await desk.say(show_rewards, trial, as_of=None)
    then = await desk.say(show_rewards, trial, as_of="exact@0.1.0", as_json=True)
    now = await desk.say(show_rewards, trial, as_of="exact@0.2.0", as_json=True)

    rows = whole.out.splitlines()[1:]
    assert [f"{n}. counter.add" in whole.out for n in (1, 3)] == [True] * 2
    assert (11, 5) == (len(rows), sum(row.endswith("no") for row in rows))
    assert [0.25] == [o["value"] for o in then.objects if o["source"] == "hindsight"]
    assert [0.5] == [o["value"] for o in now.objects if o["source"] == "hindsight"]
    with pytest.raises(NotFound, match=r"no label of exact@0\.9\.0"):
        await desk.say(show_rewards, trial, as_of="exact@0.9.0")


async def exported(desk: Desk, **changes: Any) -> Said:
    """`trialog export`."""
    known = {"form": "jsonl", "out": None, "as_of": None, "gamma": 1.0}
    return await desk.say(export_thing, desk.job, **(known | changes))


async def test_training_data(desk: Desk, tmp_path: Path) -> None:
    """A line a step and one for each trial; to a file the same bytes; as of a version for ever."""
    first = await exported(desk)
    await exported(desk, out=tmp_path / "train.jsonl")
    change(desk.root, "trial.score / 4", "0.5", version="0.2.0")
    await applied(desk)

    assert first.out.encode() == (tmp_path / "train.jsonl").read_bytes()
    assert first.out == (await exported(desk, as_of="exact@0.1.0")).out
    assert first.out != (await exported(desk)).out
    assert "2 trials exported, 0 of them masked" in first.err
    kinds = [row["kind"] for row in first.objects]
    assert [*["step"] * 4, "trial"] * 2 == kinds
    step = first.objects[1]
    assert ("not today" in step["error"], step["reward"]) == (True, -0.5)
    assert True is first.objects[3]["terminated"]
    with pytest.raises(NotFound, match=r"a label of exact@0\.9\.0"):
        await exported(desk, as_of="exact@0.9.0")
    with pytest.raises(ConfigError, match="gamma"):
        await exported(desk, gamma=1.5)


async def test_training_data_for_trl(desk: Desk) -> None:
    """A line a trial, with the task's instructions as its prompt."""
    said = await exported(desk, form="trl")

    first, second = said.objects
    assert "Count to three." in first["prompt"][0]["content"]
    assert [1.0, -0.5, 1.0, 1.0] == first["step_rewards"]
    assert first.keys() == second.keys()


async def test_a_file_is_whole_or_not_there(desk: Desk, tmp_path: Path) -> None:
    """An export that fails leaves no file behind."""
    target = tmp_path / "train.jsonl"

    with pytest.raises(NotFound):
        await exported(desk, out=target, as_of="exact@9")
    with pytest.raises(IsADirectoryError):
        await exported(desk, out=tmp_path)

    assert not target.exists()
    assert not list(tmp_path.glob(".*.part"))


async def test_agreement_of_two_versions(desk: Desk) -> None:
    """Two versions of a verifier are compared on the trials that both scored."""
    change(desk.root, "score=1.0", "score=0.5", version="0.2.0")
    await applied(desk)

    said = await desk.say(
        show_agreement, "exact@0.1.0", "exact@0.2.0", desk.job, tolerance=0.1, as_json=True
    )
    shown = await desk.say(show_agreement, "exact@0.1.0", "exact", desk.job, tolerance=0.1)

    assert {("reached", 1.0), ("score", 0.0)} == {
        (row["criterion"], row["exact"]) for row in said.objects
    }
    assert "CRITERION" in shown.out
    assert "-0.50" in shown.out
    with pytest.raises(NotFound, match="no trial of the job was scored by both"):
        await desk.say(show_agreement, "exact", "nobody", desk.job, tolerance=0.1)
    with pytest.raises(ConfigError, match="tolerance"):
        await desk.say(show_agreement, "exact", "exact", desk.job, tolerance=2.0)


async def test_a_job_of_test_scripts(tmp_path: Path) -> None:
    """A job without verifiers of a project is told to be graded again instead."""
    from helpers.fakes import FakeBackend
    from helpers.jobs import Watched, services, tasks
    from trialog.engine.job.api import run_job
    from trialog.engine.job.config import JobConfig

    desk = Desk(write_desk(tmp_path / "desk"), tmp_path / "jobs")
    async with open_log(desk.jobs / "trialog.db") as log:
        ran = await run_job(
            services(log, FakeBackend(), desk.jobs), JobConfig(tasks=["t"]),
            await tasks(tmp_path / "tasks", 1), Watched(),
        )  # fmt: skip
    desk.job = ran.job

    with pytest.raises(ConfigError, match="graded by test scripts"):
        await tried(desk)
    assert ["step", "trial"] == [row["kind"] for row in (await exported(desk)).objects]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """A judge's endpoint."""
    found = Endpoint()
    yield found
    found.close()


async def judged_desk(tmp_path: Path, endpoint: Endpoint) -> Desk:
    """A desk with a judge, whose model was asked once."""
    desk = Desk(write_desk(tmp_path / "desk", {"quality": JUDGE}), tmp_path / "jobs")
    desk.environ = endpoint.environ
    endpoint.answer(completion(said_by_judge(1, 1)))
    await desk.run()
    assert 1 == len(endpoint.requests)
    return desk


async def test_a_judges_replies_are_read_again(tmp_path: Path, endpoint: Endpoint) -> None:
    """A judge is tried on its recorded replies, by the rubric as it is now; no model is called."""
    desk = await judged_desk(tmp_path, endpoint)
    assert 0 == (await tried(desk, "quality", check=True)).code
    manifest = desk.root / "verifiers/quality/verifier.yaml"
    text = manifest.read_text("utf-8").replace("max_score: 2", "max_score: 1")
    manifest.write_text(text.replace("0.1.0", "0.2.0"), "utf-8")

    (one,) = (await tried(desk, "quality", as_json=True)).objects

    assert (1.0, [0.75]) == (
        one["score"], [d["recorded"] for d in one["differences"] if d["what"] == "score"],
    )  # fmt: skip
    assert "labels added to 1" in (await applied(desk, "quality")).out
    assert ["VerifierApplied"] == [event.kind for event in (await desk.events())[-1:]]
    assert 1 == len(endpoint.requests)


async def test_a_judges_model_is_called_anew(tmp_path: Path, endpoint: Endpoint) -> None:
    """With --call-models the model is asked; its replies are recorded under what was applied, and
    what this version has said is not asked for again."""
    desk = await judged_desk(tmp_path, endpoint)
    endpoint.answer(completion(said_by_judge(2, 1)))
    manifest = desk.root / "verifiers/quality/verifier.yaml"
    manifest.write_text(manifest.read_text("utf-8").replace("0.1.0", "0.2.0"), "utf-8")

    (one,) = (await tried(desk, "quality", call_models=True, as_json=True)).objects
    assert (1.0, 2) == (one["score"], len(endpoint.requests))
    await applied(desk, "quality", call_models=True)
    first, reply = (await desk.events())[-2:]
    again = await applied(desk, "quality", call_models=True)

    assert ("VerifierApplied", "JudgeSampled") == (first.kind, reply.kind)
    sampled = decode(reply)
    assert isinstance(sampled, JudgeSampled)
    assert sampled.applied == first.id
    assert "labels added to 0" in again.out
    assert 3 == len(endpoint.requests)


async def test_a_judge_that_was_never_asked(desk: Desk) -> None:
    """A trial without a judge's replies is left out, with what to do about it."""
    manifest = desk.root / "verifiers/quality/verifier.yaml"
    manifest.parent.mkdir()
    manifest.write_text(JUDGE)

    said = await tried(desk, "quality", check=True)

    assert 1 == said.code
    assert "--call-models" in said.out


NOSY = """\
def check(episode):
    asked = episode.apps["counter"].query("get")
    seen = [[r.verifier, r.version, r.value, r.source, r.event_id] for r in episode.rewards]
    told = [[s["turn"], s["error"], s["previous_state"], s["current_state"]]
            for s in episode.trajectory]
    return {"score": 1.0, "evidence": [repr((asked, seen, told, episode.usage, episode.answer))]}


def reward(step):
    return step.apps["counter"].query("get") / 10 if step.turn % 2 else None


def hindsight(trial):
    seen = [[r.verifier, r.version, r.value, r.source, r.event_id] for r in trial.rewards]
    yield trial.credit(trial.steps()[0], trial.score, seen=repr(seen))
    raise_later = [s["event_id"] for s in trial.steps("refuse")]
    yield trial.credit(raise_later[0], -1.0)
"""


async def test_hooks_that_look_at_everything(tmp_path: Path, endpoint: Endpoint) -> None:
    """Verifiers that ask apps questions and look at all that others gave, beside a judge and a
    person: each gives again exactly what it gave, before and after the review."""
    from trialog.engine.console.people import submit_review

    manifest = (
        "name: {0}\nkind: deterministic\ncheck: v.py:check\nreward: v.py:reward\n"
        "hindsight: v.py:hindsight\n"
    )
    quiet = NOSY.replace('episode.apps["counter"].query("get")', "0").replace(
        'step.apps["counter"].query("get")', 'step.apps["counter"].state["value"]'
    )
    added = {"asks": manifest.format("asks"), "looks": manifest.format("looks"),
             "quality": JUDGE, "person": PERSON}  # fmt: skip
    desk = Desk(write_desk(tmp_path / "desk", added), tmp_path / "jobs")
    (desk.root / "verifiers/asks/v.py").write_text(NOSY)
    (desk.root / "verifiers/looks/v.py").write_text(quiet)
    desk.environ = endpoint.environ
    endpoint.answer(completion(said_by_judge(1, 1)))
    await desk.run()

    for name in ("exact", "asks", "looks", "quality"):
        said = await tried(desk, name, check=True)
        assert 0 == said.code, said.out
    (trial,) = await desk.trials()
    await desk.say(
        submit_review, trial, verifier="person", score=["1"], feedback=None, reviewer=None
    )
    for name in ("exact", "asks", "looks", "quality", "person"):
        said = await tried(desk, name, check=True)
        assert 0 == said.code, said.out
    assert 2 == len((await tried(desk, "asks", as_json=True)).objects[0]["rewards"])
