"""The reward table, a row a case."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from trialog.engine.sandbox.protocol import Exit
from trialog.engine.tasks.model import VerifierSettings
from trialog.engine.verifier.files import FileRead, RewardFiles
from trialog.engine.verifier.reward import RewardVerdict, judge_reward

Written = str | bytes | None


def file(name: str, written: Written) -> FileRead | None:
    """A file that was written, or none."""
    if written is None:
        return None
    return FileRead(name=name, data=written.encode() if isinstance(written, str) else written)


def judge(
    text: Written = None,
    json: Written = None,
    *,
    code: int = 0,
    range: tuple[float, float] = (0.0, 1.0),
    aggregate: str | None = None,
    missing_reward: Literal["zero", "error"] = "zero",
) -> RewardVerdict:
    """The verdict over what was written."""
    return judge_reward(
        RewardFiles(text=file("reward.txt", text), json=file("reward.json", json)),
        Exit(ended_by="exit", code=code, duration=1.0),
        VerifierSettings(reward_low=range[0], reward_high=range[1], aggregate=aggregate),
        missing_reward=missing_reward,
    )


def codes(verdict: RewardVerdict) -> list[str]:
    """The codes of a verdict's warnings."""
    return [warning.code for warning in verdict.warnings]


def messages(verdict: RewardVerdict) -> list[str]:
    """The messages of a verdict's warnings."""
    return [warning.message for warning in verdict.warnings]


def is_engines_zero(verdict: RewardVerdict) -> bool:
    """Whether the engine gave a 0, said so, and claimed nothing else."""
    return (
        (verdict.score, verdict.source, verdict.valid, verdict.scores) == (0.0, "engine", False, {})
        and any(m.startswith("Verifier scored 0: ") for m in messages(verdict))
        and verdict.rewards == (None if verdict.missing else {"reward": 0.0})
    )


# A reward was written


@pytest.mark.parametrize("code", [0, 1, 137])
@pytest.mark.parametrize("reward", [0.0, 0.25, 1.0])
def test_a_reward_counts_whatever_the_exit_code(code: int, reward: float) -> None:
    """What was written is the verifier's own score; the exit code changes nothing."""
    verdict = judge(f"{reward}\n", code=code)
    assert (verdict.score, verdict.rewards) == (reward, {"reward": reward})
    assert (verdict.source, verdict.valid, verdict.warnings) == ("verifier", True, [])


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        (b"\xef\xbb\xbf1.0\n", 1.0),
        (b"1.0\r\n", 1.0),
        (b"\n 0.5 \n\n", 0.5),
        (b"\xef\xbb\xbf\r\n\t.5\x0b\x0c", 0.5),
        (b"+1", 1.0),
        (b"1.", 1.0),
        (b"-0", 0.0),
        (b"-0.0e9", 0.0),
        (b"1e-400", 0.0),
        (b"1", 1.0),
    ],
)
def test_marks_and_blanks_around_a_number(text: bytes, reward: float) -> None:
    """A byte-order mark, CRLF and blanks around the number are accepted."""
    verdict = judge(text)
    assert (repr(verdict.score), verdict.source) == (repr(reward), "verifier")


# Nothing was written


@pytest.mark.parametrize("code", [0, 1, 137])
def test_nothing_written(code: int) -> None:
    """No reward file: 0, with the exit code and the place in the warning."""
    verdict = judge(code=code)
    assert is_engines_zero(verdict)
    assert verdict.warnings == [
        (
            "reward_missing",
            f"Verifier scored 0: verifier exited with rc={code}; "
            "no reward file found at /logs/verifier/reward.txt",
        )
    ]


@pytest.mark.parametrize("text", [None, "1"])
def test_timed_out(text: str | None) -> None:
    """Past its deadline: 0 with the deadline in the warning, whatever had been written."""
    verdict = judge_reward(
        RewardFiles(text=file("reward.txt", text)),
        Exit(ended_by="timeout", code=None, duration=10.2),
        VerifierSettings(timeout_sec=10.0),
    )
    assert is_engines_zero(verdict)
    assert verdict.warnings == [
        ("verifier_timeout", "Verifier scored 0: verifier timed out after 10.0s")
    ]


def test_timed_out_names_the_deadline_in_force() -> None:
    """With a multiplier, the warning names the deadline that was really kept."""
    verdict = judge_reward(
        RewardFiles(),
        Exit(ended_by="timeout", code=None, duration=25.0),
        VerifierSettings(timeout_sec=10.0),
        timeout=25.0,
    )
    assert messages(verdict) == ["Verifier scored 0: verifier timed out after 25.0s"]


