"""Compose files that a task really uses, and those that say what is true anyway."""

from collections.abc import Callable
from pathlib import Path

import pytest

from trialog.engine.errors import TaskError
from trialog.engine.tasks.compose import compose_use
from trialog.engine.tasks.load import load_task

Make = Callable[..., Path]

HARNESS = """
services:
  client:
    build:
      dockerfile: Dockerfile
    image: ${TASK_IMAGE_NAME}
    container_name: ${TASK_CONTAINER_NAME}
    command: ["sh", "-c", "sleep infinity"]
    environment:
      - TEST_DIR=${TEST_DIR}
    volumes:
      - ${TASK_LOGS_PATH}:${CONTAINER_LOGS_PATH}
"""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "services: {}",
        HARNESS,
        "version: '3'\nservices:\n  main:\n    build: .\n",
        "services: {main: {build: {context: .}, command: sleep infinity, init: true}}",
        "x-note: 1\nservices: {main: {image: a, environment: {A: '${B}'}}}",
    ],
)
def test_one_service_of_its_own_image_is_no_use(text):
    """One service, built from its folder, kept alive, with the harness's own variables."""
    assert compose_use(text) is None


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("services: {main: {build: .}, db: {image: postgres}}", "several services: main, db"),
        ("services: {main: {build: ., privileged: true}}", "'privileged' of the service 'main'"),
        ("services: {main: {build: ., environment: {A: b}}}", "'environment'"),
        ("services: {main: {build: ., volumes: ['./data:/data']}}", "'volumes'"),
        ("services: {main: {build: ., command: serve}}", "'command'"),
        ("services: {main: {build: ../other}}", "'build'"),
        ("services: {main: {build: {context: ., args: {A: b}}}}", "'build'"),
        ("services: {main: {build: .}}\nvolumes: {data: {driver: x}}", "its 'volumes'"),
        ("services: [a]", "no table"),
        ("services: {main: x}", "no table"),
        ("- a", "no table"),
        ("a: [", "no YAML"),
    ],
)
def test_what_a_compose_file_asks_for_is_named(text, use):
    """A second service, or a setting beyond the image."""
    assert use in (compose_use(text) or "")


@pytest.mark.parametrize("name", ["docker-compose.yaml", "docker-compose.yml", "compose.yaml"])
def test_a_task_that_uses_its_compose_file_is_refused_by_name(make: Make, name):
    """The message names the task, the file and what it is needed for."""
    files = {
        "environment/Dockerfile": "FROM a\n",
        f"environment/{name}": "services: {main: {build: .}, db: {image: postgres}}",
    }
    folder = make("b", files)
    with pytest.raises(TaskError, match=r"task task is refused: .*several services: main, db") as e:
        load_task(folder)
    assert e.value.file == folder / "environment" / name


def test_a_compose_file_that_asks_for_nothing_is_passed_over(make: Make):
    """Beside a Dockerfile or an image name; where it alone names the image, it is needed."""
    files = {"environment/docker-compose.yaml": HARNESS, "environment/Dockerfile": "FROM a\n"}
    assert load_task(make("b", files)).warnings == []
    toml = '[environment]\ndocker_image = "a"\n'
    files = {"environment/docker-compose.yaml": HARNESS, "task.toml": toml}
    assert load_task(make("b", files)).warnings == []
    with pytest.raises(TaskError, match="it alone says what the image is"):
        load_task(make("b", {"environment/docker-compose.yaml": HARNESS}))


def test_a_compose_file_that_the_image_is_given_is_material(make: Make):
    """When the Dockerfile copies it by name, it is what the task is about, not how it is run."""
    text = "services: {web: {image: a}, db: {image: b}}"
    files = {
        "environment/Dockerfile": "FROM a\nCOPY ./docker-compose.yml .env /app/\n",
        "environment/docker-compose.yml": text,
    }
    assert load_task(make("b", files)).warnings == []
    files["environment/Dockerfile"] = "FROM a\nCOPY . /app\n"
    with pytest.raises(TaskError, match="several services"):
        load_task(make("b", files))
