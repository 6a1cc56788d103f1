"""Is the answer the expected one? No answer is not the same as an empty one; neither is right."""


def check(episode):
    """A mapping will do in place of a VerifierOutput."""
    if episode.answer is None:
        return {"score": 0.0, "evidence": ["no answer was given"]}
    answer = str(episode.answer).strip()
    return {
        "score": float(answer == episode.expected),
        "evidence": [f"answered {answer!r}, expected {episode.expected!r}"],
    }
