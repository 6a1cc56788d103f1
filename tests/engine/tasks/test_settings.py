"""Every honoured setting, the known ones that ask for nothing, and those that are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from trialog.engine.errors import TaskError
from trialog.engine.tasks.load import load_task
from trialog.engine.tasks.model import DeclaredArtifact, Task, TaskSettings

Make = Callable[..., Path]
Load = Callable[..., Task]


@pytest.fixture
def load(make: Make) -> Load:
    """Load a task with these settings, given as YAML or TOML text or as a table."""

    def load(settings: str | dict[str, Any] = "", *, toml: str | None = None) -> Task:
        if toml is not None:
            return load_task(make("b", {"task.toml": toml}))
        text = settings if isinstance(settings, str) else yaml.safe_dump(settings)
        return load_task(make("a", {"task.md": f"---\n{text}\n---\nDo it.\n"}))

    return load


def test_all_settings_of_a_public_task_are_read_without_a_warning(load: Load):
    """What nearly all public tasks set is honoured or asks for nothing."""
    task = load(
        toml="""
        version = "1.0"
        source = "somewhere"
        artifacts = []
        [task]
        name = "org/name"
        authors = [{name = "N", email = "e@example.org"}]
        keywords = ["k"]
        [metadata]
        difficulty = "hard"
        expert_time_estimate_min = 100.0
        when = 2025-10-31
        [verifier]
        type = "test-script"
        service = "main"
        pytest_plugins = []
        timeout_sec = 900.0
        [verifier.hardening]
        cleanup_conftests = true
        [verifier.judge]
        model = "m"
        [agent]
        timeout_sec = 1200.0
        [environment]
        build_timeout_sec = 601.0
        docker_image = "repo/image:20251031"
        os = "linux"
        cpus = 2
        memory_mb = 4096
        storage_mb = 10240
        gpus = 0
        allow_internet = true
        mcp_servers = []
        [verifier.env]
        [environment.env]
        [solution.env]
        """
    )
    assert task.warnings == []
    settings = task.settings
    assert settings.agent.timeout_sec == 1200
    assert settings.verifier.timeout_sec == 900
    sandbox = settings.sandbox
    assert (sandbox.cpus, sandbox.memory_mb, sandbox.storage_mb) == (2, 4096, 10240)
    assert (sandbox.build_timeout_sec, sandbox.network) == (601, True)
    assert sandbox.docker_image == "repo/image:20251031"
    assert settings.metadata["when"] == "2025-10-31"


def test_every_honoured_setting_is_read_from_front_matter(load: Load):
    """The other settings, under the names that task.md files use."""
    task = load(
        {
            "schema_version": "1.3",
            "benchflow": {"document_version": "0.3"},
            "agents": {"roles": {"solver": {}}},
            "scenes": [{"name": "one"}],
            "agent": {"idle_timeout_sec": 5, "user": 1000},
            "verifier": {
                "env": {"A": "${B:-c}"},
                "reward_range": [-1, 1.5],
                "sandbox_mode": "separate",
                "user": "root",
                "keep_processes": True,
                "aggregate": "mean",
            },
            "sandbox": {
                "network_mode": "public",
                "workdir": "/root/place/",
                "env": {"X": "y"},
                "cpus": 0.5,
            },
            "artifacts": ["out.txt", {"source": "/var/x", "destination": "x/y"}],
            "verifiers": ["judge", "people"],
            "oracle": {"env": {"K": "v"}},
        }
    )
    assert task.warnings == []
    settings = task.settings
    assert (settings.agent.idle_timeout_sec, settings.agent.user) == (5, "1000")
    verifier = settings.verifier
    assert verifier.env == {"A": "${B:-c}"}
    assert (verifier.reward_low, verifier.reward_high) == (-1, 1.5)
    assert (verifier.sandbox_mode, verifier.user) == ("separate", "root")
    assert (verifier.keep_processes, verifier.aggregate) == (True, "mean")
    assert (settings.sandbox.network, settings.sandbox.workdir) == (True, "/root/place")
    assert (settings.sandbox.env, settings.sandbox.cpus) == ({"X": "y"}, 0.5)
    assert settings.artifacts == [
        DeclaredArtifact(source="out.txt"),
        DeclaredArtifact(source="/var/x", destination="x/y"),
    ]
    assert settings.verifiers == ["judge", "people"]
    assert settings.solution_env == {"K": "v"}


def test_without_settings_all_have_their_defaults(load: Load):
    """Nothing has to be set; there is no network then."""
    task = load("")
    assert task.settings == TaskSettings()
    assert not task.settings.sandbox.network
    assert load("agent: null\nsandbox: {docker_image: ~}").settings == TaskSettings()


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [("4G", 4096), ("512M", 512), ("1.5g", 1536), ("2GB", 2048), ("2GiB", 2048), ("1024K", 1)],
)
def test_older_sizes_are_read(load: Load, text, mebibytes):
    """`memory` and `storage` are sizes with a unit."""
    sandbox = load({"environment": {"memory": text, "storage": text}}).settings.sandbox
    assert (sandbox.memory_mb, sandbox.storage_mb) == (mebibytes, mebibytes)


def test_two_sizes_that_differ_are_told(load: Load):
    """`memory_mb` holds over `memory`; when they agree there is nothing to say."""
    assert load("sandbox: {memory: 1G, memory_mb: 1024}").warnings == []
    task = load("sandbox: {memory: 1G, memory_mb: 2048}")
    assert task.settings.sandbox.memory_mb == 2048
    assert [warning.code for warning in task.warnings] == ["task_setting_twice"]


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("allow_internet: true", True),
        ("allow_internet: yes", True),
        ("allow_internet: off", False),
        ("network_mode: public", True),
        ("network_mode: no-network", False),
        ("network_mode: no-network\n  allow_internet: false", False),
    ],
)
def test_network_by_either_name(load: Load, text, network):
    """`allow_internet` and `network_mode` say the same."""
    task = load(f"environment:\n  {text}")
    assert task.settings.sandbox.network is network
    assert task.warnings == []


def test_what_an_agent_is_said_to_have_is_said_of_the_sandbox(load: Load):
    """Where the sandbox's table is silent, and never against what it says."""
    said = load("agent: {network_mode: public}").settings.sandbox
    assert (said.network, said.network_said) == (True, True)
    for text in ("agent: {network_mode: no-network}", "verifier: {network_mode: no-network}"):
        said = load(text).settings.sandbox
        assert (said.network, said.network_said) == (False, True)
    assert not load("agent: {timeout_sec: 1}").settings.sandbox.network_said
    with pytest.raises(TaskError, match="a network \\(public\\) that is not the sandbox's"):
        load("sandbox: {allow_internet: false}\nagent: {network_mode: public}")


