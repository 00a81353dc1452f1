"""The verdict on a source is that of onnx.checker, but for what a table names."""

import math
import subprocess
import sys

import onnx.checker
import onnx.defs
import onnx.helper
import onnx.parser
import onnxruntime.capi.onnxruntime_pybind11_state as runtime
import pytest
from onnx import ModelProto, TensorProto
from opshift.passes.conversion import convert
from opshift.passes.errors import InvalidModel, Refused
from opshift.passes.model import validity

import opshift
from opshift.cli import main as cli
from opshift.jobs import exit_codes
from tests import pairs
from tests.exported import store as exported
from tests.frozen import store
from tests.passes.broken import MISTAKES, broken
from tests.support import model


def verdict(of: ModelProto) -> str:
    """What is wrong with a model, told alike by the walk in order and by the survey, which looks at kinds of calls."""
    told = []
    for look in (validity.check, lambda of: convert.Survey(of, checked=True)):
        try:
            look(of)
            told.append("")
        except InvalidModel as error:
            told.append(str(error))
    assert told[0] == told[1]
    return told[0]


def checker(of: ModelProto) -> str:
    """What onnx.checker says, but of operators of runtimes."""
    opset = validity.imports(of).get("", 0)
    if any(validity.is_runtime_extension(node.domain, node.op_type, opset) for node in of.graph.node):
        return verdict(of)
    try:
        onnx.checker.check_model(of)
    except Exception as error:  # some of what it finds is no ValidationError
        return str(error) or repr(error)
    return ""


@pytest.mark.parametrize("opset", pairs.some(store.frozen_opsets(), 4))
def test_the_verdict_on_what_is_broken_is_the_checkers(opset):
    for number, case in pairs.some([*enumerate(store.read(opset))], 3):
        assert verdict(case.model) == checker(case.model) == ""
        for name, made in broken(case.model, number) if number % 8 == opset % 8 else ():
            ours, theirs = verdict(made), checker(made)
            assert bool(ours) == bool(theirs), f"{case.name}, {name}: {ours!r}, {theirs!r}"


@pytest.mark.long
def test_the_verdict_on_graphs_within_graphs_is_the_checkers():
    body = """i = Identity(x) y = If(c) <
        then_branch = t () => (a) { u = Neg(i) a = If(c) <
            then_branch = tt () => (b) { b = Add(u, i) }, else_branch = te () => (d) { d = Clip(i, , high) }> },
        else_branch = e () => (f) { f = Neg(x) }> z, m = Dropout(y)"""
    source = model(body, 13, inputs="float[2] x, bool c, float high", outputs="float[2] z")
    seen = set()
    for seed in range(4):
        for name, made in broken(source, seed):
            ours, theirs = verdict(made), checker(made)
            assert bool(ours) == bool(theirs), f"{name}: {ours!r}, {theirs!r}"
            seen.add((name, bool(theirs)))
    assert len({name for name, bad in seen if bad}) > 50


@pytest.mark.long
def test_every_mistake_is_made_and_almost_all_are_found():
    cases = [case.model for opset in (9, 13, 21) for case in store.read(opset)]
    left, found = dict(MISTAKES), set()
    for source in cases:
        for name, made in broken(source) if left else ():
            if checker(made):
                found.add(name)
                left.pop(name, None)
    assert len(found) > 100


@pytest.mark.parametrize("framework", exported.frameworks())
def test_exported_models_are_not_broken(framework):
    assert not any(verdict(export.model) for export in pairs.some(exported.read(framework), 8))


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("y = Relu(u)", "Relu \"y\": it reads 'u', which no earlier node computes"),
        ("t = Relu(x) t = Neg(x) y = Abs(t)", "Neg \"t\": it computes 't', which exists already"),
        ("t = Relu(x)", "no node computes 'y', an output of graph 'g'"),
        ("y = Relu(x, x)", 'Relu "y": not legal at opset 13: 2 inputs'),
        ("y = Nonsense(x)", 'Nonsense "y": not legal at opset 13: ONNX has no such operator'),
        ("y = my.Own(x)", "my::Own \"y\": its domain 'my' is not imported"),
        ("y = Add(, x)", 'Add "y": input 0 (A) is missing'),
        ("y = Cast(x)", 'Cast "y": not legal at opset 13: attribute to is missing'),
    ],
)
def test_the_node_is_named_and_every_verb_says_5(tmp_path, capsys, body, named):
    source = model(body, 13, inputs="float[2] x", outputs="float[2] y")
    right = model("y = Relu(x)", 13, inputs="float[2] x", outputs="float[2] y")
    path, good, out = (str(tmp_path / name) for name in ("bad.onnx", "good.onnx", "out.onnx"))
    onnx.save(source, path)
    onnx.save(right, good)
    for command in (
        ["convert", path, out, "--opset", "18", "--no-verify"],
        ["inline", path, out, "--op", "Relu"],
        ["fold", path, out],
        ["inspect", path],
        ["verify", path, good],
        ["verify", good, path],
    ):
        assert cli.main(command) == exit_codes.UNREADABLE
        assert named in capsys.readouterr().err
    for call in (
        lambda: opshift.convert_version(source, 13),
        lambda: opshift.inline(source, ["Relu"]),
        lambda: opshift.fold(source),
        lambda: opshift.optimize(source),
        lambda: opshift.plan(source, 18),
        lambda: opshift.verify(right, source),
    ):
        with pytest.raises(InvalidModel, match="the model is not valid"):
            call()


