"""What calls of a function leave out is absent in its body, whatever is made of it."""

import numpy as np
import onnx
import onnx.checker
import onnx.inliner
import onnx.parser
import pytest
from opshift.passes.conversion import convert
from opshift.passes.model.traversal import bodies

import opshift
from opshift import functions
from opshift.verification.engines import OnnxRuntime
from tests import pairs

FEEDS = {"x": np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)}
HELD = """int64[1] one={1}, int64[2] parts={1,3}, float lo={-0.5}, float hi={0.75}, int64 k={1}, int64[1] axis={2}, int64[6] around={0,1,0,0,0,1},
    float[4] scale={1,2,0.5,3}, float[4] bias={1,0,-1,2}, float[2] addend={1,-1}, float[12,2] w={1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6},
    float[3] half={1,1,0.7}, int64[3] sizes={2,3,2}, uint8 zero={3}, float tenth={0.1}, bool yes={1}"""


def model(opset, body, formals, *calls, attributes="", ir=10, inputs="float[2,3,4] x", held=HELD, more=""):
    """A model whose outputs are what calls of `f.F`, such as `(x, , hi)` or `<p = 1>(x)`, make."""
    made = " ".join(f"y{i} = f.F{call}" for i, call in enumerate(calls))
    outputs = ", ".join(f"float[] y{i}" for i in range(len(calls)))
    text = f"""<ir_version: {ir}, opset_import: ["": {opset}, "f": 1]> g ({inputs}) => ({outputs}) <{held}> {{ {made} }}
    <opset_import: ["": {opset}, "f": 1], domain: "f"> F {attributes} ({formals}) => (y) {{ {body} }} {more}"""
    return onnx.parser.parse_model(text)


def inlined(of):
    """What the model means: its functions inlined by onnx, which does not shorten the inputs of a node."""
    flat = onnx.inliner.inline_local_functions(of)
    for body in bodies(flat):
        for node in body.node:
            while node.input and not node.input[-1]:
                node.input.pop()
    return flat


