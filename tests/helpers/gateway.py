"""For tests of the model gateway: an endpoint that streams, stalls and breaks, and a client."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

KEY = "sk-very-secret-key"


class Reply(NamedTuple):
    """What the endpoint does with one request."""

    body: bytes | str = b""
    status: int = 200
    headers: dict[str, str] = {}
    pieces: tuple[bytes, ...] = ()
    """Of a stream, each sent by itself."""
    cut: bool = False
    """The connection ends before the answer does."""
    pause: float = 0.0
    """Seconds before each piece."""
    hold: bool = False
    """Nothing more is sent until the endpoint is closed."""


def event(data: Any, kind: str | None = None) -> bytes:
    """A server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {kind}\n" if kind else "").encode() + f"data: {text}\n\n".encode()


def chunk(content: str | None = None, **more: Any) -> bytes:
    """A piece of a chat completion's stream."""
    delta = {} if content is None else {"content": content}
    choice = {"index": 0, "delta": more.pop("delta", delta), "finish_reason": more.pop("end", None)}
    return event({"id": "c1", "object": "chat.completion.chunk", "model": "m-2026", **more}
                 | ({} if "choices" in more else {"choices": [choice]}))  # fmt: skip


USED = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def chat(text: str = "hello", **more: Any) -> Reply:
    """A chat completion."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return Reply(
        json.dumps({"id": "c1", "model": "m-2026", "choices": [choice], "usage": USED} | more)
    )


def chat_stream(*texts: str) -> Reply:
    """A chat completion in pieces, which says at its end what it used."""
    return Reply(
        pieces=(
            *(chunk(text) for text in texts),
            chunk(end="stop"),
            chunk(choices=[], usage=USED),
            event("[DONE]"),
        )
    )


def message(text: str = "hello", **more: Any) -> Reply:
    """A message of Anthropic's."""
    usage = {"input_tokens": 90, "cache_read_input_tokens": 10, "output_tokens": 20}
    return Reply(json.dumps({
        "type": "message", "role": "assistant", "model": "c-2026", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": text}], "usage": usage, **more,
    }))  # fmt: skip


def message_events(text: str) -> tuple[bytes, ...]:
    """The same in pieces."""
    used = {"input_tokens": 90, "cache_read_input_tokens": 10, "output_tokens": 1}
    start = {"type": "message", "model": "c-2026", "content": [], "usage": used}
    whole: Iterable[dict[str, Any]] = (
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": one}}
          for one in text),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"},
         "usage": {"output_tokens": 20}},
        {"type": "message_stop"},
    )  # fmt: skip
    return tuple(event(one, one["type"]) for one in whole)


def refused(status: int, text: str = "no", **headers: str) -> Reply:
    """An error; a client is told to try again at once where it may."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(json.dumps({"error": {"message": text, "code": "odd"}}), status,
                 {"retry-after-ms": "1"} | named)  # fmt: skip


class Asked(NamedTuple):
    """What the endpoint was asked."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Endpoint:
    """Gives its replies in turn, the last one again and again."""

    def __init__(self) -> None:
        self.replies: list[Reply] = [chat()]
        self.asked: list[Asked] = []
        self.hung_up = threading.Event()
        """A client was gone before its answer had ended."""
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_port

    @property
    def environ(self) -> dict[str, str]:
        """The variables that name it, for both APIs."""
        base = f"http://127.0.0.1:{self.port}"
        return {
            "OPENAI_BASE_URL": f"{base}/v1", "OPENAI_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": f"{KEY}-too",
        }  # fmt: skip

    def reply(self, *replies: Reply) -> None:
        """What it answers from now on."""
        self.replies = list(replies)

    def next(self, asked: Asked) -> Reply:
        """The reply to a request."""
        with self._lock:
            self.asked.append(asked)
            return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    def close(self) -> None:
        """Stop, and let go of all that wait."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.answer("GET")

            def do_POST(self) -> None:
                self.answer("POST")

            def answer(self, method: str) -> None:
                self.close_connection = True
                data = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(method, self.path, headers, json.loads(data) if data else None)
                reply = endpoint.next(asked)
                try:
                    self.send(reply)
                    if reply.hold:
                        self.wait()
                except OSError:
                    endpoint.hung_up.set()

            def send(self, reply: Reply) -> None:
                body = reply.body.encode() if isinstance(reply.body, str) else reply.body
                if reply.hold and not reply.pieces:
                    return
                self.send_response(reply.status)
                self.send_header("connection", "close")
                if reply.pieces:
                    self.send_header("content-type", "text/event-stream")
                else:
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(body) + reply.cut))
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                if reply.pieces:
                    self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for piece in reply.pieces:
                    endpoint._closing.wait(reply.pause)
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    self.wfile.flush()
                if reply.pieces and not reply.cut and not reply.hold:
                    self.wfile.write(b"0\r\n\r\n")
                self.wfile.write(body)

            def wait(self) -> None:
                """Until the other side hangs up, or the endpoint is closed."""
                self.connection.settimeout(0.02)
                while not endpoint._closing.is_set():
                    try:
                        if not self.connection.recv(1):
                            endpoint.hung_up.set()
                            return
                    except TimeoutError:
                        continue

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


CALL = r'''
import http.client, json, os, sys, urllib.parse

def ask(path, body=None, *, key=None, headers={}, base=None, timeout=20):
    """Status and text of an answer; how it ended where there is none."""
    api = "ANTHROPIC" if path.startswith("/v1/messages") else "OPENAI"
    place = urllib.parse.urlsplit(base or os.environ["OPENAI_BASE_URL"])
    key = os.environ[api + "_API_KEY"] if key is None else key
    shown = {"x-api-key": key} if api == "ANTHROPIC" else {"authorization": "Bearer " + key}
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=timeout)
    try:
        data = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, data, {**shown, **headers})
        response = connection.getresponse()
        return response.status, response.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return 0, type(error).__name__
    finally:
        connection.close()

def chat(text="hi", **more):
    body = {"model": os.environ["TRIALOG_MODEL"], "messages": [{"role": "user", "content": text}]}
    return ask("/v1/chat/completions", {**body, **more})

def tell(*values):
    print(json.dumps(values), flush=True)
'''
"""The beginning of an agent's program, in Python: its client."""
