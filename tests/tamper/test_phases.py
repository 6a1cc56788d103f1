"""Attacks by what runs, what is printed and what is used up, each with its honest control."""

from __future__ import annotations

import pytest

from helpers.grading import DOCKER, Build, Grade, both
from trialog.engine.verifier.protected.tools import BUNDLE

CHECK = """
if [ "$(cat /app/answer.txt)" = 42 ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
WAIT = "for i in $(seq 200); do [ -s /app/alive ] && break; sleep 0.05; done; cat /app/alive\n"
HONEST = "echo 42 > answer.txt\n"
WRONG = "echo 41 > answer.txt\n"
WRITER = (
    "while :; do echo 1 > /logs/verifier/reward.txt; "
    "[ -s /app/alive ] || echo alive > /app/alive; sleep 0.02; done"
)

WRITERS = {
    "background": f"({WRITER}) &\n",
    "a session of its own": f"setsid sh -c '{WRITER}' < /dev/null > /dev/null 2>&1 &\n",
    "double fork": f"( ( setsid nohup sh -c '{WRITER}' < /dev/null > /dev/null 2>&1 & ) & )\n",
    "ignored signals": f"(trap '' HUP TERM INT QUIT; {WRITER}) < /dev/null > /dev/null 2>&1 &\n",
    "another name": "cp /bin/sh /tmp/kworker && setsid /tmp/kworker -c "
    f"'{WRITER}' < /dev/null > /dev/null 2>&1 &\n",
}
LATE = CHECK + "r=$(cat /logs/verifier/reward.txt); sleep 0.3; echo $r > /tmp/first\n"


@both
@pytest.mark.parametrize("name", WRITERS)
async def test_background_writer(grade: Grade, name: str) -> None:
    """A process that writes rewards for ever does not outlive the agent's phase, and is named."""
    graded = await grade(LATE, agent=WRONG + WRITERS[name] + WAIT)
    assert b"alive" in graded.said
    assert (graded.score, graded.verdict.source) == (0.0, "verifier")
    assert "/logs/verifier/reward.txt" in [one.path for one in graded.tampered]
    assert graded.agent is not None
    assert graded.agent.killed
    control = await grade(LATE, agent=HONEST + WRITERS[name] + WAIT)
    assert control.score == 1.0


docker = pytest.mark.parametrize("backend_name", [DOCKER])


@docker
async def test_writer_of_another_user(grade: Grade) -> None:
    """So it is with one that runs as another user."""
    other = (
        "chmod 777 /app; python3 - <<'END'\nimport os\nif os.fork() == 0:\n"
        "    os.setsid(); os.setgid(65534); os.setuid(65534)\n"
        f"    os.execvp('sh', ['sh', '-c', '{WRITER}'])\nEND\n"
    )
    graded = await grade(LATE, agent=WRONG + other + WAIT)
    assert b"alive" in graded.said
    assert (graded.score, graded.verdict.source) == (0.0, "verifier")
    assert (await grade(LATE, agent=HONEST + other + WAIT)).score == 1.0


@docker
async def test_programs_at_set_times(grade: Grade, build: Build) -> None:
    """Where an image's entrypoint runs programs at set times, those of the agent's are gone."""
    image = await build(
        "COPY start /start", "RUN chmod 755 /start; mkdir -p /etc/cron.d; touch /etc/cron.d/own",
        'ENTRYPOINT ["/start"]',
        start="#!/bin/sh\nwhile :; do for each in /etc/cron.d/*; do sh $each; done; sleep 0.05; "
        'done &\nexec "$@"\n',
    )  # fmt: skip
    win = "echo 'echo 1 > /logs/verifier/reward.txt; : > /app/alive' > /etc/cron.d/evil\n"
    until = "for i in $(seq 100); do [ -e /app/alive ] && break; sleep 0.05; done; ls /app\n"
    test = CHECK + "sleep 0.5\n"
    lost = await grade(test, agent=WRONG + win + until, image=image, unprotected=True)
    assert (lost.score, b"alive" in lost.said) == (1.0, True)
    graded = await grade(test, agent=WRONG + win + until, image=image)
    assert (graded.score, graded.verdict.source) == (0.0, "verifier")
    assert "/etc/cron.d/evil" in [one.path for one in graded.tampered]
    control = await grade(test, agent=HONEST, image=image)
    assert (control.score, control.tampered) == (1.0, [])
    changed = "echo 'echo 1 > /logs/verifier/reward.txt' >> /start; sed -i '$!{h;d};x;G' /start\n"
    entry = await grade(test, agent=WRONG + changed, image=image)
    assert (entry.score, entry.verdict.source) == (0.0, "verifier")
    assert "/start" in [one.path for one in entry.tampered]


