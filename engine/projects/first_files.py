"""What `trialog init` writes: texts of a project's first files."""

from __future__ import annotations

PROJECT = """\
# A project: one folder for each environment, task, verifier and agent.
# `trialog validate` checks all of it; `trialog run NAME -a AGENT` runs a task.
name: {name}
trialog: "{range}"          # the versions of trialog that it is for
# defaults:               # settings of `trialog run` here; the command line comes first
#   attempts: 3
"""

ENVIRONMENT = """\
name: {name}
apps:
  - python: env.py:Counter
    # name: counter       # what tasks and rewards call it; the class's name when not given
    # control: owned      # how far its state can be trusted: owned, sandboxed, live, replayed
    # settings: {{}}        # the app finds them in self.settings
max_turns: 20             # then the episode is cut off; the work is scored all the same
# max_seconds: 600
"""

COUNTER = '''\
"""A world to act in: a number that an agent can change."""

import msgspec

from trialog import App, action


class Count(msgspec.Struct):
    """The state. It starts like this, or as a task's `initial_state` says."""

    value: int = 0
    limit: int = 100


class Counter(App[Count]):
    """An app: state, and actions on it. Each trial has one of its own."""

    def reset(self, task):
        """Make ready for a task; what is returned is the first thing that the agent sees."""
        return f"The counter is at {self.state.value}."

    @action
    def add(self, n: int) -> int:
        """Add a number to the counter."""
        # An action that raises is an error for the agent to read, not the end of the trial.
        if self.state.value + n > self.state.limit:
            raise ValueError(f"the counter stops at {self.state.limit}")
        self.state.value += n
        return self.state.value

    @action(readonly=True)
    def look(self) -> int:
        """What the counter shows."""
        return self.state.value
'''

TASK = """\
name: count-to-ten
instructions: Bring the counter to exactly 10, then answer with the number that it shows.
environment: counter
verifiers: [reached]
expected: 10              # for verifiers; the agent never sees it
initial_state: {value: 3}
# info: {}                # for apps and verifiers: step.task.info
# metadata: {}            # for whoever reads the results
"""

TASK_IN_PROJECT = """\
name: {name}
instructions: Say what the agent is to do, and how it can tell that it is done.
{environment}
verifiers: [{verifier}]
expected: 10              # for verifiers; the agent never sees it
# initial_state: {{}}       # the state that the environment's app starts with
# info: {{}}                # for apps and verifiers: step.task.info
# metadata: {{}}            # for whoever reads the results
"""

REACHED_VERIFIER = """\
name: reached
version: 0.1.0            # raise it whenever the verdict could change
kind: deterministic       # or agent (a model judges), or human (people do)
check: verify.py:check
reward: verify.py:reward
hindsight: verify.py:hindsight
weight: 1                 # its share of the score, where a task has several verifiers
timeout_sec: 60
"""

REACHED = '''\
"""Was the number reached? The agent sees nothing of what is in this file."""

from trialog import VerifierOutput


def check(episode):
    """The score, from 0 to 1, once the episode is over. It reads the state, not what was said."""
    reached = episode.state["value"] == episode.expected
    return VerifierOutput(
        score=float(reached),
        scores={"answered": float(episode.answer == episode.expected)},
        evidence=[f"the counter shows {episode.state['value']}, expected {episode.expected}"],
    )


def reward(step):
    """A reward right after each action, for training; None when there is nothing to say."""
    if step.error:
        return -0.1
    if step.action != "add":
        return None
    goal = step.task.expected
    before = abs(goal - step.previous_state["value"])
    after = abs(goal - step.current_state["value"])
    return (before - after) / goal


def hindsight(trial):
    """Credit that can be given only when all is over: more for the last step the fewer it took."""
    steps = trial.steps("add")
    if trial.score and steps:
        yield trial.credit(steps[-1], 1.0 / len(steps))
'''

ANSWER_VERIFIER = """\
name: {name}
version: 0.1.0            # raise it whenever the verdict could change
kind: deterministic       # or agent (a model judges), or human (people do)
check: verify.py:check
reward: verify.py:reward
# hindsight: verify.py:hindsight
weight: 1                 # its share of the score, where a task has several verifiers
timeout_sec: 60
"""

