"""Wordle: a hidden word of five letters, and six guesses."""

import msgspec

from trialog import App, action

GUESSES = 6

WORDS = (
    "amber", "baker", "birch", "brick", "candy", "cedar", "chair", "cloud", "coral", "crane",
    "daisy", "delta", "eagle", "field", "flame", "frost", "globe", "grape", "heron", "honey",
    "ivory", "jolly", "knife", "lemon", "light", "maple", "medal", "night", "ocean", "olive",
    "paint", "pearl", "plant", "queen", "river", "robin", "salad", "shelf", "stone", "sugar",
    "table", "tiger", "toast", "trail", "uncle", "vivid", "water", "wheat", "yeast", "zebra",
)  # fmt: skip


class Game(msgspec.Struct):
    """What only the app and the verifiers see."""

    word: str = ""
    guesses: list[str] = []
    marks: list[str] = []


class Wordle(App[Game]):
    """Each letter of a guess is marked: g in its place, y elsewhere in the word, . not in it."""

    def reset(self, task):
        """A task may name the word; else the trial's seed chooses it."""
        if not self.state.word:
            self.state.word = self.rng.choice(WORDS)
        return f"Guess a word of five letters. You have {GUESSES} guesses."

    @action(readonly=True)
    def words(self) -> list[str]:
        """Every word that may be guessed."""
        return list(WORDS)

    @action
    def guess(self, word: str) -> str:
        """Guess a word; gives its marks."""
        if word not in WORDS:
            raise ValueError(f"{word!r} is not in the list of words")
        marks = marked(word, self.state.word)
        self.state.guesses.append(word)
        self.state.marks.append(marks)
        return marks

    def terminated(self):
        """The game is over when the word is found or the guesses are used up."""
        return self.state.word in self.state.guesses or len(self.state.guesses) >= GUESSES


def marked(guess, word):
    """The marks of a guess. A letter is marked y only as often as it is left in the word."""
    left = [letter for letter, right in zip(word, guess, strict=True) if letter != right]
    marks = ""
    for letter, right in zip(guess, word, strict=True):
        if letter == right:
            marks += "g"
        elif letter in left:
            left.remove(letter)
            marks += "y"
        else:
            marks += "."
    return marks
