"""Review rubrics: what is accepted, what is refused, and which file counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.errors import ConfigError
from trialog.engine.reviews.rubric import BUILT_IN, CAP, discover_rubric, load_rubric

GOOD = {"name": "sound", "description": "why", "guidance": "PASS when …"}


def rubric(folder: Path, value: Any, name: str = "rubric.json") -> Path:
    """A file with this JSON, or with this text as it stands."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_a_rubric_is_its_criteria_in_their_order(tmp_path: Path) -> None:
    """Three texts a criterion are taken as they stand, and the file is named."""
    path = rubric(tmp_path, {"criteria": [GOOD, GOOD | {"name": "other"}]})
    found = load_rubric(path)
    assert found.names == ["sound", "other"]
    assert found.path == path
    first = found.criteria[0]
    assert (first.name, first.description, first.guidance) == ("sound", "why", "PASS when …")


def test_the_built_in_rubric_is_one_that_a_file_could_hold(tmp_path: Path) -> None:
    """Its two criteria pass the validation that a user's must pass."""
    value = {
        "criteria": [
            {"name": c.name, "description": c.description, "guidance": c.guidance}
            for c in BUILT_IN.criteria
        ]
    }
    assert load_rubric(rubric(tmp_path, value)).criteria == BUILT_IN.criteria
    assert BUILT_IN.names == ["reward_hacking", "task_specification"]
    assert BUILT_IN.path is None


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ([GOOD], "found a list"),
        ("7", "the number 7"),
        ("null", "found nothing"),
        ({}, "criteria: expected a list with at least one criterion, found nothing"),
        ({"criteria": []}, "criteria: expected a list with at least one criterion, found an empty"),
        ({"criteria": {"name": "x"}}, "criteria: expected a list with at least one criterion"),
        ({"criteria": ["x"]}, "criteria[0]: expected an object, found the text 'x'"),
        ({"criteria": [GOOD], "version": "0.1"}, "version: a rubric has no such key"),
        ({"criterias": [GOOD]}, "do you mean 'criteria'?"),
        ({"criteria": [GOOD | {"weight": 1}]}, "criteria[0] ('sound').weight: a criterion has no"),
        (
            {"criteria": [GOOD | {"guidence": "x"}]},
            "criteria[0] ('sound').guidence: a criterion has no such key (do you mean 'guidance'?)",
        ),
        ({"criteria": [{"name": "a", "guidance": "b"}]}, "criteria[0] ('a').description: missing"),
        ({"criteria": [GOOD | {"name": 3}]}, "criteria[0].name: expected text, found the number 3"),
        ({"criteria": [GOOD | {"guidance": None}]}, "guidance: expected text, found nothing"),
        ({"criteria": [GOOD | {"guidance": " \n"}]}, "guidance: expected text, found an empty one"),
        ({"criteria": [GOOD | {"name": ""}]}, ".name: expected text, found an empty one"),
        ({"criteria": [GOOD, GOOD]}, "criteria[1] ('sound'): criteria[0] has this name already"),
        ({"criteria": [GOOD | {"guidance": "\ud800"}]}, "half of a surrogate pair"),
        ('{"criteria": [], "criteria": []}', "the key 'criteria' twice"),
        ('{"criteria": [NaN]}', "NaN is not JSON"),
        ("{", "not JSON: "),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_rubric_is_refused_with_criterion_and_key(
    tmp_path: Path, value: Any, named: str
) -> None:
    """A rubric that could give an empty or ambiguous review ends in an error that says where."""
    load_rubric(rubric(tmp_path, {"criteria": [GOOD]}))
    path = rubric(tmp_path, value)
    with pytest.raises(ConfigError) as caught:
        load_rubric(path)
    assert named in str(caught.value)
    assert str(path) in str(caught.value)


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    """Two criteria with a fault each are two faults in one message."""
    value = {"criteria": [{"name": "a"}, GOOD | {"weight": 1}]}
    with pytest.raises(ConfigError, match=r"guidance: missing.*weight"):
        load_rubric(rubric(tmp_path, value))


