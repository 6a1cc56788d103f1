"""The calls of a work, one after another: whose code, given what, answered by whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..authoring.views import Episode, Query
from . import calls
from .calls import Material, WhileCalled
from .page import LOADING
from .sources import Sources
from .wire import Call, Outcome, Source, Work

Begin = Callable[[int], None]
"""Told the call's index, or LOADING and the source's, right before an author's code runs."""


def perform(
    sources: Sources,
    work: Work,
    material: Material,
    done: list[Outcome],
    begin: Begin,
    ask: Query | None,
) -> Outcome:
    """Make the call that comes after those that are done. Raises nothing of an author's."""
    call = work.calls[len(done)]
    source = work.sources[call.source]
    fault = work.broken.get(call.source)
    if fault is not None:
        return Outcome(fault=fault)
    score = work.score
    if call.hook == "hindsight" and not work.scored:
        score = calls.combined(work, done)
        if score is None:
            return Outcome()
    what: Any = getattr(source, call.hook)
    if what == "total_reward":
        data = material.finished(done)
        value = calls.total(source.name, source.version, data.rewards)
        return Outcome(value=value, body=calls.scored(value))
    if not isinstance(what, str):
        from . import command  # few verifiers need it

        begin(len(done))
        return command.run(what, source.folder, material.finished(done))
    if not sources.loaded(source, what):
        begin(LOADING + call.source)
        sources.load(source, what)
    begin(len(done))
    query = WhileCalled(
        ask or material.recorded(source.name, call.step if call.step >= 0 else None)
    )
    try:
        return _call(sources, source, work, call, what, material, done, score, query)
    finally:
        query.end()


def _call(
    sources: Sources, source: Source, work: Work, call: Call, what: str, material: Material,
    done: list[Outcome], score: float | None, query: Query,
) -> Outcome:  # fmt: skip
    places = sources.enter(source).places
    try:
        function = sources.function(source, what)
    except BaseException as error:  # whatever the file raised when it was loaded
        return calls.failed(error, None, places)
    match call.hook:
        case "reward":
            return calls.reward(function, material.step(call.step, query), places)
        case "check" if work.unrewarded:
            return calls.unrewarded(function, material.finished(done), query, places)
        case "check":
            return calls.check(function, Episode(material.finished(done), query), places)
        case "hindsight":
            return calls.hindsight(function, material.scored(done), score, places)
