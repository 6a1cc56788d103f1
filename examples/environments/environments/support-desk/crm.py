"""The desk's records: tickets and customers."""

from typing import Literal

import msgspec

from trialog import App, action

Category = Literal["billing", "delivery", "technical", "other"]


class Ticket(msgspec.Struct):
    """What a customer wrote, and what became of it."""

    customer: str
    text: str
    category: str | None = None
    status: Literal["open", "closed"] = "open"


class Records(msgspec.Struct):
    """Tickets and customers by their ids."""

    tickets: dict[str, Ticket] = {}
    customers: dict[str, dict[str, str]] = {}


class Crm(App[Records]):
    """Reads are free; a ticket is sorted before it is closed."""

    name = "crm"

    @action(readonly=True)
    def open_tickets(self) -> list[str]:
        """Ids of the tickets that are open."""
        return [id for id, ticket in self.state.tickets.items() if ticket.status == "open"]

    @action(readonly=True)
    def get_ticket(self, id: str) -> dict:
        """A ticket."""
        return msgspec.to_builtins(self._ticket(id))

    @action(readonly=True)
    def get_customer(self, id: str) -> dict:
        """A customer's name and address."""
        if id not in self.state.customers:
            raise LookupError(f"there is no customer {id}")
        return self.state.customers[id]

    @action
    def categorize(self, id: str, category: Category) -> str:
        """Sort a ticket."""
        self._ticket(id).category = category
        return f"{id} is in {category}"

    @action
    def close(self, id: str) -> str:
        """Close a ticket that is sorted."""
        ticket = self._ticket(id)
        if ticket.category is None:
            raise ValueError(f"{id} is not sorted yet")
        ticket.status = "closed"
        return f"{id} is closed"

    def _ticket(self, id: str) -> Ticket:
        if id not in self.state.tickets:
            raise LookupError(f"there is no ticket {id}")
        return self.state.tickets[id]
