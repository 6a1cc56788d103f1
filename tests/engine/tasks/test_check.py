"""Advice on tests: what is told, and what is no reason to tell anything."""

from collections.abc import Callable
from pathlib import Path

import pytest

from trialog.engine.tasks.check import advise
from trialog.engine.tasks.load import load_task
from trialog.events.codes import WARNINGS

Make = Callable[..., Path]
Advise = Callable[..., list[str]]

ONLINE = (
    "---\nagent: {timeout_sec: 1}\nverifier: {timeout_sec: 1}\n"
    "sandbox: {allow_internet: true}\n---\nX\n"
)
OFFLINE = ONLINE.replace("true", "false")
GOOD = "echo 0 > /logs/verifier/reward.txt\n"


@pytest.fixture
def codes(make: Make) -> Advise:
    """The codes of the advice on a test script."""

    def codes(script: str, *, network: bool = True, **files: str) -> list[str]:
        parts = {"task.md": ONLINE if network else OFFLINE, "verifier/test.sh": script}
        parts |= {f"verifier/{name.replace('_', '.')}": text for name, text in files.items()}
        found = [one.code for one in advise(load_task(make("a", parts)))]
        assert set(found) <= set(WARNINGS)
        return found

    return codes


@pytest.mark.parametrize(
    "line",
    [
        "python3 /verifier/check.py",
        "/usr/bin/python3.11 -c 'print()'",
        "python3 - <<'EOF'\nimport json\nEOF",
        "if python3 -u check.py; then true; fi",
        "A=1 python check.py",
        "timeout 10 python3 check.py",
        "out=$(python3 check.py)",
        "cd /tests && python3 check.py",
        "python3 -m pytest /tests",
    ],
)
def test_python_without_isolation_is_told(codes: Advise, line):
    """It could import what the agent left in the workspace."""
    assert codes(GOOD + line) == ["check_python_not_isolated"]


@pytest.mark.parametrize(
    "line",
    [
        "python3 -I /verifier/check.py",
        "python3 -sI -c 'print()'",
        "if ! python3 -u -I check.py; then true; fi",
        "# python3 check.py",
        "echo 'use python3 check.py'",
        "command -v python3",
        "python3 --version",
        "[ -x /usr/bin/python3 ]",
        "python3 -I -m pytest /verifier/test_x.py",
        "pytest /verifier/test_x.py -q",
        "cat <<'EOF'\npython3 check.py\nEOF",
        "node check.js",
    ],
)
def test_isolated_python_and_mere_words_are_not(codes: Advise, line):
    """Comments, texts, here-documents and look-ups are no calls."""
    assert codes(GOOD + line) == []


def test_a_test_in_python_itself(codes: Advise):
    """Its shebang needs -I as well."""
    text = "open('/logs/verifier/reward.txt', 'w').write('1')\n"
    assert codes("#!/usr/bin/env python3\n" + text) == ["check_python_not_isolated"]
    assert codes("#!/usr/bin/env -S python3 -I\n" + text) == []
    assert codes("#!/usr/bin/python3 -I\n" + text) == []


def test_other_scripts_of_the_verifier_count_too(codes: Advise):
    """What test.sh calls is looked at when it is a shell script, and only then."""
    script = GOOD + "bash /verifier/more.sh\n"
    assert codes(script, more_sh="python3 x.py\n") == ["check_python_not_isolated"]
    assert codes(script, notes_md="python3 x.py\n", x_py="python3 x.py\n") == []
    assert codes(script, more_sh="true\r\ntrue\r\n") == ["check_crlf"]


FETCHES = [
    "apt-get update",
    "apt-get -y install curl",
    "pip install -q numpy",
    "python3 -m pip install pytest",
    "curl -LsSf https://astral.sh/uv/install.sh | sh",
    "wget https://example.org/x",
    "uvx pytest /tests",
    "npm install",
    "git clone https://example.org/x",
]


@pytest.mark.parametrize("line", FETCHES)
def test_a_set_up_step_without_network(codes: Advise, line):
    """It will fail, whatever the agent did."""
    assert codes(GOOD + line, network=False) == ["check_setup_needs_network"]


@pytest.mark.parametrize("line", FETCHES)
def test_a_set_up_step_that_is_not_checked(codes: Advise, line):
    """When it fails, the test goes on and the 0 that it writes is not the agent's."""
    assert codes(GOOD + line) == ["check_setup_unchecked"]
    assert codes(GOOD + "set -e\n" + line + " || true") == ["check_setup_unchecked"]


@pytest.mark.parametrize("line", FETCHES)
def test_a_set_up_step_that_ends_the_script_is_fine(codes: Advise, line):
    """With set -e, or with an exit of its own."""
    assert codes("set -euo pipefail\n" + line + "\n" + GOOD) == []
    assert codes("set -o pipefail\n" + line + " || exit 1\n" + GOOD) == []
    piped = ["check_setup_unchecked"] if line.endswith("| sh") else []
    assert codes("set -e\n" + line + "\n" + GOOD) == piped
    assert codes(line + " || exit 1\n" + GOOD) == piped


