"""The reduce operators: the published definitions, and the forms that hold for each element type."""

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx.checker
import onnx.defs
import onnx.parser
import pytest
from onnx import FunctionProto, TensorProto
from opshift.functions import compile as compiler
from opshift.functions import define, reduction
from opshift.passes.conversion import convert

from opshift import functions
from tests.support import evaluate, model, show

OPS = ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"]
FIRST_PUBLISHED = Path(__file__).parent / "onnx_1_13_1"
TYPES = {
    "float": (np.float32, 2**-22),
    "double": (np.float64, 2**-50),
    "float16": (np.float16, 2**-10),
    "bfloat16": (ml_dtypes.bfloat16, 2**-7),
    "int32": (np.int32, 0),
    "int64": (np.int64, 0),
    "uint32": (np.uint32, 0),
    "uint64": (np.uint64, 0),
}


# --- the published definitions ------------------------------------------------------------------------------


def content(function: FunctionProto, *, without: str = ""):
    """All that a definition says: names, formals, imports, nodes with their attributes in any order."""
    nodes = []
    for node in function.node:
        kept = sorted((a for a in node.attribute if a.name != without), key=lambda a: a.name)
        attributes = [a.SerializeToString(deterministic=True) for a in kept]
        nodes.append((node.domain, node.op_type, list(node.input), list(node.output), attributes))
    imports = {i.domain: i.version for i in function.opset_import}
    defaults = list(function.attribute_proto)
    formals = list(function.input), sorted(function.attribute), defaults, list(function.output)
    return function.domain, function.name, formals, imports, nodes


def ours(op: str) -> FunctionProto:
    return getattr(reduction, op).to_function_proto()


@pytest.mark.parametrize("op", OPS)
def test_definition_is_the_published_one(op):
    assert content(ours(op)) == content(onnx.defs.get_schema(op, 18).function_body)


@pytest.mark.parametrize("op", OPS)
def test_first_published_definition_lacks_one_forwarded_attribute(op):
    first = onnx.parser.parse_function((FIRST_PUBLISHED / f"{op}.txt").read_text(encoding="utf-8"))
    assert content(ours(op)) != content(first)
    assert content(ours(op), without="noop_with_empty_axes") == content(first)


@pytest.mark.parametrize("op", ["ReduceL1", "ReduceLogSum", "ReduceSumSquare"])
def test_published_definition_is_used_where_it_holds(op):
    form = functions.find("", op, TensorProto.FLOAT)
    assert content(form.body) == content(ours(op))


# --- compilation --------------------------------------------------------------------------------------------


def test_compiled_files_are_up_to_date():
    fresh = compiler.families()
    folder = Path(functions.__path__[0])
    assert {path.stem for path in folder.glob("*.binpb")} == set(fresh)
    for family, compiled in fresh.items():
        assert (folder / f"{family}.binpb").read_bytes() == compiled.SerializeToString(deterministic=True), family


def test_a_second_definition_for_a_type_is_an_error():
    before = list(define.registered)
    with pytest.raises(
        ValueError, match="a second definition of ReduceL1 names element types that the first one has: \\[1\\]"
    ):
        define.define("ReduceL1", define.native(TensorProto.FLOAT, TensorProto.STRING))(reduction.ReduceL1)
    assert define.registered == before


def test_every_definition_is_a_valid_function():
    for compiled in compiler.families().values():
        for body in compiled.functions:
            body.domain = body.domain or "any"  # ONNX's own definitions have none
            onnx.checker.check_function(body)


def test_lookup_of_what_is_not_defined():
    assert not functions.has_definition("", "NoSuchOperator")
    assert not functions.has_definition("elsewhere", "ReduceL1")
    assert functions.find("", "ReduceL1", TensorProto.STRING) is None


# --- values -------------------------------------------------------------------------------------------------


def reference(op, x, axes, *, keepdims=1, noop=0):
    """The operator by its formula in float64, brought to the type of x."""
    wide = np.asarray(x).astype(np.float64)
    axis = tuple(axes) if len(axes) else () if noop else None
    axis = tuple(range(wide.ndim)) if axis is None else axis
    with np.errstate(all="ignore"):
        if op == "ReduceLogSumExp":
            y = np.logaddexp.reduce(wide, axis=axis, keepdims=bool(keepdims)) if axis else wide
        else:
            mapped = {"ReduceL1": np.abs, "ReduceLogSum": np.array}.get(op, np.square)(wide)
            y = np.sum(mapped, axis=axis, keepdims=bool(keepdims))
            y = {"ReduceL2": np.sqrt, "ReduceLogSum": np.log}.get(op, np.array)(y)
        return np.asarray(y).astype(x.dtype)


