"""The snapshot of a task: the same bytes for the same files, and the same task from it."""

import io
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trialog.engine.errors import TaskError
from trialog.engine.tasks.load import load_task
from trialog.engine.tasks.model import Task
from trialog.engine.tasks.snapshot import pack, unpack, verifier_files

Make = Callable[..., Path]


def back(task: Task, data: bytes, folder: Path) -> Task:
    """The task as it is unpacked with its own record."""
    return unpack(
        data,
        folder,
        name=task.name,
        path=task.path,
        digest=task.digest,
        environment_digest=task.environment_digest,
    )


def members(data: bytes) -> list[tarfile.TarInfo]:
    """What is in a snapshot."""
    with tarfile.open(fileobj=io.BytesIO(zstandard.decompress(data, 10**8))) as tar:
        return tar.getmembers()


def archive(*infos: tarfile.TarInfo) -> bytes:
    """A forged snapshot."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for info in infos:
            tar.addfile(info, io.BytesIO(b"x" * info.size))
    return zstandard.compress(file.getvalue())


@pytest.mark.parametrize("layout", ["a", "b"])
def test_a_task_comes_back_from_its_snapshot(make: Make, tmp_path: Path, layout):
    """Settings, prompt, verifier and solution are the same; the record's facts are taken over."""
    folder = make(
        layout,
        {
            "environment/Dockerfile": "FROM a\n",
            "notes": "not kept",
            f"{'verifier' if layout == 'a' else 'tests'}/data/naïve.bin": b"\0\xff",
            f"{'oracle' if layout == 'a' else 'solution'}/data/naïve \udcff.bin": b"\0\xfe",
        },
    )
    task = load_task(folder)
    again = back(task, pack(task), tmp_path / "out")
    expected = msgspec.structs.replace(
        task,
        settings_file=tmp_path / "out" / task.settings_file.name,
        verifier=tmp_path / "out" / task.verifier.name,
        solution=tmp_path / "out" / (task.solution or task.verifier).name,
        dockerfile=None,
        context=None,
    )
    assert again == expected
    assert verifier_files(task).keys() == {"test.sh", "data/naïve.bin"}
    assert (expected.solution / "data" / "naïve \udcff.bin").read_bytes() == b"\0\xfe"
    for path in verifier_files(task):
        assert (again.verifier / path).read_bytes() == (task.verifier / path).read_bytes()
    assert not (tmp_path / "out" / "notes").exists()
    assert not (tmp_path / "out" / "environment").exists()


@pytest.mark.parametrize("layout", ["a", "b"])
def test_a_verifiers_file_that_no_event_can_name(make: Make, layout):
    """A name that is not UTF-8 is refused, with the file: a job's start lists those files."""
    verifier = "verifier" if layout == "a" else "tests"
    folder = make(layout, {f"{verifier}/data/b\udcff.bin": b"\0"})
    with pytest.raises(TaskError, match=r"not UTF-8: .*/data/b\\xff\.bin.*rename it") as caught:
        load_task(folder)
    str(caught.value).encode()
    assert verifier in str(caught.value)


def test_modes_are_kept(make: Make, tmp_path: Path):
    """Bits for group and others, run bits, and those of folders."""
    folder = make("a", {"verifier/tool": "x", "verifier/d/f": "x"})
    modes = {"verifier/tool": 0o775, "verifier/test.sh": 0o664, "verifier/d": 0o750}
    for path, mode in modes.items():
        (folder / path).chmod(mode)
    task = load_task(folder)
    back(task, pack(task), tmp_path / "out")
    for path, mode in modes.items():
        assert stat.S_IMODE((tmp_path / "out" / path).stat().st_mode) == mode


def test_the_same_files_give_the_same_bytes(make: Make, tmp_path: Path):
    """Times, owners and the order on disk leave no trace."""
    first = pack(load_task(make("a", {"verifier/b": "1", "verifier/a": "2"}, name="one/task")))
    second = pack(load_task(make("a", {"verifier/a": "2", "verifier/b": "1"}, name="two/task")))
    assert first == second
    for member in members(first):
        assert (member.mtime, member.uid, member.gid, member.uname) == (0, 0, 0, "")