@docker
@pytest.mark.parametrize("shell", ["/usr/bin/dash", "/usr/bin/bash", "/usr/bin/env"])
async def test_removed_shell(grade: Grade, shell: str) -> None:
    """A shell that the agent removed is there again: the verifier runs, and gives its verdict."""
    test = "#!/usr/bin/env bash\nsh -c :" + CHECK
    gone = f"rm {shell}; [ ! -e {shell} ] && echo gone\n"
    graded = await grade(test, agent=WRONG + gone)
    assert graded.said == b"gone\n"
    assert (graded.score, graded.verdict.source) == (0.0, "verifier")
    assert shell in [one.path for one in graded.tampered]
    assert (await grade(test, agent=HONEST + gone)).score == 1.0


@docker
async def test_library_that_is_loaded_into_everything(grade: Grade) -> None:
    """The list of libraries to preload and a changed libc are put back, byte for byte."""
    libc = "/usr/lib/x86_64-linux-gnu/libc.so.6"
    agent = (
        f"sha256sum < {libc} > before; cp {libc} /tmp/libc; echo evil >> /tmp/libc; "
        f"mv /tmp/libc {libc}; echo /tmp/evil.so > /etc/ld.so.preload; echo planted\n"
    )
    test = f"[ ! -e /etc/ld.so.preload ] && sha256sum < {libc} | cmp - before || exit 1\n" + CHECK
    lost = await grade(test, agent=HONEST + agent, unprotected=True)
    assert b"planted" in lost.said
    assert lost.verdict.source == "engine"
    graded = await grade(test, agent=HONEST + agent)
    assert graded.score == 1.0
    assert {libc, "/etc/ld.so.preload"} <= {one.path for one in graded.tampered}
    assert all(one.sha256 for one in graded.tampered)


@docker
async def test_installed_packages_survive(grade: Grade) -> None:
    """What a package manager adds and upgrades beside the basic programs stays as it is."""
    install = (
        "cd /tmp; mkdir -p deb/DEBIAN deb/usr/bin deb/usr/share/thing deb/etc/ld.so.conf.d; "
        "printf 'Package: thing\\nVersion: 1.0\\nArchitecture: all\\nMaintainer: x\\n"
        "Description: x\\n' > deb/DEBIAN/control; "
        "printf '#!/bin/sh\\nldconfig\\n' > deb/DEBIAN/postinst; chmod 755 deb/DEBIAN/postinst; "
        "echo data > deb/usr/share/thing/data; echo /opt/thing > deb/etc/ld.so.conf.d/thing.conf; "
        "printf '#!/bin/sh\\ncat /usr/share/thing/data\\n' > deb/usr/bin/thing; "
        "chmod 755 deb/usr/bin/thing; dpkg-deb --build deb thing.deb && dpkg -i thing.deb\n"
        "p=/usr/local/lib/python3.11/dist-packages; mkdir -p $p/thing-1.0.dist-info; "
        "echo 'value = 42' > $p/thing.py; echo thing > $p/thing-1.0.dist-info/RECORD; "
        "echo /usr/share/thing > $p/thing.pth; python3 -c 'import thing, json, sqlite3'\n"
    )
    test = (
        "[ $(thing) = data ] && dpkg -s thing | grep -q 'install ok installed' && "
        "python3 -c 'import thing, sys; assert \"/usr/share/thing\" in sys.path' || exit 1\n"
        + CHECK
    )
    graded = await grade(test + CHECK, agent=HONEST + install)
    assert b"Setting up thing" in graded.said
    assert graded.score == 1.0, graded.output
    assert graded.tampered == []


@docker
async def test_libraries_from_elsewhere(grade: Grade) -> None:
    """A linker's cache that leads basic programs to other libraries is put back."""
    agent = (
        "mkdir /opt/evil; cp /usr/lib/x86_64-linux-gnu/libtinfo.so.6 /opt/evil; "
        "echo /opt/evil > /etc/ld.so.conf.d/000.conf; ldconfig; ldconfig -p | grep -c /opt/evil\n"
    )
    graded = await grade("ldconfig -p | grep /opt/evil && exit 1\n" + CHECK, agent=HONEST + agent)
    assert graded.said == b"1\n"
    assert graded.score == 1.0
    assert [one.path for one in graded.tampered] == [
        "/etc/ld.so.cache", "/etc/ld.so.conf.d/000.conf",
    ]  # fmt: skip


