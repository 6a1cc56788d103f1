"""The digest of a folder: exact, sensitive to what matters and to nothing else."""

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trialog.engine.errors import TaskError
from trialog.engine.tasks import digest as module
from trialog.engine.tasks.digest import digest, file_digests
from trialog.engine.tasks.files import Bounds, Entry, walk
from trialog.engine.tasks.load import load_task

Make = Callable[..., Path]

DOCS = Path(__file__).parents[3] / "docs" / "tasks.md"


def of(folder: Path) -> str:
    """The digest of a folder in which no link is followed."""
    return digest(walk(folder, Bounds(folder, None), lambda _: False))


def test_the_documented_vector(tmp_path: Path):
    """docs/tasks.md has the files, the bytes that are hashed, and the digest; all three agree."""
    text = DOCS.read_text()
    hashed = re.search(r"```text\n(00 00[0-9a-f\s]+)```", text)
    expected = re.search(r"`(sha256:[0-9a-f]{64})`", text)
    assert hashed is not None
    assert expected is not None
    data = bytes.fromhex(hashed[1])
    assert f"sha256:{hashlib.sha256(data).hexdigest()}" == expected[1]
    (tmp_path / "task.toml").write_text("")
    (tmp_path / "instruction.md").write_text("Hi\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test.sh").write_text("true\n")
    (tmp_path / "tests" / "test.sh").chmod(0o755)
    (tmp_path / "x").symlink_to("tests")
    for name in (".git", "__pycache__", "tests/.pytest_cache"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text("left out")
    assert of(tmp_path) == expected[1]


def test_a_tasks_digest_counts_every_file(make: Make):
    """Whatever file of the folder changes, is added or removed, the digest changes."""
    folder = make("a", {"notes.txt": "1", "environment/x": ""})
    seen = {load_task(folder).digest}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            path.write_text(path.read_text() + "\n# more\n")
            seen.add(load_task(folder).digest)
    assert len(seen) == 6
    (folder / "notes.txt").unlink()
    assert load_task(folder).digest not in seen


def test_the_executable_bit_counts_and_other_bits_do_not(make: Make):
    """A clone with another umask is the same task."""
    folder = make("a")
    script = folder / "verifier" / "test.sh"
    script.chmod(0o644)
    before = load_task(folder).digest
    script.chmod(0o664)
    (folder / "verifier").chmod(0o700)
    assert load_task(folder).digest == before
    script.chmod(0o744)
    assert load_task(folder).digest != before


def test_what_is_left_out_does_not_count(make: Make):
    """Caches and repositories, at any depth; nor do empty folders and times."""
    folder = make("a")
    before = load_task(folder).digest
    for place in ("", "verifier/", "oracle/deep/"):
        for name in ("__pycache__", ".git", ".pytest_cache"):
            (folder / place / name).mkdir(parents=True)
            (folder / place / name / "f").write_text("x")
            os.mkfifo(folder / place / name / "fifo")
    (folder / "empty").mkdir()
    os.utime(folder / "task.md", (1, 1))
    assert load_task(folder).digest == before


def test_a_shared_part_counts_as_if_it_were_copied(make: Make, tmp_path: Path):
    """A followed link has the digest of what it leads to."""
    one, two = make("b", name="ds/one"), make("b", name="ds/two")
    before = load_task(two).digest
    assert before == load_task(one).digest
    (two / "tests" / "test.sh").unlink()
    (two / "tests" / "test.sh").symlink_to("../../one/tests/test.sh")
    assert load_task(two).digest == before


def test_files_of_the_verifier_have_digests_of_their_own(make: Make):
    """By path, as hex."""
    folder = make("a", {"verifier/a/b.txt": "x"})
    entries = walk(folder / "verifier", Bounds(folder, None), lambda _: True)
    assert file_digests(entries)["a/b.txt"] == hashlib.sha256(b"x").hexdigest()


def test_a_file_that_changes_while_it_is_read_is_noticed(make: Make, monkeypatch):
    """The length that was hashed is the length that was read."""
    folder = make("a")
    monkeypatch.setattr(module, "chunks", lambda place: iter([b"more than there was, surely" * 99]))
    with pytest.raises(TaskError, match="changed while it was being read"):
        of(folder)


FILES = st.dictionaries(
    st.lists(st.text("ab.", min_size=1, max_size=3), min_size=1, max_size=3)
    .map("/".join)
    .filter(lambda path: not any(part in (".", "..") for part in path.split("/"))),
    st.tuples(st.binary(max_size=20), st.booleans()),
    max_size=5,
)


def entries(root: Path, files: dict[str, tuple[bytes, bool]]) -> list[Entry]:
    """Entries of files that lie flat, so that any names may be together."""
    found: list[Entry] = []
    for number, (path, (data, executable)) in enumerate(files.items()):
        place = root / str(number)
        place.write_bytes(data)
        found.append(Entry(path, "file", place, 0o755 if executable else 0o644))
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES, st.randoms())
def test_order_does_not_count(tmp_path: Path, files, random):
    """However the file system lists them, the digest is the same."""
    found = entries(tmp_path, files)
    before = digest(found)
    random.shuffle(found)
    assert digest(found) == before


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES, FILES)
def test_different_files_have_different_digests(tmp_path: Path, one, other):
    """Nothing runs into anything else: paths, bits and bytes are told apart."""
    assert (digest(entries(tmp_path, one)) == digest(entries(tmp_path, other))) == (one == other)
