"""The objective of ADBench and its gradient have the values that ADBench expects."""

from __future__ import annotations

from typing import Any

import gmm
import numpy as np
import pytest

import peffects as pe

VALUES = {
    "gmm_d2_K3_n1.txt": 8.07380408004975791,
    "gmm_d2_K5.txt": -5240.590562549647,
    "gmm_d10_K5.txt": -31302.54091091071,
}
SUMS = {
    "gmm_d2_K5.txt": (-1001.228333178, 1277.188864679),
    "gmm_d10_K5.txt": (-13717.75922576, 5668.087940168),
}
SMALL_GRADIENT = [
    0.108662855508652456, -0.741270039523898472, 0.632607184015246071, 1.11692576532787013,
    0.163333013551455269, -0.0219989824071193142, 0.227778292254236098, 1.20963025612832187,
    -0.0606375920733956339, 2.58529994051162237, 0.112632694524213789, 0.385744309849611777,
    0.0735180573182305508, 5.41836362715595232, -0.321494409677446469, 1.71892309775004937,
    0.860091090790866875, -0.994640930466322848,
]  # fmt: skip
BOTH = pytest.mark.parametrize("both", [gmm.gradient, gmm.numpy_gradient], ids=["kernel", "numpy"])


def flat(parts: Any) -> Any:
    return np.concatenate([np.ravel(part) for part in parts])


def assert_close(found: Any, expected: Any) -> None:
    """The measure of ADBench, a hundred times tighter than it asks."""
    found, expected = np.asarray(found), np.asarray(expected)
    error = np.abs(found - expected) / np.maximum(1.0, np.abs(found) + np.abs(expected))
    assert error.max() <= 1e-10


@BOTH
@pytest.mark.parametrize("name", VALUES)
def test_value_is_the_expected_one(both: Any, name: str) -> None:
    mixture = gmm.read(name)
    value, gradient = both(*mixture.args)
    assert_close(value, VALUES[name])
    if name in SUMS:
        found = flat(gradient)
        assert_close([found.sum(), np.linalg.norm(found)], SUMS[name])
    else:
        assert_close(flat(gradient), SMALL_GRADIENT)


@pytest.mark.parametrize(("n", "d", "components"), [(50, 3, 4), (7, 6, 1), (1, 1, 3)])
def test_kernel_and_numpy_agree(n: int, d: int, components: int) -> None:
    mixture = gmm.random_mixture(n, d, components)
    (value, ours), (expected, theirs) = (
        both(*mixture.args) for both in (gmm.gradient, gmm.numpy_gradient)
    )
    assert_close(value, expected)
    assert_close(flat(ours), flat(theirs))


def test_the_prior_counts() -> None:
    mixture = gmm.read("gmm_d2_K5.txt")
    args = (*mixture.args[:4], 0.7, 3)
    (value, ours), (expected, theirs) = gmm.gradient(*args), gmm.numpy_gradient(*args)
    assert_close(value, expected)
    assert_close(flat(ours), flat(theirs))
    pe.check_grads(lambda mu: gmm.log_posterior(args[0], mu, *args[2:]), (mixture.mu,))