@both
async def test_own_environment_survives(grade: Grade) -> None:
    """A virtual environment that the agent made is its own Python, and stays whole."""
    made = (
        "mkdir -p venv/lib/python3.11/site-packages/plugin-1.0.dist-info; cd venv; "
        "echo home = /usr/bin > pyvenv.cfg; cd lib/python3.11/site-packages; "
        "echo 'import sys' > _virtualenv.pth; : > sitecustomize.py; "
        "printf '[pytest11]\\nx = y\\n' > plugin-1.0.dist-info/entry_points.txt\n"
    )
    test = (
        "cd venv/lib/python3.11/site-packages && cat _virtualenv.pth sitecustomize.py "
        "plugin-1.0.dist-info/entry_points.txt || exit 1\n" + CHECK
    )
    graded = await grade(test, agent=HONEST + made)
    assert (graded.score, graded.tampered) == (1.0, []), graded.output


@both
async def test_named_files_are_graded(grade: Grade) -> None:
    """A conftest.py, settings or a hook that the verifier itself names is work, and stays."""
    made = (
        "echo 1 > conftest.py; printf '[tool.pytest.ini_options]\\nx = 1\\n' > pyproject.toml; "
        "mkdir -p .git/hooks; echo true > .git/hooks/pre-commit; echo 1 > pytest.ini\n"
    )
    test = (
        "cat conftest.py pyproject.toml .git/hooks/pre-commit && grep -q ini_options pyproject.toml"
        " || exit 1; [ -e pytest.i* ] && exit 1\n" + CHECK
    )
    graded = await grade(test, agent=HONEST + made)
    assert graded.score == 1.0, graded.output
    assert [one.path for one in graded.tampered] == ["/app/pytest.ini"]


@both
async def test_settings_keep_their_other_parts(grade: Grade) -> None:
    """Of a settings file for many tools only pytest's part goes; a project's own stays."""
    made = (
        'printf \'[project]\\nname = "x"\\n\\n[tool.pytest.ini_options]\\naddopts = "-x"\\n\\n'
        "[tool.ruff]\\nline-length = 9\\n' > pyproject.toml; echo '[metadata]' > setup.cfg\n"
    )
    test = "cat p*.toml s*.cfg > /tmp/all; cat /tmp/all; [ $(grep -c . /tmp/all) = 5 ] || exit 1\n"
    graded = await grade(test + CHECK, agent=HONEST + made)
    assert graded.score == 1.0
    assert graded.output == b'[project]\nname = "x"\n\n[tool.ruff]\nline-length = 9\n[metadata]\n'


@both
async def test_variables(grade: Grade) -> None:
    """Variables that an agent sets, wherever it writes them down, are not the verifier's."""
    names = (
        "PYTHONPATH PYTHONSTARTUP PYTHONHOME PYTEST_ADDOPTS PYTEST_PLUGINS LD_PRELOAD BASH_ENV ENV"
    )
    agent = (
        f"for n in {names}; do export $n=/app/evil 2>/dev/null; done; "
        "for f in ~/.bashrc ~/.profile ~/.pam_environment /etc/environment; do "
        f'for n in {names}; do echo "export $n=/app/evil" >> $f; done; done 2>/dev/null; '
        "echo planted\n"
    )
    test = "#!/bin/bash -l\nenv | grep evil && exit 1\n" + CHECK
    graded = await grade(test, agent=HONEST + agent)
    assert b"planted" in graded.said
    assert graded.score == 1.0, graded.output
    assert [one.path for one in graded.tampered if "profile" in one.path] == ["/root/.profile"]
    assert (await grade(test, agent=WRONG + agent)).score == 0.0


@both
async def test_forged_output(grade: Grade) -> None:
    """What agent or verifier print, the engine's own marks and words too, decides nothing."""
    forged = (
        "echo '[PASS] task (reward=1.00, tools=0)'; echo '{\"reward\": 1.0}'; "
        "printf '\\036%032d end 0\\n' 0; echo '1 passed in 0.01s'; echo 'exit code 0'\n"
    )
    agent = WRONG + forged + f"cat > note.txt <<'END'\n{forged}END\necho 1.0 > reward.txt\n"
    graded = await grade("cat note.txt; sh note.txt\n" + CHECK, agent=agent)
    assert b"[PASS]" in graded.said
    assert b"1 passed" in graded.output
    assert (graded.score, graded.verdict.source) == (0.0, "verifier")
    silent = await grade("cat note.txt; sh note.txt; exit 1", agent=agent)
    assert (silent.score, silent.verdict.source) == (0.0, "engine")
    control = await grade("cat note.txt\n" + CHECK, agent=agent + HONEST)
    assert control.score == 1.0


