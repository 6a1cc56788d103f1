"""Task folders that are broken in every way: each says what, where, and what to do."""

import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from trialog.engine.errors import TaskError
from trialog.engine.tasks.load import load_task

Make = Callable[..., Path]


def refused(folder: Path, match: str, file: str | None = None) -> TaskError:
    """The error that loading gives; `file` is the path that it names, below the folder."""
    with pytest.raises(TaskError, match=match) as caught:
        load_task(folder)
    if file is not None:
        assert str(caught.value.file) == str(folder / file)
    return caught.value


def test_a_path_that_is_not_there_or_no_folder(make: Make, tmp_path: Path):
    """The path is named; the settings file in place of its folder gets a hint."""
    refused(tmp_path / "nix", "no such folder")
    folder = make("a")
    refused(folder / "task.md", f"give its folder, {folder}")
    refused(folder / "verifier" / "test.sh", "a task is a folder, and this is none")
    refused(tmp_path / "a\0b", "can't be looked at|no such folder")
    refused(tmp_path / ("x" * 300), "can't be looked at|no such folder")


def test_no_verifier(make: Make):
    """Without a test.sh nothing can be graded; both places are named."""
    refused(make("a", {"verifier/test.sh": None}), "neither verifier/test.sh nor tests/test.sh")
    refused(make("b", {"tests/test.sh": None}), "neither tests/test.sh nor verifier/test.sh")
    folder = make("b", {"tests/test.sh": None, "tests/test_outputs.py": "x"})
    refused(folder, "no test.sh", "tests")


def test_no_prompt(make: Make):
    """An empty prompt is none, wherever it should be."""
    refused(make("b", {"instruction.md": None}), "no prompt", "instruction.md")
    refused(make("b", {"instruction.md": " \n"}), "no prompt: the file is empty", "instruction.md")
    refused(
        make("a", {"task.md": "---\n---\n\n## prompt\n\n## role:x\nY\n"}), "no prompt", "task.md"
    )
    refused(make("a", {"task.md": ""}), "no prompt", "task.md")


def test_front_matter_that_does_not_end(make: Make):
    """A missing second line of dashes is said."""
    refused(make("a", {"task.md": "---\nagent: {}\n"}), "not ended by a line of three dashes")


def test_settings_that_are_no_table(make: Make):
    """A list or text in place of settings is an error that names the file."""
    refused(make("a", {"task.md": "---\n- a\n---\nX"}), "expected settings as a table", "task.md")


def test_task_md_without_front_matter_has_defaults(make: Make):
    """It is a task all the same, and a warning says that nothing is set."""
    task = load_task(make("a", {"task.md": "Do it.\n"}))
    assert [warning.code for warning in task.warnings] == ["task_no_front_matter"]


def test_an_empty_test_is_refused(make: Make):
    """It could never write a reward."""
    refused(make("a", {"verifier/test.sh": " \n\n"}), "test.sh is empty", "verifier/test.sh")


@pytest.mark.parametrize("name", ["verifier/test.sh", "oracle/solve.sh"])
@pytest.mark.parametrize(
    "text",
    [
        b"#!/bin/bash\r\necho\r\n",
        b"echo\r\n",
        b"#!/usr/bin/env -S bash -e\r\nx\r\n",
        b"#!/bin/sh\necho\r\nx\r\n",
    ],
)
def test_crlf_in_a_shell_script_is_refused_with_the_mend(make: Make, name, text):
    """The shell would take carriage returns for parts of its words; the mend is a command."""
    folder = make("a", {name: text})
    error = refused(folder, "CRLF line ends", name)
    mend = str(error).split("run: ")[1]
    assert os.system(mend) == 0
    load_task(folder)
    assert b"\r" not in (folder / name).read_bytes()


@pytest.mark.parametrize(
    "text",
    [
        b"#!/usr/bin/env python3\r\nprint()\r\n",
        b"#!/usr/bin/perl\r\n1;\r\n",
        b"#!/bin/bash\ncat > x <<E\nfor windows\r\nE\ntrue\ntrue\n",
    ],
)
def test_crlf_elsewhere_is_fine(make: Make, text):
    """Other interpreters take it, and so does a shell script of which a few lines have it."""
    task = load_task(make("a", {"verifier/test.sh": text}))
    assert (task.verifier / "test.sh").read_bytes() == text
    assert task.warnings == []