JUDGE = """\
name: {name}
version: 0.1.0            # raise it whenever the verdict could change
kind: agent               # a model judges: use it for what code can't decide
model: gpt-4.1-mini       # any model of the endpoint that OPENAI_BASE_URL names
instructions: >-
  Judge the answer against the task. What the agent claims counts only where the steps and the
  final state bear it out.
criteria:
  - name: correct
    description: "0: wrong, or no answer. 1: right, but incomplete. 2: right and complete."
    max_score: 2          # from 0, or from min_score
    # weight: 1           # its share among the criteria
    # blocker: true       # without its full score the trial does not pass
# samples: 3              # asked so often; the mean counts
# max_cost: 0.05          # US dollars a trial
weight: 1                 # its share of the score, where a task has several verifiers
timeout_sec: 60
"""

PERSON = """\
name: {name}
version: 0.1.0            # raise it whenever the verdict could change
kind: human               # people score: `trialog human list` shows what waits for them
instructions: >-
  Say what the reviewer is to look at, and with whose eyes.
criteria:
  - name: helpful
    description: "0: wrong, or of no help. 1: of use, with something missing. 2: settles it."
    max_score: 2          # from 0, or from min_score
    # weight: 1           # its share among the criteria
    # blocker: true       # without its full score the trial does not pass
weight: 1                 # its share of the score, where a task has several verifiers
"""

RIGHT_ANSWER = '''\
"""Is the answer the expected one? The agent sees nothing of what is in this file."""

from trialog import VerifierOutput


def check(episode):
    """The score, from 0 to 1, once the episode is over.

    `episode.answer` is None when the agent gave none; `episode.state` is what the apps were left
    with, and says what was done rather than what was claimed.
    """
    right = episode.answer == episode.expected
    return VerifierOutput(
        score=float(right),
        evidence=[f"answered {episode.answer!r}, expected {episode.expected!r}"],
    )


def reward(step):
    """A reward right after each action, for training; None when there is nothing to say."""
    return -0.1 if step.error else None
'''

AGENT = """\
name: {name}
python: policy.py:Policy  # a class, or an async function
"""

STEADY = '''\
"""An agent without a model: it adds 1 until the counter shows 10."""

from trialog import Action, Answer


class Policy:
    """One object plays one trial, so it can remember what it did."""

    def __init__(self):
        self.seen = None

    async def act(self, observation, actions):
        """What to do next. The first observation has the task's instructions."""
        if self.seen is None:
            self.seen = 0
            return Action("look")
        self.seen = observation
        if self.seen < 10:
            return Action("add", {"n": 1})
        return Answer(self.seen)
'''

POLICY = '''\
"""An agent without a model: it tries each action that asks for nothing, then answers."""

from trialog import Action, Answer


class Policy:
    """One object plays one trial, so it can remember what it did."""

    def __init__(self):
        self.tried = set()

    async def act(self, observation, actions):
        """What to do next. The first observation has the task's instructions.

        `actions` are all that can be done: each has app, name, description and parameters.
        """
        for action in actions:
            needs = [parameter for parameter in action.parameters if parameter.required]
            if not needs and (action.app, action.name) not in self.tried:
                self.tried.add((action.app, action.name))
                return Action(action.name, {}, action.app)
        return Answer(observation)
'''

INSTALLED_AGENT = """\
name: {name}
command: [./agent.sh]       # a file of this folder and its words; or a line for a shell
version: "0.1.0"            # or {{command: mini --version}}, asked in the sandbox
# install: |                # lines for a shell, run in the sandbox before the agent works
#   pip install --target "$TRIALOG_AGENT_HOME" mini
# install_timeout_sec: 600
# network: install          # or true: only for tasks that allow one
# protocol: acp             # where the command speaks the Agent Client Protocol
# env: {{MINI_KEY: "${{MINI_KEY}}"}}   # taken from the environment of trialog
"""

INSTALLED_PROGRAM = """\
#!/bin/sh
# It starts in the workspace, with the prompt on its standard input. What it leaves there is graded.
prompt=$(cat)
echo "asked: $prompt"
ls -a > seen.txt
# Commands that are reported here show up as steps.
printf '{"command": "ls -a", "exit_code": %s}\\n' "$?" >> "$TRIALOG_ACTIONS"
"""
