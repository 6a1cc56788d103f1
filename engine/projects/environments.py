"""Environments as authors would write them in Python, made from their manifests."""

from __future__ import annotations

from ..authoring.environment import Environment
from .apps import authored_app
from .importing import Space
from .model import EnvironmentManifest


def authored_environment(manifest: EnvironmentManifest, space: Space) -> Environment:
    """An environment whose apps are imported into a space."""
    apps = [authored_app(app, space, manifest.file) for app in manifest.apps]
    return Environment(
        apps,
        name=manifest.name,
        max_turns=manifest.max_turns,
        max_seconds=manifest.max_seconds,
        max_cost=manifest.max_cost,
        settings={
            kind.app_name(): app.settings
            for kind, app in zip(apps, manifest.apps, strict=True)
            if app.settings
        },
    )