@both
async def test_dates_of_files(grade: Grade) -> None:
    """Files from another time, past or future, harm neither saving nor grading."""
    agent = (
        "mkdir old; touch -d 1970-01-01 old/a old; touch -d 2099-01-01 future; "
        "touch -d 2099-01-01 /logs/agent/x; touch -d 1980-01-01 answer.txt; stat -c %Y answer.txt\n"
    )
    test = "[ /verifier/test.sh -nt answer.txt ] || exit 1\n" + CHECK
    graded = await grade(test, agent=HONEST + agent)
    assert b"315532800" in graded.said
    assert graded.score == 1.0
    assert (await grade(test, agent=WRONG + agent)).score == 0.0


@both
async def test_exhausted_processes(grade: Grade) -> None:
    """An agent that fills the machine with processes is killed, and the verifier has room."""
    agent = (
        "for i in $(seq 300); do sleep 300 & done; ls -d /proc/[0-9]* | wc -l; "
        "(:; while :; do (sleep 300 &) 2>/dev/null || break; "
        "[ $(ls -d /proc/[0-9]* | wc -l) -gt 600 ] && break; done) &\nwait $!\n"
    )
    graded = await grade("ls -d /proc/[0-9]* | wc -l\n" + CHECK, agent=HONEST + agent)
    assert int(graded.said.split()[0]) > 300
    assert int(graded.output) < 20
    assert graded.score == 1.0
    assert (await grade(CHECK, agent=WRONG + agent)).score == 0.0


@both
async def test_verifier_is_read_by_nobody_early(grade: Grade) -> None:
    """An agent that looks for the verifier's files wherever it can finds none of them."""
    agent = (
        "secret=the-expec; find / -xdev -name 'expected*' 2>/dev/null > /app/found; "
        "grep -rl ${secret}ted /verifier /tests /logs /task /.trialog* /proc/1/root/verifier "
        "/proc/self/root/tests 2>/dev/null >> /app/found; "
        "(while [ ! -s /app/late ]; do cat /verifier/expected* /tests/expected* > /app/late; "
        "done) < /dev/null > /dev/null 2>&1 &\nsleep 0.2; ls -A /verifier /tests\n"
    )
    test = "cat found late; [ -s late ] || [ -s found ] && exit 1\n" + CHECK
    files = {"expected.txt": "the-expected answer"}
    graded = await grade(test, agent=HONEST + agent, files=files)
    assert graded.said == b"/tests:\n\n/verifier:\n" or b"expected" not in graded.said
    assert graded.output == b""
    assert graded.score == 1.0
    assert (await grade(test, agent=WRONG + agent, files=files)).score == 0.0


@docker
async def test_workspace_that_is_a_link(grade: Grade) -> None:
    """A workspace that became a link changes no verdict: wrong stays wrong, and right is right."""
    move = "cp -a /app /else; rm -rf /app; ln -s /else /app; readlink /app; ls /else\n"
    for work, score in ((WRONG, 0.0), (HONEST, 1.0)):
        graded = await grade(CHECK, agent=work + "cd /\n" + move)
        assert graded.said == b"/else\nanswer.txt\n"
        assert graded.score == score
    to_tests = await grade(CHECK, agent="cd /; rm -rf /app; ln -s /logs/verifier /app\n")
    assert to_tests.score == 0.0


@both
async def test_full_places(grade: Grade) -> None:
    """Thousands of files and large ones where the reward goes leave the verifier all its room."""
    fill = (
        "cd /logs/verifier; for i in $(seq 3000); do : > $i; done; "
        "head -c 64M /dev/zero > reward.txt; ls | wc -l\n"
    )
    graded = await grade("ls /logs/verifier | wc -l\n" + CHECK, agent=HONEST + fill)
    assert graded.said == b"3001\n"
    assert graded.output == b"0\n"
    assert graded.score == 1.0
    assert len(graded.tampered) > 100
    assert (await grade(CHECK, agent=WRONG + fill)).score == 0.0


