"""Whose turn it is: every version of an operator in each round of seeds, and round by round each of its attributes."""

from __future__ import annotations

import random

import onnx.defs

from tests.random.calls import Corpus, Key


def turn(corpus: Corpus, seed: int) -> tuple[Key, str]:
    """The version of an operator that a seed begins with, and the attribute that it has; empty for none in particular."""
    order = random.Random(0).sample(corpus.known, len(corpus.known))
    around, at = divmod(seed, len(order))
    domain, op, since = order[at]
    schema = onnx.defs.get_schema(op, since, domain)
    names = ["", *sorted(n for n, a in schema.attributes.items() if "GRAPH" not in a.type.name)]
    return order[at], names[around % len(names)]
