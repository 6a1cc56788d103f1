"""A few calls of the Docker Engine API with the standard library alone, for set-up."""

from __future__ import annotations

import http.client
import json
import os
import socket
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

DEFAULT_HOST = "unix:///var/run/docker.sock"


class EngineError(Exception):
    """The engine does not answer, or said no."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("docker", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Engine:
    """An engine at an address like DOCKER_HOST's."""

    def __init__(self, host: str) -> None:
        self.host = host

    @classmethod
    def from_environment(cls) -> Engine:
        """The engine that DOCKER_HOST names, else the one at the usual socket."""
        return cls(os.environ.get("DOCKER_HOST") or DEFAULT_HOST)

    def answers(self) -> bool:
        """Whether there is an engine."""
        try:
            return self._call("GET", "/_ping", timeout=5)[0] == 200
        except EngineError:
            return False

    def image_comment(self, image: str) -> str | None:
        """What was remarked when an image was made; None where there is no such image."""
        status, body = self._call("GET", f"/images/{quote(image, safe='')}/json")
        if status == 404:
            return None
        self._check(status, body)
        return str(json.loads(body).get("Comment") or "")

    def import_image(self, tar: Path, image: str, *, comment: str) -> None:
        """Make an image of a root file system in a tar."""
        repo, _, tag = image.partition(":")
        name = f"repo={quote(repo, safe='')}&tag={quote(tag or 'latest')}"
        query = f"fromSrc=-&{name}&message={quote(comment)}"
        with tar.open("rb") as file:
            status, body = self._call(
                "POST",
                f"/images/create?{query}",
                body=file,
                headers={
                    "Content-Type": "application/x-tar",
                    "Content-Length": str(tar.stat().st_size),
                },
            )
        self._check(status, body)

    def pull(self, image: str, *, timeout: float) -> None:
        """Fetch an image from its registry; EngineError where that can't be done."""
        repo, _, tag = image.partition(":")
        query = f"fromImage={quote(repo, safe='')}&tag={quote(tag or 'latest')}"
        status, body = self._call("POST", f"/images/create?{query}", timeout=timeout)
        self._check(status, body)

    def prune(self) -> None:
        """Remove containers that don't run, and networks and volumes that nothing uses."""
        for what in ("containers", "networks", "volumes"):
            status, body = self._call("POST", f"/{what}/prune")
            self._check(status, body)

    def _check(self, status: int, body: bytes) -> None:
        if status >= 400:
            try:
                message = json.loads(body)["message"]
            except (ValueError, KeyError):
                message = body.decode(errors="replace")
            raise EngineError(f"{self.host}: {message}")
        # Long calls answer 200 at once and tell of an error in the stream.
        for line in body.splitlines():
            if line.startswith(b'{"error') or b'"errorDetail"' in line:
                raise EngineError(f"{self.host}: {json.loads(line)['error']}")

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        headers: dict[str, str] | None = None,
        timeout: float = 300,
    ) -> tuple[int, bytes]:
        address = urlsplit(self.host)
        if address.scheme == "unix":
            connection: http.client.HTTPConnection = _UnixConnection(address.path, timeout)
        elif address.scheme in {"tcp", "http"}:
            connection = http.client.HTTPConnection(
                address.hostname or "localhost", address.port or 2375, timeout=timeout
            )
        else:
            raise EngineError(f"DOCKER_HOST={self.host} is neither unix:// nor tcp://")
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise EngineError(f"{self.host}: {error}") from error
        finally:
            connection.close()