def test_what_a_function_holds_is_named_with_it():
    source = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 13, "my" : 1]>
        g (float[2] x) => (float[2] y) { y = my.f(x) }
        <domain: "my", opset_import: ["" : 13]> f (a) => (b) { b = Neg(c) }""")
    assert "Neg \"b\" (function f): it reads 'c', which no earlier" in verdict(source)


def test_operators_of_a_runtime_are_refused_and_not_broken(tmp_path, capsys):
    body = "y = ATen<axis=-1>(x, s)"
    source = model(body, 13, inputs="float[2,3] x, float[3] s", outputs="float[2,3] y")
    assert verdict(source) == ""
    with pytest.raises(Refused, match="ATen"):
        opshift.convert_version(source, 18)
    onnx.save(source, tmp_path / "model.onnx")
    command = ["convert", str(tmp_path / "model.onnx"), str(tmp_path / "out.onnx"), "--opset", "18"]
    assert cli.main(command) == exit_codes.REFUSED
    assert "an operator of onnxruntime" in capsys.readouterr().out


def test_the_table_holds_what_the_runtime_has_in_the_default_domain():
    official = {(s.name, s.since_version) for s in onnx.defs.get_all_schemas_with_history() if not s.domain}
    own = {(s.name, s.since_version) for s in runtime.get_all_operator_schema() if not s.domain} - official
    assert {name for name, since in own if not validity.is_runtime_extension("", name, since)} == set()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda m: m.graph.output[0].type.tensor_type.ClearField("shape"), "shape"),
        (lambda m: m.graph.output[0].ClearField("type"), "type"),
        (lambda m: m.graph.output[0].type.tensor_type.ClearField("elem_type"), "elem_type"),
        (lambda m: setattr(m.opset_import[0], "domain", "ai.onnx"), ""),
        (lambda m: setattr(m.graph.node[0], "domain", "ai.onnx"), ""),
    ],
)
def test_what_is_not_broken_here(change, why):
    source = model("y = Relu(x)", 13, inputs="float[2] x", outputs="float[2] y")
    change(source)
    assert why in checker(source)
    assert verdict(source) == ""
    converted = opshift.convert_version(source, 18)
    assert converted.graph.node[0].op_type == "Relu"
    assert converted.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.long
def test_among_many_initializers_one_that_is_broken_is_found(raw):
    held = [onnx.helper.make_tensor(f"w{i}", TensorProto.FLOAT, [2], b"12345678" if raw else [1, 2], raw=raw)
            for i in range(5000)]  # fmt: skip
    source = model("y = Relu(x)", 13, inputs="float[2] x", outputs="float[2] y")
    source.graph.initializer.extend(held)
    assert verdict(source) == checker(source) == ""
    for change in (
        lambda t: t.dims.append(2),
        lambda t: setattr(t, "name", "w0"),
        lambda t: setattr(t, "data_type", TensorProto.DOUBLE),
        lambda t: t.double_data.append(1),
        lambda t: t.ClearField("name"),
    ):
        made = ModelProto()
        made.CopyFrom(source)
        change(made.graph.initializer[4000])
        assert bool(verdict(made)) == bool(checker(made)) is True


def held(**said) -> ModelProto:
    """A model with a tensor among its initializers and in a Constant."""
    source = model("y = Relu(x) z = Constant<value = float {1}>()", 21, inputs="float[2] x", outputs="float[2] y")
    tensor = TensorProto(name="w", **said)
    source.graph.initializer.append(tensor)
    source.graph.node[1].attribute[0].t.CopyFrom(tensor)
    return source


@pytest.mark.parametrize("dims", [[], [0], [1], [3], [4], [3, 5], [0, 7]])
@pytest.mark.parametrize("kind", [kind for kind in TensorProto.DataType.values() if kind])
def test_as_much_data_as_a_type_needs_is_asked_for(kind, dims):
    elements = math.prod(dims)
    sizes = {size + more for size in (0, elements // 8, elements // 4, elements // 2, elements) for more in (0, 1)}
    fields = [("int32_data", [1] * size) for size in sizes]
    for field, data in (*fields, *(("raw_data", bytes(size * width)) for size in sizes for width in (1, 2, 4, 8, 16))):
        made = held(data_type=kind, dims=dims, **{field: data})
        assert bool(verdict(made)) == bool(checker(made)), (field, len(data))


@pytest.mark.parametrize("dims", [[1 << 62, 2, 0], [0, 1 << 62, 2], [1 << 62], [-1, 0], [0, -1], [(1 << 63) - 1, 1]])
@pytest.mark.parametrize("raw", [b"", b"1234"])
def test_more_elements_than_can_be_counted(dims, raw):
    made = held(raw_data=raw, data_type=TensorProto.FLOAT, dims=dims)
    assert bool(verdict(made)) == bool(checker(made))


@pytest.mark.parametrize("size", [1 << 10, 1 << 17])
@pytest.mark.parametrize("missing", [0, 1])
def test_large_weights_are_counted(size, missing):
    source = model("y = Relu(x)", 13, inputs="float[2] x", outputs="float[2] y")
    for index in range(3):
        data = bytes(4 * size - (missing if index == 2 else 0))
        source.graph.initializer.add(name=f"w{index}", data_type=TensorProto.FLOAT, dims=[size], raw_data=data)
    assert bool(verdict(source)) == bool(checker(source)) == bool(missing)


def test_external_data_without_a_place():
    place = [onnx.StringStringEntryProto(key="location")]
    made = held(external_data=place, data_location=TensorProto.EXTERNAL, dims=[2], data_type=TensorProto.FLOAT)
    assert "has no location" in verdict(made)
    assert checker(made)


def test_external_data_beside_its_own():
    place = [onnx.StringStringEntryProto(key="location", value="w.bin")]
    made = held(external_data=place, data_location=TensorProto.EXTERNAL, dims=[1], data_type=TensorProto.FLOAT,
                float_data=[1.0])  # fmt: skip
    assert "holds data in float_data" in verdict(made)
    assert checker(made)


def test_a_layer_normalization_may_have_more_attributes():
    source = model("y = LayerNormalization<axis=-1, more=1>(x, s)", 17, inputs="float[2,3] x, float[3] s", outputs="float[2,3] y")  # fmt: skip
    assert verdict(source) == checker(source) == ""
    source.graph.node[0].attribute[0].type = 1
    assert verdict(source)
    assert checker(source)


def test_of_functions_that_differ_in_their_names_alone_each_has_one():
    source = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 13, "my" : 1]>
        g (float[2] x) => (float[2] y) { t = my.f(x) u = my.g(t) y = my.h(u) }
        <domain: "my", opset_import: ["" : 13]> f (a) => (b) { b = Neg(a) }
        <domain: "my", opset_import: ["" : 13]> g (a) => (b) { b = Neg(a) }
        <domain: "my", opset_import: ["" : 13]> h (a) => (b) { b = Neg(a) }""")
    assert verdict(source) == checker(source) == ""
    for change in (lambda f: setattr(f, "name", ""), lambda f: f.ClearField("name"), lambda f: setattr(f, "name", "f")):
        made = ModelProto()
        made.CopyFrom(source)
        change(made.functions[1])
        assert bool(verdict(made)) == bool(checker(made)) is True