def expanded(source, op, target=18):
    """The model with the operator expanded, which must be gone and leave a valid model."""
    result = convert.attempt(source, {"": target}, ops=[("", op)])
    assert not result.refusals, "\n".join(map(str, result.refusals))
    assert op not in {n.op_type for n in result.model.graph.node}, show(result.model)
    onnx.checker.check_model(result.model, full_check=True)
    return result.model


def run(source, feeds):
    """The only output; bfloat16 inputs are fed as float, which engines read, and cast in the model."""
    return evaluate(source, feeds)[0]


def graph(op, kind, shape, axes, **attributes):
    """One call over constant axes; None leaves them out. bfloat16 is cast from float and back."""
    listed = ", ".join(f"{name}={value}" for name, value in attributes.items())
    operands = "x" if axes is None else "x, a"
    constants = "" if axes is None else f"int64[{len(axes)}] a = {{{', '.join(map(str, axes))}}}"
    call = f"{op}<{listed}>({operands})" if listed else f"{op}({operands})"
    rank = (
        len(shape)
        if attributes.get("keepdims", 1) or (attributes.get("noop_with_empty_axes") and not axes)
        else (len(shape) - len(axes or shape))
    )
    result = "[" + ",".join(f"d{i}" for i in range(rank)) + "]" if rank else ""
    shape = f"[{','.join(map(str, shape))}]" if shape else ""
    if kind == "bfloat16":
        body = f"x = Cast<to=16>(w)\n z = {call}\n y = Cast<to=1>(z)"
        return model(body, 18, inputs=f"float{shape} w", outputs=f"float{result} y", constants=constants)
    return model(f"y = {call}", 18, inputs=f"{kind}{shape} x", outputs=f"{kind}{result} y", constants=constants)


def check_form(op, x, axes, **attributes):
    x = np.asarray(x)
    kind = next(name for name, (dtype, _) in TYPES.items() if x.dtype == dtype)
    feeds = {"w": x.astype(np.float32)} if kind == "bfloat16" else {"x": x}
    expected = reference(
        op,
        x,
        axes or (),
        keepdims=attributes.get("keepdims", 1),
        noop=attributes.get("noop_with_empty_axes", 0),
    )
    actual = run(expanded(graph(op, kind, x.shape, axes, **attributes), op), feeds)
    assert actual.shape == expected.shape
    assert actual.dtype == (np.float32 if kind == "bfloat16" else x.dtype)
    np.testing.assert_allclose(actual.astype(np.float64), expected.astype(np.float64), rtol=TYPES[kind][1])


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("op", OPS)
def test_every_type(op, kind, keepdims):
    values = np.array([[1, 5, 3], [2, 7, 0]]) if "int" in kind else np.array([[1.5, -2, 3], [0.25, 7, -0.0]])
    x = values.astype(TYPES[kind][0])
    check_form(op, x, [1], keepdims=keepdims)
    check_form(op, x, [-2, 1], keepdims=keepdims)
    check_form(op, x, None, keepdims=keepdims)


@pytest.mark.parametrize("noop", [0, 1])
@pytest.mark.parametrize("kind", ["float", "float16", "int64", "uint64"])
@pytest.mark.parametrize("op", OPS)
def test_empty_axes(op, kind, noop):
    x = np.array([[1, 4], [2, 9]]).astype(TYPES[kind][0])
    check_form(op, x, [], noop_with_empty_axes=noop)
    check_form(op, x, None, noop_with_empty_axes=noop, keepdims=0)


@pytest.mark.parametrize("op", OPS)
def test_rank_0_and_empty_dimensions(op):
    check_form(op, np.float32(3.0), None)
    check_form(op, np.float64(-2.0) if op != "ReduceLogSum" else np.float64(2.0), None, keepdims=0)
    check_form(op, np.zeros((2, 0), np.float32), [1])
    check_form(op, np.zeros((0, 3), np.float32), [1])


@pytest.mark.parametrize(
    "x",
    [
        np.array([[1e39, 1e39]]),
        np.array([[1e-30, 2e-30]]),
        np.array([[46341, 3]], np.int32),
        np.array([[16777217, 0]], np.int64),
        np.array([[300.0, 400.0], [60000.0, 0.0]], np.float16),
        np.array([[1e19, 1e18]], ml_dtypes.bfloat16),
        np.array([[2**32 - 1, 1]], np.uint32),
        np.array([[2**31 + 5, 1]], np.uint64),
    ],
    ids=lambda x: f"{x.dtype}-{x.flat[0]}",
)
def test_norm_2_in_a_type_that_holds_the_squares(x):
    check_form("ReduceL2", x, [1])