def test_a_contradiction_about_the_network_is_told(load: Load):
    """`network_mode` holds over `allow_internet`."""
    task = load("sandbox: {network_mode: no-network, allow_internet: true}")
    assert not task.settings.sandbox.network
    assert [warning.code for warning in task.warnings] == ["task_setting_twice"]


def test_sandbox_holds_over_environment(load: Load):
    """Where both names of the table are given, they are joined, with a warning."""
    task = load("sandbox: {cpus: 1}\nenvironment: {cpus: 2, memory_mb: 64}")
    assert (task.settings.sandbox.cpus, task.settings.sandbox.memory_mb) == (1, 64)
    assert [warning.code for warning in task.warnings] == ["task_setting_twice"]


def test_short_forms_of_front_matter(load: Load):
    """`image`, a folder's name for `verifier` or `oracle`, variables right under `solution`."""
    task = load("image: 'a/b:1'\nverifier: verifier/\noracle: ./oracle\nname: x")
    assert task.settings.sandbox.docker_image == "a/b:1"
    assert task.warnings == []
    task = load(toml='[solution]\nAPI_KEY = "${API_KEY}"\n')
    assert task.settings.solution_env == {"API_KEY": "${API_KEY}"}
    assert task.warnings == []


@pytest.mark.parametrize(
    ("settings", "key", "near"),
    [
        ("agent: {timeout: 5}", "agent.timeout", "agent.timeout_sec"),
        ("sandbox: {cpu: 5}", "sandbox.cpu", "sandbox.cpus"),
        ("verifer: {}", "verifer", "verifier"),
        ("verifier: {reward_rage: [0, 1]}", "verifier.reward_rage", "verifier.reward_range"),
        (
            "artifacts: [{source: x, destinaton: y}]",
            "artifacts[0].destinaton",
            "artifacts[0].destination",
        ),
        ("zzz: 1", "zzz", None),
    ],
)
def test_an_unknown_setting_is_a_warning_with_the_nearest_known(load: Load, settings, key, near):
    """It is named, and it is no reason to refuse."""
    task = load(settings)
    assert [warning.code for warning in task.warnings] == ["task_setting_unknown"]
    message = task.warnings[0].message
    assert f"task.md: {key}: " in message
    assert (f"did you mean {near}?" in message) if near else ("did you mean" not in message)


