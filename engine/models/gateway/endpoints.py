"""What a gateway passes calls on to, whatever it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...redact import Redactor
from ..client import CallWatch
from ..endpoint import Api
from .upstream import Answer, Ask, Downstream


class Endpoints(Protocol):
    """The endpoints of a job, or what answers in their place."""

    @property
    def apis(self) -> Sequence[Api]:
        """Those that there is an endpoint for."""
        ...

    @property
    def redactor(self) -> Redactor:
        """Takes the keys out of what endpoints say."""
        ...

    def shown(self, api: Api) -> str:
        """An endpoint's address, as events show it."""
        ...

    async def ask(self, ask: Ask, down: Downstream, watch: CallWatch) -> Answer:
        """Ask, and ask again where that may help and nothing was passed on. Raises CallFailed."""
        ...
