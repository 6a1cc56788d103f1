"""A trial as a trace: phases, actions, model calls and verifiers are spans, and all else that
happened are events on the span that it belongs to. Pure.

Ids are made of events' ids, so the same log gives the same trace. Times are the recorded ones:
where an event tells of something that took a while, its span ends when the event was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....events.codec import decode_or_none
from ....events.envelope import RecordedEvent
from ....events.kinds import (
    ActionTaken,
    AgentFailed,
    AgentFinished,
    AgentStarted,
    ArtifactsSaved,
    Event,
    HindsightCredited,
    HumanReviewRequested,
    HumanReviewSubmitted,
    JudgeSampled,
    ModelCalled,
    RegradeFailed,
    RegradeScored,
    RegradeStarted,
    SandboxFailed,
    SandboxStarted,
    StepRewarded,
    TrialErrored,
    TrialFinished,
    TrialScored,
    TrialStarted,
    TrialUnscored,
    VerifierApplied,
    VerifierFailed,
    VerifierScored,
    VerifierStarted,
    WorkspaceHardened,
    WorkspaceSaved,
)
from ....events.kinds.parts import Slot
from ....events.values import Text, unescape
from ....projections.document import compact
from ....projections.texts import score_names
from ....projections.timeline import describe
from ...labels.masks import short
from .calls import (
    action_attributes,
    agent_attributes,
    call_attributes,
    operation_of,
    sample_attributes,
)
from .form import (
    CLIENT,
    ERROR,
    INTERNAL,
    Part,
    Plain,
    Span,
    SpanEvent,
    Status,
    attributes,
    nanoseconds,
    span_id,
    trace_id,
)

AGENT = "agent"


def trace_of(events: Sequence[RecordedEvent]) -> list[Span]:
    """A trial's spans, its own first; none without events. `events` are as read_trial gives them.

    Raises UnknownEvent for an event that may not be passed over.
    """
    if not events:
        return []
    trace = _Trace(events[0])
    for event in events:
        payload = decode_or_none(event)
        if payload is None:
            trace.note(event, event.kind, {"trialog.unknown": True})
        else:
            trace.take(event, payload)
    return trace.ended(events[-1])


class _Trace:
    """The spans so far, and which of them are open."""

    def __init__(self, first: RecordedEvent) -> None:
        self._trace = trace_id(first.id)
        self._root = self._span(first, "trial", parent="", start=nanoseconds(first.at))
        self._spans = [self._root]
        self._open: dict[str, Span] = {}
        """Phases by what they are, the innermost last."""
        self._by_event: dict[str, Span] = {}
        self._finished = False

    def take(self, event: RecordedEvent, payload: Event) -> None:
        """One more event, in order."""
        at = nanoseconds(event.at)
        match payload:
            case TrialStarted():
                self._cut_off(at)
                self._begin(event, payload)
            case SandboxStarted():
                self._sandbox(event, payload)
            case SandboxFailed():
                what = "build" if payload.phase == "build" else "start"
                span = self._took(event, f"sandbox {what}", payload.duration)
                self._describe(span, payload.error, payload.category)
            case AgentStarted():
                if payload.install is not None:
                    self._took(event, "install", payload.install.duration, part="install")
                span = self._phase(AGENT, event, f"invoke_agent {payload.name}")
                span.attributes += attributes(agent_attributes(payload))
            case AgentFinished():
                span = self._close(AGENT, event, payload)
                span.attributes += attributes({"trialog.ended_by": payload.ended_by})
                if payload.error is not None:
                    self._describe(span, payload.error, payload.error_category)
            case AgentFailed():
                self._describe(self._close(AGENT, event, payload), payload.error, payload.category)
            case ActionTaken():
                span = self._lasted(
                    event, f"execute_tool {payload.action}", payload.started_at, payload.duration,
                    action_attributes(payload),
                )  # fmt: skip
                self._describe(span, payload.error)
            case ModelCalled():
                span = self._lasted(
                    event, f"{operation_of(payload.form)} {payload.model}", payload.started_at,
                    payload.latency, call_attributes(payload), kind=CLIENT,
                )  # fmt: skip
                self._describe(span, payload.error)
            case JudgeSampled():
                of = self._open.get(f"verifier {payload.verifier}")
                span = self._took(
                    event, f"chat {payload.model}", payload.latency, kind=CLIENT, of=of
                )
                span.attributes += attributes(sample_attributes(payload))
                self._describe(span, payload.error)
            case ArtifactsSaved():
                self._took(event, "save artifacts", payload.duration)
            case WorkspaceSaved():
                self._took(event, "save workspace", payload.duration)
            case WorkspaceHardened():
                self._took(event, "harden workspace", payload.duration)
            case VerifierStarted():
                span = self._phase(
                    f"verifier {payload.verifier}", event, f"verify {payload.verifier}"
                )
                self._verifier(span, payload)
            case VerifierScored():
                span = self._close(f"verifier {payload.verifier}", event, payload)
                self._evaluated(span, event, payload.verifier, payload.score)
            case VerifierFailed():
                span = self._close(f"verifier {payload.verifier}", event, payload)
                self._describe(span, payload.error, payload.category)
            case HumanReviewRequested():
                self._phase(f"review {payload.verifier}", event, f"review {payload.verifier}")
            case HumanReviewSubmitted():
                span = self._close(f"review {payload.verifier}", event, payload)
                self._evaluated(span, event, payload.verifier, payload.score)
            case RegradeStarted():
                self._phase(f"regrade {payload.regrade_id}", event, "regrade")
            case RegradeScored():
                span = self._close(f"regrade {payload.regrade_id}", event, payload)
                self._evaluated(span, event, "score", payload.score)
            case RegradeFailed():
                span = self._close(f"regrade {payload.regrade_id}", event, payload)
                self._describe(span, payload.error, payload.category)
            case StepRewarded() | HindsightCredited():
                of = self._by_event.get(payload.target.event_id)
                whose = {
                    "trialog.verifier.version": payload.version,
                    "trialog.applied_event_id": payload.applied,
                }
                self._evaluated(of, event, payload.verifier, payload.value, whose)
            case VerifierApplied():
                self.note(
                    event, event.kind,
                    {
                        "trialog.what": describe(payload),
                        "trialog.verifier.name": payload.verifier,
                        "trialog.verifier.kind": payload.verifier_kind,
                        "trialog.verifier.version": payload.version,
                        "trialog.verifier.digest": payload.digest,
                        "trialog.score": payload.score,
                    },
                )  # fmt: skip
            case TrialScored():
                self._root.attributes += attributes(
                    {"trialog.passed": payload.passed, "trialog.score": payload.score,
                     **{f"trialog.rewards.{name}": value
                        for name, value in score_names(payload.rewards or {}).items()}}
                )  # fmt: skip
                self.note(event, event.kind, {"trialog.what": describe(payload)})
            case TrialErrored() | TrialUnscored():
                self._describe(self._root, payload.error, payload.category)
                self.note(event, event.kind, {"trialog.what": describe(payload)})
            case TrialFinished():
                self._cut_off(at)
                self._finished = True
                self._root.end_time_unix_nano = str(at)
                self._root.attributes += attributes(
                    {"trialog.outcome": payload.outcome, "trialog.end_event_id": event.id}
                )
            case _:
                self.note(event, event.kind, {"trialog.what": describe(payload)})

    def ended(self, last: RecordedEvent) -> list[Span]:
        """All spans; what is still open ends with the last event."""
        at = nanoseconds(last.at)
        self._cut_off(at)
        if not self._finished:
            self._root.end_time_unix_nano = str(at)
            self._root.attributes += attributes({"trialog.unfinished": True})
        return self._spans

    def note(
        self, event: RecordedEvent, name: str, values: Mapping[str, Plain], on: Span | None = None
    ) -> None:
        """Something at one moment; of the innermost open phase, if of nothing else."""
        span = on or self._innermost()
        span.events.append(
            SpanEvent(
                time_unix_nano=str(nanoseconds(event.at)), name=name,
                attributes=attributes({"trialog.event_id": event.id, **values}),
            )
        )  # fmt: skip

    def _innermost(self) -> Span:
        return next(reversed(self._open.values()), self._root)

    def _begin(self, event: RecordedEvent, started: TrialStarted) -> None:
        """The trial, or its next execution, whose names are the trial's then."""
        slot = started.slot
        self._finished = False
        self._root.name = f"trial {slot.task}"
        self._root.status = Status()
        self._root.attributes = attributes(
            {"trialog.event_id": event.id, **_slot_attributes(started, slot)}
        )

    def _sandbox(self, event: RecordedEvent, started: SandboxStarted) -> None:
        built = started.build_seconds
        if built is not None:
            self._took(event, "sandbox build", built, part="build", before=started.start_seconds)
        span = self._took(event, "sandbox start", started.start_seconds)
        span.attributes += attributes(
            {
                "trialog.sandbox.backend": started.backend,
                "trialog.sandbox.purpose": started.purpose,
                "container.id": started.sandbox_id if started.backend == "docker" else None,
                "container.image.name": started.image,
            }
        )

    def _verifier(self, span: Span, started: VerifierStarted) -> None:
        span.attributes += attributes(
            {
                "trialog.verifier.kind": started.verifier_kind,
                "trialog.verifier.version": started.version,
                "trialog.verifier.digest": started.digest,
                "gen_ai.request.model": started.model,
            }
        )

    def _evaluated(
        self,
        span: Span | None,
        event: RecordedEvent,
        verifier: str,
        value: float,
        whose: Mapping[str, Plain] | None = None,
    ) -> None:
        values: dict[str, Plain] = {
            "gen_ai.evaluation.name": verifier,
            "gen_ai.evaluation.score.value": float(value),
            "trialog.kind": event.kind,
            **(whose or {}),
        }
        self.note(event, "gen_ai.evaluation.result", values, span)

    def _describe(self, span: Span, error: Text | None, category: str | None = None) -> None:
        """What went wrong, where something did."""
        if error is None:
            return
        span.status = Status(ERROR, short(error))
        if category is not None:
            span.attributes += attributes({"error.type": category})

    # Spans

    def _span(
        self, event: RecordedEvent, name: str, *, parent: str, start: int, end: int | None = None,
        kind: int = INTERNAL, id: str = "",
    ) -> Span:  # fmt: skip
        return Span(
            trace_id=self._trace, span_id=id or span_id(event.id), parent_span_id=parent, name=name,
            kind=kind, start_time_unix_nano=str(start),
            end_time_unix_nano=str(start if end is None else max(start, end)),
            attributes=attributes({"trialog.event_id": event.id}), events=[], status=Status(),
        )  # fmt: skip

    def _add(self, span: Span, event: RecordedEvent) -> Span:
        self._spans.append(span)
        self._by_event[event.id] = span
        return span

    def _phase(self, what: str, event: RecordedEvent, name: str) -> Span:
        """What goes on until another event ends it."""
        start = nanoseconds(event.at)
        if what in self._open:
            self._stop(what, start)
        parent = self._root.span_id
        span = self._add(self._span(event, name, parent=parent, start=start), event)
        self._open[what] = span
        return span

    def _close(self, what: str, event: RecordedEvent, payload: Event) -> Span:
        """The phase that ends with this event, or a span of its own where none was begun."""
        span = self._open.pop(what, None)
        if span is None:
            took = float(getattr(payload, "duration", 0.0))
            span = self._took(event, what, took)
        span.end_time_unix_nano = str(max(nanoseconds(event.at), int(span.start_time_unix_nano)))
        span.attributes += attributes({"trialog.end_event_id": event.id})
        return span

    def _took(
        self, event: RecordedEvent, name: str, seconds: float, *, kind: int = INTERNAL,
        part: Part = "", before: float = 0.0, of: Span | None = None,
    ) -> Span:  # fmt: skip
        """What had taken so long when the event was written, or so long `before`."""
        end = nanoseconds(event.at, less=before)
        start = nanoseconds(event.at, less=before + seconds)
        parent = (of or self._innermost()).span_id
        span = self._span(
            event, name, parent=parent, start=start, end=end, kind=kind,
            id=span_id(event.id, part),
        )  # fmt: skip
        self._spans.append(span)
        if not part:
            self._by_event[event.id] = span
        return span

    def _lasted(
        self, event: RecordedEvent, name: str, started_at: str, seconds: float,
        values: Mapping[str, Plain], *, kind: int = INTERNAL,
    ) -> Span:  # fmt: skip
        """What says itself when it began, where that is known."""
        if not started_at:
            span = self._took(event, name, seconds, kind=kind)
            span.attributes += attributes(values)
            return span
        start = nanoseconds(started_at)
        span = self._span(
            event, name, parent=self._innermost().span_id, start=start,
            end=start + round(seconds * 1_000_000) * 1000, kind=kind,
        )  # fmt: skip
        span.attributes += attributes(values)
        return self._add(span, event)

    def _stop(self, what: str, at: int) -> None:
        span = self._open.pop(what)
        span.end_time_unix_nano = str(max(at, int(span.start_time_unix_nano)))
        span.status = Status(ERROR, "it was cut off")

    def _cut_off(self, at: int) -> None:
        """End what is open, though nothing says that it ended."""
        for what in list(self._open):
            self._stop(what, at)


def _slot_attributes(started: TrialStarted, slot: Slot) -> dict[str, Plain]:
    return {
        "trialog.job": started.job,
        "trialog.trial": started.trial,
        "trialog.task": slot.task,
        "trialog.task.digest": started.task_digest,
        "trialog.agent": slot.agent,
        "trialog.model": slot.model,
        "trialog.attempt": slot.attempt,
        "trialog.execution": started.execution,
        "trialog.seed": started.seed,
        "trialog.parameters": (
            compact(unescape(slot.parameters)).decode() if slot.parameters else None
        ),
        "trialog.continues": started.continues.stream if started.continues else None,
    }
