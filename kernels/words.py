"""A recurrent network that learns to spell: which letter comes next, in words of different lengths.

    h_0 = 0,   h_{t+1} = tanh(W h_t + U[x_t] + b),

    L = sum over words and letters of -log softmax(V h_{t+1} + c)[x_{t+1}]

``x_t`` are the letters of a word as numbers; 0 stands before its first and after its last letter. The
hidden state is a vector that is loop-carried in ``for t in range(length[i])``; the letter, read from memory,
selects a column of ``U`` and a row of ``V``. An inner loop over the alphabet sums the exponentials.

Shapes, with A letters and H = 6 hidden units: ``letters`` (words, time + 1) i32, ``length`` (words,) i32,
``W`` () of H x H, ``U`` and ``V`` (A,) of H-vectors, ``b`` () of an H-vector, ``c`` (A,), ``loss`` ();
default_fp.
"""

import numpy as np

import quadrants_lab as qd

H = 6


@qd.func
def advance(h, inner, column, bias):
    """The next hidden state."""
    return qd.tanh(inner @ h + column + bias)


@qd.kernel
def spell(
    letters: qd.template(), length: qd.template(),
    W: qd.template(), U: qd.template(), b: qd.template(), V: qd.template(), c: qd.template(), loss: qd.template(),
):  # fmt: skip
    """loss[None] += L."""
    for i in length:
        h = qd.Vector.zero(float, H)
        for t in range(length[i]):
            h = advance(h, W[None], U[letters[i, t]], b[None])
            total = 0.0
            for a in range(c.shape[0]):
                total += qd.exp(V[a].dot(h) + c[a])
            right = letters[i, t + 1]
            loss[None] += qd.log(total) - V[right].dot(h) - c[right]


@qd.kernel
def guess(
    letters: qd.template(), first: int, limit: int,
    W: qd.template(), U: qd.template(), b: qd.template(), V: qd.template(), c: qd.template(),
):  # fmt: skip
    """Writes to row 0 of ``letters`` the word that begins with ``first``; each next letter is the likeliest one."""
    for i in range(1):
        h = qd.Vector.zero(float, H)
        h = advance(h, W[None], U[0], b[None])
        letter = first
        t = 0
        while letter != 0 and t < limit:
            letters[i, t] = letter
            h = advance(h, W[None], U[letter], b[None])
            best = V[0].dot(h) + c[0]
            letter = 0
            for a in range(1, c.shape[0]):
                score = V[a].dot(h) + c[a]
                if score > best:
                    best = score
                    letter = a
            t += 1
        letters[i, t] = 0


@qd.kernel
def descend(x: qd.template(), rate: float):
    """Subtracts rate * dL/dx from each element of x, which may be scalars, vectors or matrices."""
    for index in qd.grouped(x):
        x[index] -= rate * x.grad[index]


class Speller:
    """The network and the words that it is to learn."""

    def __init__(self, words: list[str], seed: int = 0) -> None:
        self.alphabet = "." + "".join(sorted(set("".join(words))))
        time, size = max(map(len, words)) + 1, len(self.alphabet)
        self.letters = qd.field(qd.i32, shape=(len(words), time + 1))
        self.length = qd.field(qd.i32, shape=len(words))
        self.W = qd.Matrix.field(H, H, float, shape=(), needs_grad=True)
        self.b = qd.Vector.field(H, float, shape=(), needs_grad=True)
        self.U, self.V = (qd.Vector.field(H, float, shape=size, needs_grad=True) for _ in range(2))
        self.c = qd.field(float, shape=size, needs_grad=True)
        self.loss = qd.field(float, shape=(), needs_grad=True)
        self.weights = (self.W, self.U, self.b, self.V, self.c)
        rng = np.random.default_rng(seed)
        for x in self.weights:
            x.from_numpy(0.4 * rng.normal(size=x.to_numpy().shape))
        numbers = np.zeros((len(words), time + 1), np.int32)
        for i, word in enumerate(words):
            numbers[i, 1 : len(word) + 1] = [self.alphabet.index(a) for a in word]
        self.letters.from_numpy(numbers)
        self.length.from_numpy(np.array([len(word) + 1 for word in words], np.int32))

    def gradient(self) -> float:
        """Computes L and returns it; its derivatives are in the ``grad`` of each of the ``weights``."""
        with qd.ad.Tape(self.loss):
            spell(self.letters, self.length, *self.weights, self.loss)
        return float(self.loss[None])

    def complete(self, first: str) -> str:
        limit = self.letters.shape[1] - 1
        row = qd.field(qd.i32, shape=(1, limit + 1))
        guess(row, self.alphabet.index(first), limit, *self.weights)
        return "".join(self.alphabet[a] for a in row.to_numpy()[0]).split(".")[0]


def main(rounds: int = 300, rate: float = 0.015) -> tuple[list[float], list[str]]:
    """Learns five words; returns the loss before each round, and the words guessed from first letters at the end."""
    qd.init(arch=qd.cpu)
    words = ["banana", "cocoa", "noodle", "tomato", "radish"]
    speller, losses = Speller(words), []
    for _ in range(rounds):
        losses.append(speller.gradient())
        for x in speller.weights:
            descend(x, rate)
    return losses, [speller.complete(word[0]) for word in words]


if __name__ == "__main__":
    losses, found = main()
    print(f"loss {losses[0]:.3g} -> {losses[-1]:.3g}: {' '.join(found)}")
