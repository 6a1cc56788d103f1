"""Guesses only what still fits every mark that it was given."""

from trialog import Action, Answer


class Solver:
    """Keeps the words that are still possible."""

    def __init__(self):
        self.left = None
        self.guessed = None

    async def act(self, observation, actions):
        """Ask for the words, then halve them as well as can be."""
        if self.left is None:
            self.left = []
            return Action("words")
        if self.guessed is None:
            self.left = list(observation)
        else:
            self.left = [w for w in self.left if marks(self.guessed, w) == observation]
        if not self.left:
            return Answer(None)
        self.guessed = min(self.left, key=self.largest_rest)
        return Action("guess", {"word": self.guessed})

    def largest_rest(self, word):
        """How many words would be left in the worst case."""
        rests = {}
        for other in self.left:
            answer = marks(word, other)
            rests[answer] = rests.get(answer, 0) + 1
        return max(rests.values())


def marks(guess, word):
    """The marks that a guess would get if this were the word."""
    left = [w for w, g in zip(word, guess, strict=True) if w != g]
    given = ""
    for g, w in zip(guess, word, strict=True):
        if g == w:
            given += "g"
        elif g in left:
            left.remove(g)
            given += "y"
        else:
            given += "."
    return given
