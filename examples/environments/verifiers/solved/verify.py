"""Was the word found? And for training: every letter found counts, and so does finding it early."""

from trialog import VerifierOutput


def check(episode):
    """1 for the word, whatever was said about it."""
    game = episode.state
    solved = game["word"] in game["guesses"]
    return VerifierOutput(
        score=float(solved),
        scores={"guesses": float(len(game["guesses"]))},
        evidence=[
            f"the word was {game['word']}; guessed: {', '.join(game['guesses']) or 'nothing'}"
        ],
    )


def letters_found(step):
    """0.2 for each place found for the first time; a refused guess costs a little."""
    if step.error:
        return -0.05
    if step.action != "guess":
        return None
    return 0.2 * (len(places(step.current_state)) - len(places(step.previous_state)))


def places(game):
    """The places whose letters were found in any guess until now."""
    return {
        place for marks in game["marks"] for place, mark in enumerate(marks) if mark == "g"
    }  # fmt: skip


def fewer_guesses(trial):
    """Credit for the guess that solved it: all of it for the first, less for each before it."""
    guesses = [step for step in trial.steps("guess") if step["error"] is None]
    solved = trial.apps["wordle"].final["word"] in trial.apps["wordle"].final["guesses"]
    if solved:
        yield trial.credit(
            guesses[-1]["event_id"], 1.0 - 0.15 * (len(guesses) - 1), guesses=len(guesses)
        )