# Not a number


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"", "''"),
        (b"   \n", "''"),
        (b"pass", "'pass'"),
        (b"nan", "'nan'"),
        (b"NaN", "'NaN'"),
        (b"inf", "'inf'"),
        (b"-Infinity", "'-Infinity'"),
        (b"True", "'True'"),
        (b"true", "'true'"),
        (b"1.0\n0.0\n", r"'1.0\n0.0'"),
        (b"1.0 ok", "'1.0 ok'"),
        (b"1,0", "'1,0'"),
        (b"1_0", "'1_0'"),
        (b"0x1", "'0x1'"),
        (b"01", "'01'"),
        ("१".encode(), "'१'"),
        (b"\xef\xbb\xbf\xef\xbb\xbf1", r"'\ufeff1'"),
        (b"1\x00", r"'1\x00'"),
        (b"\xff\xfe1\x00", r"b'\xff\xfe1\x00'"),
        (b"\xe2\x82", r"b'\xe2\x82'"),
        ("1\u00a0".encode(), r"'1\xa0'"),
    ],
)
def test_text_that_is_no_number(text: bytes, shown: str) -> None:
    """Anything but one number is a 0 of the engine's, and the warning shows what was there."""
    verdict = judge(text)
    assert is_engines_zero(verdict)
    assert verdict.warnings == [
        (
            "reward_not_a_number",
            f"Verifier scored 0: reward in reward.txt is {shown}, which is not a number",
        )
    ]


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1" + "0" * 400])
def test_overflow(text: str) -> None:
    """A number that overflows is not finite, in either file and for every key."""
    shown = text if len(text) <= 80 else text[:80] + "…"
    for place, verdict in (
        ("reward in reward.txt", judge(text)),
        ("reward in reward.json", judge(json=f'{{"reward": {text}}}')),
        ("a in reward.json", judge(json=f'{{"reward": 1, "a": {text}}}')),
        ("a in reward.json", judge("1", f'{{"a": {text}}}')),
    ):
        assert is_engines_zero(verdict)
        assert codes(verdict) == ["reward_not_a_number"]
        assert messages(verdict)[0].startswith(
            f"Verifier scored 0: {place} is {shown}, which is not finite"
        )


@pytest.mark.parametrize(
    ("json", "reason"),
    [
        ('{"reward": NaN}', "reward in reward.json is NaN, which is not a finite number"),
        ('{"reward": Infinity}', "reward in reward.json is Infinity, which is not a finite number"),
        ('{"reward": true}', "reward in reward.json is true, which is not a number"),
        ('{"reward": "1"}', 'reward in reward.json is "1", which is not a number'),
        ('{"reward": null}', "reward in reward.json is null, which is not a number"),
        ('{"reward": {"a": 1}}', 'reward in reward.json is {"a": 1}, which is not a number'),
        ('{"reward": [1]}', "reward in reward.json is [1], which is not a number"),
        ("[1]", "reward.json is not a JSON object but a list"),
        ("1", "reward.json is not a JSON object but the number 1"),
        ('{"reward": 0, "reward": 1}', "reward.json has the key 'reward' twice"),
        ('{"reward": 1, "d": {"a": 1, "a": 2}}', "reward.json has the key 'a' twice"),
        ('{"acc": NaN, "reward": 1}', "acc in reward.json is NaN, which is not a finite number"),
        ("", "reward.json is not JSON: Expecting value (line 1, column 1)"),
        ('{"reward": 1', "reward.json is not JSON: Expecting ',' delimiter (line 1, column 13)"),
    ],
)  # fmt: skip
def test_json_that_can_not_be_used(json: str, reason: str) -> None:
    """A JSON file without a finite number as its reward is a 0 of the engine's that says why."""
    verdict = judge(json=json)
    assert is_engines_zero(verdict)
    assert verdict.warnings == [("reward_not_a_number", f"Verifier scored 0: {reason}")]


# Out of range


