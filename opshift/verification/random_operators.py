"""Compare random generators by the distribution of their numbers, and feed one model's numbers to the other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from opshift.passes.model.messages import ModelProto, copy_model
from opshift.passes.model.traversal import bodies
from opshift.passes.records import replace
from opshift.verification.bounds import compare
from opshift.verification.engines import Feeds, Session

if TYPE_CHECKING:
    from opshift.verification.side import Side

GENERATORS = frozenset(
    ["Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]
)


def remove_seeds(model: ModelProto) -> ModelProto:
    """Copy a model without seeds, for samples: a replacement draws other numbers from the same seed anyway."""
    copy = copy_model(model)
    for body in bodies(copy):
        for node in body.node:
            for index in [k for k, attribute in enumerate(node.attribute) if attribute.name == "seed"]:
                del node.attribute[index]
    return copy


def is_random(side: Side, given: Any, name: str, value: Any, other: Any, grade: str) -> bool:
    """Whether the first model disagrees with itself; then only shapes and types can be compared.

    Exact changes leave generators as they are: what a seed fixes has to be the same.
    """
    if getattr(value, "shape", None) != getattr(other, "shape", None):
        return False
    if not any(node.op_type in GENERATORS for body in bodies(side.model) for node in body.node):
        return False
    index = [v.name for v in side.model.graph.output].index(name)
    if grade == "exact":
        return bool(compare(value, side.open().run(given)[index]).why)
    session = replace(side, model=remove_seeds(side.model)).open()  # one session, whose generators move on
    return bool(compare(*(session.run(given)[index] for _ in range(2))).why)


_ALPHA = 1e-9
"""How often two samples of one distribution may be taken for samples of two."""


_ENOUGH, _MOST = 1024, 32
"""How many numbers are drawn where a run yields fewer, and in how many runs at most."""


def collect_samples(session: Session, given: Feeds) -> list[Any]:
    """Collect the numbers of each generator over a few runs."""
    import numpy as np

    runs = [session.run(given)]
    while len(runs) < _MOST and min(map(np.size, runs[0]), default=_ENOUGH) * len(runs) < _ENOUGH:
        runs.append(session.run(given))
    return [np.concatenate([np.ravel(drawn) for drawn in each]) for each in zip(*runs, strict=True)]


def tells(one: Any, other: Any) -> bool:
    """Whether two samples are large enough to compare."""
    return bool(one.size and other.size) and _by_chance(one.size, other.size) < 1


def _by_chance(one: int, other: int) -> float:
    """How far apart two samples of one distribution may be by chance."""
    return math.sqrt(-math.log(_ALPHA / 2) / 2 * (1 / one + 1 / other))


def unlike(one: Any, other: Any) -> str:
    """Say why two samples have different distributions (Kolmogorov-Smirnov); empty if they may be the same.

    Runs on samples of both models.

    NaN stands behind all numbers, as in what numpy sorts: a share of it is compared like any other.
    """
    import numpy as np

    a, b = (np.sort(np.asarray(drawn, np.float64).ravel()) for drawn in (one, other))
    if not a.size or not b.size:
        return ""
    at = np.concatenate([a, b])
    shares = [np.searchsorted(sample, at, "right") / sample.size for sample in (a, b)]
    gap = float(np.abs(shares[0] - shares[1]).max())
    if gap <= _by_chance(a.size, b.size):
        return ""
    return f"other random numbers: {_describe_sample(b)} instead of {_describe_sample(a)}"


def _describe_sample(sample: Any) -> str:
    """Describe a sample by mean, deviation and elements that are not finite. Part of the reason for a difference."""
    import numpy as np

    finite = sample[np.isfinite(sample)]
    lacking = sample.size - finite.size
    said = [f"mean {finite.mean():.3g}, deviation {finite.std():.3g}"] if finite.size else []
    return ", ".join(said + ([f"{lacking} of {sample.size} elements not finite"] if lacking else []))
