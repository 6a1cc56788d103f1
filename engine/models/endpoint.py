"""Which endpoint is called, and with which key, by the environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from ..errors import ConfigError

BASE_URL = "OPENAI_BASE_URL"
API_KEY = "OPENAI_API_KEY"
JUDGE_BASE_URL = "TRIALOG_JUDGE_BASE_URL"
JUDGE_API_KEY = "TRIALOG_JUDGE_API_KEY"
"""For judges alone; they go before the other two."""

ANTHROPIC_BASE_URL = "ANTHROPIC_BASE_URL"
ANTHROPIC_API_KEY = "ANTHROPIC_API_KEY"
"""For agents that speak Anthropic's messages, through the model gateway."""

KEYS = frozenset({API_KEY, JUDGE_API_KEY, ANTHROPIC_API_KEY})
"""Variables that no sandbox is given."""

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com"


Api: TypeAlias = Literal["openai", "anthropic"]
"""Whose forms of requests and answers an endpoint speaks."""


class ModelUnavailable(ConfigError):
    """No model can be called from here: the package, the key or a proper address is missing."""

    category = "model_unavailable"


_ANY_WORD = "to any word for an endpoint that asks for none"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where models are called."""

    base_url: str | None
    """Null: OpenAI's own."""
    key: str

    @property
    def shown(self) -> str:
        """Its address without what could be a password."""
        parts = urlsplit(self.base_url or OPENAI)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


def read_endpoint(
    environ: Mapping[str, str],
    *,
    url_name: str = BASE_URL,
    key_name: str = API_KEY,
    or_key_name: str | None = None,
    caller: str = "the chat agent's model",
    error: type[ModelUnavailable] = ModelUnavailable,
) -> Endpoint:
    """The endpoint that these variables name. Raises `error`.

    `or_key_name` is another variable that may have the key, for the message that it is missing.
    """
    base_url = environ.get(url_name) or None
    key = environ.get(key_name, "").strip()
    if not key:
        missing, them = f"{key_name} is not set", "it"
        if or_key_name is not None:
            missing, them = f"neither {or_key_name} nor {key_name} is set", "one"
        raise error(f"{missing}, and {caller} needs a key; set {them} ({_ANY_WORD})")
    if not key.isascii() or not key.isprintable():
        raise error(f"{key_name} has characters that no key has")
    if base_url is not None and not _is_address(base_url):
        raise error(
            f"{url_name} is {base_url!r}, which is no address; it should be like "
            "http://127.0.0.1:8000/v1"
        )
    return Endpoint(base_url=base_url, key=key)


def read_endpoints(environ: Mapping[str, str]) -> dict[Api, Endpoint]:
    """The endpoints that a gateway passes calls on to. Raises ModelUnavailable where there is none.

    One is there where its key is.
    """
    found: dict[Api, Endpoint] = {}
    caller = "the model gateway"
    if environ.get(API_KEY, "").strip():
        found["openai"] = read_endpoint(environ, caller=caller)
    if environ.get(ANTHROPIC_API_KEY, "").strip():
        found["anthropic"] = read_endpoint(
            environ, url_name=ANTHROPIC_BASE_URL, key_name=ANTHROPIC_API_KEY, caller=caller
        )
    if not found:
        raise ModelUnavailable(
            f"neither {API_KEY} nor {ANTHROPIC_API_KEY} is set, and {caller} needs a key; set one "
            f"({_ANY_WORD})"
        )
    return found


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and host is not None and port != 0
