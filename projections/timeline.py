"""What happened, in plain words: a line an event, for every kind."""

from __future__ import annotations

from typing import assert_never, cast

from ..events import kinds
from ..events.codec import decode
from ..events.envelope import RecordedEvent
from ..events.errors import LogCorrupt, UnknownEvent
from ..events.kinds.job import ImportedJob
from ..events.kinds.parts import Install, Output, Slot, Target, Usage
from ..events.kinds.trial import ImportedTrial
from ..events.values import Json, Text
from .document import compact
from .texts import reference
from .usage import dollars

WIDTH = 160
"""Characters of a value or text that a line shows."""


def timeline_line(event: RecordedEvent) -> str:
    """Version, time, kind and what happened. What can't be decoded is shown as such."""
    try:
        what = describe(decode(event))
    except UnknownEvent:
        passed = "may be passed over" if event.ignorable else "may not be passed over"
        what = f"unknown to this release (schema {event.schema}, {passed}): {shown(event.data)}"
    except LogCorrupt as corrupt:
        what = f"can't be read: {corrupt.reason}"
    return _printable(f"{event.version:>5}  {event.at}  {event.kind:<20}  {what}")


def describe(event: kinds.Event) -> str:
    """What happened, in plain words, on one line."""
    match event:
        case kinds.JobStarted():
            return (
                f"job {event.job} began: {_n(event.slots, 'slot')}, {_n(len(event.tasks), 'task')}"
                + (f", models answered from job {event.replays}" if event.replays else "")
                + _imported(event.imported)
            )
        case kinds.TrialScheduled():
            why = _because(event.reason)
            return f"{event.trial} is execution {event.execution} of {_slot(event.slot)}{why}"
        case kinds.TrialAbandoned():
            return f"{event.trial} was given up{_because(event.reason)}"
        case kinds.JobResumed():
            plan = ", ".join(f"{n} to {action}" for action, n in event.plan.items())
            return f"the job goes on: {plan or 'nothing to do'}"
        case kinds.JobInterrupted():
            running = _n(event.running, "trial")
            return f"the job was interrupted by {event.signal} with {running} running"
        case kinds.JobCancelled():
            return f"the job was cancelled{_by(event.author)}{_because(event.reason)}"
        case kinds.JobFinished():
            spent = event.wall_seconds
            time = "" if spent is None else f" in {_time(spent)}"
            return f"the job finished: {_n(event.trials, 'trial')}{time}"
        case kinds.RegradePlanned():
            n = len(event.trials)
            return (
                f"regrade {event.regrade_id} of {_n(n, 'trial')} planned{_by(event.author)}"
                + _because(event.reason)
            )
        case kinds.RegradeSkipped():
            return f"{event.trial} can't be regraded ({event.category}): {event.reason}"
        case kinds.RegradeFinished():
            return (
                f"regrade {event.regrade_id} finished: {event.regraded} regraded, "
                f"{event.failed} failed, {event.not_regradable} not regradable"
            )
        case kinds.BlobsPruned():
            n = len(event.blobs)
            return (
                f"{_n(n, f'{event.what} blob')} given up{_by(event.author)}{_because(event.reason)}"
            )
        case kinds.EngineFault():
            return f"the engine failed in {event.where} ({event.category}): {shown(event.error)}"
        case kinds.TrialStarted():
            after = f", going on from {event.continues.stream}" if event.continues else ""
            replayed = f", replaying trial {event.replays.trial}" if event.replays else ""
            imported = _imported(event.imported)
            return f"{_slot(event.slot)}, execution {event.execution}{after}{replayed}{imported}"
        case kinds.SandboxStarted():
            image = event.image or "the host's system"
            return (
                f"{event.backend} sandbox for the {event.purpose} on {image} "
                f"in {_time(event.start_seconds)}"
            )
        case kinds.SandboxFailed():
            return (
                f"no {event.backend} sandbox for the {event.purpose}, {event.phase} failed "
                f"({event.category}): {shown(event.error)}"
            )
        case kinds.ProcessesKilled():
            names = ", ".join(f"{p.name} ({p.pid})" for p in event.kept or event.processes)
            if event.kept is not None:
                return f"kept for the test: {names or 'nothing was left'}"
            return f"killed what the agent had left: {names}" if names else "nothing was left"
        case kinds.ArtifactsSaved():
            skipped = _n(len(event.skipped), "path")
            return f"{_n(len(event.artifacts), 'artifact')} saved, {skipped} skipped"
        case kinds.WorkspaceSaved():
            return f"workspace saved: {_n(event.files, 'file')}, {_n(event.size, 'byte')}"
        case kinds.WorkspaceHardened():
            removed = f", removed {', '.join(event.removed)}" if event.removed else ""
            skipped = f", skipped {', '.join(event.steps_skipped)}" if event.steps_skipped else ""
            return f"workspace hardened{removed}{skipped}"
        case kinds.TrialScored():
            verdict = "passed" if event.passed else "failed"
            given = " (given by the engine)" if event.reward_source == "engine" else ""
            return f"{verdict} with a score of {event.score}{given}"
        case kinds.TrialUnscored():
            return f"nothing was assessed ({event.category}): {shown(event.error)}"
        case kinds.TrialErrored():
            return f"there was no work to grade ({event.category}): {shown(event.error)}"
        case kinds.TrialFinished():
            return f"finished: {event.outcome}"
        case kinds.WarningRaised():
            return f"{event.code}: {shown(event.message)}"
        case kinds.TamperFound():
            return f"{event.what}: {event.path}"
        case kinds.SandboxLost():
            return f"sandbox {event.sandbox_id} was lost in {event.phase}: {shown(event.error)}"
        case kinds.SandboxRemoved():
            if event.kept:
                return f"sandbox {event.sandbox_id} kept"
            return f"sandbox {event.sandbox_id} removed{_failed(event.error)}"
        case kinds.TrialInterrupted():
            return f"interrupted at stage {event.stage}: {event.reason}{_printed(event.output)}"
        case kinds.LeaseTaken():
            return f"{event.worker} has it until {event.until}"
        case kinds.LeaseLost():
            return f"{event.worker} lost it: {event.reason}"
        case kinds.RegradeStarted():
            names = ", ".join(event.verifiers)
            return f"regrade {event.regrade_id} with {names}{_by(event.author)}" + _because(
                event.reason
            )
        case kinds.AgentStarted():
            version = f" {event.version}" if event.version else ""
            model = f" with {event.model}" if event.model else ""
            return f"{event.name}{version}{model}{_installed(event.install)}"
        case kinds.EnvironmentReset():
            return f"apps {', '.join(event.apps)} are ready" if event.apps else "no apps"
        case kinds.ActionTaken():
            came = event.error if event.error is not None else event.observation
            sign = "!" if event.error is not None else "→"
            tail = "" if came is None else f" {sign} {shown(came)}"
            arguments = "" if event.arguments is None else f" {shown(event.arguments)}"
            return f"{event.app}.{event.action}{arguments}{tail}"
        case kinds.StepRewarded():
            return f"{event.verifier} gave {event.value} for {_target(event.target)}"
        case kinds.StepRewardFailed():
            return f"{event.verifier}'s reward failed on step {event.step}: {_at(event)}"
        case kinds.ModelCalled():
            used = event.usage
            tokens = f"{_known(used.input_tokens)} tokens in, {_known(used.output_tokens)} out"
            took = "from the record" if event.replayed else _time(event.latency, event.untimed)
            return f"{event.model}: {tokens}, {took}{_failed(event.error)}"
        case kinds.AgentMessage():
            if event.text == "" and event.reasoning:
                return f"{event.role}: (thought) {shown(event.reasoning)}"
            return f"{event.role}: {shown(event.text)}"
        case kinds.AppQueried():
            arguments = "" if event.arguments is None else f" {shown(event.arguments)}"
            return f"{event.verifier} asked {event.app}.{event.action}{arguments}" + _failed(
                event.error
            )
        case kinds.EpisodeEnded():
            how = "terminated" if event.terminated else "truncated" if event.truncated else "ended"
            return f"{how}{_because(event.reason)}"
        case kinds.AgentFinished():
            code = "" if event.exit_code is None else f", exit code {event.exit_code}"
            return (
                f"{event.ended_by}{code} after {_time(event.duration, event.untimed)}"
                f"{_printed(event.output)}{_said_used(event.reported_usage)}{_failed(event.error)}"
            )
        case kinds.AgentFailed():
            time = _time(event.duration, event.untimed)
            return f"({event.category}) after {time}: {shown(event.error)}"
        case kinds.VerifierStarted():
            version = f" {event.version}" if event.version else ""
            return f"{event.verifier}{version} ({event.verifier_kind})"
        case kinds.JudgeSampled():
            place = f"{event.verifier}, sample {event.sample}, try {event.attempt}"
            if event.failure is not None:
                return f"{place} got no reply ({event.failure}): {shown(event.error)}"
            valid = "" if event.valid else " (does not fit)"
            return f"{place}{valid}: {shown(event.reply)}"
        case kinds.VerifierScored():
            given = " (given by the engine)" if event.source == "engine" else ""
            code = "" if event.exit_code is None else f", exit code {event.exit_code}"
            time = _time(event.duration, event.untimed)
            return (
                f"{event.verifier} gave {event.score}{given}{code} after {time}"
                f"{_printed(event.output)}"
            )
        case kinds.VerifierFailed():
            return f"{event.verifier} could not assess it ({event.category}): {_at(event)}"
        case kinds.HumanReviewRequested():
            names = ", ".join(criterion.name for criterion in event.criteria)
            return f"{event.verifier} waits for a person: {names}"
        case kinds.HumanReviewSubmitted():
            return f"{event.verifier}: {event.score}{_by(event.reviewer)}"
        case kinds.HindsightCredited():
            return f"{event.verifier} credited {event.value} to {_target(event.target)}"
        case kinds.HindsightFailed():
            return f"{event.verifier}'s hindsight failed: {_at(event)}"
        case kinds.RegradeScored():
            verdict = "passed" if event.passed else "failed"
            return f"regrade {event.regrade_id}: {verdict} with a score of {event.score}"
        case kinds.RegradeFailed():
            return f"regrade {event.regrade_id} ({event.category}): {shown(event.error)}"
        case kinds.VerifierApplied():
            score = "" if event.score is None else f" with a score of {event.score}"
            return (
                f"labels of {event.verifier} {event.version} added{score}{_by(event.author)}"
                f"{_because(event.reason)}{_failed(event.error)}"
            )
        case kinds.ReviewStarted():
            return f"review {event.review} of {_n(len(event.trials), 'trial')} by {event.agent}"
        case kinds.ReviewCompleted():
            checks = ", ".join(f"{name} {check.outcome}" for name, check in event.checks.items())
            return f"{event.trial}: {checks}"
        case kinds.ReviewFailed():
            return f"{event.trial} ({event.category}): {shown(event.error)}"
        case kinds.ReviewFinished():
            return f"{_n(event.completed, 'trial')} reviewed, {event.failed} failed"
        case _:
            assert_never(event)


