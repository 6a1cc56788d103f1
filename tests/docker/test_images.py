"""Images: found, pulled, built, and what is baked into them."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from helpers.images import TEST_IMAGE
from trialog.engine.errors import BuildTimeout, ImageError
from trialog.engine.sandbox.docker import DockerBackend
from trialog.engine.sandbox.protocol import Image, ImageRequest

pytestmark = pytest.mark.docker


Build = Callable[..., Awaitable[Image]]
Docker = Callable[..., Awaitable[str]]


def request(**fields: object) -> ImageRequest:
    """A request with the usual fields."""
    return ImageRequest(**{"task": "half-life", "build_timeout_sec": 60.0, **fields})  # type: ignore[arg-type]


async def test_found_by_name(backend: DockerBackend, docker: Docker) -> None:
    """An image that is there is used, and its configuration's digest recorded."""
    image = await backend.prepare(request(name=TEST_IMAGE))
    assert image.name == TEST_IMAGE
    assert image.digest == await docker("inspect", "--format", "{{.Id}}", TEST_IMAGE)
    assert image.build_seconds is None
    assert image.planted_rewards == {}


async def test_what_it_says(backend: DockerBackend, build: Build) -> None:
    """WORKDIR, USER and ENTRYPOINT are told."""
    image = await build("WORKDIR /srv/here", "USER nobody", 'ENTRYPOINT ["/bin/true"]')
    assert (image.workdir, image.user, image.entrypoint) == ("/srv/here", "nobody", True)
    image = await build("CMD true")
    assert (image.workdir, image.user, image.entrypoint) == (None, None, False)


async def test_recorded_digest(backend: DockerBackend, build: Build, docker: Docker) -> None:
    """A resume takes exactly the recorded image, whatever its name means now, or refuses."""
    first = await build("RUN echo 1 >/one")
    second = await build("RUN echo 2 >/two")
    assert first.name is not None
    assert second.digest is not None
    assert (await backend.prepare(request(name=first.name, digest=second.digest))).digest == (
        second.digest
    )
    none = "sha256:" + "0" * 64
    with pytest.raises(ImageError, match=f"(?s)half-life.*{first.name}.*{none}"):
        await backend.prepare(request(name=first.name, digest=none))


async def test_no_image(backend: DockerBackend) -> None:
    """A task without an image is refused with what to do, or gets the default."""
    with pytest.raises(ImageError, match=r"half-life.*docker_image.*--image"):
        await backend.prepare(request())
    other = await DockerBackend.connect(default_image=TEST_IMAGE)
    try:
        assert (await other.prepare(request())).name == TEST_IMAGE
    finally:
        await other.aclose()


@pytest.mark.parametrize("name", ["127.0.0.1:9/no/such:1", "127.0.0.1:9/none"])
async def test_cannot_be_pulled(backend: DockerBackend, name: str) -> None:
    """An image that is neither here nor can be pulled is named, with its task and what to do."""
    with pytest.raises(ImageError, match=f"half-life.*{name}.*docker pull"):
        await backend.prepare(request(name=name))


async def test_no_name(backend: DockerBackend) -> None:
    """What is no name of an image is refused as that."""
    with pytest.raises(ImageError, match="UPPER CASE"):
        await backend.prepare(request(name="UPPER CASE"))


async def test_planted_rewards(build: Build) -> None:
    """Reward files that are baked into an image are found, with their hashes."""
    image = await build(
        "RUN mkdir -p /logs/verifier/reward.json && printf 1.0 >/logs/verifier/reward.txt"
    )
    assert image.planted_rewards == {
        "/logs/verifier/reward.txt": hashlib.sha256(b"1.0").hexdigest(),
        "/logs/verifier/reward.json": None,
    }


async def test_build(build: Build, docker: Docker) -> None:
    """A Dockerfile is built with the files beside it, and the time it took is told."""
    image = await build("COPY given /given", given="text")
    assert image.build_seconds is not None
    assert image.name is not None
    assert image.name.startswith("trialog/made-")
    words = ["run", "--rm", "--network", "none", image.name, "cat", "/given"]
    assert await docker(*words) == "text"


async def test_built_once(backend: DockerBackend, tmp_path: Path, docker: Docker) -> None:
    """Several who want a task's image share one build; the same files are not built again."""
    (tmp_path / "Dockerfile").write_text(f"FROM {TEST_IMAGE}\nRUN sleep 1; date +%s%N >/when\n")
    wanted = request(dockerfile=tmp_path / "Dockerfile", context=tmp_path)
    found: list[Image] = []

    async def one() -> None:
        found.append(await backend.prepare(wanted))

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(one)
    try:
        assert len({image.digest for image in found}) == 1
        assert sum(image.build_seconds is not None for image in found) == 1
        again = await backend.prepare(wanted)
        assert (again.digest, again.build_seconds) == (found[0].digest, None)
        (tmp_path / "more").write_text("x")
        other = await backend.prepare(wanted)
        assert other.name != again.name
        await docker("image", "rm", "-f", str(other.name))
    finally:
        await docker("image", "rm", "-f", str(found[0].name))


