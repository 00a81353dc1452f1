"""The report names the values whose types or sizes are taken as the model declares them, and no others."""

import json

import onnx
import onnx.parser
import pytest
from onnx import ModelProto
from opshift.passes.analysis.trust import TAKEN
from opshift.passes.conversion import convert

from opshift.cli import main as cli
from tests.support import model

OWN = '"my" : 1'


def taken(source: ModelProto, target: int, ir_version: int | None = None) -> list[tuple[str, str]]:
    """The operator that makes each value that is believed, and what is believed of it."""
    result = convert.attempt(source, {"": target}, ir_version=ir_version)
    assert result.model is not None, result.refusals
    assert {change.grade for change in result.changes if change.how == TAKEN} <= {"exact"}
    return [(change.op, change.remark) for change in result.changes if change.how == TAKEN]


def declaring(source: ModelProto, **values: str) -> ModelProto:
    """The model, which declares these types of values."""
    for name, kind in values.items():
        source.graph.value_info.add(name=name).type.CopyFrom(
            onnx.parser.parse_graph(f"g ({kind} v) => () {{}}").input[0].type
        )
    return source


def softmaxes(count: int = 1, inputs: str = "float[2,3,4] x") -> ModelProto:
    """Softmaxes of what operators of one's own make, whose rank decides what Softmax-13 is below."""
    body = " ".join(f"t{k} = my.Thing(x) y{k} = Softmax<axis=1>(t{k})" for k in range(count))
    outputs = ", ".join(f"float[2,3,4] y{k}" for k in range(count))
    return model(body, 13, inputs=inputs, outputs=outputs, domains=OWN)


def test_nothing_is_believed_where_inference_tells():
    source = model("t = Relu(x) y = Softmax<axis=1>(t)", 13, inputs="float[2,3,4] x", outputs="float[2,3,4] y")
    assert taken(declaring(source, t="float[2,3,4]"), 11) == []


def test_the_inputs_of_a_model_are_its_contract():
    source = model("y = Softmax<axis=1>(x)", 13, inputs="float[2,3,4] x", outputs="float[2,3,4] y")
    assert taken(source, 11) == []


def test_what_nobody_asks_for_is_not_named():
    source = model("t = my.Thing(x) y = Relu(t)", 13, inputs="float[2,3,4] x", outputs="float[2,3,4] y", domains=OWN)
    assert taken(declaring(source, t="float[2,3,4]"), 14) == []


@pytest.mark.parametrize("count", [1, 2, 5])
def test_each_value_is_named_once(count):
    source = declaring(softmaxes(count), **{f"t{k}": "float[2,3,4]" for k in range(count)})
    expected = [("Thing", f"'t{k}' is float[2, 3, 4]") for k in range(count)]
    assert taken(source, 11) == expected


def test_in_a_graph_within_a_graph():
    body = (
        "y = If(c) <then_branch = a () => (float[2,3,4] p) <float[2,3,4] t> { t = my.Thing(x) p = Softmax<axis=1>(t) }, \
        else_branch = b () => (float[2,3,4] q) { q = Relu(x) }>"
    )
    source = model(body, 13, inputs="bool c, float[2,3,4] x", outputs="float[2,3,4] y", domains=OWN)
    assert ("Thing", "'t' is float[2, 3, 4]") in taken(source, 11)


def test_in_a_function():
    source = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 13, "my" : 1, "local" : 1]>
        g (float[2,3,4] x) => (float[2,3,4] y) { y = local.f(x) }
        <domain: "local", opset_import: ["" : 13, "my" : 1]> f (a) => (b) { t = my.Thing(a) b = Softmax<axis=1>(t) }""")
    source.functions[0].value_info.add(name="t").type.CopyFrom(source.graph.input[0].type)
    assert taken(source, 11, ir_version=10) == [("Thing", "'t' is float[2, 3, 4]")]


def test_a_size_of_which_inference_tells_the_rank_alone():
    io = {"inputs": "float[N,6] x, int64[2] s", "outputs": "float[2,3] y"}
    source = model("t = Reshape(x, s) y = Softmax<axis=1>(t)", 13, **io)
    named = taken(declaring(source, t="float[2,3]"), 11)
    assert named in ([], [("Reshape", "'t' is float[2, 3]")])


def test_an_element_type_alone():
    source = model(
        "t = my.Thing(x) u = Identity(t) y = Mul(u, u)", 14, inputs="float[2] x", outputs="int8[2] y", domains=OWN
    )
    named = taken(declaring(source, t="int8[2]", u="int8[2]"), 11)
    assert ("Thing", "'t' is int8[2]") in named


@pytest.mark.parametrize(
    ("op", "shape", "taken"),
    [
        ("com.microsoft.Gelu", "[N,4]", []),
        ("com.microsoft.Gelu", "[N,5]", []),  # what the operator makes of its input counts
        ("com.microsoft.Gelu", "[2,4]", ["'h' is float[2, 4]"]),
        ("own.Gelu", "[N,4]", ["'h' is float[N, 4]"]),
    ],
)
def test_what_is_known_of_an_operator_of_a_vendor_is_no_claim(op, shape, taken):
    """It is a result of the model, whose type is always declared."""
    source = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 12, "com.microsoft" : 1, "own" : 1]> g (float[N,4] x) => (float[N,4] y, float{shape} h)
        {{ h = {op}(x) y = Softmax(h) }}"""
    )
    changes = convert.attempt(source, {"": 13}).changes
    assert [change.remark for change in changes if change.how == TAKEN] == taken


def test_text_and_json_name_it(tmp_path, capsys):
    onnx.save(declaring(softmaxes(), t0="float[2,3,4]"), tmp_path / "model.onnx")
    command = ["convert", str(tmp_path / "model.onnx"), str(tmp_path / "out.onnx"), "--opset", "11", "--no-verify"]
    assert cli.main(command) == 0
    text = capsys.readouterr().out
    assert TAKEN in text
    assert "'t0' is float[2, 3, 4]" in text
    assert cli.main([*command, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert TAKEN in json.dumps(told)


def test_what_is_taken_is_told_of_the_operator_that_makes_it():
    [change] = [
        c for c in convert.attempt(declaring(softmaxes(), t0="float[2,3,4]"), {"": 11}).changes if c.how == TAKEN
    ]
    assert (change.node, change.op, change.domain, change.source, change.target) == ("t0", "Thing", "my", 0, 0)
    assert change.remark == "'t0' is float[2, 3, 4]"