def test_links_are_replaced_by_what_they_lead_to(make: Make, tmp_path: Path):
    """A snapshot stands alone: the sibling's files are in it."""
    make("b", {"tests/lib/x": "shared"}, name="ds/one")
    two = make("b", name="ds/two")
    (two / "tests" / "lib").symlink_to("../../one/tests/lib")
    task = load_task(two)
    data = pack(task)
    assert not any(member.issym() or member.islnk() for member in members(data))
    again = back(task, data, tmp_path / "out")
    assert (again.verifier / "lib" / "x").read_text() == "shared"
    assert not (again.verifier / "lib").is_symlink()


def test_a_folder_that_changed_since_it_was_loaded_is_not_packed(make: Make):
    """The digest that is recorded is of what is in the snapshot."""
    folder = make("a")
    task = load_task(folder)
    (folder / "verifier" / "test.sh").write_text("exit 0\n")
    with pytest.raises(TaskError, match="changed while it was being read"):
        pack(task)


def test_a_snapshot_is_not_touched_by_later_changes(make: Make, tmp_path: Path):
    """Whatever happens to the folder, the task comes back as it was."""
    folder = make("a")
    task = load_task(folder)
    data, before = pack(task), (folder / "verifier" / "test.sh").read_text()
    (folder / "verifier" / "test.sh").write_text("exit 0\n")
    assert (back(task, data, tmp_path / "out").verifier / "test.sh").read_text() == before


def test_only_the_settings_that_hold_are_kept(make: Make, tmp_path: Path):
    """A task.toml beside a task.md is not read, and not kept."""
    task = load_task(make("a", {"task.toml": "x ="}))
    assert back(task, pack(task), tmp_path / "out").warnings == []


@pytest.mark.parametrize("path", ["../evil", "/tmp/evil-absolute", "a/../../evil"])
def test_a_path_that_leads_out_is_refused(make: Make, tmp_path: Path, path):
    """Nothing is written outside of the folder."""
    task = load_task(make("a"))
    info = tarfile.TarInfo(path)
    info.size = 1
    data = archive(info)
    assert members(data)[0].name == path
    with pytest.raises(TaskError, match="snapshot of task"):
        back(task, data, tmp_path / "out" / "in")
    assert not any(place.name.startswith("evil") for place in tmp_path.rglob("*"))
    assert not Path("/tmp/evil-absolute").exists()


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
def test_only_files_and_folders_come_out(make: Make, tmp_path: Path, kind):
    """A forged link or device is refused."""
    info = tarfile.TarInfo("x")
    info.type, info.linkname = kind, "/etc/passwd"
    with pytest.raises(TaskError, match="has a link or device: 'x'"):
        back(load_task(make("a")), archive(info), tmp_path / "out")
    assert not (tmp_path / "out" / "x").exists()


@pytest.mark.parametrize("data", [b"", b"nonsense", zstandard.compress(b"no tar" * 200)])
def test_what_is_no_snapshot_is_named(make: Make, tmp_path: Path, data):
    """Damaged bytes are an error of the task, not a crash."""
    with pytest.raises(TaskError, match="task"):
        back(load_task(make("a")), data, tmp_path / "out")


def test_a_snapshot_that_is_cut_off(make: Make, tmp_path: Path):
    """Is refused as well."""
    task = load_task(make("a"))
    data = pack(task)
    with pytest.raises(TaskError, match="task"):
        back(task, data[: len(data) // 2], tmp_path / "out")


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=8)
TREES = st.dictionaries(
    NAMES.filter(lambda name: name not in (".", "..", "test.sh", "__pycache__", ".git")),
    st.tuples(st.binary(max_size=50), st.sampled_from([0o600, 0o644, 0o755])),
    max_size=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TREES)
def test_any_files_come_back(make: Make, tmp_path_factory: pytest.TempPathFactory, tree):
    """Whatever the names, bytes and modes, the verifier is the same, and so is its digest."""
    folder = make("a")
    for name, (content, mode) in tree.items():
        (folder / "verifier" / name).write_bytes(content)
        (folder / "verifier" / name).chmod(mode)
    task = load_task(folder)
    again = back(task, pack(task), tmp_path_factory.mktemp("out"))
    assert load_task(again.verifier.parent).digest == task.digest
