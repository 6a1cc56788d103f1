"""Goes by the book: reads, looks up, sorts, answers, closes."""

from trialog import Action, Answer


class Clerk:
    """A generator says what to do next, and is given what came of it."""

    def __init__(self):
        self.work = self.deal()
        self.begun = False

    async def act(self, observation, actions):
        """The next step of the work."""
        if not self.begun:
            self.begun = True
            return next(self.work)
        return self.work.send(observation)

    def deal(self):
        """One ticket, from reading it to closing it."""
        [id] = yield Action("open_tickets")
        ticket = yield Action("get_ticket", {"id": id})
        customer = yield Action("get_customer", {"id": ticket["customer"]})
        rule = yield Action("look_up", {"topic": "refunds"})
        category = "billing" if "charged" in ticket["text"] else "other"
        yield Action("categorize", {"id": id, "category": category})
        text = f"Dear {customer['name']},\n\nsorry for the trouble. {rule}\n\nYour support desk"
        yield Action("send", {"to": customer["address"], "text": text})
        yield Action("close", {"id": id}, app="crm")
        yield Answer(id)
