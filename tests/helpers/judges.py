"""For tests of judges: an endpoint that answers as told, over HTTP and in memory."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from trialog.engine.authoring.verifiers import AgentVerifier, RubricCriterion
from trialog.engine.judges.client import CallFailed, Reply
from trialog.events.kinds.parts import Usage
from trialog.projections.episode import AppData, EpisodeData, StepData, TaskData

POLICY = RubricCriterion(name="policy", description="Follows the policy.", max_score=2.0)
CLARITY = RubricCriterion(name="clarity", description="Is clear.", weight=3.0)


def verifier(**changes: Any) -> AgentVerifier:
    """A judge with two criteria: policy (0 to 2, weight 1) and clarity (0 to 1, weight 3)."""
    given: dict[str, Any] = {
        "model": "m-latest",
        "instructions": "Judge the drafted reply.",
        "criteria": [POLICY, CLARITY],
    }
    return AgentVerifier("quality", **(given | changes))


def episode(**changes: Any) -> EpisodeData:
    """An episode of one step."""
    given: dict[str, Any] = {
        "trial": "t__1",
        "task": TaskData(name="t", instructions="Sort the ticket.", expected="billing"),
        "apps": {"crm": AppData(initial={"status": "open"}, final={"status": "closed"})},
        "steps": [
            StepData(
                event_id="e1",
                turn=1,
                app="crm",
                action="categorize",
                arguments={"category": "billing"},
                observation="done",
            )
        ],
        "answer": ["It is sorted."],
        "artifacts": [{"path": "out/report.txt", "size": 3, "sha256": "0" * 64}],
    }
    return EpisodeData(**(given | changes))


def said(policy: Any = 2, clarity: Any = 1, **more: Any) -> str:
    """A reply with these scores."""
    return json.dumps({
        "policy": {"reason": "step 1 follows it", "score": policy},
        "clarity": {"reason": "it reads well", "score": clarity},
        **more,
    })  # fmt: skip


class FakeClient:
    """A JudgeClient that gives these replies in turn, and notes what it was asked."""

    def __init__(self, *replies: str | Reply | CallFailed) -> None:
        self.replies = list(replies)
        self.asked: list[list[dict[str, str]]] = []
        self.schemas: list[Mapping[str, Any] | None] = []
        self.models: list[str] = []

    async def ask(
        self, model: str, messages: list[dict[str, str]], schema: Mapping[str, Any] | None
    ) -> Reply:
        """The next reply."""
        self.models.append(model)
        self.asked.append(messages)
        self.schemas.append(schema)
        reply = self.replies.pop(0)
        if isinstance(reply, CallFailed):
            raise reply
        if isinstance(reply, str):
            usage = Usage(model_calls=1, input_tokens=10, output_tokens=2)
            return Reply(text=reply, finish="stop", model="m-2026-01", usage=usage)
        return reply


class Answer(NamedTuple):
    """What the endpoint sends back."""

    body: str = ""
    status: int = 200
    headers: Mapping[str, str] = {}
    cut: bool = False
    """The connection ends in the middle of the body."""
    hangs: bool = False
    """After the body the connection stays open, and nothing more comes."""


def completion(text: str | None, **changes: Any) -> Answer:
    """A chat completion that says this."""
    body = {
        "id": "c1",
        "object": "chat.completion",
        "model": "m-2026-01",
        "choices": [
            {
                "index": 0,
                "finish_reason": changes.pop("finish_reason", "stop"),
                "message": {
                    "role": "assistant",
                    "content": text,
                    **changes.pop("message", {}),
                },
            }
        ],
        "usage": {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150},
    }
    return Answer(json.dumps(body | changes))


def refused(status: int, message: str = "no", **headers: str) -> Answer:
    """An error; a client is told to try again at once where it may."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(
        json.dumps({"error": {"message": message}}), status, {"retry-after-ms": "1"} | named
    )


class Request(NamedTuple):
    """What the endpoint was asked."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    at: float
    """When, on a monotonic clock."""


class Endpoint:
    """An OpenAI-compatible endpoint; the last answer is given again and again."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self._choose: Callable[[Request], Answer] | None = None
        self.requests: list[Request] = []
        self.released = threading.Event()
        """Answers wait for this."""
        self.released.set()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def environ(self) -> dict[str, str]:
        """The variables that name it."""
        return {"OPENAI_BASE_URL": self.url, "OPENAI_API_KEY": "sk-very-secret-key"}

    def answer(self, *answers: Answer) -> None:
        """What it answers from now on."""
        self.answers = list(answers)
        self._choose = None

    def answer_by(self, choose: Callable[[Request], Answer]) -> None:
        """What it answers from now on, by what it is asked."""
        self._choose = choose

    def next(self, request: Request) -> Answer:
        """The answer to a request."""
        with self._lock:
            self.requests.append(request)
            if self._choose is not None:
                return self._choose(request)
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def close(self) -> None:
        """Stop, and let go of all that wait."""
        self.released.set()
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                body = json.loads(self.rfile.read(length))
                headers = {name.lower(): value for name, value in self.headers.items()}
                answer = endpoint.next(Request(self.path, headers, body, time.monotonic()))
                endpoint.released.wait()
                data = answer.body.encode()
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(data) + (answer.cut or answer.hangs)))
                self.send_header("connection", "close")
                self.end_headers()
                try:
                    self.wfile.write(data)
                    if answer.hangs:
                        endpoint._closing.wait()
                except OSError:
                    pass  # the client has given up
                self.close_connection = True

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


def contents(messages: Sequence[Mapping[str, str]]) -> str:
    """All that the messages say."""
    return "\n".join(message["content"] for message in messages)