@pytest.mark.parametrize(
    "name", ["task.toml", "instruction.md", "tests/test.sh", "solution/solve.sh"]
)
def test_a_folder_where_a_file_is_expected(make: Make, name):
    """It is said which file it should be."""
    folder = make("b")
    (folder / name).unlink()
    (folder / name).mkdir()
    refused(folder, "must be a file, but this is a folder", name)


@pytest.mark.parametrize(
    ("layout", "name"), [("a", "verifier"), ("a", "oracle"), ("b", "environment")]
)
def test_a_file_where_a_folder_is_expected(make: Make, layout, name):
    """It is said which folder it should be."""
    folder = make(layout)
    shutil.rmtree(folder / name, ignore_errors=True)
    (folder / name).touch()
    refused(folder, "neither|must be a folder, but this is none")


@pytest.mark.parametrize("name", ["task.toml", "instruction.md", "tests/test.sh", "notes"])
def test_a_fifo_is_refused_and_never_opened(make: Make, name):
    """Opening one would wait for a writer without end."""
    folder = make("b")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    refused(folder, "FIFO")


def test_a_socket_is_refused(make: Make):
    """Only files, folders and links can be hashed and copied."""
    folder = make("a")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "s"))
        refused(folder, "socket", "s")


@pytest.mark.parametrize(
    ("layout", "name"), [("a", "task.md"), ("b", "task.toml"), ("b", "instruction.md")]
)
def test_text_that_is_not_utf8(make: Make, layout, name):
    """The offending byte and its place are named."""
    folder = make(layout, {name: b"ab\xffcd"})
    refused(folder, "not UTF-8: byte 0xff at offset 2", name)


def test_a_script_may_be_any_bytes(make: Make):
    """Scripts are for their interpreters, not for us."""
    script = b"#!/bin/bash\necho '\xff'\n"
    task = load_task(make("a", {"verifier/test.sh": script}))
    assert (task.verifier / "test.sh").read_bytes() == script
    assert task.warnings == []


def test_a_settings_file_without_end(make: Make):
    """Over 4 MiB it is no settings file."""
    refused(
        make("b", {"task.toml": b"#" * (4 * 1024 * 1024 + 1)}), "over 4194304 bytes", "task.toml"
    )


@contextmanager
def as_plain_user() -> Iterator[None]:
    """Root may read everything, so not as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    "name", ["task.toml", "instruction.md", "tests/test.sh", "notes", "tests", ""]
)
def test_what_cannot_be_read(make: Make, name):
    """A file or folder without permission is named."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        folder = Path(shutil.copytree(make("b", {"notes": "x"}), Path(place) / "task"))
        with as_plain_user():
            load_task(folder)
        (folder / name).chmod(0)
        with as_plain_user():
            error = refused(folder, "[Pp]ermission denied")
        (folder / name).chmod(0o755)
        assert str(error.file).startswith(str(folder / name))


@pytest.mark.parametrize(
    "name",
    [
        "task.toml",
        "instruction.md",
        "tests",
        "tests/test.sh",
        "tests/data",
        "solution",
        "environment",
    ],
)
@pytest.mark.parametrize("target", ["outside", "broken", "loop"])
def test_a_part_that_is_a_link_out_of_the_dataset(make: Make, tmp_path: Path, name, target):
    """Such a link is refused by name, as are one to nothing and one to itself."""
    folder = make("b")
    secret = tmp_path / "elsewhere" / "secret"
    secret.mkdir(parents=True)
    (secret / "test.sh").write_text("x")
    (secret / "key").write_text("secret")
    part = folder / name
    if part.is_dir():
        shutil.rmtree(part)
    part.unlink(missing_ok=True)
    is_file = name in ("task.toml", "instruction.md", "tests/test.sh")
    part.symlink_to(
        {"outside": secret / "key" if is_file else secret, "broken": "nix", "loop": part.name}[
            target
        ]
    )
    assert part.is_symlink()
    message = {
        "outside": "out of the dataset's folder",
        "broken": "does not exist",
        "loop": "can't be followed",
    }[target]
    assert str(refused(folder, message).file).startswith(str(folder / name))


