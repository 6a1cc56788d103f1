"""Labels and names of what is made on a container engine."""

from __future__ import annotations

import hashlib
import re

from ..owner import Owner, parse_owner, this_process
from ..protocol import SandboxSpec

JOB = "trialog.job"
TRIAL = "trialog.trial"
LOG = "trialog.log"
OWNER = "trialog.owner"
KEPT = "trialog.kept"
"""On what stays after its engine's end on purpose."""
WAY = "trialog.way"
"""`direct` or `exec`: how phases run in a container."""

LONGEST_NAME = 120


def own_labels() -> dict[str, str]:
    """Labels of what belongs to this process and to no trial."""
    return {OWNER: str(this_process())}


def trial_labels(spec: SandboxSpec) -> dict[str, str]:
    """Labels of everything that is made for a trial."""
    kept = {KEPT: "yes"} if spec.kept else {}
    return {**own_labels(), JOB: spec.job, TRIAL: spec.trial, LOG: spec.log_id, **kept}


def owner_of(labels: dict[str, str] | None) -> Owner | None:
    """Whose a labelled thing is; None for things that are not ours."""
    return parse_owner((labels or {}).get(OWNER, ""))


def container_name(trial: str) -> str:
    """A name that the engine allows, the same for the same trial and for no other."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", trial)
    if plain == trial and len(plain) <= LONGEST_NAME:
        return f"trialog-{plain}"
    digest = hashlib.sha256(trial.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"trialog-{plain[:LONGEST_NAME]}-{digest}"
