"""Run the examples, show what came of them, delete a result, rebuild it, regrade another.

    make demo                             Docker where that can be had, else bubblewrap
    make demo ARGS="--sandbox bubblewrap"
    make demo ARGS="--sandbox docker --image IMAGE"     an image with bash and python3

The jobs stay under jobs/.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import services
from docker_engine import Engine, EngineError

ROOT = Path(__file__).resolve().parents[1]
TRIALOG = Path(sys.executable).parent / "trialog"
JOBS = ROOT / "jobs"
WORLDS = Path("examples", "environments")


def heading(text: str) -> None:
    """A line that stands out between what the commands print."""
    print(f"\n── {text}", flush=True)


def trialog(*arguments: str) -> None:
    """Run the command as a user would, and show it; a failure ends the demo."""
    print(f"$ trialog {shlex.join(arguments)}", flush=True)
    code = subprocess.run([TRIALOG, *arguments], stdin=subprocess.DEVNULL, check=False).returncode
    if code != 0:
        sys.exit(f"demo: `trialog {shlex.join(arguments)}` ended with exit code {code}")


def choose(asked: str, image: str | None) -> tuple[list[str], str]:
    """Options that choose the sandbox, and a sentence that says which one and why."""
    reasons = []
    if asked in {"auto", "docker"}:
        try:
            return _docker(image)
        except (services.Unavailable, EngineError) as error:
            reasons.append(f"Docker: {error}")
    if asked in {"auto", "bubblewrap"}:
        try:
            services.bubblewrap()
        except services.Unavailable as error:
            reasons.append(f"bubblewrap: {error}")
        else:
            why = f" ({reasons[0]})" if reasons else ""
            return ["--sandbox", "bubblewrap"], f"The sandbox is bubblewrap{why}."
    sys.exit(
        "demo: no sandbox can be had here.\n  " + "\n  ".join(reasons) + "\n"
        "Start a Docker engine (or name one with DOCKER_HOST), or install bubblewrap, "
        "then run `make demo` again."
    )


def _docker(image: str | None) -> tuple[list[str], str]:
    engine = Engine.from_environment()
    if not engine.answers():
        raise services.Unavailable(f"no engine answers at {engine.host}")
    if image is None:
        image = services.have_image(engine, services.IMAGE)
    elif engine.image_comment(image) is None:
        raise services.Unavailable(f"the engine at {engine.host} has no image {image}")
    options = ["--sandbox", "docker", "--image", image]
    return options, f"The sandbox is Docker, at {engine.host}, with the image {image}."


def files_of(folder: Path) -> dict[str, str]:
    """Path → SHA-256 of every file in a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def jobs() -> set[Path]:
    """The job folders that there are."""
    return {path.parent for path in JOBS.glob("*/summary.json")}


def play() -> str:
    """Run the examples of environments that need neither a model nor a person; a game's name."""
    heading("Environments: policies in Python act in worlds in Python, a good and a poor one each")
    earlier = jobs()
    tasks = WORLDS / "tasks"
    policies = ("-a", "solver", "-a", "stubborn")
    trialog("run", str(tasks / "wordle"), *policies, "-k", "3", "--seed", "1")
    [job] = jobs() - earlier
    trialog("run", str(tasks / "refund-request"), "-a", "clerk", "-a", "careless-clerk")
    trialog("run", str(tasks / "unit-price"), "-a", "calculator", "-a", "guesser")

    heading("Every reward is a line for training; this one is credit in hindsight for a guess")
    path, line = next(
        (path, line)
        for path in sorted(job.glob("*/rewards.jsonl"))
        for line in path.read_text().splitlines()
        if json.loads(line)["source"] == "hindsight"
    )
    print(f"$ grep hindsight {path.relative_to(ROOT)}\n{line}", flush=True)

    heading("The verifier once more, on the recorded games: it must give what it gave")
    trialog("verifier", "try", "solved", "--job", str(job.relative_to(ROOT)), "--check")
    return path.parent.name


LENIENT = ("if off > 1.5:", "if off > 8:"), ("off > 3 * uncertainty", "off > 30 * uncertainty")
HASTY = """#!/bin/bash
# A fit that forgot the background of the room.
echo '{"half_life_min": 34.7, "uncertainty_min": 0.3}' > answer.json
"""


def regrade(folder: Path, options: list[str]) -> None:
    """Run a task whose test is too lenient, mend the test, and grade the saved work again."""
    task = folder / "half-life"
    shutil.copytree("examples/tasks/half-life", task)
    check = task / "verifier" / "check.py"
    strict = lenient = check.read_text()
    for exact, loose in LENIENT:
        lenient = lenient.replace(exact, loose)
    check.write_text(lenient)
    (task / "oracle" / "solve.sh").write_text(HASTY)

    heading("A test that is too lenient lets a wrong answer pass")
    earlier = jobs()
    trialog("run", str(task), "--agent", "oracle", *options)
    [job] = jobs() - earlier
    before = files_of(job)
    check.write_text(strict)
    name = str(job.relative_to(ROOT))

    heading("The test is mended, and the saved work graded again without the agent")
    trialog("regrade", name, "--reason", "took a half-life that is 8 minutes off")
    after = files_of(job)
    if any(after.get(path) != digest for path, digest in before.items()):
        sys.exit(f"demo: the regrade of {name} changed an original file")
    print(f"result.json and the {len(before) - 1} other files of the run are the same bytes.")
    trialog("rebuild", name, "--check")


def main() -> None:
    """The demo."""
    parser = argparse.ArgumentParser(
        prog="make demo",
        usage='make demo [ARGS="--sandbox NAME --image IMAGE"]',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--sandbox",
        choices=["auto", "docker", "bubblewrap"],
        default="auto",
        help="where the trials run [auto]",
    )
    parser.add_argument(
        "--image",
        default=os.environ.get("TRIALOG_IMAGE") or None,
        help="what they run in on Docker [made here]",
    )
    arguments = parser.parse_args()
    os.chdir(ROOT)
    options, sentence = choose(arguments.sandbox, arguments.image)
    print(sentence)
    earlier = jobs()

    heading("The reference solutions: all should pass, but for one that is wrong on purpose")
    trialog("run", "examples/tasks", "--agent", "oracle", *options)
    [job] = jobs() - earlier

    heading("An agent that does nothing: none should pass")
    trialog("run", "examples/tasks", "--agent", "nop", *options)

    heading("One trial, event by event")
    trial = next(job.glob("half-life*__*")).name
    trialog("replay", trial)

    name = job.relative_to(ROOT)
    before = files_of(job)
    heading(f"Delete {name} ({len(before)} files) and rebuild it from the log")
    print(f"$ rm -r {name}", flush=True)
    shutil.rmtree(job)
    trialog("rebuild", str(name))
    trialog("rebuild", str(name), "--check")
    if files_of(job) != before:
        sys.exit(f"demo: {name} came back with other bytes")
    print(f"Every byte is back: {len(before)} files.")

    with tempfile.TemporaryDirectory(prefix="trialog-demo-") as folder:
        regrade(Path(folder), options)

    wordle = play()

    heading("Next")
    command = os.path.relpath(TRIALOG, ROOT)
    rows = {
        f"{command} show {name}": "what came of the job",
        f"{command} show {wordle}": "what came of a game of Wordle",
        f"{command} new my-task": "a task of your own",
        f"{command} init my-project": "a world of your own, and a task in it",
    }
    width = max(map(len, rows))
    for words, what in rows.items():
        print(f"  {words:<{width}}  {what}")


if __name__ == "__main__":
    main()
