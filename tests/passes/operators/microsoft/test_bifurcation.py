"""BifurcationDetector: tokens of a small alphabet, so that n-grams are held once, again, at the end, and not at all."""

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import Call, check


def detections(predicted, seed=0):
    """The tokens that are predicted follow the source for a while."""
    rng, made = np.random.default_rng(seed), []
    for length, before, sizes in [(n, m, k) for n in (0, 1, 2, 7, 12) for m in (0, 1, 4) for k in ((1, 3), (2, 2), (1, 1), (3, 6))]:  # fmt: skip
        source, tokens = rng.integers(0, 3, length), rng.integers(0, 3, before)
        previous = int(rng.integers(0, length + 1))
        follows = np.append(source[previous:], rng.integers(0, 3))
        follows[rng.integers(0, len(follows)) :] = rng.integers(0, 3)
        inputs = (source, tokens, np.array([previous]), follows if predicted else None)
        made.append(Call("BifurcationDetector", inputs, (True, True), dict(zip(("min_ngram_size", "max_ngram_size"), sizes, strict=True))))  # fmt: skip
    return made


@pytest.mark.long
@pytest.mark.parametrize("predicted", [True, False])
def test_detections(predicted):
    assert check(detections(predicted), opsets=(21, 13, 11)) == 60
