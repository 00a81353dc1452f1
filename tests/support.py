"""The two verbs of the step tests: `check` (before, after, same values) and `check_refused`.

Models are written as ONNX text. `show` prints a model one node a line, constants in place and inner names
numbered, so that an expectation reads like the text it came from:

    check("y = ReduceMax<axes=[1]>(x)", 17, "y = ReduceMax(x, [1])", 18, inputs="float[N,3] x", outputs="float[N,1] y")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
from onnx import GraphProto, ModelProto, NodeProto, TensorProto
from opshift.passes.changes import Result
from opshift.passes.conversion import convert
from opshift.passes.model import schemas
from opshift.passes.model.attributes import attribute_value

from opshift.verification.engines import ENGINES, EngineError

SPECIAL = [0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 3.0, -1e-3, 7.0, 0.5, -8.0]


def model(
    body: str,
    opset: int,
    *,
    inputs: str,
    outputs: str,
    constants: str = "",
    domains: str = "",
    domain: str = "",
) -> ModelProto:
    """A model from node lines in ONNX text; `constants` declares initializers, `domains` further imports.

    `opset` is that of `domain`; with another domain than the default, the default one is at opset 17.
    """
    imports = f'"" : {opset}' if not domain else f'"" : 17, "{domain}" : {opset}'
    imports += f", {domains}" if domains else ""
    ir = max(schemas.ir_version(domain, opset), 8 if domains or domain else 4)
    text = f"<ir_version: {ir}, opset_import: [{imports}]>\ng ({inputs}) => ({outputs}) <{constants}> {{ {body} }}"
    return onnx.parser.parse_model(text)


def converted(source: ModelProto, target: int, ops: frozenset[tuple[str, str]] = frozenset()) -> Result:
    """What becomes of a model, which cases that differ in what it is fed share; it is not to be changed."""
    return _converted(source.SerializeToString(deterministic=True), target, ops)


@lru_cache(200)
def _converted(source: bytes, target: int, ops: frozenset[tuple[str, str]]) -> Result:
    return convert.attempt(ModelProto.FromString(source), {"": target}, ops=ops)


def check(
    before: str,
    opset: int,
    after: str,
    target: int,
    *,
    inputs: str,
    outputs: str,
    constants: str = "",
    domains: str = "",
    domain: str = "",
    grade: str = "exact",
    feeds: Mapping[str, Any] | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    run: bool = True,
) -> ModelProto:
    """Convert, compare the nodes with `after`, and run both forms on the same inputs, special values included.

    Values must be equal unless the test names a tolerance. `run=False` only for what no engine can execute, with
    the reason in a comment beside it.
    """
    io = {"inputs": inputs, "outputs": outputs, "constants": constants, "domains": domains, "domain": domain}
    source = model(before, opset, **io)
    kept = source.SerializeToString()
    result = convert.attempt(source, {domain: target})
    assert not result.refusals, "\n".join(map(str, result.refusals))
    assert result.model is not None
    assert source.SerializeToString() == kept, "the caller's model was changed"
    assert show(result.model) == "\n".join(line.strip() for line in after.strip().splitlines()), show(result.model)
    assert result.grade == grade
    onnx.checker.check_model(result.model)
    if run:
        check_values(source, result.model, feeds, rtol=rtol, atol=atol)
    return result.model


def check_computes(
    body: str,
    opset: int,
    target: int,
    expected: Any,
    *,
    feeds: Mapping[str, Any],
    grade: str = "exact",
    rtol: float = 0.0,
    atol: float = 0.0,
    **io: Any,
) -> ModelProto:
    """Convert, and compare what comes out with `expected`: an array, or a list of one for each output."""
    source = model(body, opset, **io)
    result = converted(source, target)
    assert not result.refusals, "\n".join(map(str, result.refusals))
    assert result.model is not None
    assert result.grade == grade
    onnx.checker.check_model(result.model, full_check=True)
    actual = evaluate(result.model, {name: np.asarray(value) for name, value in feeds.items()})
    for e, a in zip(expected if isinstance(expected, list) else [expected], actual, strict=True):
        assert (e.dtype, e.shape) == (a.dtype, a.shape)
        np.testing.assert_allclose(a.astype(np.float64), e.astype(np.float64), rtol=rtol, atol=atol)
    return result.model


def check_unchanged(body: str, opset: int, target: int, **io: Any) -> ModelProto:
    """The node stays as it is, down to the last byte."""
    source = model(body, opset, **io)
    result = convert.attempt(source, {io.get("domain", ""): target})
    assert not result.refusals, "\n".join(map(str, result.refusals))
    assert result.model is not None
    assert [n.SerializeToString() for n in result.model.graph.node] == [
        n.SerializeToString() for n in source.graph.node
    ]
    assert not result.changes
    return result.model


def check_refused(body: str, opset: int, target: int, why: str, **io: Any) -> None:
    """The conversion is refused, for a reason that contains `why`."""
    source = model(body, opset, **io)
    result = convert.attempt(source, {io.get("domain", ""): target})
    assert result.model is None, "converted:\n" + show(result.model)
    reasons = "\n".join(map(str, result.refusals))
    assert why in reasons, reasons


def check_down(
    body: str,
    opset: int,
    *targets: int,
    feeds: Mapping[str, Any] | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    grade: str = "exact",
    **io: Any,
) -> ModelProto:
    """The model can be converted to each target and computes the same there; returns it as it is at the last one."""
    source = made = model(body, opset, **io)
    given = {**sample_feeds(source), **(feeds or {})}
    expected = evaluate(source, given)
    for target in targets:
        result = converted(source, target)
        assert result.model is not None, "\n".join(map(str, result.refusals))
        assert result.grade == grade
        onnx.checker.check_model(result.model)
        check_outputs(expected, evaluate(result.model, given), rtol=rtol, atol=atol)
        made = result.model
    return made


def check_values(
    before: ModelProto, after: ModelProto, feeds: Mapping[str, Any] | None = None, *, rtol: float, atol: float
) -> None:
    """Run both on the same inputs."""
    given = {**sample_feeds(before), **(feeds or {})}
    check_outputs(evaluate(before, given), evaluate(after, given), rtol=rtol, atol=atol)


def check_outputs(before: Sequence[Any], after: Sequence[Any], *, rtol: float, atol: float) -> None:
    """The outputs are the same; NaN equals NaN, -0.0 equals 0.0."""
    for expected, actual in zip(before, after, strict=True):
        assert type(expected) is type(actual)
        if isinstance(expected, np.ndarray):
            assert expected.dtype == actual.dtype
            assert expected.shape == actual.shape
        if rtol or atol:
            np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(actual, expected)


def evaluate(of: ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """The outputs, from the first engine that can run the model."""
    problems = []
    for engine in ENGINES:
        try:
            return engine(of).run(feeds)
        except EngineError as error:
            problems.append(f"{engine.engine}: {error}")
    raise AssertionError("no engine runs the model:\n" + "\n".join(problems) + "\n" + show(of))


def sample_feeds(of: ModelProto, symbol: int = 3) -> dict[str, Any]:
    """Inputs with the special values of their type; symbolic dimensions get `symbol`."""
    held = {t.name for t in of.graph.initializer}
    return {v.name: _sample(v.type, symbol) for v in of.graph.input if v.name not in held}


def _sample(kind: onnx.TypeProto, symbol: int) -> Any:
    elem_type = kind.tensor_type.elem_type
    shape = [d.dim_value if d.HasField("dim_value") else symbol for d in kind.tensor_type.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
    count = int(np.prod(shape))
    if elem_type == TensorProto.STRING:
        return np.resize(np.array(["a", "", "B", "a"], dtype=object), shape)
    if elem_type == TensorProto.BOOL:
        return np.resize([True, False, False], shape)
    if dtype.kind in "iu":
        values = [3, 0, 1, 7, 2, 5] if dtype.kind == "u" else [3, 0, -1, 7, -4, 5]
        return np.resize(values, shape).astype(dtype)
    return np.resize(SPECIAL, count).reshape(shape).astype(dtype)


def show(of: ModelProto) -> str:
    """One line a node; what no input or output names is t1, t2, ... in order of appearance."""
    names: dict[str, str] = {}
    _keep(of.graph, names)
    return "\n".join(_lines(of.graph, names, {}))


def _keep(graph: GraphProto, names: dict[str, str]) -> None:
    names.update({v.name: v.name for v in (*graph.input, *graph.output)})


def _lines(graph: GraphProto, names: dict[str, str], held: dict[str, str]) -> list[str]:
    held = dict(held)
    held.update({t.name: _constant(t) for t in graph.initializer if t.name not in names})
    lines = []
    for node in graph.node:
        if node.op_type == "Constant" and node.output[0] not in names:
            held[node.output[0]] = _constant_node(node)
            continue
        for name in filter(None, node.output):
            names.setdefault(name, f"t{sum(v.startswith('t') and v[1:].isdigit() for v in names.values()) + 1}")
        lines.append(_line(node, names, held))
    return lines


def _line(node: NodeProto, names: dict[str, str], held: dict[str, str]) -> str:
    attributes = []
    for attribute in sorted(node.attribute, key=lambda a: a.name):
        value = attribute_value(attribute)
        if attribute.ref_attr_name:
            shown = f"@{attribute.ref_attr_name}"
        elif isinstance(value, GraphProto):
            inner = {**names, **{v.name: v.name for v in value.input}}
            lines = _lines(value, inner, held)
            results = ", ".join(inner.get(v.name, held.get(v.name, v.name)) for v in value.output)
            shown = "{ " + "; ".join([*lines, results]) + " }"
        elif isinstance(value, TensorProto):
            shown = _constant(value)
        elif isinstance(value, float):
            shown = f"{value:.6g}"
        else:
            shown = str(list(value)) if not isinstance(value, (int, str)) else str(value)
        attributes.append(f"{attribute.name}={shown}")
    op = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    inside = f"<{', '.join(attributes)}>" if attributes else ""
    operands = ", ".join(held.get(name, names.get(name, name)) if name else "_" for name in node.input)
    return f"{', '.join(names[o] if o else '_' for o in node.output)} = {op}{inside}({operands})"


def _constant(tensor: TensorProto) -> str:
    value = onnx.numpy_helper.to_array(tensor)
    if value.size > 24:
        return f"{value.dtype}{list(value.shape)}"
    shown = str(value.tolist()) if value.dtype.kind in "iubO" else str(np.round(value.astype(np.float64), 6).tolist())
    return shown if value.dtype in (np.int64, np.float32) else f"{value.dtype}:{shown}"


def _constant_node(node: NodeProto) -> str:
    attribute = node.attribute[0]
    if attribute.ref_attr_name:
        return f"@{attribute.ref_attr_name}"
    value = attribute_value(attribute)
    return _constant(value) if isinstance(value, TensorProto) else str(value)