@pytest.mark.parametrize(
    ("text", "range"),
    [
        ("1.5", (0.0, 1.0)),
        ("-0.5", (0.0, 1.0)),
        ("1e5", (0.0, 1.0)),
        ("1.0000000000000002", (0.0, 1.0)),
        ("-5e-324", (0.0, 1.0)),
        ("-1.5", (-1.0, 1.0)),
        ("100.5", (-1.0, 100.0)),
    ],
)
def test_out_of_range(text: str, range: tuple[float, float]) -> None:
    """A reward outside the task's range is a 0 that names key, value and range."""
    for name, verdict in (
        ("reward.txt", judge(text, range=range)),
        ("reward.json", judge(json=f'{{"reward": {text}}}', range=range)),
    ):
        assert is_engines_zero(verdict)
        assert verdict.warnings == [
            (
                "reward_out_of_range",
                f"Verifier scored 0: reward in {name} is {text}, "
                f"outside the range {range[0]} to {range[1]}",
            )
        ]


@pytest.mark.parametrize("text", ["-1", "0", "1", "2", "-1.0", "2.0"])
def test_ends_of_the_range_are_in_it(text: str) -> None:
    """A widened range holds its ends and what is between."""
    verdict = judge(text, range=(-1.0, 2.0))
    assert (verdict.score, verdict.source) == (float(text), "verifier")


@pytest.mark.parametrize("text", [None, "1"])
def test_sub_score_out_of_range_scores_the_trial_0(text: str | None) -> None:
    """One number out of range scores the trial 0, beside a good reward of either file too."""
    verdict = judge(text, '{"reward": 1, "precision": 0.8, "seed": 3}')
    assert is_engines_zero(verdict)
    assert verdict.warnings == [
        (
            "reward_out_of_range",
            "Verifier scored 0: seed in reward.json is 3, outside the range 0.0 to 1.0",
        )
    ]


def test_many_numbers_out_of_range() -> None:
    """Ten are named, the others counted."""
    verdict = judge(
        json="{{{}}}".format(",".join(f'"k{i}": {i + 2}' for i in range(25))), aggregate="mean"
    )
    assert is_engines_zero(verdict)
    out = [m for m in messages(verdict) if "outside the range" in m]
    assert len(out) == 11
    assert out[-1] == (
        "Verifier scored 0: 15 more numbers in reward.json are outside the range 0.0 to 1.0"
    )


# Scores and details


def test_other_numbers_are_scores() -> None:
    """`reward` comes first; every other number is a score, in the file's order."""
    verdict = judge(json='{"b": 0.5, "reward": 0.25, "a": 1}')
    assert verdict.score == 0.25
    assert list(verdict.scores.items()) == [("b", 0.5), ("a", 1.0)]
    assert list((verdict.rewards or {}).items()) == [("reward", 0.25), ("b", 0.5), ("a", 1.0)]
    assert verdict.warnings == []


def test_entries_that_are_no_numbers_are_details() -> None:
    """Texts, lists, objects, booleans and nulls beside the reward are kept and named."""
    verdict = judge(json='{"reward": 1, "t": "x", "l": [1], "o": {"a": 2}, "b": true, "n": null}')
    assert (verdict.score, verdict.scores) == (1.0, {})
    assert verdict.details == {"t": "x", "l": [1], "o": {"a": 2}, "b": True, "n": None}
    assert verdict.warnings == [
        (
            "reward_details",
            "not scored, because they are no numbers: t, l, o, b, n in reward.json",
        )
    ]


def test_many_details_are_counted() -> None:
    """The warning names ten of them and counts the others."""
    entries = ",".join(f'"k{i}": "x"' for i in range(12))
    verdict = judge(json=f'{{"reward": 1, {entries}}}')
    assert messages(verdict) == [
        "not scored, because they are no numbers: "
        "k0, k1, k2, k3, k4, k5, k6, k7, k8, k9 and 2 more in reward.json"
    ]


def test_details_stay_when_the_engine_gives_0() -> None:
    """Details are kept beside a 0 too."""
    verdict = judge(json='{"reward": 2, "note": "x"}')
    assert is_engines_zero(verdict)
    assert verdict.details == {"note": "x"}


# reward.json without reward


def test_no_reward_in_the_json() -> None:
    """Without `reward`, and without an aggregate, nothing usable was written."""
    verdict = judge(json='{"accuracy": 0.5, "note": "x"}')
    assert is_engines_zero(verdict)
    assert verdict.warnings[0] == (
        "reward_missing",
        "Verifier scored 0: reward.json has no reward (its keys are accuracy, note), "
        "and there is no reward.txt",
    )


def test_empty_json_object() -> None:
    """An empty object holds no reward."""
    verdict = judge(json="{}")
    assert is_engines_zero(verdict)
    assert "reward.json has no reward (it is empty)" in messages(verdict)[0]