@pytest.mark.parametrize(
    "x", [np.array([[2**31, 2**31 - 1]], np.uint32), np.array([[2**40 + 1, 2**41]], np.uint64)], ids=str
)
def test_unsigned_numbers_beyond_the_signed_range(x):
    check_form("ReduceL1", x, [1])
    check_form("ReduceLogSum", x, [1])


def test_sum_of_float16_squares_overflows_only_where_the_result_does():
    check_form("ReduceSumSquare", np.array([[200.0, 100.0], [300.0, 0.0]], np.float16), [1])
    check_form("ReduceL1", np.array([[60000.0, 60000.0], [30000.0, -30000.0]], np.float16), [1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_log_sum_exp_of_large_and_infinite_numbers(dtype):
    inf = np.inf
    x = np.array([[1000, 1000], [-1000, -1001], [-inf, -inf], [inf, 1], [inf, -inf], [np.nan, 0], [1000, -inf]])
    check_form("ReduceLogSumExp", x.astype(dtype), [1])
    check_form("ReduceLogSumExp", x.astype(dtype), [], noop_with_empty_axes=1)


@pytest.mark.parametrize("op", ["ReduceL1", "ReduceL2", "ReduceSumSquare"])
def test_nan_and_infinity_pass_through(op):
    check_form(op, np.array([[np.nan, 1], [np.inf, -np.inf], [-0.0, 0.0]], np.float32), [1])


# --- shape of the result ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "nodes"),
    [
        ("ReduceL1", ["Abs", "ReduceSum"]),
        ("ReduceL2", ["Mul", "ReduceSum", "Sqrt"]),
        ("ReduceLogSum", ["ReduceSum", "Log"]),
        ("ReduceSumSquare", ["Mul", "ReduceSum"]),
    ],
)
def test_float32_is_expanded_into_nothing_else(op, nodes):
    assert [n.op_type for n in expanded(graph(op, "float", (2, 3), [1]), op).graph.node] == nodes


@pytest.mark.parametrize("target", [18, 13, 12, 9, 7])
@pytest.mark.parametrize("op", OPS)
def test_axes_known_only_at_run_time(op, target):
    source = model(
        f"y = {op}<noop_with_empty_axes=1>(x, a)",
        18,
        inputs="float[2,3] x, int64[N] a",
        outputs="float[K,M] y",
    )
    after = expanded(source, op, target)
    x = np.array([[1, 5, 3], [2, 7, 1]], np.float32)
    for axes in ([1], [-1, 0], [0], []):
        expected = reference(op, x, axes, noop=1)
        actual = run(after, {"x": x, "a": np.array(axes, np.int64)})
        np.testing.assert_allclose(actual, expected, rtol=1e-6, err_msg=str(axes))


@pytest.mark.parametrize("op", OPS)
def test_in_a_branch(op):
    source = model(
        f"y = If(c) <then_branch = t () => (float[2,1] p) {{ p = {op}(x, a) }},"
        f" else_branch = e () => (float[2,1] q) {{ q = {op}<keepdims=1>(v, a) }}>",
        18,
        inputs="float[2,3] x, double[2,3] w, bool c",
        outputs="float[2,1] y",
        constants="int64[1] a = {1}",
    )
    source.graph.node.insert(0, onnx.helper.make_node("Cast", ["w"], ["v"], to=TensorProto.FLOAT))
    after = expanded(source, op)
    assert op not in onnx.printer.to_text(after).replace(f'"{op}', "")
    x = np.array([[1, 5, 3], [2, 7, 1]], np.float32)
    for condition, data in ((True, x), (False, x + 1)):
        feeds = {"x": x, "w": (x + 1).astype(np.float64), "c": np.array(condition)}
        np.testing.assert_allclose(run(after, feeds), reference(op, data, [1]), rtol=1e-6)


@pytest.mark.parametrize("op", OPS)
def test_in_a_function(op):
    source = model("y = local.f<keep=0>(x)", 18, domains='"local" : 1', inputs="double[2,2] x", outputs="double[2] y")
    source.functions.append(
        onnx.parser.parse_function(
            f"""<domain: "local", opset_import: ["" : 18]>
            f <keep> (v) => (r) {{ a = Constant<value_ints = [1]>()  r = {op}<keepdims: int = @keep>(v, a)
            }}"""
        )
    )
    after = expanded(source, op)
    x = np.array([[1e39, 1e30], [3.0, 4.0]])
    assert not any(n.op_type == op for f in after.functions for n in f.node)
    np.testing.assert_allclose(run(after, {"x": x}), reference(op, x, [1], keepdims=0), rtol=1e-14)