@both
async def test_first_process(grade: Grade) -> None:
    """An agent that goes for the first process and its script has no part in the next phase."""
    agent = (
        "kill -9 1; kill -STOP 1; for each in /.trialog-phase/phase /proc/1/mem /proc/1/fd/1; do "
        "echo 'echo 1 > /logs/verifier/reward.txt' > $each; done 2>/dev/null; "
        "ln -sf /tmp/evil /proc/1/exe 2>/dev/null; "
        f"setsid sh -c 'exec 3< /proc/1/ns/pid; {WRITER}' < /dev/null > /dev/null 2>&1 &\n"
    )
    graded = await grade(LATE, agent=WRONG + agent + WAIT)
    assert b"alive" in graded.said
    assert (graded.score, graded.verdict.source) == (0.0, "verifier")
    assert (await grade(LATE, agent=HONEST + agent + WAIT)).score == 1.0


@docker
async def test_path_and_plugins_of_the_image(grade: Grade, build: Build) -> None:
    """Programs in a home folder on the image's PATH, and plugins it brings, are its own."""
    site = "/usr/local/lib/python3.11/dist-packages"
    image = await build(
        "COPY lib.zip /lib.zip",
        f"RUN mkdir -p /root/.local/bin {site}/own-1.0.dist-info && "
        f"python3 -m zipfile -e /lib.zip {site} && "
        "printf '#!/bin/sh\\necho 42\\n' > /root/.local/bin/answer && "
        "chmod 755 /root/.local/bin/answer && "
        f"printf 'def pytest_report_header():\\n    return \"own plugin\"\\n' > {site}/own.py && "
        f"printf 'Name: own\\nVersion: 1.0\\n' > {site}/own-1.0.dist-info/METADATA && "
        f"printf '[pytest11]\\nown = own\\n' > {site}/own-1.0.dist-info/entry_points.txt && "
        f"printf 'import sys\\n' > {site}/own.pth",
        "ENV PATH=/root/.local/bin:$PATH",
        **{"lib.zip": BUNDLE.read_bytes()},
    )
    files = {
        "test_answer.py": "def test_it():\n    assert open('/app/answer.txt').read() == '42\\n'\n"
    }
    test = (
        "python3 -m pytest /verifier/test_answer.py && echo 1 > /logs/verifier/reward.txt\n"
        'echo "rc=$?"; [ -e /logs/verifier/reward.txt ] || echo 0 > /logs/verifier/reward.txt\n'
    )
    graded = await grade(test, agent="answer > answer.txt", files=files, image=image)
    assert b"own plugin" in graded.output
    assert (graded.score, graded.tampered) == (1.0, [])
    attacks = {
        f"{site}/_pytest": f"echo 'import os; os._exit(0)' > {site}/_pytest/main.py",
        f"{site}/own-1.0.dist-info/entry_points.txt": "echo 'import os; os._exit(0)' > "
        f"{site}/evil.py; printf '[pytest11]\\nx = evil\\n' > "
        f"{site}/own-1.0.dist-info/entry_points.txt",
        "/root/.local/bin/python3": "printf '#!/bin/sh\\nexit 0\\n' > /root/.local/bin/python3; "
        "chmod 755 /root/.local/bin/python3",
    }
    for path, attack in attacks.items():
        agent = f"echo 41 > answer.txt; {attack}"
        lost = await grade(test, agent=agent, files=files, image=image, unprotected=True)
        assert lost.score == 1.0, (path, lost.output)
        held = await grade(test, agent=agent, files=files, image=image)
        assert held.score == 0.0, (path, held.output)
        assert path in [one.path for one in held.tampered]


@docker
async def test_caches_of_the_images_modules(grade: Grade, build: Build) -> None:
    """A cached module that says something else than its source is made anew from the image's."""
    where = "/usr/local/lib/python3.11/dist-packages"
    image = await build(f"RUN mkdir -p {where} && echo 'value = 41' > {where}/given.py")
    agent = (
        f"cp {where}/given.py /tmp/given.py; cd {where}; echo 'value = 42' > given.py; "
        "touch -r /tmp/given.py given.py; python3 -c 'import given'; ls __pycache__; "
        "cp -p /tmp/given.py given.py\n"
    )
    test = (
        "python3 -c 'import given; print(given.value)'; echo $(python3 -c 'import given; "
        "print(int(given.value == 42))') > /logs/verifier/reward.txt\n"
    )
    lost = await grade(test, agent=agent, image=image, unprotected=True)
    assert b"given.cpython-311.pyc" in lost.said
    assert lost.score == 1.0
    graded = await grade(test, agent=agent, image=image)
    assert (graded.score, graded.output) == (0.0, b"41\n")