def shown(value: Json | Text) -> str:
    """A value on one line, cut where it is long; a blob by its name."""
    if (ref := reference(value)) is not None:
        return f"[{ref.size} bytes in {ref.blob}]"
    text = value if isinstance(value, str) else compact(cast("object", value)).decode()
    return _printable(text if len(text) <= WIDTH else text[: WIDTH - 1] + "…")


def _printable(text: str) -> str:
    """Line ends and control characters escaped: a log can't move a terminal's cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _slot(slot: Slot) -> str:
    model = f" with {slot.model}" if slot.model else ""
    return f"{slot.task} by {slot.agent}{model}, attempt {slot.attempt}"


def _imported(of: ImportedJob | ImportedTrial | None) -> str:
    return f", imported from {of.system}: {of.name}" if of else ""


def _target(target: Target) -> str:
    return f"{target.target} {target.event_id}"


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _by(author: str | None) -> str:
    return f" by {author}" if author else ""


def _failed(error: Text | None) -> str:
    return "" if error is None else f", failed: {shown(error)}"


def _at(event: kinds.StepRewardFailed | kinds.VerifierFailed | kinds.HindsightFailed) -> str:
    return shown(event.error) + (f" (at {event.line})" if event.line else "")


def _printed(output: Output | None) -> str:
    return "" if output is None else f", {_n(output.total, 'byte')} printed"


def _installed(install: Install | None) -> str:
    if install is None:
        return ""
    network = " with a network" if install.network else ""
    return f", installed{network} in {_time(install.duration)}{_printed(install.output)}"


def _said_used(usage: Usage | None) -> str:
    """What it says is not what was seen."""
    if usage is None:
        return ""
    cost = "" if usage.cost_usd is None else f", {dollars(usage.cost_usd)}"
    tokens = f"{_known(usage.input_tokens)} tokens in, {_known(usage.output_tokens)} out"
    return f", by its own word {tokens}{cost}"


def _n(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _known(number: int | None) -> str:
    return "?" if number is None else str(number)


def _time(seconds: float, untimed: bool = False) -> str:
    return "a time not known" if untimed else f"{seconds:.1f} s"
