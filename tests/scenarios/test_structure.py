"""Whole models: functions and their overloads, nested graphs, and everything a file holds beside nodes."""

import numpy as np
import onnx
import onnx.checker
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from onnx import GraphProto, ModelProto, TensorProto
from opshift.passes.conversion import convert
from opshift.passes.errors import InvalidModel
from opshift.passes.model import traversal

from tests.support import check_values, evaluate, model


def converted(source: ModelProto, target: int, **options) -> ModelProto:
    kept = source.SerializeToString(deterministic=True)
    result = convert.attempt(source, {"": target}, **options)
    assert not result.refusals, "\n".join(map(str, result.refusals))
    assert source.SerializeToString(deterministic=True) == kept, "the caller's model was changed"
    return result.model


def parsed(text: str) -> ModelProto:
    return onnx.parser.parse_model(text)


# --- functions ----------------------------------------------------------------------------------------------


def overloaded() -> ModelProto:
    """f:one calls f:two, which is no recursion."""
    source = parsed("""
        <ir_version: 10, opset_import: ["" : 13, "my" : 1]>
        g (float[N,3] x) => (float[N,1] y) { y = my.f(x) }
        <domain: "my", opset_import: ["" : 13, "my" : 1]> f (a) => (b) { n = Neg(a) b = my.f(n) }
        <domain: "my", opset_import: ["" : 13]> f (a) => (b) { b = ReduceMax<axes=[1]>(a) }
    """)
    source.functions[0].overload, source.functions[1].overload = "one", "two"
    source.graph.node[0].overload, source.functions[0].node[1].overload = "one", "two"
    return source


def test_overloads_are_functions_of_their_own():
    made = converted(overloaded(), 18)
    assert [(f.name, f.overload, f.node[-1].op_type) for f in made.functions] == [
        ("f", "one", "f"),
        ("f", "two", "ReduceMax"),
    ]
    x = np.array([[1.0, -2.0, 3.0], [0.0, 0.5, np.inf]], np.float32)
    inlined = converted(overloaded(), 18, ops=[("my", "f")])  # no engine knows overloads of one name
    np.testing.assert_array_equal(evaluate(inlined, {"x": x})[0], np.max(-x, axis=1, keepdims=True))


def test_an_overload_that_calls_itself_is_no_model():
    source = overloaded()
    source.functions[0].node[1].overload = "one"
    with pytest.raises(InvalidModel, match="calls itself"):
        convert.attempt(source, {"": 18})


@pytest.mark.long
@pytest.mark.parametrize("target", [18, 12])
def test_a_chain_of_ten_thousand_functions(target):
    """At opset 12 the IR version knows no functions: the chain is inlined."""
    source = parsed(
        '<ir_version: 8, opset_import: ["" : 13, "my" : 1]> g (float[N,3] x) => (float[N,1] y) { y = my.f0(x) }'
    )
    for index in range(10_000):
        function = source.functions.add(domain="my", name=f"f{index}", input=["a"], output=["b"])
        function.opset_import.extend(source.opset_import)
        last = index == 9_999
        node = function.node.add(op_type="ReduceMax" if last else f"f{index + 1}", input=["a"], output=["b"])
        if last:
            node.attribute.add(name="axes", type=7, ints=[1])
        else:
            node.domain = "my"
    made = converted(source, target)
    assert len(made.functions) == (10_000 if target == 18 else 0)
    assert [node.op_type for node in made.graph.node] == (["f0"] if target == 18 else ["ReduceMax"])


def test_names_from_inlined_functions_are_nobody_elses():
    """The inner name of the function is the graph's, too, and the function is called twice and in a branch."""
    source = parsed("""
        <ir_version: 8, opset_import: ["" : 13, "my" : 1]>
        g (float[N,3] x, bool c) => (float[N,1] y) {
            inner = my.f(x)
            other = my.f(inner)
            y = If (c) <
                then_branch = t () => (float[N,1] p) { inner_1 = my.f(other) p = my.f(inner_1) },
                else_branch = e () => (float[N,1] q) { q = my.f(other) }
            >
        }
        <domain: "my", opset_import: ["" : 13]> f (v) => (w) { inner = Neg(v) w = ReduceMax<axes=[1]>(inner) }
    """)
    source.graph.node[0].output[0] = source.graph.node[1].input[0] = "other/inner"  # what the second call asks for
    made = converted(source, 18, ops=[("my", "f")])
    given = [name for body in traversal.bodies(made) for node in body.node for name in node.output]
    assert len(given) == len(set(given)) == 11
    onnx.checker.check_model(made, full_check=True)
    check_values(source, made, {"c": np.array(True)}, rtol=0, atol=0)
    check_values(source, made, {"c": np.array(False)}, rtol=0, atol=0)


# --- nested graphs ------------------------------------------------------------------------------------------


