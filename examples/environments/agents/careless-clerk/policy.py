"""Wants to be done: closes before it sorts, sorts by chance, writes to the wrong person."""

from trialog import Action, Answer


class CarelessClerk:
    """Takes the same steps whatever comes back."""

    def __init__(self):
        self.steps = [
            Action("close", {"id": "T-7"}),
            Action("categorize", {"id": "T-7", "category": "delivery"}),
            Action("send", {"to": "ada@example.org", "text": "It will be fine."}),
            Action("close", {"id": "T-7"}),
        ]

    async def act(self, observation, actions):
        """The next one, and then a claim."""
        return self.steps.pop(0) if self.steps else Answer("T-7")
