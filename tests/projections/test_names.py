"""Names, packed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trialog.projections.names import Names


@given(st.lists(st.text(max_size=3)), st.text(max_size=3))
def test_names_are_as_in_a_dictionary(added: list[str], other: str) -> None:
    """Each is there once, in order, and numbered; another one is not."""
    expected = {name: number for number, name in enumerate(dict.fromkeys(added))}

    names = Names()
    assert [expected[name] for name in added] == [names.add(name) for name in added]

    assert (list(expected), len(expected)) == (list(names), len(names))
    assert expected == {name: names.number(name) for name in names}
    assert expected.get(other) == names.number(other)
    assert (other in expected) == (other in names)
    assert 0 not in names


def test_many_names() -> None:
    """None is lost as they become more; those added meanwhile are not part of an iteration."""
    names = Names()
    for number in range(10_000):
        assert number == names.add(f"trial__{number:08x}")
    iteration = iter(names)
    names.add("late")
    assert [f"trial__{number:08x}" for number in range(10_000)] == list(iteration)
    assert all(number == names.number(name) for number, name in enumerate(names))


def test_a_name_that_is_no_unicode() -> None:
    """A name that came from the command line may be any bytes, and is found or not."""
    names = Names()
    assert "\udcff" not in names
    names.add("\udcff")
    assert ["\udcff"] == list(names)
