"""`trialog.open`: structs and tables of a log that was run for real, and of written ones."""

from __future__ import annotations

import builtins
import doctest
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pandas
import pyarrow
import pytest
from blockbuster import BlockBuster

import trialog
from helpers.at_desk import Desk
from helpers.given import action, fill, job_started, scheduled, slot, started
from helpers.golden import JOB, golden_log
from helpers.training import credit, labelled, played, ran
from trialog.engine.errors import ConfigError
from trialog.engine.exports.reading import read_one, select_job
from trialog.engine.location import NotFound
from trialog.engine.reading import Reward, Step, Trial, Verdict, opened
from trialog.engine.reading.tables import TABLES, columns, rows_of
from trialog.engine.reading.trials import trial_blobs, trial_of
from trialog.events.errors import BlobMissing
from trialog.events.kinds.parts import Target
from trialog.events.open import open_log

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "files"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "analysis.md"


@pytest.fixture
def jobs(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a job with two trials, below the current one."""
    monkeypatch.chdir(desk.jobs.parent)
    return desk.jobs


async def golden_trials(gamma: float = 1.0) -> list[Trial]:
    """The trials of the golden log."""
    found: list[Trial] = []
    async with golden_log(GOLDEN) as log:
        selection = await select_job(log, JOB)
        for one in selection.trials:
            read = await read_one(log, one.trial, blobs=trial_blobs, regrades=selection.regrades)
            assert read is not None
            found.append(trial_of(read, gamma=gamma))
    return found


# What a trial has


async def test_a_trial_is_what_its_files_have() -> None:
    """Verdicts, scores, steps and rewards are those of result.json, steps.jsonl, rewards.jsonl."""
    folder = GOLDEN / "expected" / JOB
    compared = 0
    for trial in await golden_trials():
        if not (folder / trial.name / "result.json").exists():
            assert trial.outcome is None
            continue
        result = json.loads((folder / trial.name / "result.json").read_bytes())
        same = ["outcome", "passed", "score", "scores", "reward_valid", "error", "attempt",
                "execution", "seed", "agent", "model", "parameters", "answer", "started_at",
                "finished_at", "n_steps"]  # fmt: skip
        assert {key: result[key] for key in same} == {key: getattr(trial, key) for key in same}
        assert (result["rewards"] or {}) == trial.named_rewards
        assert [v["name"] for v in result["verifiers"]] == [
            v.verifier for v in trial.verdicts if v.given_in == "run"
        ]
        steps = (folder / trial.name / "steps.jsonl").read_bytes().splitlines()
        assert [json.loads(line)["event_id"] for line in steps] == [s.event_id for s in trial.steps]
        lines = (folder / trial.name / "rewards.jsonl").read_bytes().splitlines()
        assert {reward.record_id for reward in trial.rewards} <= {
            json.loads(line)["record_id"] for line in lines
        }
        compared += 1
    assert compared >= 3


def test_steps_and_rewards_go_together(jobs: Path) -> None:
    """Each reward of a step names its number, and they add up to the step's own."""
    (trial, _) = trialog.open(jobs).trials()

    given = {
        reward.step: reward.value for reward in trial.rewards if reward.source == "step"
    }  # fmt: skip
    assert {1: 1.0, 2: -0.5, 3: 1.0, 4: 1.0} == given
    assert given == {step.number: step.reward for step in trial.steps}
    assert [2.75, 1.75, 2.25, 1.25] == [
        step.to_go for step in trial.steps
    ]  # with credit at the end
    assert [False, False, False, True] == [step.terminated for step in trial.steps]
    assert "not today" in (trial.steps[1].error or "")


def test_gamma_discounts(jobs: Path) -> None:
    """Later turns count less, and a factor that can't discount is refused."""
    (plain, _), (half, _) = trialog.open(jobs).trials(), trialog.open(jobs).trials(gamma=0.5)

    assert plain.steps[-1].to_go == half.steps[-1].to_go
    assert (plain.steps[0].to_go or 0) > (half.steps[0].to_go or 0)
    with pytest.raises(ConfigError, match=r"gamma 1\.5"):
        trialog.open(jobs).trials(gamma=1.5)


# Reading


def test_trials_come_one_at_a_time(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial is read when it is asked for, and none after the last that was."""
    read: list[str] = []
    real = opened.read_one

    async def counted(log: Any, trial: str, **named: Any) -> Any:
        read.append(trial)
        return await real(log, trial, **named)

    monkeypatch.setattr(opened, "read_one", counted)
    trials = iter(trialog.open(jobs).trials())
    assert [] == read
    first = next(trials)

    assert [first.name] == read
    second = next(trials)
    assert [first.name, second.name] == read
    assert [] == list(trials)


async def test_in_an_event_loop(desk: Desk) -> None:
    """`async for` gives the same trials."""
    log = await anyio.to_thread.run_sync(trialog.open, desk.jobs)

    waited = [trial async for trial in log.trials()]
    assert waited == await anyio.to_thread.run_sync(lambda: list(log.trials()))


async def test_where_a_loop_runs_already(desk: Desk, blockbuster: BlockBuster) -> None:
    """As in a notebook, `for` works in a thread whose event loop is running."""
    log = await anyio.to_thread.run_sync(trialog.open, desk.jobs)
    trials = log.trials()

    blockbuster.deactivate()  # that is what is wanted of it there
    assert 2 == len(list(trials))


def test_which_log(jobs: Path, tmp_path: Path) -> None:
    """A file, a folder of jobs, or the nearest; without one it is told where it was looked for."""
    path = jobs / "trialog.db"
    assert path == trialog.open(jobs).path == trialog.open(str(path)).path == trialog.open().path
    assert "trialog.db" in repr(trialog.open())
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(NotFound, match=r"no log at .*empty/trialog\.db \(trialog\.open\)"):
        trialog.open(empty)
    assert [] == list(empty.iterdir())


def test_one_trial_and_one_job(desk: Desk, jobs: Path) -> None:
    """A trial by its name or the beginning of it, a job by its id; others are not found."""
    log = trialog.open(jobs)
    assert [desk.job] == log.jobs()
    (first, second) = log.trials(desk.job)

    assert second == log.trial(second.name) == log.trial(second.name[:-1])
    with pytest.raises(NotFound, match=r"\(trialog\.open\) has no job 'nothing'"):
        list(log.trials("nothing"))
    with pytest.raises(NotFound, match=r"give the other log with trialog\.open$"):
        list(log.trials(f"/{desk.job}"))
    with pytest.raises(NotFound, match="fits 2 trials"):
        log.trial(first.name[:3])


def test_nothing_is_changed(jobs: Path) -> None:
    """Reading leaves the log and all files as they are."""
    before = {path: path.read_bytes() for path in jobs.rglob("*") if path.is_file()}
    trialog.open(jobs).trials().table("steps")
    after = {path: path.read_bytes() for path in jobs.rglob("*") if path.is_file()}

    changed = {path.name for path in after if before.get(path) != after[path]}
    assert changed <= {"trialog.db-shm", "trialog.db-wal"}


async def test_a_job_that_runs(tmp_path: Path) -> None:
    """What has not begun is not there yet; what has not ended has no outcome; what came since the
    last reading is there in the next."""
    second = {"slot": slot(attempt=2), "trial": "t__00000002"}
    async with open_log(tmp_path / "trialog.db") as log:
        await fill(
            log,
            {
                "job/j": [
                    job_started(),
                    scheduled(),
                    scheduled("t__00000002", slot=slot(attempt=2)),
                ],
                "trial/t__00000001": [started(), *played()],
            },
        )
        reading = await anyio.to_thread.run_sync(trialog.open, tmp_path)
        (open_one,) = [trial async for trial in reading.trials()]
        await fill(log, {"trial/t__00000002": ran(action(), **second)})
        both = [trial async for trial in reading.trials()]

    assert (None, None, "not_finished") == (
        open_one.outcome, open_one.reward, open_one.mask_reason,
    )  # fmt: skip
    assert [7, 1] == [len(trial.steps) for trial in both]
    assert [None, "scored"] == [trial.outcome for trial in both]


async def test_labels_stand_as_in_training_data(tmp_path: Path) -> None:
    """Credit of a version that another one followed is not among the rewards."""
    span = Target(target="event", event_id="m1", field="text", token_start=2, token_end=5)
    items = [
        *ran(*played(), credit("s1", 0.5), credit("s1", 0.125, target=span)),
        *labelled("2", {"s2": 1.0}), *labelled("3", {"s4": 1.0}),
    ]  # fmt: skip
    async with open_log(tmp_path / "trialog.db") as log:
        await fill(log, {"job/j": [job_started(), scheduled()], "trial/t__00000001": items})
        reading = await anyio.to_thread.run_sync(trialog.open, tmp_path)
        (trial,) = [trial async for trial in reading.trials()]

    hindsight = [reward for reward in trial.rewards if reward.source == "hindsight"]
    assert [("3", 5)] == [(reward.version, reward.step) for reward in hindsight]
    assert [("run", "1.0.0"), ("applied", "2"), ("applied", "3")] == [
        (verdict.given_in, verdict.version) for verdict in trial.verdicts
    ]


async def test_a_trial_that_can_not_be_read(tmp_path: Path) -> None:
    """Its error names it; skipped, it is a warning, and the others are there."""
    async with open_log(tmp_path / "trialog.db") as log:
        lost = {"$blob": "sha256:" + "0" * 64, "size": 20_000}
        await fill(
            log,
            {
                "job/j": [
                    job_started(),
                    scheduled(),
                    scheduled("t__00000002", slot=slot(attempt=2)),
                ],
                "trial/t__00000001": [started(), action(observation=lost)],
                "trial/t__00000002": ran(trial="t__00000002", slot=slot(attempt=2)),
            },
        )
        reading = await anyio.to_thread.run_sync(trialog.open, tmp_path)
        with pytest.raises(BlobMissing) as raised:
            [trial async for trial in reading.trials()]
        with pytest.warns(UserWarning, match="t__00000001 is left out: blob sha256:0000"):
            (other,) = [trial async for trial in reading.trials(skip_unreadable=True)]

    assert ["trial t__00000001 can't be read"] == raised.value.__notes__
    assert "t__00000002" == other.name


# Tables


def test_columns_are_the_fields() -> None:
    """Each field of a struct that is no table of its own is a column, of the kind of its type."""
    for name, struct in zip(TABLES, (Trial, Step, Reward, Verdict), strict=True):
        fields = [field.name for field in msgspec.structs.fields(struct)]
        assert [one for one in fields if one not in TABLES] == [c.name for c in columns(name)]
    kinds = {column.name: column.kind for column in columns("trials")}
    assert ["text", "integer", "number", "truth", "time", "json", "json"] == [
        kinds[name]
        for name in ("outcome", "seed", "reward", "passed", "started_at", "scores", "answer")
    ]


async def test_a_table_has_every_value() -> None:
    """Rows are those of the structs, in pyarrow's table as in pandas' frame; nothing is lost."""
    from trialog.engine.reading.tables import arrow_table, frame

    trials = await golden_trials()
    for name in TABLES:
        rows = [row for trial in trials for row in rows_of(name, trial)]
        table, data = arrow_table(name, rows), frame(name, rows)
        assert len(rows) >= 3
        assert len(rows) == table.num_rows == len(data)
        assert list(data.columns) == table.column_names
        assert [str(t) for t in table.schema.types if "timestamp" in str(t)] == [
            "timestamp[us, tz=UTC]"
        ] * sum(column.kind == "time" for column in columns(name))
        for index, (column, kind) in enumerate(columns(name)):
            values = [row[index] for row in rows]
            if kind == "time":
                assert values == table[column].cast(pyarrow.int64()).to_pylist()
                assert [pandas.Timestamp(v, unit="us", tz="UTC") for v in values if v] == list(
                    data[column].dropna()
                )
            else:
                assert values == table[column].to_pylist()
                assert [value for value in values if value is not None] == list(
                    data[column].dropna()
                )


def test_tables_without_their_packages(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyarrow or pandas it is said how to get it; another table's name is refused."""
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.split(".")[0] in {"pyarrow", "pandas"}:
            raise ImportError(name)
        return real(name, *rest)

    trials = trialog.open(jobs).trials()
    wrong: Any = "tasks"
    with pytest.raises(ConfigError, match="no table 'tasks'; there are trials, steps"):
        trials.table(wrong)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match="pip install 'pyarrow>="):
        trials.table()
    with pytest.raises(ConfigError, match="pip install pandas"):
        trials.frame()


# What is written about it


@pytest.mark.parametrize("thing", [trialog.open, opened.Log.jobs, opened.Log.trial,
                                   opened.Trials.table, opened.Trials.frame])  # fmt: skip
def test_the_docstrings_examples(jobs: Path, thing: Callable[..., Any]) -> None:
    """Each example runs, and gives what it says."""
    (test,) = doctest.DocTestFinder(recurse=False).find(thing, "example", globs={})
    said: list[str] = []

    result = doctest.DocTestRunner(verbose=False).run(test, out=said.append)

    assert result.attempted
    assert not result.failed, "".join(said)


def test_the_pages_examples(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every block of the page runs, and the fields it lists are those of the structs."""
    text = PAGE.read_text("utf-8")
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)

    assert len(blocks) >= 3
    assert "scored True 1.0" in capsys.readouterr().out
    for struct in (Trial, Step, Reward, Verdict):
        (row,) = re.findall(rf"^\| `{struct.__name__}` \| (.*) \|$", text, re.M)
        listed = re.sub(r"\([^)]*\)", "", row)
        fields = [field.name for field in msgspec.structs.fields(struct)]
        assert sorted(fields) == sorted(re.findall(r"`(\w+)`", listed))


def test_a_script_that_stops_half_way_ends(jobs: Path) -> None:
    """An iteration that nobody finishes keeps no process alive."""
    code = (
        "import trialog\n"
        f"trials = iter(trialog.open({str(jobs)!r}).trials())\n"
        "print(next(trials).task)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert (0, "count\n", "") == (done.returncode, done.stdout, done.stderr)


def test_names() -> None:
    """`open` is the package's, and is not what a star import puts in the place of Python's own."""
    assert trialog.open is opened.open
    assert "open" in dir(trialog)
    assert "open" not in trialog.__all__
