"""Makes up the tokens of the engines that run without a model: a request's seed and prompt decide all of them."""
import random

FIRST_WORD = 3 + 256  # In tiny_hf.py's tokenizer words stand behind the special tokens and the bytes.
STEP = 0.01  # A token of each request takes so many seconds.


class Tokens:
    def __init__(self, seed, prompt, vocabulary):
        self.chance, self.words, self.made = random.Random(f"{seed} {list(prompt)}"), range(FIRST_WORD, vocabulary), 0

    def next(self, allowed=None):
        self.made += 1
        return self.chance.choice(allowed or self.words)
