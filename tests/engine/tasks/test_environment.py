"""References to variables in `env` settings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.tasks.environment import resolve_env

ENVIRON = {"TOKEN": "abc123", "EMPTY": "", "OTHER": "x"}


@pytest.mark.parametrize(
    ("value", "result", "secrets"),
    [
        ("plain", "plain", {}),
        ("${TOKEN}", "abc123", {"TOKEN": "abc123"}),
        ("${TOKEN:-default}", "abc123", {"TOKEN": "abc123"}),
        ("${UNSET:-default}", "default", {}),
        ("${UNSET:-}", "", {}),
        ("${EMPTY:-default}", "default", {}),
        ("${EMPTY}", "", {}),
        ("Bearer ${TOKEN}, ${OTHER}", "Bearer abc123, x", {"TOKEN": "abc123", "OTHER": "x"}),
        ("${UNSET:-a b:c-d}", "a b:c-d", {}),
        ("$TOKEN ${1} ${} $$ ${TOKEN", "$TOKEN ${1} ${} $$ ${TOKEN", {}),
        ("${TOKEN:=x}", "${TOKEN:=x}", {}),
    ],
)
def test_references_are_filled_in_and_secrets_known(value, result, secrets):
    """What came from the environment is a secret; a default never is."""
    resolved = resolve_env({"A": value}, ENVIRON)
    assert resolved.values == {"A": result}
    assert resolved.secrets == secrets
    assert resolved.warnings == []


def test_an_unset_variable_without_default_is_empty_with_a_warning():
    """It is no reason to stop, and the warning names both variables."""
    resolved = resolve_env({"A": "<${UNSET}>", "B": "b"}, ENVIRON)
    assert resolved.values == {"A": "<>", "B": "b"}
    (warning,) = resolved.warnings
    assert warning.code == "env_variable_unset"
    assert "env.A: UNSET is not set here" in warning.message


def test_a_value_is_not_filled_in_twice():
    """What a variable holds is taken as it is."""
    assert resolve_env({"A": "${X}"}, {"X": "${TOKEN}", "TOKEN": "t"}).values == {"A": "${TOKEN}"}


@given(
    st.dictionaries(st.text(), st.text("${}:-AB\n") | st.text()),
    st.dictionaries(st.text(), st.text()),
)
def test_any_text_is_resolved(mapping, environ):
    """No value makes it fail, every name stays, and text without references stays as it is."""
    resolved = resolve_env(mapping, environ)
    assert resolved.values.keys() == mapping.keys()
    for name, value in mapping.items():
        if "${" not in value:
            assert resolved.values[name] == value
