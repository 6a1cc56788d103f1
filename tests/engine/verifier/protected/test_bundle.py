"""What is brought into sandboxes: whole wheels, and code that old Pythons can read."""

from __future__ import annotations

import ast
import base64
import csv
import hashlib
import importlib.util
import zipfile
from pathlib import Path

import pytest

from trialog.engine.sandbox.protocol import OLDEST_PYTHON
from trialog.engine.verifier.protected.tools import BUNDLE, INSIDE

ROOT = Path(__file__).resolve().parents[4]


def test_bundle_is_what_the_wheels_hold() -> None:
    """Every file has the hash that its wheel's own record tells, and none is beside them."""
    with zipfile.ZipFile(BUNDLE) as bundle:
        names = set(bundle.namelist())
        records = {name for name in names if name.endswith(".dist-info/RECORD")}
        told = {
            path: digest
            for record in records
            for path, digest, _ in csv.reader(bundle.read(record).decode().splitlines())
        }
        assert len(told) > 100
        assert set(told) == names
        for path, digest in told.items():
            if digest:
                found = base64.urlsafe_b64encode(hashlib.sha256(bundle.read(path)).digest())
                assert digest == f"sha256={found.decode().rstrip('=')}"


def test_bundle_has_the_pinned_versions() -> None:
    """The tool that makes it names the versions in it."""
    spec = importlib.util.spec_from_file_location("bundle", ROOT / "tools" / "bundle_pytest.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    with zipfile.ZipFile(BUNDLE) as bundle:
        found = {name.split("/")[0] for name in bundle.namelist() if ".dist-info/" in name}
    assert {f"{name}-{version}.dist-info" for name, version in tool.PINS.items()} == found


@pytest.mark.parametrize("name", ["launch.py", "protected.py", "guard.py"])
def test_inside_is_readable_by_the_oldest_python(name: str) -> None:
    """Our own code has the syntax of the oldest Python that may run it."""
    ast.parse((INSIDE / name).read_text(), feature_version=OLDEST_PYTHON)


def test_bundle_is_readable_by_the_oldest_python() -> None:
    """So does all that is brought."""
    with zipfile.ZipFile(BUNDLE) as bundle:
        modules = [name for name in bundle.namelist() if name.endswith(".py")]
        assert "_pytest/main.py" in modules
        for name in modules:
            ast.parse(bundle.read(name), name, feature_version=OLDEST_PYTHON)
