"""Corners of the format: aliases, defaults that can be overridden, imports that differ, names that repeat."""

import numpy as np
import onnx
import onnx.checker
import onnx.parser
import pytest
from opshift.passes.analysis import evaluate
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.conversion import convert
from opshift.passes.errors import InvalidModel
from opshift.passes.model import tensors
from opshift.passes.model.types import tensor_type

from tests.support import check_values, show


def attempted(text, target, edit=None, **options):
    source = onnx.parser.parse_model(text)
    if edit is not None:
        edit(source)
    return source, convert.attempt(source, target if isinstance(target, dict) else {"": target}, **options)


def converted(text, target, edit=None, **options):
    source, result = attempted(text, target, edit, **options)
    assert result.model is not None, "\n".join(map(str, result.refusals))
    return source, result.model


# --- what can be overridden is not known --------------------------------------------------------------------


@pytest.mark.parametrize(("ir", "known"), [(3, True), (8, False)])
def test_a_default_that_can_be_overridden_settles_no_shape(ir, known):
    text = '<ir_version: %d, opset_import: ["":15]> g (float[6] x, int64[2] s) => (float[a,b] z) <int64[2] s={2,3}> { y=Reshape(x,s) z=Trilu(y) }'
    _, below = converted(text % ir, 13)
    assert ("Shape(" not in show(below)) == known


# --- the alias of the default domain ------------------------------------------------------------------------


def test_types_are_inferred_under_the_alias_of_the_default_domain():
    text = '<ir_version: 10, opset_import: ["ai.onnx":20]> g (float[2,3] x) => (float[a,b] z) <int64[1] k={1}> { t=ai.onnx.ReduceSum(x,k) z=ai.onnx.Gelu(t) }'
    source, below = converted(text, 11)
    assert below.ir_version == 6, "the alias is the domain that the IR version follows"
    check_values(source, below, rtol=1e-5, atol=1e-6)


# --- constants ----------------------------------------------------------------------------------------------


def test_an_attribute_bound_by_reference_is_no_constant():
    text = """<ir_version: 8, opset_import: ["":15,"f":1]> g (float[2,3,4] x) => (float[a,b] z) { z=f.F<s=1>(x) }
    <opset_import: ["":15], domain:"f"> F<s>(x) => (z) { k=Shape<start:int=@s>(x) m=Constant<value_ints=[-1]>() n=Concat<axis=0>(m,k) r=ReduceProd<axes=[0]>(k) q=Concat<axis=0>(m,r) z=Reshape(x,q) }"""
    source, below = converted(text, 11)
    onnx.checker.check_model(below)
    check_values(source, below, rtol=0, atol=0)


@pytest.mark.parametrize(("bound", "expected"), [("", [3, 4]), ("s", None)])
def test_a_shape_from_a_referenced_start_is_not_folded(bound, expected):
    start = onnx.AttributeProto(name="start", type=onnx.AttributeProto.INT, i=0 if bound else 1, ref_attr_name=bound)
    node = onnx.NodeProto(op_type="Shape", input=["x"], output=["k"], attribute=[start])
    body = onnx.FunctionProto(name="F", input=["x"], output=["k"], attribute=["s"], node=[node])
    scope = Scope(body, Context(onnx.ModelProto(), onnx.ModelProto()), 15)
    scope.typed["x"] = tensor_type(onnx.TensorProto.FLOAT, [2, 3, 4])
    held = evaluate.constant(body.node[0], scope)
    assert (held and tensors.integers(held)) == expected


def test_a_cycle_is_no_constant():
    text = '<ir_version: 8, opset_import: ["":13]> g (float[2,3] x) => (float[a,b] z) { a=Identity(x) b=Identity(a) z=ReduceSum(x,b) }'

    def close(model):
        model.graph.node[0].input[0] = "b"

    _, result = attempted(text, 12, close)
    assert result.model is None


# --- imports ------------------------------------------------------------------------------------------------

OLD_ENCODER = 'F(x) => (z) { z=ai.onnx.ml.LabelEncoder<classes_strings=["a","b","c"]>(x) }'


@pytest.mark.parametrize("imports", ['"":15, "ai.onnx.ml":2, "f":1', '"":15, "f":1'])
def test_what_is_inlined_goes_to_the_version_that_the_caller_imports(imports):
    text = f"""<ir_version: 8, opset_import: [{imports}]> g (int64[3] x) => (string[3] z) {{ z=f.F(x) }}
    <opset_import: ["":15, "ai.onnx.ml":1], domain: "f"> {OLD_ENCODER}"""
    _, inlined = converted(text, 15, ops=[("f", "F")])
    onnx.checker.check_model(inlined)
    ml = {i.domain: i.version for i in inlined.opset_import}["ai.onnx.ml"]
    assert ml == (2 if "ml" in imports else 1)
    assert ("classes_strings" in show(inlined)) == (ml == 1)


def test_a_function_imports_what_is_inlined_into_it():
    text = f"""<ir_version: 8, opset_import: ["":15, "f":1]> g (int64[3] x) => (string[3] z) {{ z=f.G(x) }}
    <opset_import: ["f":1], domain: "f"> G(x) => (z) {{ z=f.F(x) }}
    <opset_import: ["":15, "ai.onnx.ml":1], domain: "f"> {OLD_ENCODER}"""
    _, inlined = converted(text, 15, ops=[("f", "F")])
    assert {i.domain: i.version for i in inlined.functions[0].opset_import}["ai.onnx.ml"] == 1