def check(source, *verbs, feeds=FEEDS):
    """Each verb makes a model of another one, which stays as it is and computes the same; returns that of the last."""
    expected = OnnxRuntime(inlined(source)).run(feeds)
    for value, held in zip(source.graph.output, expected, strict=True):
        shape = value.type.tensor_type.shape
        shape.SetInParent()
        del shape.dim[:]
        for axis in range(held.ndim):
            shape.dim.add(dim_param=f"{value.name}_{axis}")
    before = source.SerializeToString(deterministic=True)
    for verb in verbs:
        result = verb(source)
        assert source.SerializeToString(deterministic=True) == before
        onnx.checker.check_model(result)
        for one, other in zip(expected, OnnxRuntime(inlined(result)).run(feeds), strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
    return result


def to(opset, **options):
    return lambda source: opshift.convert_version(source, opset, **options)


def without(*ops):
    return lambda source: opshift.inline(source, list(ops))


def kernels_of_the_newest(cases, *ops):
    """The names of the cases; older engines lack kernels for these operators."""
    return [pytest.param(name, marks=pytest.mark.newest) if name.split(",")[0] in ops else name for name in cases]


CASES = {
    "Clip": (19, "y = Clip(x, lo, hi)", "x, lo, hi", ["(x)", "(x, , hi)", "(x, lo)", "(x, lo, hi)"], [18, 11, 10, 6]),
    "Clip, last": (12, "y = Clip(x, , hi)", "x, hi", ["(x)", "(x, hi)"], [13, 11, 10]),
    "ReduceMax": (19, "y = ReduceMax(x, a)", "x, a", ["(x)", "(x, one)"], [20, 17, 12]),
    "ReduceL2": (19, "y = ReduceL2(x, a)", "x, a", ["(x)", "(x, one)"], [17, 12]),
    "ReduceSum": (19, "y = ReduceSum(x, a)", "x, a", ["(x)", "(x, one)"], [12, 7]),
    "ReduceLogSumExp": (18, "y = ReduceLogSumExp<keepdims = 0>(x, a)", "x, a", ["(x)", "(x, one)"], [17]),
    "Trilu": (19, "y = Trilu(x, k)", "x, k", ["(x)", "(x, k)"], [13, 12]),
    "Gemm": (19, "t = Flatten(x) y = Gemm(t, w, c)", "x, w, c", ["(x, w)", "(x, w, addend)"], [10, 7]),
    "Pad": (19, "y = Pad(x, p, v, a)", "x, p, v, a", ["(x, around)", "(x, around, hi)"], [18, 17, 10]),
    "Pad, axes": (19, "y = Pad(x, p, , a)", "x, p, a", ["(x, around)", "(x, parts, axis)"], [17, 12]),
    "Slice": (19, "e = Neg(s) y = Slice(x, e, s, a, t)", "x, s, a, t", ["(x, one)", "(x, one, axis)", "(x, one, axis, one)"], [9]),
    "Split": (17, "y, z = Split<axis = 2>(x, s)", "x, s", ["(x)", "(x, parts)"], [18, 21, 12]),
    "Resize": (19, 'y = Resize<mode = "linear", coordinate_transformation_mode = "half_pixel_symmetric">(x, , s, n)', "x, s, n",
        ["(x, half)", "(x, , sizes)"], [18, 17, 13]),
    "LayerNormalization": (18, "y = LayerNormalization(x, s, b)", "x, s, b", ["(x, scale)", "(x, scale, bias)"], [17, 16, 13]),
    "Attention": (23, "y = Attention<q_num_heads = 1, kv_num_heads = 1>(x, x, x, m)", "x, m", ["(x)"], [24, 25, 22, 18]),
    "QuantizeLinear": (21, "q = QuantizeLinear(x, s, z) y = Cast<to = 1>(q)", "x, s, z", ["(x, tenth)", "(x, tenth, zero)"], [23, 19, 12]),
    "DequantizeLinear": (21, "q = Cast<to = 2>(x) y = DequantizeLinear(q, s, z)", "x, s, z", ["(x, tenth)", "(x, tenth, zero)"], [23, 19, 12]),
    "MatMulInteger": (19, "q = Cast<to = 2>(x) t = Transpose<perm = [0, 2, 1]>(q) m = MatMulInteger(q, t, z) y = Cast<to = 1>(m)", "x, z",
        ["(x)", "(x, zero)"], [9]),
    "ConvInteger": (19, "q = Cast<to = 2>(x) m = ConvInteger(q, q, a, b) y = Cast<to = 1>(m)", "x, a, b",
        ["(x)", "(x, zero)", "(x, , zero)", "(x, zero, zero)"], [9]),
    "Conv": (10, "y = Conv(x, x, b)", "x, b", ["(x)", "(x, addend)"], [11, 22]),
    "Dropout": (13, "y = Dropout(x, r)", "x, r", ["(x)", "(x, tenth)"], [22, 10]),
}  # fmt: skip


@pytest.mark.parametrize("case", kernels_of_the_newest(CASES, "Attention", "QuantizeLinear"))
def test_inputs_that_calls_leave_out(case):
    opset, body, formals, calls, targets = CASES[case]
    op = case.split(",")[0]
    body, formals = f"x = Cast<to = 1>(u) {body}", formals.replace("x", "u", 1)
    for given in (calls, *([call] for call in pairs.some(calls, 2))):
        verbs = [*map(to, targets), without("f::F"), opshift.optimize, opshift.fold]
        if functions.has_definition("", op):
            verbs.append(without(op))
        check(model(opset, body, formals, *given), *verbs)


ATTRIBUTES = {
    "Selu alpha": (19, "y = Selu<alpha: float = @p>(x)", ["(x)", "<p = 0.5>(x)"], [6]),
    "Selu gamma": (19, "y = Selu<gamma: float = @p>(x)", ["(x)", "<p = 0.5>(x)"], [6]),
    "HardSigmoid alpha": (19, "y = HardSigmoid<alpha: float = @p>(x)", ["(x)", "<p = 0.5>(x)"], [22, 6]),
    "HardSigmoid beta": (19, "y = HardSigmoid<alpha: float = @q, beta: float = @p>(x)", ["<q = 0.3>(x)", "<p = 0.1, q = 0.7>(x)"], [6]),
    "Elu": (19, "y = Elu<alpha: float = @p>(x)", ["(x)", "<p = 0.5>(x)"], [22, 6]),
    "LeakyRelu": (19, "y = LeakyRelu<alpha: float = @p>(x)", ["(x)", "<p = 0.5>(x)"], [15, 6]),
    "Celu": (19, "y = Celu<alpha: float = @p>(x)", ["(x)", "<p = 0.5>(x)"], [11]),
    "ThresholdedRelu": (19, "y = ThresholdedRelu<alpha: float = @p>(x)", ["(x)", "<p = 0.5>(x)"], [9]),
    "Shrink": (19, "y = Shrink<lambd: float = @p, bias: float = @q>(x)", ["(x)", "<p = 0.1>(x)", "<q = 0.2>(x)"], [8]),
    "Swish": (24, "y = Swish<alpha: float = @p>(x)", ["(x)", "<p = 0.5>(x)"], [23, 18]),
    "Gelu": (20, "y = Gelu<approximate: string = @p>(x)", ["(x)", '<p = "tanh">(x)'], [19, 9]),
    "Softmax": (13, "y = Softmax<axis: int = @p>(x)", ["(x)", "<p = 1>(x)"], [12, 7]),
    "LogSoftmax": (12, "y = LogSoftmax<axis: int = @p>(x)", ["(x)", "<p = 2>(x)"], [13]),
    "ReduceL1": (17, "y = ReduceL1<axes: ints = @p, keepdims: int = @q>(x)", ["(x)", "<p = [1]>(x)", "<p = [0, 2], q = 0>(x)"], [18]),
    "ReduceSum": (12, "y = ReduceSum<axes: ints = @p>(x)", ["(x)", "<p = [1]>(x)"], [13, 10]),
    "Flatten": (10, "y = Flatten<axis: int = @p>(x)", ["(x)", "<p = 0>(x)"], [11, 8]),
    "Clip": (10, "y = Clip<min: float = @p, max: float = @q>(x)", ["(x)", "<p = 0.0>(x)", "<q = 0.5>(x)", "<p = -0.1, q = 0.1>(x)"], [11, 13]),
    "Transpose": (12, "y = Transpose<perm: ints = @p>(x)", ["(x)", "<p = [0, 2, 1]>(x)"], [13, 23]),
    "Split": (12, "y, z = Split<axis = 2, split: ints = @p>(x)", ["(x)", "<p = [1, 3]>(x)"], [13, 18]),
    "LpNormalization": (19, "y = LpNormalization<p: int = @p>(x)", ["(x)", "<p = 1>(x)"], [22]),
    "Cumulated": (13, "y = CumSum<reverse: int = @p>(x, k)", ["(x, k)", "<p = 1>(x, k)"], [14, 10]),
}  # fmt: skip


@pytest.mark.parametrize("case", kernels_of_the_newest(ATTRIBUTES, "Swish", "LpNormalization"))
def test_attributes_that_calls_do_not_bind(case):
    opset, body, calls, targets = ATTRIBUTES[case]
    op = body.split(" = ")[1].partition("<")[0]
    body, formals = f"x = Cast<to = 1>(u) {body}", "u, k" if op == "CumSum" else "u"
    for given in (calls, *([call] for call in pairs.some(calls, 2))):
        verbs = [*map(to, targets), without("f::F"), opshift.optimize, opshift.fold]
        if functions.has_definition("", op):
            verbs.append(without(op))
        check(model(opset, body, formals, *given, attributes="<p, q>"), *verbs)


def written(of):
    """The functions of a model: their inputs, and their nodes with what these read and refer to."""
    return {
        function.name: [
            (node.op_type, *node.input, *(f"{a.name}=@{a.ref_attr_name}" for a in node.attribute if a.ref_attr_name))
            for node in function.node
        ]
        for function in of.functions
    }


def called(of):
    return [(node.op_type, *node.input, *(a.name for a in node.attribute)) for node in of.graph.node]


# --- what stays ----------------------------------------------------------------------------------------------


def test_functions_whose_inputs_all_calls_have_stay_as_they_are():
    source = model(17, "y, z = Split<axis = 2>(x, s)", "x, s", "(x, parts)", "(x, parts)")
    result = check(source, to(18))
    assert written(result) == {"F": [("Split", "x", "s")]}
    assert [f.SerializeToString() for f in check(source, opshift.optimize).functions] == [
        f.SerializeToString() for f in source.functions
    ]


def test_functions_in_which_nothing_changes_stay_as_they_are():
    source = model(14, "t = Relu(x) y = Clip(t, lo, hi)", "x, lo, hi", "(x)", "(x, lo)")
    result = check(source, to(18))
    assert written(result) == written(source)
    assert not opshift.plan(source, 18).changes


def test_nothing_hangs_on_a_required_input():
    more = '<opset_import: ["": 17], domain: "f"> N (a, b) => (c) { c, d = Split<axis = 2>(a) e = Mod(a, b) }'
    source = model(17, "y = Relu(x)", "x", "(x)", more=more)
    assert [f.name for f in check(source, to(18)).functions] == ["F", "N"]


# --- one form, several forms ------------------------------------------------------------------------------------


def test_one_form_is_written_into_the_body():
    source = model(17, "y, z = Split<axis = 2>(x, s)", "x, s", "(x)", '(x, "")')
    result = check(source, to(18))
    assert list(written(result)) == ["F"]
    assert result.functions[0].node[0].input == ["x"]
    assert list(result.functions[0].input) == ["x", "s"], "how it is called stays"
    first, *_ = opshift.plan(source, 18).changes
    assert (first.node, first.op, first.how) == ("F", "F", "No call gives s; removed it from the body")


def test_several_forms_are_copies_beside_the_function_and_the_fullest_keeps_the_name():
    other = '<opset_import: ["": 17], domain: "f"> N (a) => (b) { b = Relu(a) }'
    source = model(17, "y, z = Split<axis = 2>(x, s)", "x, s", "(x)", "(x, parts)", "(x, )", more=other)
    source.functions[0].doc_string = "kept"
    result = check(source, to(18))
    assert [f.name for f in result.functions] == ["F", "F_without_s", "N"]
    assert called(result) == [("F_without_s", "x"), ("F", "x", "parts"), ("F_without_s", "x")]
    assert [f.doc_string for f in result.functions] == ["kept", "kept", ""]
    plan = opshift.plan(source, 18)
    assert [c.how for c in plan.changes if c.op == "F"] == [
        "Calls omit different inputs or attributes; made 2 copies of the function"
    ]
    assert plan.grade == "exact"


def test_a_copy_takes_no_name_that_there_is():
    other = '<opset_import: ["": 17], domain: "f"> F_without_s (a) => (b) { b = Relu(a) }'
    source = model(17, "y, z = Split<axis = 2>(x, s)", "x, s", "(x)", "(x, parts)", more=other)
    names = [f.name for f in check(source, to(18)).functions]
    assert len(set(names)) == 3
    assert names[::2] == ["F", "F_without_s"]


def test_there_is_a_copy_only_for_what_matters():
    """Whether there is `hi` is nothing to Split."""
    source = model(
        17, "t, z = Split<axis = 2>(x, s) y = Clip(t, lo, hi)", "x, s, lo, hi", "(x, , lo)", "(x, , , hi)", "(x)"
    )
    result = check(source, to(18))
    assert written(result) == {"F": [("Split", "x"), ("Clip", "t", "lo", "hi")]}


def test_functions_with_overloads():
    source = model(17, "y, z = Split<axis = 2>(x, s)", "x, s", "(x)", "(x, parts)", "(x, parts)")
    other = source.functions.add()
    other.CopyFrom(source.functions[0])
    other.overload = "second"
    source.graph.node[0].overload = source.graph.node[1].overload = "second"
    result = check(source, to(18))
    assert [(f.name, f.overload) for f in result.functions] == [("F", ""), ("F", "second"), ("F_without_s", "second")]
    assert [(n.op_type, n.overload) for n in result.graph.node] == [
        ("F_without_s", "second"),
        ("F", "second"),
        ("F", ""),
    ]


# --- graphs in functions -------------------------------------------------------------------------------------------


def test_a_graph_in_a_function_reads_what_calls_leave_out():
    body = """u = Cast<to = 1>(x) c = Constant<value = bool {1}>() d = Clip(u, lo) y = If(c) <
        then_branch = a () => (float[2,3,4] t) { t = Clip(d, lo, hi) }, else_branch = b () => (float[2,3,4] e) { e = Clip(u, , hi) }>"""
    source = model(19, body, "x, lo, hi", "(x)", "(x, lo)", "(x, , hi)", "(x, lo, hi)")
    check(source, to(11), to(10), to(6), without("f::F"), opshift.optimize, opshift.fold)
    assert len(check(source, without("Clip")).functions) == 4


def test_a_name_of_the_function_that_a_graph_gives_to_a_value_of_its_own_is_no_valid_model():
    body = """u = Cast<to = 1>(x) n = Constant<value = int64 {2}>() g = Constant<value = bool {1}>() y = Loop(n, g, u) <
        body = b (int64 i, bool c, float[2,3,4] v) => (bool k, float[2,3,4] w) {
            k = Identity(c) hi = Constant<value = float {0.5}>() w = Clip(v, , hi) }>"""
    source = model(19, body, "x, hi", "(x)", "(x, lo)")
    with pytest.raises(opshift.InvalidModel, match="it computes 'hi', which exists already"):
        opshift.inline(source, ["Clip"])


def test_an_optional_that_calls_leave_out():
    source = model(18, "h = OptionalHasElement(o) y = Cast<to = 1>(h)", "o", "()", "(x)")
    check(source, without("f::F"), opshift.optimize, opshift.fold, to(21))


# --- nobody calls -----------------------------------------------------------------------------------------------------

SPLIT = '<opset_import: ["": 17], domain: "f"> G (a, b, c) => (d) { d, e = Split<axis = 2>(a, c) t = Shape(b) }'
UNCALLED = '<opset_import: ["": 17, "f": 1], domain: "f"> N (a, b) => (c) { %s }'


def test_what_nobody_calls_cannot_be_judged():
    source = model(17, "y = Relu(x)", "x", "(x)", more=UNCALLED % "[split] c, d = Split<axis = 2>(a, b)")
    (refusal,) = convert.attempt(source, {"": 18}).refusals
    assert str(refusal) == (
        'Split "split" (function f::N): no call of the function tells whether b is given; supported: functions that are called'
    )
    assert convert.attempt(source, {"": 16}).model is not None
    assert written(convert.attempt(source, {"": 18}, ir_version=7).model or source) == {}, "no function stays"


def test_what_nobody_calls_stays_where_nothing_has_to_be_judged():
    source = model(17, "y = Relu(x)", "x", "(x)", more=UNCALLED % "t = ReduceMax<axes = [0]>(a) c = Clip(t, b)")
    assert written(check(source, to(18)))["N"] == [("Constant",), ("ReduceMax", "a", "t/Constant"), ("Clip", "t", "b")]
    assert written(check(source, opshift.optimize))["N"] == [("ReduceMax", "a"), ("Clip", "t", "b")]


def test_a_call_in_what_nobody_calls_is_no_call():
    more = SPLIT + UNCALLED % "c = f.G(a, a, b)"
    source = model(17, "y = f.G(x, x)", "x", "(x)", more=more)
    (refusal,) = convert.attempt(source, {"": 18}).refusals
    assert (refusal.op, refusal.where) == ("G", "function f::N")


# --- who is told what ----------------------------------------------------------------------------------------------------


def test_refusals_name_the_function_that_the_user_wrote():
    source = model(17, "y, z = Split<axis = 2>(x, s) [it] w = DFT(x, n)", "x, s, n", "(x, , k)", "(x, parts, k)", "(x)")
    result = convert.attempt(source, {"": 12})
    assert result.model is None
    assert {refusal.op for refusal in result.refusals} == {"F"}


def test_optimizing_leaves_alone_what_hangs_on_a_call():
    """Two Clips are one only where both have bounds."""
    body = "t = Clip(x, lo, hi) y = Clip(t, lo2, hi2)"
    source = model(
        19, body, "x, lo, hi, lo2, hi2", "(x, lo)", "(x, , hi, lo, k2)", "(x)", inputs="float[2,3,4] x, float k2"
    )
    check(source, opshift.optimize, feeds={**FEEDS, "k2": np.array(0.1, np.float32)})
    assert written(opshift.optimize(source)) == written(source)


def test_graphs_of_training_call_functions_too():
    source = model(17, "y, z = Split<axis = 2>(x, s)", "x, s", "(x, parts)", ir=10)
    step = source.training_info.add().algorithm
    step.name = "step"
    step.node.add(op_type="F", domain="f", input=["x"], output=["u"])
    result = opshift.convert_version(source, 18)
    assert [f.name for f in result.functions] == ["F", "F_without_s"]
    assert result.training_info[0].algorithm.node[0].op_type == "F_without_s"


# --- where no copy can be --------------------------------------------------------------------------------------------------


def test_a_function_of_the_default_domain_is_inlined_where_it_needs_copies():
    """No operator of another name could be called there."""
    text = """<ir_version: 10, opset_import: ["": 17]> g (float[2,3,4] x) => (float[] y, float[] z) <int64[2] s={1,3}> { y = Squeeze(x) z = Squeeze(x, s) }
    <domain: "", opset_import: ["": 17]> Squeeze (a, b) => (c) { c, d = Split<axis = 2>(a, b) }"""
    assert not check(onnx.parser.parse_model(text), to(18)).functions


def test_calls_in_more_ways_than_anybody_could_read_are_refused():
    names = [f"a{k}" for k in range(14)]
    handed = [", ".join("" if k == i else name for k, name in enumerate(names)) for i in range(-1, 14)]
    text = f'<ir_version: 10, opset_import: ["":17,"f":1]> g (float[2,3,4] x, int64[2] s) => (float[] y) {{ y = f.F0(x, {", ".join("s" * 14)}) }}'
    head = f'<domain: "f", opset_import: ["":17,"f":1]> F%d (x, {", ".join(names)}) => (y)'
    for i in range(14):
        text += f"{head % i} {{ p = f.F{i + 1}(x, {handed[0]}) q = f.F{i + 1}(x, {handed[i + 1]}) y = Add(p, q) }}"
    nodes = " ".join(f"t{k}, u{k} = Split<axis = 2>(x, {name})" for k, name in enumerate(names))
    (refusal,) = convert.attempt(
        onnx.parser.parse_model(f"{text} {head % 14} {{ {nodes} y = Identity(t0) }}"), {"": 18}
    ).refusals
    assert "too many combinations; supported: 4096" in refusal.why