def test_a_pipe_hides_that_its_download_failed(codes: Advise):
    """A shell that gets nothing ends with 0, so set -e alone sees nothing, of this host neither."""
    for host in ("https://example.org", "https://127.0.0.1:9"):
        line = f"curl -fsS {host}/uv.sh | bash -s -- -q\n"
        assert codes("set -e\n" + line + GOOD) == ["check_setup_unchecked"]
        assert codes("set -eo pipefail\n" + line + GOOD) == []
    assert codes(GOOD + line, network=False) == ["check_setup_unchecked"]


def test_what_is_on_this_machine_needs_no_network(codes: Advise):
    """Asking the agent's own service is a check."""
    for line in ("curl -s http://localhost:8000/x", "curl http://127.0.0.1/", 'curl "$URL"'):
        assert codes(GOOD + line, network=False) == []


def test_a_failed_set_up_that_still_writes_0(codes: Advise):
    """The whole chain: a download, an ignored failure, a 0 at the end."""
    script = (
        "curl -fsS https://example.org/uv.sh | sh\n"
        "python3 -m pytest /tests || true\n"
        '[ -n "$OK" ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n'
    )
    assert codes(script, network=False) == [
        "check_python_not_isolated",
        "check_setup_needs_network",
        "check_failure_ignored",
    ]
    assert codes(script)[1:] == ["check_setup_unchecked", "check_failure_ignored"]


def test_an_ignored_failure_of_something_else_is_fine(codes: Advise):
    """Cleaning up may fail."""
    assert codes(GOOD + "rm -r x || true\nmkdir y || :\n") == []


@pytest.mark.parametrize(
    "script",
    [
        "set -e\ngrep -q 42 x\necho 1 > /logs/verifier/reward.txt\n",
        "if grep -q 42 x; then\n  echo 1 > /logs/verifier/reward.txt\nfi\n",
        "grep -q 42 x && echo 1.0 > /logs/verifier/reward.txt\n",
        'grep -q 42 x && echo "1" | tee /logs/verifier/reward.txt\n',
    ],
)
def test_a_reward_on_one_path_only(codes: Advise, script):
    """A failure then writes nothing, which looks like a broken test."""
    assert codes(script) == ["check_reward_on_one_path"]


@pytest.mark.parametrize(
    "script",
    [
        "if grep -q 42 x; then\n  echo 1 > /r/reward.txt\nelse\n  echo 0 > /r/reward.txt\nfi\n",
        "grep -q 42 x && echo 1 > /r/reward.txt || echo 0 > /r/reward.txt\n",
        "echo 0 > /r/reward.txt\ngrep -q 42 x && echo 1 > /r/reward.txt\n",
        "r=0\ngrep -q 42 x && r=1\necho $r > /r/reward.txt\n",
        "if true; then\n  x=1\nfi\necho 1 > /r/reward.txt\n",
        "python3 -I /verifier/check.py > /r/reward.txt\n",
    ],
)
def test_a_reward_on_every_path(codes: Advise, script):
    """Both branches, a default first, or one write of a variable."""
    assert codes(script) == []


def test_a_reward_that_nobody_writes(codes: Advise):
    """No file names a reward file; a Python file of the verifier may be the one."""
    assert codes("true\n") == ["check_reward_never_written"]
    assert codes("python3 -I /verifier/c.py\n", c_py="open('/x/reward.json')") == []


def test_missing_solution_and_time_limits(make: Make):
    """Nothing shows that the task can be done; the default limit may not be meant."""
    folder = make("a", {"task.md": "---\nagent: {user: x}\n---\nX", "oracle/solve.sh": None})
    advice = advise(load_task(folder))
    assert [one.code for one in advice] == [
        "check_no_timeout",
        "check_no_timeout",
        "check_no_solution",
    ]
    assert "agent.timeout_sec" in advice[0].message
    assert "verifier.timeout_sec" in advice[1].message
    folder = make("a", {"task.md": OFFLINE, "oracle/solve.sh": "\n"})
    assert [one.code for one in advise(load_task(folder))] == ["check_no_solution"]


def test_file_and_line_are_named(make: Make):
    """So that it can be found."""
    script = "#!/bin/bash\n# python3\n\npython3 \\\n  x.py > /logs/verifier/reward.txt\n"
    (one,) = advise(load_task(make("a", {"task.md": OFFLINE, "verifier/test.sh": script})))
    assert one.message.startswith("verifier/test.sh, line 4: python3 without -I")


def test_binary_and_large_files_are_passed_over(make: Make):
    """Data beside the test is not read as a script."""
    files = {
        "task.md": OFFLINE,
        "verifier/test.sh": GOOD,
        "verifier/data.sh": b"\xff\x00python3 x\n" + b"python3 y\n" * 200_000,
        "verifier/tool": b"\x7fELF\x00python3 x\n",
    }
    assert advise(load_task(make("a", files))) == []
