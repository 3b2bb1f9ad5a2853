"""A small neural network that reads handwritten digits, trained by gradient descent with momentum.

A hidden layer of tanh units and a softmax; the loss is the cross entropy (Rumelhart, Hinton and
Williams, 1986).

Notice: the parameters are a dataclass; the gradient is one, too.  The network of one digit is a
function of plain sums, and the gradient of the whole batch is a parallel loop over its digits:
forward and backward of a digit are fused, so no activation of the batch is stored.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import peffects as pe

Array: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

DATA = Path(__file__).parent / "data" / "digits.csv.gz"


@dataclass(frozen=True)
class Network:
    """The weights of the two layers, each with its offsets."""

    inner: Array  # hidden=>64
    inner_offset: Array
    outer: Array  # 10=>hidden
    outer_offset: Array

    @classmethod
    def random(cls, hidden: int) -> Network:
        """Small random weights."""
        rng = np.random.default_rng(5)
        inner = rng.normal(size=(hidden, 64)) / 8.0
        outer = rng.normal(size=(10, hidden)) / np.sqrt(hidden)
        return cls(inner, np.zeros(hidden), outer, np.zeros(10))

    def plus(self, other: Network, scale: float, decay: float = 1.0) -> Network:
        """`decay * self + scale * other`, weight by weight."""
        pairs = [(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)]
        return Network(*(decay * mine + scale * theirs for mine, theirs in pairs))


def scores(net: Any, x: Any, n: Any) -> Any:
    """The scores of digit n of `x` for being a 0, 1, ... 9."""
    hidden = pe.table(
        lambda h: pe.tanh(net.inner_offset[h] + pe.sum(lambda j: net.inner[h, j] * x[n, j]))
    )
    return pe.table(lambda c: net.outer_offset[c] + pe.sum(lambda h: net.outer[c, h] * hidden[h]))


@pe.kernel
def loss(net: Network, x: Array, label: Ints) -> float:
    """The mean cross entropy between the network's probabilities and the labels."""

    def of_digit(n: Any) -> Any:
        score = scores(net, x, n)
        return pe.logsumexp(score) - score[label[n]]

    return pe.mean(of_digit)


@pe.kernel
def read(net: Network, x: Array) -> Ints:
    """The most probable digits."""
    return pe.table(lambda n: pe.argmax(scores(net, x, n)), over=x)


slope = pe.value_and_grad(loss)


def train(net: Network, x: Array, label: Ints, epochs: int, batch: int) -> Network:
    """Descend with momentum, on one batch after the other; print the loss of some epochs."""
    rng = np.random.default_rng(6)
    speed = net.plus(net, -1.0)
    for epoch in range(epochs):
        order = rng.permutation(len(x))
        total = 0.0
        for start in range(0, len(x), batch):
            chosen = order[start : start + batch]
            value, gradient = slope(net, x[chosen], label[chosen])
            speed = speed.plus(gradient, -0.1, decay=0.9)
            net = net.plus(speed, 1.0)
            total += float(value) * len(chosen)
        if epoch % max(epochs // 5, 1) == 0:
            print(f"epoch {epoch:2}: loss {total / len(x):.5f}")
    return net


def main(small: bool = False) -> None:
    """Train on four fifths, read the rest."""
    table = np.loadtxt(DATA, delimiter=",", max_rows=400 if small else None)
    x, label = np.ascontiguousarray(table[:, :64]) / 16.0, table[:, 64].astype(np.int64)
    cut = 4 * len(x) // 5
    hidden, epochs = (16, 10) if small else (64, 40)
    net = train(Network.random(hidden), x[:cut], label[:cut], epochs, batch=32)
    right = int((read(net, x[cut:]) == label[cut:]).sum())
    print(f"reads {right} of {len(x) - cut} digits that it has not seen")


if __name__ == "__main__":
    main()
