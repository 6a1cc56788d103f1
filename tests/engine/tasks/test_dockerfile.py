"""Build contexts, and Dockerfiles that only BuildKit can build."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialog.engine.errors import TaskError
from trialog.engine.tasks.dockerfile import base_images, copied_sources, in_context, needs_buildkit
from trialog.engine.tasks.load import load_task

Make = Callable[..., Path]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("FROM a\nRUN <<EOF\necho\nEOF\n", "line 2: RUN with a here-document (<<EOF)"),
        ("FROM a\nRUN cat <<-'E' > /x\n\ta\n\tE\n", "line 2: RUN with a here-document (<<E)"),
        ('FROM a\nCOPY <<"X" /x\na\nX\n', "line 2: COPY with a here-document (<<X)"),
        ("FROM a\nRUN python3 <<A && cat <<B\nA\nB\n", "line 2: RUN with a here-document (<<A)"),
        ("FROM a\nRUN --mount=type=cache,target=/r true\n", "line 2: RUN --mount"),
        ("FROM a\nRUN --network=none true\n", "line 2: RUN --network"),
        ("FROM a\nCOPY --chmod=755 a b\n", "line 2: COPY --chmod"),
        ("FROM a\nCOPY --from=x --link a b\n", "line 2: COPY --link"),
        ("FROM a\ncopy --parents a b\n", "line 2: COPY --parents"),
        ("FROM a\nADD --checksum=sha256:0 https://x y\n", "line 2: ADD --checksum"),
        ("FROM a\nRUN \\\n  --mount=type=secret,id=x \\\n  true\n", "line 2: RUN --mount"),
        ("# escape=`\nFROM a\nRUN `\n--mount=type=bind true\n", "line 3: RUN --mount"),
        ("# syntax=docker/dockerfile:1\nFROM a\nRUN true\n", None),
        ("FROM a\nCOPY --chown=1:1 --from=b a b\n", None),
        ("FROM a\nRUN echo $((1 <<2)) <<<x\n", None),
        ("FROM a\nRUN echo '<<EOF'\nEOF\n", None),
        ('FROM a\nRUN echo "--mount <<EOF"\n', None),
        ("FROM a\n# RUN <<EOF\n# EOF\nRUN true # <<EOF\n", None),
        ("FROM a\nRUN grep -- --mount x\n", None),
        ("FROM a\nRUN cat <<EOF\n", None),
        ("", None),
    ],
)
def test_what_needs_buildkit_is_told_with_its_line(text, reason):
    """Here-documents, mounts and flags of the newer builder; a syntax line alone is no need."""
    assert needs_buildkit(text) == reason


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("COPY a b /c/\nADD ./d /e", ["a", "b", "./d"]),
        ('COPY ["a b", "/c"]', ["a b"]),
        ("COPY --chown=1 --from=builder /x /y\nCOPY --chown=1 a /y", ["a"]),
        ("ADD https://x.org/y git@h:r.git f /z", ["f"]),
        ("COPY $DIR/a ${B} c /d", ["c"]),
        ("COPY a \\\n # comment\n b \\\n /c", ["a", "b"]),
        ("COPY <<EOF /x\nCOPY no /y\nEOF\nCOPY f /g", ["f"]),
        ("copy *.txt /x", ["*.txt"]),
        ("COPY [broken", []),
        ("COPY", []),
    ],
)
def test_sources_of_copy_and_add(text, sources):
    """What is taken from the build context, and nothing else."""
    assert copied_sources("FROM a\n" + text + "\n") == sources


def test_a_source_is_in_a_context_or_not(tmp_path: Path):
    """Leading slashes and dots mean the context itself; patterns match; no way leads out."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f.txt").touch()
    (tmp_path / "[x]").touch()
    for source in ("a", "./a/", "/a/f.txt", ".", "./", "/", "a/*.txt", "*", "[x]", "?"):
        assert in_context(source, tmp_path), source
    for source in ("b", "a/*.py", "../a", "a/../../x", "a\0b", "x" * 5000):
        assert not in_context(source, tmp_path), source


def test_base_images_are_those_that_are_not_stages_of_its_own():
    """Of FROM and COPY --from; names with variables and scratch are none."""
    text = (
        "ARG V=1\nFROM --platform=linux/amd64 a:1 AS one\nFROM one as Two\nFROM scratch\n"
        "FROM b:${V}\nFROM a:1\nCOPY --from=c/d@sha256:00 /x /x\nCOPY --from=two /x /x\n"
        "COPY --from=0 /x /x\nCOPY f /x\n"
    )
    assert base_images(text) == ["a:1", "c/d@sha256:00"]


def test_the_context_is_the_environment_folder(make: Make):
    """With all sources there, or nowhere, it is environment/, without a warning."""
    folder = make("b", {"environment/Dockerfile": "FROM a\nCOPY f nix /x/\n", "environment/f": ""})
    task = load_task(folder)
    assert (task.dockerfile, task.context) == (
        folder / "environment" / "Dockerfile",
        folder / "environment",
    )
    assert task.warnings == []
    (folder / "instruction.md").write_text("Other.")
    assert load_task(folder).environment_digest == task.environment_digest
    (folder / "environment" / "f").write_text("1")
    assert load_task(folder).environment_digest != task.environment_digest


def test_the_context_is_the_root_where_a_source_is_only_there(make: Make):
    """It is the task's root then, with a warning that names the source."""
    folder = make("b", {"environment/Dockerfile": "FROM a\nCOPY data/f /x\n", "data/f": ""})
    task = load_task(folder)
    assert task.context == folder
    assert task.environment_digest == task.digest
    (warning,) = task.warnings
    assert warning.code == "task_context_root"
    assert "'data/f'" in warning.message


@pytest.mark.parametrize("source", [".", "./", "*", "tests/", "./solution/solve.sh", "/tests"])
def test_a_root_context_never_puts_the_verifier_into_the_image(make: Make, source):
    """The agent could read it there, so such a task is refused by name."""
    text = f"FROM a\nCOPY data/f /x\nCOPY {source} /y\n"
    folder = make("b", {"environment/Dockerfile": text, "data/f": ""})
    with pytest.raises(TaskError, match=r"task task is refused: .*where the agent can read it"):
        load_task(folder)


def test_an_empty_dockerfile_is_refused(make: Make):
    """It builds nothing."""
    with pytest.raises(TaskError, match="Dockerfile is empty"):
        load_task(make("b", {"environment/Dockerfile": "\n"}))


def test_an_environment_without_dockerfile_is_no_context(make: Make):
    """Its files belong to no image."""
    task = load_task(make("b", {"environment/f": "x"}))
    assert task.dockerfile is task.context is None


@given(st.text("RUNCOPY <E-\\\n\"'#=`/ab[]$") | st.text())
def test_any_text_is_looked_through(text):
    """No Dockerfile makes it fail or hang, and what it is said to take stands in it."""
    assert needs_buildkit(text) != ""
    sources = copied_sources(text)
    assert all(source for source in sources)
    assert bool(sources) <= bool(re.search("COPY|ADD", text, re.IGNORECASE))