@pytest.mark.parametrize(
    ("aggregate", "reward"), [("mean", 0.75), ("min", 0.5), ("a", 0.5), ("b", 1.0)]
)
def test_aggregate(aggregate: str, reward: float) -> None:
    """A declared aggregate makes the reward from the numbers, and the warning says so."""
    verdict = judge(json='{"a": 0.5, "b": 1}', aggregate=aggregate)
    assert (verdict.score, verdict.source) == (reward, "verifier")
    assert verdict.scores == {"a": 0.5, "b": 1.0}
    count = 2 if aggregate in ("mean", "min") else 1
    assert verdict.warnings == [
        (
            "reward_aggregated",
            f"reward.json has no reward; verifier.aggregate ({aggregate}) gives {reward} "
            f"from {count} of its numbers",
        )
    ]


def test_aggregate_only_without_a_reward() -> None:
    """A reward that was written holds, in either file, whatever the aggregate."""
    assert judge(json='{"reward": 0.25, "a": 1}', aggregate="mean").score == 0.25
    assert judge("0.25", '{"a": 1}', aggregate="mean").score == 0.25
    assert judge(aggregate="mean").source == "engine"


@pytest.mark.parametrize(
    ("json", "aggregate"),
    [('{"a": 0.5}', "b"), ('{"b": "x"}', "b"), ("{}", "mean"), ('{"a": "x"}', "min")],
)
def test_aggregate_of_nothing(json: str, aggregate: str) -> None:
    """An aggregate without its numbers leaves nothing usable."""
    verdict = judge(json=json, aggregate=aggregate)
    assert is_engines_zero(verdict)
    assert verdict.warnings[0].code == "reward_missing"
    assert aggregate in verdict.warnings[0].message


def test_aggregate_out_of_range() -> None:
    """A number out of range scores 0, though the mean would be within."""
    verdict = judge(json='{"a": 2, "b": 0}', aggregate="mean")
    assert is_engines_zero(verdict)
    assert "reward_out_of_range" in codes(verdict)


@pytest.mark.parametrize("aggregate", ["mean", "min", "a"])
def test_aggregate_of_what_is_not_finite(aggregate: str) -> None:
    """An overflow among the numbers scores 0."""
    verdict = judge(json='{"a": 1e400, "b": 1}', aggregate=aggregate)
    assert is_engines_zero(verdict)
    assert "reward_not_a_number" in codes(verdict)


def test_mean_stays_within_its_numbers() -> None:
    """Rounding never carries a mean past the largest number."""
    assert (
        judge(json='{"a": 1.3, "b": 1.3, "c": 1.3}', aggregate="mean", range=(0, 1.3)).score == 1.3
    )
    huge = judge(json='{"a": 1.7e308, "b": 1.7e308}', aggregate="mean", range=(0, 1.7e308))
    assert huge.score == 1.7e308


# Both files


def test_both_agree() -> None:
    """Equal rewards: no conflict; the other numbers are scores."""
    verdict = judge("1", '{"reward": 1.0, "p": 0.5}')
    assert (verdict.score, verdict.scores, verdict.warnings) == (1.0, {"p": 0.5}, [])


@pytest.mark.parametrize(("text", "other"), [("0", "1"), ("1", "0"), ("0.5", "0.25")])
def test_conflict(text: str, other: str) -> None:
    """Different rewards: reward.txt decides, and the warning has both values."""
    verdict = judge(text, f'{{"reward": {other}, "p": 0.5}}')
    assert (verdict.score, verdict.source) == (float(text), "verifier")
    assert verdict.scores == {"p": 0.5}
    assert verdict.warnings == [
        (
            "reward_conflict",
            f"reward.txt says {text} and reward.json says {other}; reward.txt decides",
        )
    ]


def test_json_without_reward_beside_a_text() -> None:
    """The JSON needs no reward of its own beside reward.txt."""
    verdict = judge("0.5", '{"p": 1}')
    assert (verdict.score, verdict.scores, verdict.warnings) == (0.5, {"p": 1.0}, [])


@pytest.mark.parametrize("text", ["pass", "", "nan", "1e400"])
def test_unusable_text_beside_a_good_json(text: str) -> None:
    """reward.txt decides alone: unusable means 0."""
    verdict = judge(text, '{"reward": 1, "p": 0.5}')
    assert is_engines_zero(verdict)
    assert codes(verdict) == ["reward_not_a_number"]