def nested(depth: int) -> ModelProto:
    """Ifs in the else branches of Ifs; each level captures the input and yields under a name of its own."""
    source = parsed('<ir_version: 8, opset_import: ["" : 13]> g (float[N,3] x, bool c) => (float[N,1] y0) { }')
    graph: GraphProto = source.graph
    for level in range(depth):
        node = graph.node.add(op_type="If", input=["c"], output=[f"y{level}"])
        then, other = (node.attribute.add(name=f"{name}_branch", type=5).g for name in ("then", "else"))
        for name, branch in (("t", then), ("y", other)):
            branch.name = f"{name}{level + 1}"
            branch.output.add(name=branch.name)
        then.node.add(op_type="ReduceMax", input=["x"], output=[f"t{level + 1}"]).attribute.add(
            name="axes", type=7, ints=[1]
        )
        graph = other
    graph.node.add(op_type="ReduceMin", input=["x"], output=[f"y{depth}"]).attribute.add(name="axes", type=7, ints=[1])
    return source


def test_graphs_as_deep_as_protobuf_reads_them():
    made = converted(nested(32), 18)
    assert {len(node.input) for body in traversal.bodies(made) for node in body.node if node.op_type != "If"} == {2}
    onnx.checker.check_model(made)
    check_values(nested(5), converted(nested(5), 18), {"c": np.array(False)}, rtol=0, atol=0)


@pytest.mark.long
def test_deeper_graphs_are_no_model():
    with pytest.raises(InvalidModel, match="nested 33 levels deep; protobuf reads at most 32"):
        convert.attempt(nested(33), {"": 18})
    with pytest.raises(InvalidModel, match="nested 3000 levels deep"):
        convert.attempt(nested(3000), {"": 18})


def test_a_branch_captures_the_outer_value_though_its_sibling_makes_one_of_that_name():
    source = parsed("""
        <ir_version: 8, opset_import: ["" : 18]>
        g (float[2,3] x, bool c) => (float[A,B] y) <int64[1] axes = {1}> {
            y = If (c) <
                then_branch = t () => (float[2,1] p) { p = ReduceMax(x, axes) },
                else_branch = e () => (float[1,3] p) <int64[1] axes = {0}> { p = ReduceMax(x, axes) }
            >
        }
    """)
    made = converted(source, 13)
    then, other = (attribute.g.node[0].attribute for attribute in made.graph.node[0].attribute)
    assert [list(a.ints) for held in (then, other) for a in held if a.name == "axes"] == [[1], [0]]


@pytest.mark.parametrize("target", [13, 18])
def test_what_a_branch_yields_keeps_its_name(target):
    """The node that makes the output of a branch is replaced by several."""
    source = parsed("""
        <ir_version: 8, opset_import: ["" : 18]>
        g (float[2,3] x, bool c, int64[1] a) => (float[A,B] y) {
            y = If (c) <
                then_branch = t () => (float[A,B] p) { p = ReduceMax(x, a) },
                else_branch = e () => (float[A,B] q) { q = ReduceL2(x, a) }
            >
        }
    """)
    made = converted(source, target, ops=[("", "ReduceL2")])
    assert [a.g.output[0].name for a in made.graph.node[0].attribute] == ["p", "q"]
    for attribute in made.graph.node[0].attribute:
        assert attribute.g.node[-1].output[0] == attribute.g.output[0].name
    for c in (True, False):
        check_values(source, made, {"c": np.array(c), "a": np.array([1])}, rtol=1e-6, atol=0)


# --- what a file holds beside nodes -------------------------------------------------------------------------


def furnished() -> ModelProto:
    """A model with everything that steps do not know."""
    source = parsed("""
        <ir_version: 11, opset_import: ["" : 21, "" : 21, "my" : 3]>
        g (float[N,3] x, string[2] s) => (float[N,1] y, string[2] z, float[2,2] w) <string[2] words = {"a", "b"}> {
            y = ReduceMax<keepdims=1>(x, axes)
            z = Identity(words)
            w = my.Scale(sparse)
        }
    """)
    graph = source.graph
    graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "axes"))
    values = onnx.numpy_helper.from_array(np.array([1.5], np.float32), "sparse")
    indices = onnx.numpy_helper.from_array(np.array([3]), "")
    graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [2, 2]))
    annotation = graph.quantization_annotation.add(tensor_name="x")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="axes")
    configuration = source.configuration.add(name="two", num_devices=2)
    configuration.device.extend(["gpu0", "gpu1"])
    for node in graph.node:
        used = node.device_configurations.add(configuration_id="two", pipeline_stage=1)
        used.sharding_spec.add(tensor_name=node.output[0]).device.extend([0, 1])
        node.metadata_props.add(key="of", value=node.op_type)
    source.metadata_props.add(key="of", value="model")
    graph.metadata_props.add(key="of", value="graph")
    graph.input[0].metadata_props.add(key="of", value="x")
    graph.initializer[0].metadata_props.add(key="of", value="words")
    graph.value_info.add(name="y").type.CopyFrom(graph.output[0].type)
    return source


