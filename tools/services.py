"""What the tests and the demo need of the machine: packages, a base image, a Docker engine.

    python tools/services.py up      start an engine for the tests and print how to use it
    python tools/services.py down    stop it

As root on Debian or a relative of it, what is missing is installed from the distribution's
packages, and the engine is one of our own: in name spaces of its own (it sees no network and
leaves no mounts), with its data in `.test-services/` and its socket in a private folder. So it
never meets containers that are not the tests'. Anyone else uses the engine that is there.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from docker_engine import Engine, EngineError

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".test-services"
STATE = FOLDER / "engine.json"
IMAGE = os.environ.get("TRIALOG_TEST_IMAGE") or "trialog-base:latest"
MADE_OF = "made of "
"""Begins the comment of an image of ours: no label, for containers would inherit it."""
PULLED_IMAGE = "python:3.11-slim-bookworm"
"""Where no image can be made here (not root), this one serves, if the engine can fetch it."""
START_SECONDS = 60.0
ADMIN_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])

# A first process for the name spaces: passes TERM on, reaps what is orphaned, ends with dockerd.
INIT = """
ip link set lo up 2>/dev/null || true
trap 'kill -TERM "$child" 2>/dev/null' TERM INT
"$@" & child=$!
while kill -0 "$child" 2>/dev/null; do wait "$child" || true; done
"""


class Unavailable(Exception):
    """Something can't be had on this machine; the message says why."""


def say(text: str) -> None:
    """One line for the user; not among what `up` prints for a shell to read."""
    print(text, file=sys.stderr, flush=True)


def find(program: str) -> str | None:
    """A program's path; administrators' folders count too."""
    return shutil.which(program, path=ADMIN_PATH)


def may_install() -> bool:
    """Whether this is root on a system with apt."""
    return os.geteuid() == 0 and find("apt-get") is not None


