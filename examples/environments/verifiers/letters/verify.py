"""The share of the word's letters that one guess had in place, best guess so far."""


def reward(step):
    """How much better the best guess has become."""
    if step.error or step.action != "guess":
        return None
    before, after = step.previous_state["marks"], step.current_state["marks"]
    return (best(after) - best(before)) / 5


def best(marks):
    """Letters in place in the best guess."""
    return max((mark.count("g") for mark in marks), default=0)
