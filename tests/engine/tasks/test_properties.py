"""Whatever a settings file holds, it is read or refused with a TaskError."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trialog.engine.errors import TaskError
from trialog.engine.tasks.check import advise
from trialog.engine.tasks.load import load_task
from trialog.engine.tasks.model import TaskSettings, TaskWarning
from trialog.engine.tasks.raw import raw_settings
from trialog.engine.tasks.settings import parse_settings

KEYS = st.sampled_from(
    "agent verifier sandbox environment oracle solution artifacts verifiers metadata steps scenes "
    "agents benchflow user image timeout_sec idle_timeout_sec env reward_range sandbox_mode type "
    "aggregate keep_processes docker_image cpus memory memory_mb storage allow_internet workdir "
    "network_mode gpus os mcp_servers source destination service roles environment_mode".split()
) | st.text(max_size=5)

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["4G", "public", "linux", "shared", "/app", "yes", "${A:-b}", "test-script"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=6)


def refused(call: Callable[[], object]) -> str | None:
    """What the TaskError of a call says, if it raises one; anything else fails the test."""
    try:
        call()
    except TaskError as error:
        return str(error)
    return None


def parse(values: dict[str, Any]) -> TaskSettings | None:
    """Settings from values, or None for a TaskError."""
    found: list[TaskSettings] = []
    warnings: list[TaskWarning] = []
    said = refused(
        lambda: found.append(
            parse_settings(values, file=Path("task.md"), task="t", warnings=warnings)
        )
    )
    assert said is None or said.startswith("task.md: ")
    return found[0] if found else None


@settings(max_examples=500)
@given(TABLES)
def test_any_table_is_read_or_refused(table):
    """No combination of keys and types makes it fail in another way."""
    parse(table)


@given(TABLES)
def test_any_yaml_that_can_be_written_is_read_or_refused(table):
    """The same by way of text; what is read can be written down as JSON again."""
    text = f"---\n{yaml.safe_dump(table)}\n---\nX"
    try:
        values = raw_settings(text, Path("task.md"))
    except TaskError:
        return
    found = parse(values)
    if found is not None:
        assert msgspec.json.decode(msgspec.json.encode(found), type=TaskSettings) == found


@settings(max_examples=300)
@given(st.text() | st.text("---\n:[]{}&*!|>'\"%@` ab0~#?,\t<"))
def test_any_text_is_yaml_or_a_task_error(text):
    """Front matter of any characters."""
    said = refused(lambda: raw_settings(f"---\n{text}\n---\nX", Path("task.md")))
    assert said is None or said.startswith("task.md: ")


@settings(max_examples=300)
@given(st.text() | st.text("[]=.\"'ab01_-\n#{},:TZe+"))
def test_any_text_is_toml_or_a_task_error(text):
    """A task.toml of any characters."""
    said = refused(lambda: raw_settings(text, Path("task.toml")))
    assert said is None or said.startswith("task.toml: ")


@settings(max_examples=60)
@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_in_the_files_are_read_or_refused(document, test, dockerfile):
    """A whole folder of wild bytes; when it loads, it can be advised on as well."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "task"
        for name in ("verifier", "environment"):
            (folder / name).mkdir(parents=True)
        (folder / "task.md").write_bytes(document)
        (folder / "verifier" / "test.sh").write_bytes(test)
        (folder / "environment" / "Dockerfile").write_bytes(dockerfile)
        said = refused(lambda: advise(load_task(folder)))
        assert said is None or str(folder) in said