def need(programs: dict[str, str]) -> None:
    """Have programs (name → package), installing what is missing where that is allowed."""
    missing = {program: package for program, package in programs.items() if not find(program)}
    if not missing:
        return
    packages = sorted(set(missing.values()))
    if not may_install():
        raise Unavailable(
            f"{', '.join(sorted(missing))} not found: install {' '.join(packages)} "
            "(as root on Debian or Ubuntu this is done for you)"
        )
    say(f"Installing {' '.join(packages)} from the distribution's packages …")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PATH": ADMIN_PATH}
    options = ["-qq", "-o", "DPkg::Lock::Timeout=120"]
    # A failed update need not matter: the lists that are there may do.
    subprocess.run(["apt-get", "update", *options], env=env, stdin=subprocess.DEVNULL, check=False)
    done = subprocess.run(
        ["apt-get", "install", "-y", "--no-install-recommends", *options, *packages],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    still = [program for program in missing if not find(program)]
    if still:
        tail = "\n".join(done.stdout.splitlines()[-5:])
        raise Unavailable(f"{', '.join(still)} could not be installed: {tail}")


def bubblewrap() -> None:
    """Have a bwrap that can start something."""
    need({"bwrap": "bubblewrap"})
    done = subprocess.run(
        ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"],
        env={**os.environ, "PATH": ADMIN_PATH},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Unavailable(f"bwrap can't start a sandbox here: {done.stderr.strip()}")


def _release() -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.partition("=")[2].strip('"')
    raise Unavailable("/etc/os-release names no release of Debian or Ubuntu")


def _mirror(release: str) -> str:
    """Where apt gets this release from, so that a mirror set up for the machine is used."""
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=True,
    )
    for line in targets.stdout.splitlines():
        uri, _, suite = line.partition(" ")
        if suite == release:
            return uri
    raise Unavailable(f"apt knows no source for {release}")


def root_filesystem() -> tuple[Path, str]:
    """A tar with a minimal system and python3, made once a user, and its name."""
    release = _release()
    key = f"{release}-{platform.machine()}-1"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trialog"
    tar = cache / f"rootfs-{key}.tar"
    if tar.exists():
        return tar, key
    need({"debootstrap": "debootstrap", "unshare": "util-linux", "tar": "tar"})
    say(f"Making a base image ({release} with python3; once, a minute or two) …")
    cache.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "PATH": ADMIN_PATH}
    with tempfile.TemporaryDirectory(prefix="rootfs-", dir=cache) as folder:
        system = Path(folder) / "system"
        # In a mount name space of its own: a run that is cut off leaves no mounts behind.
        bootstrap = ["debootstrap", "--variant=minbase", "--include=python3"]
        made = subprocess.run(
            ["unshare", "--mount", *bootstrap, release, str(system), _mirror(release)],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            tail = "\n".join(made.stdout.splitlines()[-5:])
            raise Unavailable(f"debootstrap could not make a base image: {tail}")
        part = Path(folder) / "rootfs.tar"
        left_out = ["dev/*", "proc/*", "sys/*", "var/cache/apt/*", "var/lib/apt/lists/*"]
        left_out += ["usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*"]
        excludes = [f"--exclude=./{pattern}" for pattern in left_out]
        pack = ["tar", "-C", str(system), "--numeric-owner", "--sort=name", "--wildcards"]
        subprocess.run([*pack, *excludes, "-cf", str(part), "."], check=True)
        part.rename(tar)
    return tar, key


def have_image(engine: Engine, image: str) -> str:
    """Have an image with python3 in the engine: what is there, else made here, else fetched.

    Gives the image's name: where one is fetched it is another.
    """
    comment = engine.image_comment(image)
    if os.geteuid() == 0 and may_install():
        if comment is not None and not comment.startswith(MADE_OF):
            return image  # the user's own
        tar, key = root_filesystem()
        if comment != MADE_OF + key:
            engine.import_image(tar, image, comment=MADE_OF + key)
        return image
    if comment is not None:
        return image
    if engine.image_comment(PULLED_IMAGE) is None:
        say(f"The engine has no image {image}; fetching {PULLED_IMAGE} …")
        try:
            engine.pull(PULLED_IMAGE, timeout=180)
        except EngineError as error:
            raise Unavailable(f"no image {image}, and {PULLED_IMAGE}: {error}") from error
    return PULLED_IMAGE


def _start(*, outlive: bool) -> tuple[subprocess.Popen[bytes], Path]:
    """Start dockerd in name spaces of its own; gives its first process and its private folder."""
    need({"dockerd": "docker.io", "containerd": "containerd", "runc": "runc"})
    need({"unshare": "util-linux", "setpriv": "util-linux", "iptables": "iptables"})
    note = FOLDER / "run"
    if note.exists():  # of a run that was killed
        shutil.rmtree(note.read_text(), ignore_errors=True)
    reason = ""
    for storage in ([], ["--storage-driver", "vfs"]):  # first the best that the disk can do
        run = Path(tempfile.mkdtemp(prefix="trialog-engine-"))  # short: a socket's path is limited
        run.chmod(0o711)  # the socket's own mode says who may use it
        note.write_text(str(run))
        (run / "daemon.json").write_text("{}")  # not the machine's own settings
        # The first process dies with this one, and everything else with the first process.
        guard = [] if outlive else ["setpriv", "--pdeathsig", "KILL"]
        spaces = ["unshare", "--net", "--mount", "--propagation", "slave"]
        spaces += ["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", INIT, "init"]
        daemon = [
            "dockerd",
            "--host",
            f"unix://{run}/docker.sock",
            "--exec-root",
            str(run / "exec"),
        ]
        daemon += ["--data-root", str(FOLDER / "docker"), "--pidfile", str(run / "pid")]
        daemon += ["--config-file", str(run / "daemon.json"), *storage]
        log = FOLDER / "dockerd.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*guard, *spaces, *daemon],
                env={**os.environ, "PATH": ADMIN_PATH},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        engine = Engine(f"unix://{run}/docker.sock")
        deadline = time.monotonic() + START_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            if engine.answers():
                engine.prune()  # what a killed run left in the data folder
                return process, run
            time.sleep(0.05)
        _end(process.pid, run)
        process.wait()
        lines = log.read_text(errors="replace").splitlines()
        reason = "\n".join(lines[-3:]) or f"no answer within {START_SECONDS:g} s"
    raise Unavailable(f"dockerd does not start here: {reason}")


def _end(pid: int, run: Path) -> None:
    """Stop an engine. `unshare` takes all of the name space's processes with it."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while (run / "docker.sock").exists() and time.monotonic() < deadline:
        shutil.rmtree(run, ignore_errors=True)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One run at a time has the data folder; others wait."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Waiting for another run of the tests in this checkout to end …")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _running() -> dict[str, str] | None:
    """The engine that `up` left running, if it still answers."""
    try:
        state: dict[str, str] = json.loads(STATE.read_text())
    except (OSError, ValueError):
        return None
    return state if Engine(state["DOCKER_HOST"]).answers() else None


def _use(engine: Engine) -> dict[str, str]:
    return {"DOCKER_HOST": engine.host, "TRIALOG_TEST_IMAGE": have_image(engine, IMAGE)}


@contextlib.contextmanager
def docker() -> Iterator[dict[str, str]]:
    """An engine with an image, as environment variables; what was started is stopped."""
    given = Engine.from_environment()
    if "DOCKER_HOST" in os.environ or not may_install():
        if not given.answers():
            raise Unavailable(f"no Docker engine answers at {given.host}")
        yield _use(given)
        return
    with _alone():
        state = _running()
        if state is not None:
            yield _use(Engine(state["DOCKER_HOST"]))
            return
        process, run = _start(outlive=False)
        try:
            yield _use(Engine(f"unix://{run}/docker.sock"))
        finally:
            _end(process.pid, run)
            process.wait()


def up() -> None:
    """Start an engine that stays, and print how to use it."""
    if not may_install():
        raise Unavailable("an engine of our own needs root on Debian or a relative; use your own")
    with _alone():
        state = _running()
        if state is None:
            process, run = _start(outlive=True)
            try:
                variables = _use(Engine(f"unix://{run}/docker.sock"))
            except (Unavailable, EngineError):
                _end(process.pid, run)
                raise
            state = {**variables, "pid": str(process.pid), "run": str(run)}
            STATE.write_text(json.dumps(state))
    for name in ("DOCKER_HOST", "TRIALOG_TEST_IMAGE"):
        print(f"export {name}={state[name]}")


def down() -> None:
    """Stop the engine that `up` started."""
    state = _running()
    if state is not None:
        _end(int(state["pid"]), Path(state["run"]))
    STATE.unlink(missing_ok=True)


def main() -> None:
    """Run `up` or `down`."""
    commands = {"up": up, "down": down}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    try:
        commands[sys.argv[1]]()
    except (Unavailable, EngineError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
