#!/usr/bin/env python3
"""Solves Kepler's equation, and speaks the Agent Client Protocol while it does.

A line is a message. Those with a `method` ask, the others answer; what the client is asked here is
to write a file and to run a command, both in the sandbox that this runs in as well.
"""

import json
import math
import re
import sys

asked = 0


def send(**message):
    """Send a message."""
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def ask(method, **params):
    """Ask the client for something, and wait for its answer."""
    global asked
    asked += 1
    send(id=asked, method=method, params=params)
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == asked and "method" not in message:
            return message["result"]
    sys.exit("the client is gone")


def tell(session, what, **fields):
    """Tell the client how it goes."""
    update = {"sessionUpdate": what, **fields}
    send(method="session/update", params={"sessionId": session, "update": update})


def work(session, cwd, prompt):
    """Solve the task that the prompt describes."""
    found = re.search(r"e = ([\d.]+?)\.?\s.*M = ([\d.]+?)\.?\s", prompt, re.S)
    if found is None:
        text = {"type": "text", "text": "I only know Kepler's equation."}
        tell(session, "agent_message_chunk", content=text)
        return "refusal"
    e, m = float(found[1]), float(found[2])
    thought = {"type": "text", "text": f"Newton's method, from pi, with e={e} and M={m}."}
    tell(session, "agent_thought_chunk", content=thought)
    anomaly = math.pi
    for _ in range(50):
        anomaly -= (anomaly - e * math.sin(anomaly) - m) / (1 - e * math.cos(anomaly))
    path = f"{cwd}/answer.txt"
    tell(session, "tool_call", toolCallId="write", title="Write the answer", kind="edit")
    ask("fs/write_text_file", sessionId=session, path=path, content=f"{anomaly:.12f}\n")
    terminal = ask("terminal/create", sessionId=session, command="cat", args=[path])["terminalId"]
    ask("terminal/wait_for_exit", sessionId=session, terminalId=terminal)
    shown = ask("terminal/output", sessionId=session, terminalId=terminal)["output"]
    ask("terminal/release", sessionId=session, terminalId=terminal)
    content = [{"type": "content", "content": {"type": "text", "text": shown}}]
    tell(session, "tool_call_update", toolCallId="write", status="completed", content=content)
    tell(session, "agent_message_chunk", content={"type": "text", "text": f"E = {shown.strip()}"})
    return "end_turn"


def main():
    """Answer the client, in the order of the protocol."""
    folders = {}
    for line in sys.stdin:
        message = json.loads(line)
        params = message.get("params") or {}
        if message.get("method") == "initialize":
            info = {"name": "kepler", "version": "1.0.0"}
            send(id=message["id"], result={"protocolVersion": 1, "agentInfo": info})
        elif message.get("method") == "session/new":
            name = f"session-{len(folders) + 1}"
            folders[name] = params["cwd"]
            send(id=message["id"], result={"sessionId": name})
        elif message.get("method") == "session/prompt":
            prompt = "".join(block.get("text", "") for block in params["prompt"])
            session = params["sessionId"]
            stop = work(session, folders[session], prompt)
            send(id=message["id"], result={"stopReason": stop})
        elif "id" in message and "method" in message:
            error = {"code": -32601, "message": "Method not found"}
            send(id=message["id"], error=error)


if __name__ == "__main__":
    main()
