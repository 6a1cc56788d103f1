"""Files of others: archives that lie, links, what is too large."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
import zstandard

from helpers.imports import EVAL, copied
from trialog.engine.importing import sources
from trialog.engine.importing.fields import RecordsError
from trialog.engine.importing.sources import Archive, Folder, OneFile, hashed
from trialog.events.values import blob_ref


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    """A deflated archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_members_with_zstd_are_read() -> None:
    """Inspect's own archive, which older standard libraries can't unpack."""
    with zipfile.ZipFile(EVAL) as archive:
        assert {member.compress_type for member in archive.infolist()} == {93}
    source = Archive(EVAL)
    assert source.read("header.json").startswith(b"{")
    refs = hashed(source).refs
    assert source.skipped == []
    assert refs["header.json"] == blob_ref(source.read("header.json"))


def test_deflated_members_are_read(tmp_path: Path) -> None:
    """As older versions of Inspect wrote them."""
    source = Archive(zipped(tmp_path / "a.eval", {"header.json": b"{}", "b": b"x" * 3_000_000}))
    assert source.read("b") == b"x" * 3_000_000


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    """It has no directory of its members any more."""
    cut = tmp_path / "cut.eval"
    cut.write_bytes(EVAL.read_bytes()[:-500])
    with pytest.raises(RecordsError, match=r"cut\.eval: no whole archive"):
        Archive(cut)


def test_a_damaged_member_is_left_out_alone(tmp_path: Path) -> None:
    """Its checksum tells; the others are read."""
    place = copied(EVAL, tmp_path)
    with zipfile.ZipFile(place) as archive:
        member = archive.getinfo("samples/sum_epoch_1.json")
    data = bytearray(place.read_bytes())
    at = member.header_offset + 30 + len(member.filename) + member.compress_size // 2
    data[at] ^= 0xFF
    place.write_bytes(data)
    source = Archive(place)
    refs = hashed(source).refs
    assert [one.path for one in source.skipped] == ["samples/sum_epoch_1.json"]
    assert "damaged" in source.skipped[0].reason
    assert len(refs) == len(source.names) - 1


def test_an_archive_that_lies_about_its_sizes(tmp_path: Path) -> None:
    """Unpacking stops at what the archive claims, so a bomb costs no more than that."""
    packed = zstandard.compress(bytes(50_000_000))
    assert len(packed) < 100_000
    place = zipped(tmp_path / "bomb.eval", {"header.json": b"{}"})
    with zipfile.ZipFile(place, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("header.json", packed)
    data = place.read_bytes()
    central = data.rindex(b"PK\x01\x02")
    changed = bytearray(data)
    changed[central + 10 : central + 12] = (93).to_bytes(2, "little")
    changed[central + 24 : central + 28] = (10).to_bytes(4, "little")
    place.write_bytes(changed)
    source = Archive(place)
    with pytest.raises(RecordsError, match=r"header\.json: it unpacks to more than"):
        list(source.chunks("header.json"))


def test_a_huge_member_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be kept, but is no record that is read into memory."""
    monkeypatch.setattr(sources, "LARGEST_READ", 1000)
    source = Archive(zipped(tmp_path / "a.eval", {"small": b"x" * 1000, "large": b"x" * 1001}))
    assert len(source.read("small")) == 1000
    with pytest.raises(RecordsError, match="over 1000 bytes unpacked"):
        source.read("large")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "large").write_bytes(b"x" * 1001)
    with pytest.raises(RecordsError, match="1001 bytes; a record of over 1000 is not read"):
        Folder(folder).read("large")
    with pytest.raises(RecordsError, match="inspect log convert"):
        OneFile(folder / "large").read("large")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_with_the_same_name(tmp_path: Path) -> None:
    """The last holds, and the earlier one stays under its number."""
    place = tmp_path / "twice.eval"
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("a", b"earlier")
        archive.writestr("a", b"later")
    source = Archive(place)
    assert {name: source.read(name) for name in source.names} == {"a": b"later", "a#1": b"earlier"}


def test_links_are_named_and_not_followed(tmp_path: Path) -> None:
    """Neither a file nor a folder outside is read through one."""
    (tmp_path / "secret").write_text("outside")
    folder = tmp_path / "job"
    (folder / "in").mkdir(parents=True)
    (folder / "in" / "file").write_text("inside")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "deep").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    source = Folder(folder)
    assert source.names == ["in/file"]
    left: dict[str, Any] = {one.path: one.target for one in source.skipped}
    assert left == {"link": str(tmp_path / "secret"), "deep": str(tmp_path), "pipe": None}


def test_depth_number_and_size_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder can't make an import endless."""
    monkeypatch.setattr(sources, "DEEPEST", 1)
    monkeypatch.setattr(sources, "LARGEST_KEPT", 3)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "file").write_text("x")
    (tmp_path / "large").write_text("four")
    source = Folder(tmp_path)
    assert source.names == ["a/file"]
    assert {one.path for one in source.skipped} == {"a/b", "large"}
    monkeypatch.setattr(sources, "MOST_FILES", 0)
    with pytest.raises(RecordsError, match="more than 0 files"):
        Folder(tmp_path)
    with pytest.raises(RecordsError, match="more than 0 members"):
        Archive(EVAL)
