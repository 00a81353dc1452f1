"""`python -m benchmarks folding [--nodes N ...] [--runs N] [--limit S]`: what finding operators costs."""

from __future__ import annotations

from benchmarks import models

COMMAND = ["-m", "opshift", "fold", "--no-verify"]
SHAPES = {
    "Gelu, written out": models.written_gelus,
    "LayerNormalization, written out": models.written_norms,
    "HardSwish, written out": models.written_swishes,
    "Relu and Add, which are no operator": models.rectified,
}

HEAD = """## Folding

Whole processes as above, at opset 20: chains of one operator that is written out, each of which becomes one node, and
one in which nothing is found. `python -m benchmarks folding` writes this table anew.

| model | nodes | seconds | MB | us a node | bytes a node |
|---|---|---|---|---|---|"""
