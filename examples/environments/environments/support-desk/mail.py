"""The desk's post: a handbook to look into, and an outbox."""

import msgspec

from trialog import App, action


class Letter(msgspec.Struct):
    """A message that was sent."""

    to: str
    text: str


class Post(msgspec.Struct):
    """The handbook by topic, and what was sent."""

    handbook: dict[str, str] = {}
    sent: list[Letter] = []


class Mail(App[Post]):
    """What is sent can't be taken back."""

    name = "mail"

    @action(readonly=True)
    def look_up(self, topic: str) -> str:
        """What the handbook says on a topic."""
        if topic not in self.state.handbook:
            raise LookupError(f"the handbook has: {', '.join(self.state.handbook)}")
        return self.state.handbook[topic]

    @action
    def send(self, to: str, text: str) -> str:
        """Send a message."""
        if "@" not in to:
            raise ValueError(f"{to!r} is no address")
        self.state.sent.append(Letter(to=to, text=text))
        return "sent"