@pytest.mark.parametrize(
    ("settings", "key", "message"),
    [
        ("agent: 3", "agent", "expected a table, found the number 3"),
        (
            "agent: {timeout_sec: ten}",
            "agent.timeout_sec",
            "expected a number of seconds above 0, found the text 'ten'",
        ),
        ("agent: {timeout_sec: '10'}", "agent.timeout_sec", "found the text '10'"),
        ("agent: {timeout_sec: 0}", "agent.timeout_sec", "found the number 0"),
        ("agent: {timeout_sec: true}", "agent.timeout_sec", "found true"),
        ("agent: {timeout_sec: .inf}", "agent.timeout_sec", "found the text 'inf'"),
        ("agent: {timeout_sec: 1e999}", "agent.timeout_sec", "found the text 'inf'"),
        ("agent: {user: [a]}", "agent.user", "expected a user's name or number, found a list"),
        ("agent: {user: 'a b'}", "agent.user", "expected a user's name or number"),
        ("agent: {idle_timeout_sec: -1}", "agent.idle_timeout_sec", "found the number -1"),
        ("sandbox: {cpus: two}", "sandbox.cpus", "expected a number above 0"),
        ("sandbox: {memory_mb: 1.5}", "sandbox.memory_mb", "expected a whole number above 0"),
        ("sandbox: {memory_mb: 4G}", "sandbox.memory_mb", "found the text '4G'"),
        ("environment: {memory: 4}", "environment.memory", "expected a size as text"),
        ("environment: {memory: lots}", "environment.memory", "found the text 'lots'"),
        ("environment: {storage: 0G}", "environment.storage", "expected a size as text"),
        (
            "sandbox: {docker_image: 1.10}",
            "sandbox.docker_image",
            "expected text (put it in quotes), found the number 1.1",
        ),
        ("sandbox: {docker_image: ''}", "sandbox.docker_image", "expected text"),
        ("sandbox: {docker_image: 'a b'}", "sandbox.docker_image", "no image reference"),
        ("sandbox: {build_timeout_sec: []}", "sandbox.build_timeout_sec", "found a list"),
        (
            "sandbox: {allow_internet: 1}",
            "sandbox.allow_internet",
            "expected true or false, found the number 1",
        ),
        ("sandbox: {allow_internet: 'yes'}", "sandbox.allow_internet", "found the text 'yes'"),
        (
            "sandbox: {network_mode: none}",
            "sandbox.network_mode",
            "expected one of public, no-network, allowlist",
        ),
        ("sandbox: {workdir: app}", "sandbox.workdir", "expected an absolute path"),
        ("sandbox: {workdir: /a/../b}", "sandbox.workdir", "expected an absolute path"),
        ("sandbox: {workdir: /verifier/x}", "sandbox.workdir", "another use"),
        (
            "sandbox: {env: {PORT: 80}}",
            "sandbox.env.PORT",
            "expected text, found the number 80; put it in quotes",
        ),
        ("sandbox: {env: [A]}", "sandbox.env", "expected a table, found a list"),
        ("sandbox: {env: {'A=B': c}}", "sandbox.env.A=B", "no name of an environment variable"),
        ("verifier: {env: {A: true}}", "verifier.env.A", "found true"),
        (
            "verifier: {reward_range: 1}",
            "verifier.reward_range",
            "expected two finite numbers [low, high], found the number 1",
        ),
        ("verifier: {reward_range: [0, 1, 2]}", "verifier.reward_range", "found [0, 1, 2]"),
        ("verifier: {reward_range: [0, .nan]}", "verifier.reward_range", "found [0, nan]"),
        (
            "verifier: {reward_range: [a, 1]}",
            "verifier.reward_range",
            "expected two finite numbers",
        ),
        (
            "verifier: {sandbox_mode: own}",
            "verifier.sandbox_mode",
            "expected one of shared, separate",
        ),
        ("verifier: {keep_processes: 'no'}", "verifier.keep_processes", "expected true or false"),
        ("verifier: {aggregate: 3}", "verifier.aggregate", "expected text"),
        ("verifier: other/folder", "verifier", "expected a table, found the text 'other/folder'"),
        ("artifacts: out.txt", "artifacts", "expected a list, found the text 'out.txt'"),
        (
            "artifacts: [3]",
            "artifacts[0]",
            "expected a path or {source, destination}, found the number 3",
        ),
        ("artifacts: [{destination: x}]", "artifacts[0].source", "found nothing"),
        ("artifacts: ['../x']", "artifacts[0].source", "without .."),
        (
            "artifacts: [{source: x, destination: /etc}]",
            "artifacts[0].destination",
            "expected a relative path",
        ),
        (
            "artifacts: [{source: x, destination: a/../..}]",
            "artifacts[0].destination",
            "expected a relative path",
        ),
        ("verifiers: judge", "verifiers", "expected a list of texts"),
        ("verifiers: [a, a]", "verifiers", "'a' is given twice"),
        ("oracle: {env: {A: 1}}", "oracle.env.A", "expected text"),
        ("metadata: x", "metadata", "expected a table"),
    ],
)
def test_a_wrong_type_names_file_key_expectation_and_finding(load: Load, settings, key, message):
    """A wrong type or value is an error that says what was expected and what is there."""
    with pytest.raises(TaskError) as caught:
        load(settings)
    assert f"task.md: {key}: " in str(caught.value)
    assert message in str(caught.value)
    assert caught.value.key == key
    assert Path(str(caught.value.file)).name == "task.md"


