"""Every operator with a definition can be asked for by name and comes back, or it is said that it cannot."""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from onnx import ModelProto
from opshift.passes.conversion import convert
from opshift.passes.fusion import families, fold
from opshift.passes.model.imports import opsets
from opshift.passes.model.traversal import Op
from opshift.passes.stages import operator_names

from opshift.catalog import definitions, lowest
from tests import pairs
from tests.conformance.cases import Case, bound, installed
from tests.support import evaluate, model

DEFINED = sorted({(found.domain, found.op) for found in definitions.definitions()})
MORE = {  # where all that is published has optional outputs, for which there is no pattern
    ("", "LayerNormalization"): model(
        "y = LayerNormalization(x, s, b)",
        17,
        inputs="float[2,3,4] x, float[4] s, float[4] b",
        outputs="float[2,3,4] y",
    )
}


@cache
def of_one_node() -> dict[Op, list[Case]]:
    """What is published of a single call, by operator."""
    found: dict[Op, list[Case]] = defaultdict(list)
    for case in installed():
        if len(nodes := case.model.graph.node) == 1:
            found[nodes[0].domain, nodes[0].op_type].append(case)
    return found


def calls(op: Op) -> Iterator[tuple[ModelProto, Case | None]]:
    """Calls of an operator, with what is published of them."""
    published = of_one_node().get(op, ())
    for case in published:
        yield from ((of.model, of) for of in (case, bound(case)) if of is not None)
    made = [MORE[op]] if op in MORE else [] if published else lowest._calls(*op)
    yield from ((call, None) for call in made)


@pytest.mark.newest
@pytest.mark.parametrize("op", pairs.some(DEFINED, 3), ids="::".join)
def test_what_is_asked_for_by_name_comes_back_or_is_a_usage_error(op):
    name = "::".join(filter(None, op))
    if families.family(op) is None:
        assert definitions.folds(*op) == "no"
        with pytest.raises(ValueError, match="opshift cannot recognise its definition"):
            operator_names.find_recognisable(name)
        return
    assert operator_names.find_recognisable(name) == op
    assert definitions.folds(*op) == ("yes" if op in families.FAMILIES else "by name")
    back = 0
    for call, case in calls(op):
        expanded = convert.attempt(call, opsets(call), ops=[op]).model
        if expanded is None or op in {(node.domain, node.op_type) for node in expanded.graph.node}:
            continue
        result = fold.attempt(expanded, ops=[op]).model
        back += [(node.domain, node.op_type) for node in result.graph.node] == [op]
        if case is not None and result != expanded:
            for expected, actual in zip(case.outputs, evaluate(result, case.inputs), strict=True):
                np.testing.assert_allclose(actual, expected, rtol=2e-3, atol=1e-5)
    assert back