@pytest.mark.parametrize(
    ("target", "ops"),
    [
        pytest.param(24, (), marks=pytest.mark.newest),
        (13, ()),
        (9, ()),
        pytest.param(24, ["ReduceL2"], marks=pytest.mark.newest),
        (13, ["ReduceL2"]),
    ],
)
def test_a_sparse_initializer_has_the_type_of_what_it_stands_for(target, ops):
    held = model(
        "s = Add(w, x) y = ReduceL2(s, a)",
        18,
        constants="int64[1] a = {1}",
        inputs="float[2,3] x",
        outputs="float[A,B] y",
    )
    values = onnx.numpy_helper.from_array(np.float32([9]), "w")
    indices = onnx.numpy_helper.from_array(np.int64([4]), "places")
    held.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(values, indices, [2, 3]))
    made = converted(held, target, ops=[("", op) for op in ops])
    assert made.graph.sparse_initializer == held.graph.sparse_initializer
    assert ("ReduceL2" in {node.op_type for node in made.graph.node}) is not bool(ops)
    check_values(held, made, {"x": np.float32([[1, 2, 3], [4, 5, 6]])}, rtol=1e-6, atol=0)


@pytest.mark.parametrize("target", [25, 17, 13])
def test_everything_else_survives(target):
    source = furnished()
    made = converted(source, target)
    assert [entry.version for entry in made.opset_import] == [target, target, 3]
    for field in ("sparse_initializer", "quantization_annotation", "metadata_props", "value_info", "input", "output"):
        assert getattr(made.graph, field) == getattr(source.graph, field)
    assert made.configuration == source.configuration
    assert made.metadata_props == source.metadata_props
    assert made.graph.initializer[0] == source.graph.initializer[0]
    for old, new in zip(source.graph.node, made.graph.node, strict=True):
        assert new.device_configurations == old.device_configurations
        assert new.metadata_props == old.metadata_props


def test_a_replaced_node_hands_its_notes_and_its_stage_on_but_not_its_shards():
    """A plan of shards is one node's; those of several would have to be planned anew."""
    source = furnished()
    source.graph.node[0].op_type = "ReduceL2"
    made = converted(source, 21, ops=[("", "ReduceL2")])
    heir = next(node for node in made.graph.node if "y" in node.output)
    assert [(entry.key, entry.value) for entry in heir.metadata_props] == [("of", "ReduceMax")]
    assert [(c.configuration_id, c.pipeline_stage) for c in heir.device_configurations] == [("two", 1)]
    assert not heir.device_configurations[0].sharding_spec
    assert all(len(node.device_configurations) == 1 for node in made.graph.node)
    assert all(node.device_configurations[0].sharding_spec for node in made.graph.node[-2:])


@pytest.mark.parametrize(("source", "target"), [(18, 13), (13, 18)])
def test_a_plan_of_shards_names_only_what_its_node_has(source, target):
    body = "y = ReduceMax(x, a)" if source == 18 else "y = ReduceMax<axes=[1]>(x)"
    held = model(body, source, constants="int64[1] a = {1}", inputs="float[2,4] x", outputs="float[2,1] y")
    used = held.graph.node[0].device_configurations.add(configuration_id="two")
    for name in (*held.graph.node[0].input, "y"):
        used.sharding_spec.add(tensor_name=name).device.extend([0, 1])
    result = convert.attempt(held, {"": target})
    made = result.model.graph.node[0]
    assert [spec.tensor_name for spec in made.device_configurations[0].sharding_spec] == ["x", "y"]
    said = 'dropped how "a" are split among devices'
    assert [change.remark for change in result.changes] == [said if source == 18 else ""]


def test_plans_of_a_replaced_node_are_reported():
    held = model("y = ReduceL2(x, a)", 18, constants="int64[1] a = {1}", inputs="float[2,4] x", outputs="float[2,1] y")
    assert not any(change.remark for change in convert.attempt(held, {"": 18}, ops=[("", "ReduceL2")]).changes)
    held.graph.node[0].device_configurations.add().sharding_spec.add(tensor_name="y")
    first, *others = convert.attempt(held, {"": 18}, ops=[("", "ReduceL2")]).changes
    assert first.remark == 'dropped how "y" are split among devices'
    assert not any(change.remark for change in others)


def test_string_tensors_are_carried():
    made = converted(furnished(), 13)
    assert made.graph.initializer[0].data_type == TensorProto.STRING
    assert list(made.graph.initializer[0].string_data) == [b"a", b"b"]


@pytest.mark.parametrize("target", [9, 13, 24])
def test_functions_that_stand_for_billions_of_nodes_are_not_written_out(target):
    text = '<ir_version: 10, opset_import: ["": 18, "own": 1]> g (float[3] x) => (float[N] y) { y = own.F0(x) }'
    for number in range(40):
        text += f""" <opset_import: ["": 18, "own": 1], domain: "own"> F{number}(x) => (y) {{
            a = own.F{number + 1}(x) y = own.F{number + 1}(a) }}"""
    text += ' <opset_import: ["": 18], domain: "own"> F40(x) => (y) { y = ReduceMax(x) }'
    with pytest.raises(InvalidModel, match="nodes or more when its functions are inlined"):
        converted(onnx.parser.parse_model(text), target)
