"""Whose turn it is: every version of an operator in each round of seeds, and round by round each of its attributes, one
that is a word with each word that is known of it."""

from __future__ import annotations

import random

import onnx.defs

from tests.random.calls import ANY, Corpus, Key, Trait


def turn(corpus: Corpus, seed: int) -> tuple[Key, Trait]:
    """The version of an operator that a seed begins with, and what it has; `ANY` for nothing in particular."""
    order = random.Random(0).sample(corpus.known, len(corpus.known))
    around, at = divmod(seed, len(order))
    domain, op, since = order[at]
    schema = onnx.defs.get_schema(op, since, domain)
    names = sorted(n for n, a in schema.attributes.items() if "GRAPH" not in a.type.name)
    traits = [Trait(name, word) for name in names for word in corpus.words.get((op, name)) or [b""]]
    return order[at], [ANY, *traits][around % (len(traits) + 1)]
