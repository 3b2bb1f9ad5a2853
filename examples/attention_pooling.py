"""Learn which words of sentences matter, from sentences of different lengths and no padding.

Attention pooling: a score of each word, made a distribution over the words of its sentence by a
softmax, weighs what the words say.  Sentences have 1 to 40 words.  In the data, what a sentence
says is decided by its one marked word.

Notice: the sentences are one ragged table, `x[i, j, k]` for word j of sentence i.  The index `j`
runs over the words of sentence i, because it is used there; nothing is padded, masked or tested,
and a batch with other lengths compiles nothing.  The gradient of the loss is a parallel loop over
sentences.  The attention itself is a result of a kernel, and ragged like the sentences.
"""

from __future__ import annotations

import time
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import peffects as pe

Array: TypeAlias = NDArray[np.float64]

FEATURES = 8


def scores(x: Any, query: Any, i: Any) -> Any:
    """The scores of the words of sentence i."""
    return pe.table(lambda j: pe.sum(lambda k: x[i, j, k] * query[k]), over=x.index_set.row(i))


@pe.kernel
def loss(query: Any, value: Any, x: Any, y: Any) -> Any:
    """The mean squared error of what the sentences are taken to say."""

    def of_sentence(i: Any) -> Any:
        score = scores(x, query, i)
        total = pe.logsumexp(score)
        said = pe.sum(lambda j: pe.exp(score[j] - total) * pe.sum(lambda k: x[i, j, k] * value[k]))
        return (said - y[i]) ** 2

    return pe.mean(of_sentence)


@pe.kernel
def attention(query: Any, x: Any) -> Any:
    """The weight of each word in its sentence: ragged, like the sentences."""

    def of_sentence(i: Any) -> Any:
        score = scores(x, query, i)
        total = pe.logsumexp(score)
        return pe.table(lambda j: pe.exp(score[j] - total))

    return pe.table(of_sentence, over=x)


slope = pe.value_and_grad(loss, argnums=(0, 1))


def sentences(count: int, seed: int) -> tuple[pe.Packed, Array, NDArray[np.int64]]:
    """Words in a ragged table, what each sentence says, and the place of its marked word."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 41, count)
    index_set = pe.Ragged(lengths)
    words = rng.normal(size=(index_set.size, FEATURES))
    words[:, 0] = 0.0
    marked = rng.integers(0, lengths)
    words[index_set.offsets[:-1] + marked, 0] = 4.0  # the mark
    said = words[index_set.offsets[:-1] + marked, 1]  # what the marked word says
    return pe.Packed(index_set, words), said, marked


def main(small: bool = False) -> None:
    """Learn from some sentences; look at the attention in others."""
    x, y, _ = sentences(200 if small else 5000, seed=1)
    lengths = np.array([len(sentence) for sentence in x])
    print(f"{len(x)} sentences of {lengths.min()} to {lengths.max()} words, {x.size} words in all;")
    print(f"padded they would be {len(x) * lengths.max()}")
    weights, mean, square = np.zeros((3, 2 * FEATURES))
    start = time.perf_counter()
    rounds = 120 if small else 300
    for k in range(rounds):
        query, value = np.split(weights, 2)
        error, gradients = slope(query, value, x, y)
        if k % 30 == 0:
            print(f"round {k:3}: error {error:.4f}")
        gradient = np.concatenate(gradients)  # steps by its running mean and size, as in Adam
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.99 * square + 0.01 * gradient**2
        weights = weights - 0.05 * mean / np.sqrt(square + 1e-12)
    seconds = time.perf_counter() - start
    fresh, _, marked = sentences(1000, seed=2)
    noticed = attention(query, fresh)
    found = [int(np.argmax(noticed[i])) == marked[i] for i in range(len(fresh))]
    print(f"in new sentences the marked word gets most attention in {np.mean(found):.1%}")
    if not small:
        print(f"{rounds * x.size / seconds / 1e6:.1f} million words a second, with derivatives")


if __name__ == "__main__":
    main()
