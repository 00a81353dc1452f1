"""Round trips of what ONNX publishes: each node test is expanded by the engine, folded, and computes the same."""

from collections.abc import Iterator

import numpy as np
import onnx.compose
import onnx.helper
import onnx.numpy_helper
import pytest
from onnx import ModelProto
from opshift.passes.conversion import convert
from opshift.passes.fusion import families, fold
from opshift.passes.model.imports import opsets

from tests.conformance.cases import Case, bound, installed
from tests.support import evaluate

NEWEST = 25  # the newest opset that onnxruntime runs of these operators
WHOLE = [
    "Elu",
    "Gelu",
    "GroupNormalization",
    "HardSigmoid",
    "HardSwish",
    "InstanceNormalization",
    "LeakyRelu",
    "LogSoftmax",
    "LpNormalization",
    "MeanVarianceNormalization",
    "Mish",
    "PRelu",
    "RMSNormalization",
    "Selu",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Softsign",
    "Swish",
]
"""The operators that come back from every published call; others have calls that no node can be folded into."""
BOUND = ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceSumSquare"]
"""Those that come back where their axes are constant."""


def cases() -> Iterator[Case]:
    for case in installed():
        nodes = case.model.graph.node
        if len(nodes) == 1 and ("", nodes[0].op_type) in families.FAMILIES:
            yield from (variant for variant in (case, bound(case)) if variant is not None)


@pytest.fixture(scope="module")
def folded() -> list[tuple[Case, str, fold.Result]]:
    found = []
    for case in cases():
        op, opset = case.model.graph.node[0].op_type, opsets(case.model)[""]
        expanded = convert.attempt(case.model, {"": min(opset, NEWEST)}, ops=[("", op)]).model
        if expanded is not None and op not in {node.op_type for node in expanded.graph.node}:
            found.append((case, op, fold.attempt(expanded)))
    return found


@pytest.mark.long
def test_operators_come_back(folded):
    complaints = []
    for case, op, result in folded:
        back = [node.op_type for node in result.model.graph.node] == [op]
        if not back and (op in WHOLE or (op in BOUND and case.name.endswith("[bound]"))):
            complaints.append(f"{case.name}: {[change.how for change in result.changes]}")
    assert not complaints, "\n".join(complaints)
    assert {op for _, op, _ in folded} >= {*WHOLE, *BOUND, "Attention"}


@pytest.mark.newest
@pytest.mark.long
def test_folded_calls_compute_what_is_published(folded):
    complaints = []
    for case, _, result in folded:
        if not result.changes:
            continue
        short = any(value.dtype.itemsize == 2 for value in case.outputs)  # one unit in the last place
        for expected, actual in zip(case.outputs, evaluate(result.model, case.inputs), strict=True):
            assert expected.dtype == actual.dtype
            assert expected.shape == actual.shape, case.name
            wide = (value.astype(np.float64) for value in (actual, expected))
            if not np.allclose(*wide, rtol=8e-3 if short else 1e-3, atol=1e-5, equal_nan=True):
                complaints.append(f"{case.name}: {[change.how for change in result.changes]}")
    assert not complaints, "\n".join(complaints)


def twice(model: ModelProto) -> ModelProto:
    """Two of a kind in one graph, with inputs of their own."""
    made = onnx.compose.add_prefix(model, "first ")
    other = onnx.compose.add_prefix(model, "second ").graph
    for name in ("node", "input", "output", "initializer", "value_info"):
        getattr(made.graph, name).extend(getattr(other, name))
    return made


def calls(model: ModelProto) -> list[tuple[object, ...]]:
    """Each node by what it is, what it is given, and the constants that it reads."""
    held = {tensor.name: onnx.numpy_helper.to_array(tensor).tolist() for tensor in model.graph.initializer}
    held |= {
        n.output[0]: onnx.helper.get_node_attr_value(n, "value") for n in model.graph.node if n.op_type == "Constant"
    }
    return [
        (
            node.op_type,
            sorted(attribute.SerializeToString() for attribute in node.attribute),
            [str(held[name]) if name in held else bool(name) for name in node.input],
        )
        for node in model.graph.node
        if node.op_type != "Constant"
    ]


@pytest.mark.long
def test_the_second_of_a_kind_is_written_as_the_first(folded):
    seen = set[str]()
    for case, op, result in folded:
        one = calls(result.model)
        if not result.changes or str(one) in seen:
            continue
        seen.add(str(one))
        expanded = convert.attempt(case.model, {"": min(opsets(case.model)[""], NEWEST)}, ops=[("", op)]).model
        found = calls(fold.attempt(twice(expanded)).model)
        assert sorted(map(str, found)) == sorted(map(str, one + one)), case.name
    assert len(seen) > 80
