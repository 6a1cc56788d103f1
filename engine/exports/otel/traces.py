"""A line a trial, each a TracesData of OTLP's: what collectors read with their file receivers."""

from __future__ import annotations

from ....projections.document import line
from ..form import Form, TrialRead
from .form import Resource, ResourceSpans, Scope, ScopeSpans, TracesData, attributes
from .trace import trace_of

NAME = "trialog"


class Traces(Form):
    """A line a trial. Pure."""

    def trial(self, read: TrialRead) -> bytes:
        """Its trace."""
        job = read.ledger.view.started.job
        resource = Resource(attributes({"service.name": NAME, "trialog.job": job}))
        spans = ScopeSpans(scope=Scope(NAME), spans=trace_of(read.events))
        return line(
            TracesData(resource_spans=[ResourceSpans(resource=resource, scope_spans=[spans])])
        )