@pytest.mark.parametrize("reward_range", [[0, 0.5], [0.1, 1], [0.5, 0.7], [1, 0], [2, 3]])
def test_the_reward_range_is_never_narrowed(load: Load, reward_range):
    """A range that leaves out 0 or 1 is refused when the task is loaded."""
    with pytest.raises(TaskError, match=r"verifier\.reward_range: .*narrows the range"):
        load({"verifier": {"reward_range": reward_range}})


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"verifier": {"type": "llm-judge"}}, "verifier.type"),
        ({"verifier": {"type": 3}}, "verifier.type"),
        ({"steps": [{"name": "one"}, {"name": "two"}]}, "steps"),
        ({"sandbox": {"gpus": 1}}, "sandbox.gpus"),
        ({"environment": {"gpus": 0, "gpu_types": ["H100"]}}, "environment.gpu_types"),
        ({"environment": {"tpu": {"type": "v4"}}}, "environment.tpu"),
        (
            {"sandbox": {"network_mode": "allowlist", "allowed_hosts": ["a.org"]}},
            "sandbox.allowed_hosts",
        ),
        ({"sandbox": {"network_mode": "allowlist"}}, "sandbox.network_mode"),
        ({"sandbox": {"blocked_hosts": ["a.org"]}}, "sandbox.blocked_hosts"),
        ({"sandbox": {"mcp_servers": [{"name": "x"}]}}, "sandbox.mcp_servers"),
        ({"sandbox": {"os": "windows"}}, "sandbox.os"),
        ({"sandbox": {"healthcheck": {"command": "true"}}}, "sandbox.healthcheck"),
        ({"sandbox": {"setup_commands": [{"command": "true"}]}}, "sandbox.setup_commands"),
        ({"verifier": {"service": "db"}}, "verifier.service"),
        ({"verifier": {"environment": {"docker_image": "x"}}}, "verifier.environment"),
        ({"verifier": {"network_mode": "public"}}, "verifier.network_mode"),
        (
            {"agent": {"network_mode": "no-network"}, "sandbox": {"allow_internet": True}},
            "agent.network_mode",
        ),
        ({"agent": {"prompt_prefix": "x"}}, "agent.prompt_prefix"),
        ({"user": {"model": "scripted"}}, "user"),
        ({"scenes": [{"name": "a"}, {"name": "b"}]}, "scenes"),
        ({"agents": {"roles": {"a": {}, "b": {}}}}, "agents.roles"),
        ({"benchflow": {"environment": {"manifest": "m"}}}, "benchflow.environment"),
        ({"artifacts": [{"source": "/x", "service": "db"}]}, "artifacts[0].service"),
    ],
)
def test_what_changes_the_run_and_is_not_supported_refuses_the_task_by_name(
    load: Load, settings, key
):
    """The message names the task, the setting, and what it asks for."""
    with pytest.raises(TaskError) as caught:
        load(settings)
    assert caught.value.key == key
    assert "task task is refused: " in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"sandbox": {"gpus": 0, "gpu_types": [], "mcp_servers": [], "os": "Linux", "tpu": None}},
        {"steps": [], "user": {}, "scenes": [{"name": "a"}], "agents": {"roles": {"a": {}}}},
        {"verifier": {"environment_mode": "shared", "network_mode": "no-network"}},
        {"agent": {"network_mode": "no-network"}},
        {"sandbox": {"allowed_hosts": [], "healthcheck": None, "skills_dir": None}},
    ],
)
def test_a_setting_that_asks_for_nothing_is_no_reason_to_refuse(load: Load, settings):
    """Empty lists, zero GPUs, linux, one role: no error and no warning."""
    assert load(settings).warnings == []


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"sandbox": {"skills_dir": "/skills"}}, "sandbox.skills_dir"),
        ({"oracle": {"timeout_sec": 5}}, "oracle.timeout_sec"),
        ({"verifier": {"pytest_plugins": ["ctrf"]}}, "verifier.pytest_plugins"),
        ({"artifacts": [{"source": "x", "exclude": ["y"]}]}, "artifacts[0].exclude"),
        (
            {"sandbox": {"allow_internet": True}, "verifier": {"network_mode": "no-network"}},
            "verifier.network_mode",
        ),
    ],
)
def test_a_known_setting_without_effect_is_told(load: Load, settings, name):
    """It does not change the score, so the task runs, with a warning."""
    (warning,) = load(settings).warnings
    assert warning.code == "task_setting_not_honoured"
    assert f"task.md: {name}: " in warning.message