def test_onnx_is_not_imported_for_it():
    code = (
        "import sys; from opshift.passes.conversion import convert; from opshift.passes.model.messages import ModelProto;"
        "convert.check_model(ModelProto.FromString(sys.stdin.buffer.read())); assert 'onnx' not in sys.modules"
    )
    given = model("y = Relu(x)", 13, inputs="float[2] x", outputs="float[2] y").SerializeToString()
    subprocess.run([sys.executable, "-c", code], input=given, check=True)


@pytest.mark.parametrize(
    ("ir", "why"), [(1, ""), (2, "attribute 'axis' has no type"), (3, "attribute 'axis' has no type")]
)
def test_attributes_have_types_since_they_could(ir, why):
    source = model("y = Softmax<axis = 0>(x)", 1, inputs="float[2] x", outputs="float[2] y")
    source.ir_version = ir
    if ir < 3:
        del source.opset_import[:]
    source.graph.node[0].attribute[0].ClearField("type")
    assert verdict(source).endswith(why)
    assert bool(verdict(source)) == bool(why)


@pytest.mark.parametrize(
    "field",
    [
        "f",
        "i",
        "s",
        "t",
        "g",
        "tp",
        "sparse_tensor",
        "floats",
        "ints",
        "strings",
        "tensors",
        "graphs",
        "sparse_tensors",
        "type_protos",
    ],
)
def test_each_value_is_of_the_type_that_is_said(field):
    """A field beside the type of another one is a fault of that one."""
    names = {"f": "FLOAT", "i": "INT", "s": "STRING", "t": "TENSOR", "g": "GRAPH", "tp": "TYPE_PROTO"}
    kind = names.get(field, field.upper())
    node = onnx.helper.make_node("Thing", ["x"], ["y"], domain="own")
    held = node.attribute.add(name="a", type=getattr(onnx.AttributeProto, kind))
    value = getattr(held, field)
    if hasattr(value, "extend"):
        value.extend({"floats": [1.0], "ints": [1], "strings": [b"a"]}.get(field) or [type(value.add())()])
    elif hasattr(value, "SetInParent"):
        value.SetInParent()
    else:
        setattr(held, field, {"f": 1.0, "i": 1, "s": b"a"}[field])
    source = model("y = Neg(x)", 17, inputs="float[2] x", outputs="float[2] y", domains='"own" : 1')
    source.graph.node[0].CopyFrom(node)
    assert " by its type and holds " not in verdict(source)
    other = "INT" if kind != "INT" else "FLOAT"
    source.graph.node[0].attribute[0].type = getattr(onnx.AttributeProto, other)
    assert verdict(source).endswith(f"attribute 'a' has type {other}, but holds {kind}")