def test_operators_without_an_opset_are_no_model():
    text = '<ir_version: 8, opset_import: ["":13]> g (float[2,3] x) => (float[2,3] z) { z=Softmax(x) }'
    with pytest.raises(InvalidModel, match="imports no opset of it"):
        attempted(text, 12, lambda model: model.ClearField("opset_import"))


def test_a_defect_in_the_model_is_called_one():
    text = '<ir_version: 10, opset_import: ["":22]> g (float[2,3] x) => (float[2,3] z) { z=AveragePool<kernel_shape=[2], pads=[1], count_include_pad=1>(x) }'
    with pytest.raises(InvalidModel, match="the model is not valid"):
        attempted(text.replace("float[2,3]", "float[2,3,4]"), 4)


# --- graphs side by side, graphs as arguments, graphs of training -------------------------------------------


@pytest.mark.parametrize(
    "branches",
    [
        "then_branch=t()=>(float[2] p) <float[2] k={1,2}> { p=Add(x,k) }, else_branch=e()=>(float[2] q) <float[2] k={3,4}> { q=Add(x,k) }",
        "then_branch=t()=>(float[2] p) <float[2] k={1,2}> { p=Add(x,k) }, else_branch=e()=>(float[2] k) { k=Neg(x) }",
        "then_branch=t()=>(float[2] k) <float[2] k={1,2}> { j=Add(x,k) }, else_branch=e()=>(float[2] q) { q=Neg(x) }",
    ],
)
def test_initializers_of_branches_stay_apart_below_ir_4(branches):
    text = f'<ir_version: 8, opset_import: ["":9]> g (float[2] x, bool c) => (float[2] z) {{ z=If(c)<{branches}> }}'
    source, below = converted(text, 8)
    assert below.ir_version == 3
    onnx.checker.check_model(below)
    for condition in (True, False):
        check_values(source, below, {"c": np.array(condition)}, rtol=0, atol=0)


FLEX = """<ir_version: 13, opset_import: ["" : 26, "ai.onnx.preview" : 1]>
g (float[1,2,3,4] q) => (float[1,2,3,4] y) {
    y = ai.onnx.preview.FlexAttention<score_mod = mod (float[B,H,L,S] scores) => (float[B,H,L,S] out)
        <float bias = {0.5}, int64[4] shape = {1, 1, 1, 3}, bool[3] masked = {1, 0, 0}, float low = {-9}> {
        mask = Reshape(masked, shape)
        number = Cast<to = 1>(mask)
        lowered = Mul(number, low)
        biased = Add(scores, bias)
        out = Add(biased, lowered)
    }>(q, q, q)
}"""


@pytest.mark.parametrize("target", [26, 24, 13, 9, 8, 7])
def test_graphs_of_other_domains_keep_their_constants_to_themselves(target):
    """Nothing promises that they may read the main graph's values; onnx.reference does not let them."""
    source, made = converted(FLEX, target)
    onnx.checker.check_model(made)
    assert len(made.graph.initializer) == 0
    feeds = {"q": np.random.default_rng(0).normal(size=(1, 2, 3, 4)).astype(np.float32)}
    check_values(source, made, feeds, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("value", "kept"), [(2**53, True), (2**53 + 1, False)])
def test_what_no_float_holds_moves_to_the_main_graph_all_the_same(value, kept):
    text = """<ir_version: 13, opset_import: ["" : 26, "my" : 1]>
    g (int64[2] x) => (int64[2] y) {
        y = my.Apply<body = b (int64[2] i) => (int64[2] o) <int64 big = {%d}> { o = Add(i, big) }>(x)
    }"""
    _, made = converted(text % value, 8)
    assert (len(made.graph.initializer) == 0) == kept


@pytest.mark.parametrize("target", [11, 14])
def test_a_graph_that_a_function_takes_is_converted_once(target):
    text = """<ir_version: 8, opset_import: ["":12,"f":1]> g (float[2,3,4] x) => (float[a,b,d] z) {
        n=Constant<value_int=2>()
        z=f.F<body=b(int64 i, bool c, float[2,3,4] q)=>(bool d, float[2,3,4] w) { d=Identity(c) w=Softmax(q) }>(n,x) }
    <opset_import: ["":12], domain:"f"> F<body>(n,x) => (z) { z=Loop<body:graph=@body>(n,,x) }"""
    source, moved = converted(text, target, ops=[("f", "F")])
    onnx.checker.check_model(moved)
    assert show(moved).count("Softmax") == 1
    check_values(source, moved, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("op", "opset", "target", "refused"),
    [
        ("Softmax", 13, 12, True),
        ("Dropout", 13, 12, True),
        ("Sin", 13, 12, False),
        ("Identity", 13, 14, False),  # takes more types
        ("Identity", 14, 13, True),  # takes fewer, and nothing says which it has
        ("Gelu", 20, 19, True),
        ("Unheard", 13, 12, False),
    ],
)
def test_training_graphs_are_not_left_behind(op, opset, target, refused):
    def train(model):
        graph = model.training_info.add().algorithm
        graph.name = "step"
        graph.node.add(op_type=op, input=["x"], output=["t"])
        graph.output.add(name="t")

    text = f'<ir_version: 8, opset_import: ["":{opset}]> g (float[2,3] x) => (float[2,3] z) {{ z=Relu(x) }}'
    _, result = attempted(text, target, train)
    assert (result.model is None) == refused