def test_metadata_are_plain_json_values(load: Load):
    """Dates, endless numbers and half characters in metadata become text; words stay words."""
    metadata = load(
        "metadata: {d: 2026-01-02, t: 12:30, n: no, big: 0xffffffffffffffffffff, nan: .nan,"
        ' s: "\\ud800"}'
    ).settings.metadata
    assert metadata["d"] == "2026-01-02"
    assert metadata["t"] == "12:30"
    assert metadata["n"] == "no"
    assert metadata["nan"] == "nan"
    assert metadata["big"] == "0xffffffffffffffffffff"
    assert json.loads(msgspec.json.encode(metadata)) == metadata
    task = load(toml="[metadata]\nd = 2026-01-02T03:04:05Z\nt = 12:30:00\nx = inf\n")
    assert task.settings.metadata == {"d": "2026-01-02T03:04:05+00:00", "t": "12:30:00", "x": "inf"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [", 2),
        ("agent:\n\ttimeout_sec: 3", 3),
        ("a: 1\nb: 2\na: 3", 4),
        ("x: {y: 1, y: 2}", 2),
        ("a: \x01", 2),
    ],
)
def test_a_yaml_fault_names_its_line(load: Load, text, line):
    """Faults of syntax and duplicate keys name the line of the file."""
    with pytest.raises(TaskError, match=r"task\.md: line \d+: no valid YAML: ") as caught:
        load(text)
    assert f"line {line}:" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "just text",
        "? [a]\n: b",
        "a: !!python/object:os.system x",
        "a: !!timestamp nonsense",
        "a: !!int nonsense",
        "a: !!bool nonsense",
        "&a [*a]",
        "a: &a [*a, *a]",
        "a: *nothing",
        "a: &x [1,1,1,1,1,1,1,1,1,1]\nb: &y [*x,*x,*x,*x,*x,*x,*x,*x,*x,*x]\n"
        "c: &z [*y,*y,*y,*y,*y,*y,*y,*y,*y,*y]\nd: &w [*z,*z,*z,*z,*z,*z,*z,*z,*z,*z]\n"
        "e: &v [*w,*w,*w,*w,*w,*w,*w,*w,*w,*w]\nf: [*v,*v,*v,*v,*v,*v,*v,*v,*v,*v]",
        "a: " + "[" * 3000,
        "a: " + "9" * 5000,
    ],
)
def test_hostile_yaml_is_refused(load: Load, text):
    """No object is made, nothing grows without end, and every fault is a TaskError."""
    with pytest.raises(TaskError, match=r"task\.md"):
        load(text)


@pytest.mark.parametrize(
    "text", ["a = ", "a = 1\na = 2", "= 1", "a = " + "[" * 3000, "a = " + "9" * 5000, "[a]\n[a]\n"]
)
def test_a_toml_fault_is_named(load: Load, text):
    """Faults of TOML, duplicate keys among them, name file and place."""
    with pytest.raises(TaskError, match=r"task\.toml: no valid TOML: "):
        load(toml=text)
    with pytest.raises(TaskError, match=r"line 2"):
        load(toml="a = 1\nb =\nc = 2\n")