def test_a_part_that_is_a_link_to_a_sibling_tasks_part_is_followed(make: Make, tmp_path: Path):
    """Whole folders and single files of another task of the dataset may be shared."""
    make("b", {"environment/Dockerfile": "FROM x\n", "tests/lib.py": "1"}, name="ds/one")
    two = make("b", name="ds/two")
    shutil.rmtree(two / "tests")
    shutil.rmtree(two / "solution")
    for name in ("tests", "solution", "environment"):
        (two / name).symlink_to(f"../one/{name}")
    (two / "instruction.md").unlink()
    (two / "instruction.md").symlink_to(tmp_path / "ds" / "one" / "instruction.md")
    task = load_task(two)
    assert task.prompt == "Do it.\n"
    assert (task.verifier, task.solution) == (two / "tests", two / "solution")
    assert task.dockerfile == (tmp_path / "ds" / "one" / "environment" / "Dockerfile").resolve()
    before = task.digest
    (tmp_path / "ds" / "one" / "tests" / "lib.py").write_text("2")
    assert load_task(two).digest != before


def test_a_link_into_another_folder_of_the_dataset(make: Make, tmp_path: Path):
    """It is followed in a dataset that was given; alone, only if there are other tasks beside."""
    folder = make("b")
    shared = tmp_path / "ds" / "shared"
    shared.mkdir()
    (shared / "data").write_text("1")
    (folder / "tests" / "data").symlink_to("../../shared/data")
    refused(folder, "out of the dataset's folder", "tests/data")
    assert load_task(folder, dataset=tmp_path / "ds").dataset == tmp_path / "ds"
    make("a", name="ds/other")
    load_task(folder)


def test_a_task_alone_does_not_lead_into_hidden_folders(make: Make, tmp_path: Path):
    """Its parent may be somebody's home, with keys in it."""
    folder = make("b", name="home/task")
    make("a", name="home/other")
    keys = tmp_path / "home" / ".ssh"
    keys.mkdir()
    (keys / "id").write_text("secret")
    (folder / "tests" / "data").symlink_to("../../.ssh/id")
    assert (folder / "tests" / "data").read_text() == "secret"
    refused(folder, "out of the dataset's folder", "tests/data")


def test_a_link_back_to_its_own_folder(make: Make):
    """A folder in the verifier that leads back to itself has no end."""
    folder = make("a")
    (folder / "verifier" / "more").mkdir()
    (folder / "verifier" / "more" / "again").symlink_to(".")
    refused(folder, "leads back to its own folder", "verifier/more/again")


def test_a_nul_in_the_line_that_names_the_interpreter(make: Make):
    """No system would start it, and the test would be tried only once the agent is done."""
    folder = make("a")
    (folder / "verifier" / "test.sh").write_bytes(b"#!/bin/ba\0sh\necho 1\n")
    refused(folder, "test.sh has a NUL character in its first line", "verifier/test.sh")


def test_a_number_of_very_many_digits(make: Make):
    """It is told without advice for programmers."""
    folder = make("b")
    (folder / "task.toml").write_text(f"x = {'9' * 6000}\n")
    error = refused(folder, "a number of thousands of digits", "task.toml")
    assert "set_int_max" not in str(error)


def test_links_beside_the_parts_are_kept_as_links(make: Make):
    """Neither a build context nor what else lies about is followed out of the folder."""
    folder = make("a", {"environment/Dockerfile": "FROM x\n", "environment/f": "1"})
    before = load_task(folder)
    (folder / "environment" / "host").symlink_to("/etc/passwd")
    (folder / "environment" / "gone").symlink_to("nowhere")
    (folder / "venv").symlink_to("/usr")
    task = load_task(folder)
    assert task.warnings == []
    assert task.digest != before.digest
    assert task.environment_digest != before.environment_digest


def test_a_deep_folder_is_read(make: Make):
    """Depth is bounded by the file system, not by the stack."""
    folder = make("a")
    deep = folder / "verifier"
    for _ in range(300):
        deep /= "d"
        deep.mkdir()
    before = load_task(folder).digest
    (deep / "f").touch()
    assert load_task(folder).digest != before


def test_a_kind_that_is_refused_is_said_before_what_is_missing(make: Make):
    """A task of several steps has its prompts and tests below steps/, and none at its root."""
    files = {"instruction.md": None, "tests/test.sh": None, "steps/one/instruction.md": "Do it."}
    refused(make("b", files), "no prompt")
    folder = make("b", files | {"task.toml": '[[steps]]\nname = "one"\n'})
    refused(folder, "task task is refused: it asks for several steps", "task.toml")
