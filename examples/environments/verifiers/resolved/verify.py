"""Was the ticket dealt with? Read from the apps, not from what the agent says it did."""

from trialog import VerifierOutput


def check(episode):
    """A third each: sorted rightly, closed, and one letter to the right person; all is 1."""
    wanted = episode.expected
    ticket = episode.apps["crm"].final["tickets"][wanted["ticket"]]
    address = episode.apps["crm"].query("get_customer", id=ticket["customer"])["address"]
    sent = episode.apps["mail"].final["sent"]
    done = {
        "category": ticket["category"] == wanted["category"],
        "closed": ticket["status"] == "closed",
        "answered": [letter["to"] for letter in sent] == [address],
    }
    return VerifierOutput(
        score=1.0 if all(done.values()) else sum(done.values()) / 3,
        scores={name: float(value) for name, value in done.items()},
        evidence=[f"{name}: {'yes' if value else 'no'}" for name, value in done.items()],
        feedback=None if episode.answer == wanted["ticket"] else "the ticket was not named",
    )


def progress(step):
    """What each action was worth. What is sent is looked at with the help of the other app."""
    if step.error:
        return -0.1
    if step.action == "categorize":
        return 0.3 if step.arguments["category"] == step.task.expected["category"] else -0.3
    if step.action == "send":
        customer = step.apps["crm"].query("get_customer", id=step.task.info["customer"])
        right = step.arguments["to"] == customer["address"]
        return 0.4 if right and customer["name"] in step.arguments["text"] else 0.0
    return None
