"""Which changes count as outside of the workspace."""

from __future__ import annotations

import os
from pathlib import Path

from trialog.engine.sandbox.docker.changes import Layers, listed, overlay, walk_layer

INSIDE = ["/app", "/logs/verifier", "/made/for/it/"]


def test_engines_answer() -> None:
    """Of the engine's list, the inside and mere ways to a change further down are left out."""
    rows = [
        ("/app", 1),
        ("/app/x", 1),
        ("/apple", 1),
        ("/etc", 0),
        ("/etc/passwd", 0),
        ("/logs", 1),
        ("/logs/verifier", 1),
        ("/logs/other", 1),
        ("/made", 1),
        ("/made/for", 1),
        ("/opt", 0),
        ("/usr", 0),
        ("/usr/bin", 0),
        ("/usr/bin/gone", 2),
        ("/new", 1),
        ("/new/file", 1),
    ]
    assert listed(rows, INSIDE) == [
        "/apple",
        "/etc/passwd",
        "/logs/other",
        "/new",
        "/new/file",
        "/opt",
        "/usr/bin/gone",
    ]


def test_writable_layer(tmp_path: Path) -> None:
    """A layer's walk tells the same: new, changed and removed, not what only led there."""
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    for folder in ("app", "etc", "tmp", "logs/verifier", "new", "opt", "made/for/it", "apple"):
        (upper / folder).mkdir(parents=True)
    for folder in ("etc", "tmp", "opt"):
        (lower / folder).mkdir(parents=True)
    (upper / "opt").chmod(0o700)
    for file in ("app/x", "etc/passwd", "new/file", "logs/verifier/reward.txt", "made/for/it/x"):
        (upper / file).write_text("x")
    os.symlink("/", upper / "link")
    layers = Layers(upper, [tmp_path / "none", lower])
    assert walk_layer(layers, INSIDE) == [
        "/apple",
        "/etc/passwd",
        "/link",
        "/new",
        "/new/file",
        "/opt",
    ]


def test_layer_that_cannot_be_read(tmp_path: Path) -> None:
    """Where the layer can't be read, nothing is told from it."""
    assert walk_layer(Layers(tmp_path / "none", []), INSIDE) is None


def test_overlay_only() -> None:
    """Only an overlay has layers that can be walked."""
    data = {"UpperDir": "/u", "LowerDir": "/a:/b"}
    assert overlay({"GraphDriver": {"Name": "overlay2", "Data": data}}) == Layers(
        Path("/u"), [Path("/a"), Path("/b")]
    )
    assert overlay({"GraphDriver": {"Name": "btrfs", "Data": None}}) is None
    assert overlay({}) is None