async def test_built_again_when_its_base_is_another(
    backend: DockerBackend, build: Build, tmp_path: Path, docker: Docker
) -> None:
    """A base that was pulled or made anew under its name is built upon, and only once."""
    old, new = await build("RUN echo old >/version"), await build("RUN echo new >/version")
    base = f"based-{tmp_path.name.lower()}:1"
    (tmp_path / "Dockerfile").write_text(f"FROM {base}\nCMD true\n")
    wanted = request(dockerfile=tmp_path / "Dockerfile", context=tmp_path)
    await docker("tag", str(old.name), base)
    made = [await backend.prepare(wanted)]
    try:
        assert (await backend.prepare(wanted)).digest == made[0].digest
        await docker("tag", str(new.name), base)
        made.append(await backend.prepare(wanted))
        words = ("run", "--rm", "--network", "none", str(made[1].digest), "cat", "/version")
        assert await docker(*words) == "new"
        again = await backend.prepare(wanted)
        assert (again.digest, again.build_seconds) == (made[1].digest, None)
    finally:
        for image in made:
            await docker("image", "rm", "-f", str(image.digest))
        await docker("image", "rm", base)


async def test_build_that_fails(build: Build) -> None:
    """A build's failure shows the end of its output and names the task."""
    with pytest.raises(ImageError, match=r"(?s)task made .*can't be built.*returned.*lost the way"):
        await build("RUN echo lost the way; exit 3")


async def test_build_of_no_dockerfile(build: Build) -> None:
    """A Dockerfile that the engine can't read is the image's fault, with the task and the line."""
    with pytest.raises(ImageError, match=r"task made.*line 2: unknown instruction: RUNN"):
        await build("RUNN true")


async def test_build_too_long(backend: DockerBackend, tmp_path: Path) -> None:
    """A build has a deadline of its own."""
    (tmp_path / "Dockerfile").write_text(f"FROM {TEST_IMAGE}\nRUN echo begun; sleep 60\n")
    wanted = request(dockerfile=tmp_path / "Dockerfile", context=tmp_path, build_timeout_sec=2.0)
    with pytest.raises(BuildTimeout, match=r"half-life.*2 s \(build_timeout_sec\)") as raised:
        await backend.prepare(wanted)
    assert raised.value.category == "build_timeout"


async def test_context_that_is_not_there(backend: DockerBackend, tmp_path: Path) -> None:
    """A Dockerfile that can't be read is named."""
    with pytest.raises(ImageError, match=r"half-life.*no-such-Dockerfile"):
        await backend.prepare(request(dockerfile=tmp_path / "no-such-Dockerfile", context=tmp_path))


_BUILDX = """#!/bin/sh
# Stands for a docker with buildx: the here-document is taken apart by hand.
[ "$1" = buildx ] || exit 99
[ "$2" = version ] && exit 0
while [ $# -gt 1 ]; do
  case "$1" in --tag) tag=$2; shift ;; --file) file=$2; shift ;; esac
  shift
done
echo "building $tag of $1"
grep -q fail "$file" && {{ echo it went wrong >&2; exit 5; }}
printf 'FROM {image}\\nRUN echo by-buildx >/how\\n' >"$file.plain"
exec {docker} build --quiet --tag "$tag" --file "$file.plain" "$1"
"""


async def test_needs_buildkit(
    tmp_path: Path, docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Dockerfile that needs BuildKit goes to buildx where that is; else it is refused."""
    real = (await anyio.run_process(["sh", "-c", "command -v docker"])).stdout.decode().strip()
    context, program = tmp_path / "context", tmp_path / "bin" / "docker"
    context.mkdir()
    program.parent.mkdir()
    text = f"FROM {TEST_IMAGE}\nRUN <<EOF\necho x >/how\nEOF\n"
    (context / "Dockerfile").write_text(text)
    wanted = request(dockerfile=context / "Dockerfile", context=context)
    backend = await DockerBackend.connect()
    try:
        program.write_text("#!/bin/sh\nexit 1\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        with pytest.raises(ImageError, match=r"(?s)half-life.*line 2: RUN.*docker buildx.*not"):
            await backend.prepare(wanted)
        program.write_text(_BUILDX.format(image=TEST_IMAGE, docker=real))
        image = await backend.prepare(wanted)
        assert image.name is not None
        words = ["run", "--rm", "--network", "none", image.name, "cat", "/how"]
        out = (await anyio.run_process([real, *words])).stdout
        assert out == b"by-buildx\n"
        await anyio.run_process([real, "image", "rm", "-f", image.name])
        (context / "Dockerfile").write_text(text + "# fail\n")
        with pytest.raises(ImageError, match=r"(?s)half-life.*exit code 5.*it went wrong"):
            await backend.prepare(wanted)
    finally:
        await backend.aclose()