def test_bytes_that_are_no_rubric(tmp_path: Path) -> None:
    """What is no UTF-8, too large, a folder or not there is refused by its file's name."""
    path = tmp_path / "rubric.json"
    for make, named in (
        (lambda: path.write_bytes(b"\xff{}"), "not UTF-8"),
        (lambda: path.write_bytes(b" " * (CAP + 1)), "over"),
        (path.unlink, "not there"),
        (path.mkdir, "a folder"),
    ):
        make()
        with pytest.raises(ConfigError, match=named) as caught:
            load_rubric(path)
        assert str(path) in str(caught.value)


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["criteria", *GOOD, "id", "match_criteria"]), inner)
    ),
)


@given(JSON)
def test_no_json_makes_it_raise_anything_else(
    tmp_path_factory: pytest.TempPathFactory, value: Any
) -> None:
    """Whatever JSON a file holds, it is a rubric with full criteria or an error of the user's."""
    path = rubric(tmp_path_factory.mktemp("any"), value)
    try:
        found = load_rubric(path)
    except ConfigError:
        return
    assert found.criteria
    assert all(c.name and c.guidance for c in found.criteria)


@pytest.mark.parametrize("folder", ["verifier", "tests"])
def test_a_tasks_own_rubric_counts(tmp_path: Path, folder: str) -> None:
    """A review rubric in either name of the verifier's folder is found."""
    assert discover_rubric(tmp_path) is None
    path = rubric(tmp_path, {"criteria": [GOOD]}, f"{folder}/rubric.json")
    found = discover_rubric(tmp_path)
    assert found is not None
    assert found.path == path
    assert found.names == ["sound"]


def test_verifier_comes_before_tests(tmp_path: Path) -> None:
    """With a rubric in both folders the verifier's holds."""
    rubric(tmp_path, {"criteria": [GOOD]}, "verifier/rubric.json")
    rubric(tmp_path, {"criteria": [GOOD | {"name": "x"}]}, "tests/rubric.json")
    found = discover_rubric(tmp_path)
    assert found is not None
    assert found.names == ["sound"]


JUDGE = {"id": "a", "match_criteria": "b"}


@pytest.mark.parametrize(
    "value", [{"criteria": [JUDGE]}, {"criteria": [JUDGE | {"weight": 2}, JUDGE]}, [JUDGE]]
)
def test_a_judges_rubric_is_no_review_rubric(tmp_path: Path, value: Any) -> None:
    """A file of which every entry has id and match_criteria is somebody else's, and passed over."""
    rubric(tmp_path, value, "verifier/rubric.json")
    assert discover_rubric(tmp_path) is None


@pytest.mark.parametrize(
    "value",
    [
        {"criteria": [JUDGE, {"id": "a"}]},
        {"criteria": [JUDGE, GOOD]},
        {"criteria": [{"match_criteria": "b"}]},
        {"criteria": [{"id": "a", "match_criterion": "b"}]},
        {"criteria": []},
        {},
        [],
        "{",
        "",
        "7",
    ],
)
def test_discovery_fails_closed(tmp_path: Path, value: Any) -> None:
    """Anything else named rubric.json is claimed and refused, never passed over for another."""
    rubric(tmp_path, value, "verifier/rubric.json")
    rubric(tmp_path, {"criteria": [GOOD]}, "tests/rubric.json")
    with pytest.raises(ConfigError):
        discover_rubric(tmp_path)


def test_a_broken_link_is_no_missing_rubric(tmp_path: Path) -> None:
    """A rubric.json that leads nowhere is refused like one that can't be read."""
    (tmp_path / "verifier").mkdir()
    (tmp_path / "verifier/rubric.json").symlink_to("nowhere")
    with pytest.raises(ConfigError, match="not there"):
        discover_rubric(tmp_path)