@pytest.mark.parametrize(
    "json",
    [
        "",
        "{",
        "[1]",
        '{"reward": 1, "reward": 1}',
        '{"reward": "1", "p": 0.5}',
        '{"p": NaN}',
        "\ufeff",
    ],
)
def test_bad_json_beside_a_good_text(json: str) -> None:
    """A bad JSON loses its scores with a warning; the reward stands."""
    verdict = judge("1", json)
    assert (verdict.score, verdict.scores, verdict.source) == (1.0, {}, "verifier")
    assert codes(verdict) == ["reward_scores_lost"]
    assert messages(verdict)[0].startswith("the scores in reward.json are not used: ")


@pytest.mark.parametrize("json", ['{"reward": 2}', '{"reward": "1", "p": 5}', '{"p": -1}'])
def test_number_out_of_range_beside_a_good_text(json: str) -> None:
    """An out-of-range number still scores 0, in a JSON that is bad otherwise too."""
    verdict = judge("1", json)
    assert is_engines_zero(verdict)
    assert "reward_out_of_range" in codes(verdict)


# Files that are not read


@pytest.mark.parametrize("other", [None, '{"reward": 1}'])
def test_text_that_was_not_read(other: str | None) -> None:
    """A reward.txt that is no plain small file is as if nothing usable was written."""
    verdict = judge_reward(
        RewardFiles(
            text=FileRead(name="reward.txt", reason="is a symbolic link, not a regular file"),
            json=file("reward.json", other),
        ),
        Exit(ended_by="exit", code=0, duration=1.0),
        VerifierSettings(),
    )
    assert is_engines_zero(verdict)
    assert verdict.warnings == [
        (
            "reward_unusable",
            "Verifier scored 0: reward.txt is a symbolic link, not a regular file",
        )
    ]


def test_json_that_was_not_read() -> None:
    """A reward.json that is no plain small file: 0 alone, lost scores beside a good reward.txt."""
    bad = FileRead(name="reward.json", reason="is over 1 MiB")
    done = Exit(ended_by="exit", code=0, duration=1.0)
    alone = judge_reward(RewardFiles(json=bad), done, VerifierSettings())
    assert is_engines_zero(alone)
    assert alone.warnings == [("reward_unusable", "Verifier scored 0: reward.json is over 1 MiB")]
    beside = judge_reward(
        RewardFiles(text=file("reward.txt", "1"), json=bad), done, VerifierSettings()
    )
    assert (beside.score, codes(beside)) == (1.0, ["reward_scores_lost"])


# --missing-reward error


@pytest.mark.parametrize(
    "written",
    [
        {},
        {"text": ""},
        {"text": "pass"},
        {"text": "1e400"},
        {"json": '{"p": 1}'},
        {"json": '{"reward": true}'},
        {"json": '{"reward": 1e400}'},
        {"json": "{"},
        {"text": "pass", "json": '{"reward": 1}'},
    ],
)
def test_missing_reward_is_an_error(written: dict[str, Any]) -> None:
    """With the switch, nothing usable has no rewards at all, and a 0 stands for it."""
    as_zero = judge(**written)
    assert is_engines_zero(as_zero)
    assert as_zero.rewards == {"reward": 0.0}
    verdict = judge(**written, missing_reward="error")
    assert (verdict.missing, verdict.rewards, verdict.score) == (True, None, 0.0)
    assert (verdict.source, verdict.valid) == ("engine", False)
    assert verdict.warnings == as_zero.warnings


@pytest.mark.parametrize(
    "written", [{"text": "2"}, {"json": '{"reward": -1}'}, {"text": "1", "json": '{"p": 5}'}]
)
def test_out_of_range_is_written_all_the_same(written: dict[str, Any]) -> None:
    """With the switch, a number out of range is still a 0 and no error."""
    verdict = judge(**written, missing_reward="error")
    assert not verdict.missing
    assert is_engines_zero(verdict)


def test_timeout_with_missing_reward_error() -> None:
    """With the switch, a script that was stopped has written nothing usable."""
    verdict = judge_reward(
        RewardFiles(text=file("reward.txt", "1")),
        Exit(ended_by="timeout", code=None, duration=1.0),
        VerifierSettings(),
        missing_reward="error",
    )
    assert (verdict.missing, verdict.rewards) == (True, None)
    assert codes(verdict) == ["verifier_timeout"]


def test_a_good_reward_is_never_missing() -> None:
    """With the switch, a usable reward counts as ever."""
    verdict = judge("0", missing_reward="error")
    assert (verdict.missing, verdict.rewards) == (False, {"reward": 0.0})
