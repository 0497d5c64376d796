"""Characters of the corpus as integers, and random crops of it as batches."""

from pathlib import Path

import numpy as np

CORPUS = Path(__file__).parent / "data" / "corpus.txt"


class Text:
    """The corpus as ids: its alphabet, a part to train on, and a tenth held out."""

    def __init__(self, path: Path = CORPUS) -> None:
        text = path.read_text()
        self.alphabet = sorted(set(text))
        ids = {c: i for i, c in enumerate(self.alphabet)}
        everything = np.array([ids[c] for c in text], np.int32)
        cut = len(everything) * 9 // 10
        self.train, self.held_out = everything[:cut], everything[cut:]

    def decode(self, ids: np.ndarray) -> str:
        return "".join(self.alphabet[i] for i in ids)


def batch(ids: np.ndarray, size: int, length: int, seed: tuple[int, ...]) -> np.ndarray:
    """Crops `int32[size, length + 1]`: inputs, and one character more for the targets.

    The seed makes step n's batch the same in every run, so that a resumed run goes on as it was.
    """
    starts = np.random.default_rng(seed).integers(0, len(ids) - length - 1, size)
    return ids[starts[:, None] + np.arange(length + 1)]
