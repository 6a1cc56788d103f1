#!/usr/bin/env python3
"""An agent of the Agent Client Protocol for tests: plain Python, no package.

Run as ``acp_agent.py SCENARIO``: a file of Python that may define `work(prompt)`, which gives the
stop reason, and any of the functions below anew. It is run in this module's names.
"""

import json
import os
import subprocess  # noqa: F401 - for scenarios, as is the next but one
import sys
import time  # noqa: F401

SESSION = "s-1"
_waiting = {}
_asked = 0


def raw(text):
    """Write anything."""
    data = text if isinstance(text, bytes) else text.encode()
    while data:
        data = data[os.write(1, data) :]


def send(message):
    """Send a message."""
    raw(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def update(what, /, **fields):
    """Send a session/update."""
    params = {"sessionId": SESSION, "update": {"sessionUpdate": what, **fields}}
    send({"method": "session/update", "params": params})


def say(text):
    """A piece of a message."""
    update("agent_message_chunk", content={"type": "text", "text": text})


def think(text):
    """A piece of a thought."""
    update("agent_thought_chunk", content={"type": "text", "text": text})


def start(method, **params):
    """Send a request and don't wait: its id."""
    global _asked
    _asked += 1
    send({"id": f"a{_asked}", "method": method, "params": {"sessionId": SESSION, **params}})
    return f"a{_asked}"


def answer_to(ident):
    """Wait for the answer to a request; messages for the agent are served meanwhile."""
    while ident not in _waiting:
        if not serve_one():
            sys.exit(3)
    return _waiting.pop(ident)


def ask(method, **params):
    """Send a request: its result, or the error as a text."""
    answer = answer_to(start(method, **params))
    return answer["result"] if "result" in answer else f"error: {answer['error']['message']}"


def run(command, **more):
    """Run a command in a terminal: its output and how it ended."""
    name = ask("terminal/create", command=command, **more)["terminalId"]
    ended = ask("terminal/wait_for_exit", terminalId=name)
    output = ask("terminal/output", terminalId=name)["output"]
    ask("terminal/release", terminalId=name)
    return output, ended


def initialize(params):
    """The answer to `initialize`."""
    info = {"name": "test-agent", "version": "7.7"}
    return {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": {}}


def new_session(params):
    """The answer to `session/new`."""
    return {"sessionId": SESSION}


def authenticate(params):
    """The answer to `authenticate`."""
    return {}


def work(prompt):
    """Work on the task: the stop reason, or a whole answer."""
    return "end_turn"


def set_option(params):
    """The answer to `session/set_config_option`."""
    return {"configOptions": []}


def _prompt(params):
    text = "".join(block["text"] for block in params["prompt"])
    stop = work(text)
    return stop if isinstance(stop, dict) else {"stopReason": stop}


class Refused(Exception):
    """Answer with this error: code, message and maybe data."""


def serve_one():
    """Take one message; False at the end."""
    line = sys.stdin.readline()
    if not line:
        return False
    message = json.loads(line)
    if "method" not in message:
        _waiting[message["id"]] = message
        return True
    ways = {
        "initialize": "initialize",
        "authenticate": "authenticate",
        "session/new": "new_session",
        "session/prompt": "_prompt",
        "session/set_config_option": "set_option",
    }
    try:
        result = globals()[ways[message["method"]]](message["params"])
        send({"id": message["id"], "result": result})
    except Refused as refused:
        code, text, *data = refused.args
        error = {"code": code, "message": text, **({"data": data[0]} if data else {})}
        send({"id": message["id"], "error": error})
    return True


if __name__ == "__main__":
    with open(sys.argv[1]) as scenario:
        exec(scenario.read())
    while serve_one():
        pass
