"""The conversation with an agent: what is said in which order, and what its answers mean."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Sequence
from importlib.metadata import version
from typing import Any, Literal, TypeVar

import anyio
import msgspec

from ....events.kinds.parts import Usage
from ....events.values import without_surrogates
from .forms import PROTOCOL_VERSION, Connection, RequestError, ValidationError, schema
from .services import Services
from .transport import Transport
from .updates import Chronicle, problem

SETUP_SEC = 120.0
"""For each answer until the agent is given the task."""

LONGEST_DATA = 500
"""Characters of what an error has beside its message."""

_LOGIN = -32000
_NAMES_KEY = re.compile(r"key|token", re.IGNORECASE)
_OWN_VERSION = version("trialog")
_M = TypeVar("_M", bound=schema.BaseModel)
Step = Literal[
    "initialize", "authenticate", "session/new", "session/set_config_option", "session/prompt"
]


class Broken(Exception):
    """The conversation ended before its end."""

    def __init__(self, step: Step, why: str, *, code: int | None = None) -> None:
        self.step = step
        self.code = code
        """Of the error that the agent answered with."""
        super().__init__(why)

    @property
    def before_the_task(self) -> bool:
        """The agent was never given the task."""
        return self.step != "session/prompt"


class Gone(Broken):
    """The agent is not there any more; how it ended says the rest."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's last word."""

    stop: schema.StopReason
    usage: Usage | None


class Session:
    """One agent's conversation, from `initialize` to the answer to the prompt."""

    def __init__(
        self, connection: Connection, transport: Transport, services: Services, chronicle: Chronicle
    ) -> None:
        self._connection, self._transport = connection, transport
        self._services, self._chronicle = services, chronicle
        self.version: str | None = None
        """As the agent says it."""
        self.step: Step = "initialize"
        self._methods: Sequence[Any] = ()
        """Ways to be logged in."""

    async def run(
        self, prompt: str, *, cwd: str, model: str | None, variables: Container[str] = ()
    ) -> Said:
        """Have a task worked on. `variables` are those that it is known to have. Raises Broken."""
        await self._initialize()
        session = await self._begin(cwd, variables)
        self._services.session = session.session_id
        if model is not None:
            await self._choose(model, session)
        answer = await self._ask(
            "session/prompt",
            schema.PromptRequest(
                session_id=session.session_id,
                prompt=[schema.TextContentBlock(type="text", text=without_surrogates(prompt)[0])],
            ),
            schema.PromptResponse,
        )
        return Said(stop=answer.stop_reason, usage=self._chronicle.usage(answer.usage))

    async def _initialize(self) -> None:
        answer = await self._ask(
            "initialize",
            schema.InitializeRequest(
                protocol_version=PROTOCOL_VERSION,
                client_capabilities=schema.ClientCapabilities(
                    fs=schema.FileSystemCapabilities(read_text_file=True, write_text_file=True),
                    terminal=True,
                ),
                client_info=schema.Implementation(name="trialog", version=_OWN_VERSION),
            ),
            schema.InitializeResponse,
        )
        if answer.agent_info is not None and answer.agent_info.version:
            self.version = answer.agent_info.version
        self._methods = answer.auth_methods or ()
        if answer.protocol_version != PROTOCOL_VERSION:
            raise Broken(
                "initialize",
                f"the agent speaks version {answer.protocol_version} of the Agent Client Protocol, "
                f"and trialog version {PROTOCOL_VERSION}",
            )

    async def _begin(self, cwd: str, variables: Container[str]) -> schema.NewSessionResponse:
        """Have a session; where that takes a login, by a key that the agent has in a variable."""

        new: Step = "session/new"

        async def begin() -> schema.NewSessionResponse:
            request = schema.NewSessionRequest(cwd=cwd, mcp_servers=[])
            return await self._ask(new, request, schema.NewSessionResponse)

        try:
            return await begin()
        except Broken as refused:
            if refused.code != _LOGIN:
                raise
            for method in logins(self._methods, variables):
                if await self._login(method):
                    return await begin()
            offered = ", ".join(method.id for method in self._methods) or "none"
            raise Broken(
                new,
                f"{refused}; it wants to be logged in, and offers: {offered}. Give its key by "
                "--agent-env, or in its manifest's env",
            ) from None

    async def _login(self, method: str) -> bool:
        """Whether the agent took a login."""
        request = schema.AuthenticateRequest(method_id=method)
        try:
            await self._ask("authenticate", request, schema.AuthenticateResponse)
        except Broken as refused:
            if refused.code is None:
                raise
            return False
        return True

    async def _choose(self, model: str, session: schema.NewSessionResponse) -> None:
        """Have the model that was asked for, where the agent has a choice of models."""
        option = next(
            (
                one
                for one in session.config_options or ()
                if isinstance(one, schema.SessionConfigOptionSelect) and one.category == "model"
            ),
            None,
        )
        if option is None or option.current_value == model:
            return
        offered = _values(option.options)
        if model not in offered:
            shown = ", ".join(offered[:10]) + (", …" if len(offered) > 10 else "")
            raise Broken(
                "session/set_config_option",
                f"the agent has no model {model!r}; it offers {shown or 'none'}",
            )
        await self._ask(
            "session/set_config_option",
            schema.SetSessionConfigOptionSelectRequest(
                session_id=session.session_id, config_id=option.id, value=model
            ),
            schema.SetSessionConfigOptionResponse,
        )

    async def _ask(self, step: Step, request: schema.BaseModel, form: type[_M]) -> _M:
        """Ask, and wait for the answer: as long as it takes for the prompt's."""
        self.step = step
        params = request.model_dump(mode="json", by_alias=True, exclude_none=True)
        limit = None if step == "session/prompt" else SETUP_SEC
        try:
            with anyio.fail_after(limit):
                answer: Any = await self._connection.send_request(step, params)
            return form.model_validate({} if answer is None else answer)
        except TimeoutError:
            raise Broken(step, f"the agent did not answer {step} within {limit:g} s") from None
        except RequestError as error:
            more = "" if error.data is None else f" {json.dumps(error.data)[:LONGEST_DATA]}"
            why = f"the agent answered {step} with error {error.code}: {error}{more}"
            raise Broken(step, why, code=error.code) from None
        except (ValidationError, RecursionError) as error:
            raise Broken(
                step, f"the agent's answer to {step} has not the form of one: {problem(error)}"
            ) from None
        except ConnectionError:
            fault = self._transport.fault
            if fault is not None:
                raise Broken(step, f"the agent broke the protocol: {fault}") from None
            raise Gone(step, f"before it had answered {step}") from None


def logins(methods: Iterable[Any], variables: Container[str]) -> list[str]:
    """The ways to log in that take nothing but a variable, those that it is known to have first.

    Nobody is there to open a browser or to type on a terminal.
    """
    found: list[tuple[bool, str]] = []
    for method in methods:
        match method:
            case schema.EnvVarAuthMethod():
                needed = [variable.name for variable in method.vars if not variable.optional]
            case schema.AuthMethodAgent() if _NAMES_KEY.search(method.id):
                needed = [re.sub(r"[^A-Z0-9]", "_", method.id.upper())]
            case _:
                continue
        found.append((not all(name in variables for name in needed), method.id))
    return [method for _, method in sorted(found, key=lambda one: one[0])]


def _values(options: Sequence[Any]) -> list[str]:
    """The values that may be chosen, those of groups included."""
    found: list[str] = []
    for option in options:
        if isinstance(option, schema.SessionConfigSelectGroup):
            found += [each.value for each in option.options]
        else:
            found.append(option.value)
    return found
