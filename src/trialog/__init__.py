"""trialog: an event-sourced engine that runs and grades agent trials.

What authors of environments and verifiers write with is here: apps and environments, tasks,
verifiers, policies, and `run`; and `open`, which reads a log. It is imported when it is first asked
for, so that the command line starts quickly.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from .engine.authoring.app import App as App
    from .engine.authoring.app import action as action
    from .engine.authoring.environment import Environment as Environment
    from .engine.authoring.policy import Action as Action
    from .engine.authoring.policy import Answer as Answer
    from .engine.authoring.task import Task as Task
    from .engine.authoring.verifiers import AgentVerifier as AgentVerifier
    from .engine.authoring.verifiers import DeterministicVerifier as DeterministicVerifier
    from .engine.authoring.verifiers import HumanVerifier as HumanVerifier
    from .engine.authoring.verifiers import RubricCriterion as RubricCriterion
    from .engine.authoring.verifiers import VerifierOutput as VerifierOutput
    from .engine.authoring.verifiers import total_reward as total_reward
    from .engine.authoring.views import Episode as Episode
    from .engine.authoring.views import HindsightTrial as HindsightTrial
    from .engine.authoring.views import Step as Step
    from .engine.reading.opened import open as open
    from .engine.run import run as run
    from .events.version import __version__ as __version__

_HOMES = {
    "Action": "engine.authoring.policy",
    "AgentVerifier": "engine.authoring.verifiers",
    "Answer": "engine.authoring.policy",
    "App": "engine.authoring.app",
    "DeterministicVerifier": "engine.authoring.verifiers",
    "Environment": "engine.authoring.environment",
    "Episode": "engine.authoring.views",
    "HindsightTrial": "engine.authoring.views",
    "HumanVerifier": "engine.authoring.verifiers",
    "RubricCriterion": "engine.authoring.verifiers",
    "Step": "engine.authoring.views",
    "Task": "engine.authoring.task",
    "VerifierOutput": "engine.authoring.verifiers",
    "__version__": "events.version",
    "action": "engine.authoring.app",
    "open": "engine.reading.opened",
    "run": "engine.run",
    "total_reward": "engine.authoring.verifiers",
}

__all__ = [
    "Action",
    "AgentVerifier",
    "Answer",
    "App",
    "DeterministicVerifier",
    "Environment",
    "Episode",
    "HindsightTrial",
    "HumanVerifier",
    "RubricCriterion",
    "Step",
    "Task",
    "VerifierOutput",
    "__version__",
    "action",
    "run",
    "total_reward",
]
# `open` is not among them: a star import must not take the place of Python's own.


def __getattr__(name: str) -> _Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_HOMES})
