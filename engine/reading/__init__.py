"""A log read from Python: trials, steps, rewards and verdicts, as structs and as tables."""

from __future__ import annotations

from .opened import Log as Log
from .opened import Trials as Trials
from .structs import Reward as Reward
from .structs import Step as Step
from .structs import Trial as Trial
from .structs import Verdict as Verdict