@pytest.mark.parametrize(
    ("ir", "opsets", "keys", "why"),
    [
        (0, [], [], "unknown IR version 0; supported: 1 to 14"),
        (15, [17], [], "unknown IR version 15; supported: 1 to 14"),
        (14, [17], [], ""),
        (1, [], [], ""),
        (8, [17], ["a", "b"], ""),
        (8, [17], ["a", "b", "b"], "metadata_props has 'b' twice"),
        (3, [], [], "it imports no opset, which is required from IR version 3 on"),
        (2, [1], [], "it imports an opset, which IR version 2 does not allow"),
    ],
)
def test_what_a_model_says_before_its_graph(ir, opsets, keys, why):
    source = ModelProto(ir_version=ir)
    for opset in opsets:
        source.opset_import.add(version=opset)
    for key in keys:
        source.metadata_props.add(key=key)
    if not why:
        validity.check_header(source)
    else:
        with pytest.raises(InvalidModel) as found:
            validity.check_header(source)
        assert str(found.value) == f"the model is not valid: {why}"


def test_what_says_nothing_means_the_first_opset():
    assert validity.imports(ModelProto(ir_version=2)) == {"": 1}
    assert validity.imports(ModelProto(ir_version=3)) == {}
    assert validity.imports(onnx.FunctionProto()) == {}
    held = ModelProto(ir_version=8)
    for domain, version in (("ai.onnx", 17), ("my", 2)):
        held.opset_import.add(domain=domain, version=version)
    assert validity.imports(held) == {"": 17, "my": 2}


@pytest.mark.parametrize(("parts", "broken"), [(1, True), (2, False), (3, False)])
@pytest.mark.parametrize("verb", [opshift.optimize, opshift.fold, lambda m: opshift.convert_version(m, 21)])
def test_a_split_into_fewer_parts_than_it_makes_is_broken(parts, broken, verb):
    """ONNX's inference, also within onnxruntime, writes behind the sizes of the parts there."""
    body = f"a, b = Split<axis=1, num_outputs={parts}>(x) s = Shape(b)"
    source = model(body, 18, inputs="float[2,4] x", outputs="float[A,B] a, int64[C] s")
    if broken:
        with pytest.raises(opshift.InvalidModel, match="num_outputs=1 with 2 outputs"):
            verb(source)
    else:
        verb(source)
