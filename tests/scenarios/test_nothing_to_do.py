"""A verb that finds nothing to do leaves the model equal, its IR version and its imports included."""

import itertools

import onnx
import onnx.parser
import pytest

import opshift
from opshift.cli import main as cli

PLAIN = "g (float[2] x) => (float[2] y) { y = Relu(x) }"
CALLED = """g (float[2] x) => (float[2] y) { y = my.Twice(x) }
<domain: "my", opset_import: ["" : 13]> Twice (x) => (y) { y = Add(x, x) }"""
MODELS = {
    "newer": f'<ir_version: 10, opset_import: ["" : 18]> {PLAIN}',
    "older": f'<ir_version: 4, opset_import: ["" : 13]> {PLAIN}',
    "oldest": f'<ir_version: 3, opset_import: ["" : 13]> {PLAIN}',
    "imports": f'<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 5, "com.microsoft" : 1]> {PLAIN}',
    "functions": f'<ir_version: 10, opset_import: ["" : 13, "my" : 1]> {CALLED}',
    "functions-elsewhere": f'<ir_version: 10, opset_import: ["" : 18, "my" : 1]> {CALLED}',
    "alone": """<ir_version: 9, opset_import: ["my" : 1]> g (float[2] x) => (float[2] y) { y = my.Twice(x) }
        <domain: "my", opset_import: ["" : 13]> Twice (x) => (y) { y = Add(x, x) }""",
}
VERBS = {
    "inline": lambda model: opshift.inline(model, ["ReduceL2"]),
    "inline a domain": lambda model: opshift.inline(model, domain="ai.onnx.ml"),
    "inline for a target": lambda model: opshift.inline(model, target="onnxruntime"),
    "quantization": lambda model: opshift.convert_version(model, quantization="qdq"),
    "fold": opshift.fold,
    "optimize": opshift.optimize,
    "fix": lambda model: opshift.optimize(model, fix_shape={"x": (2,)}),
    "the IR version that it has": lambda model: opshift.convert_version(model, ir_version=model.ir_version),
}


def read(name):
    return onnx.parser.parse_model(MODELS[name])


SOMETHING = {
    ("functions-elsewhere", "inline for a target"),  # one opset is for all
    ("alone", "inline for a target"),
    ("alone", "the IR version that it has"),  # an opset of the default domain is written
    ("functions-elsewhere", "the IR version that it has"),
    ("imports", "the IR version that it has"),  # its readers know no such imports
}


@pytest.mark.parametrize(("name", "verb"), sorted({*itertools.product(MODELS, VERBS)} - SOMETHING))
def test_the_model_stays_equal(name, verb):
    assert VERBS[verb](read(name)) == read(name)


@pytest.mark.parametrize("name", ["older", "oldest"])
@pytest.mark.parametrize("options", [{}, {"modernize": True}, {"optimize": True}])
def test_the_opset_that_it_has_raises_no_ir_version(name, options):
    assert opshift.convert_version(read(name), 13, **options) == read(name)


def test_the_opset_that_it_has_brings_down_a_newer_ir_version():
    """As other models become at that opset: what reads it need not read a newer one."""
    made = opshift.convert_version(read("newer"), 18)
    assert made.ir_version == 8
    assert made.graph == read("newer").graph


def test_functions_brought_to_an_opset_follow_it():
    made = opshift.convert_version(read("functions-elsewhere"), 18)
    assert (made.ir_version, made.functions[0].opset_import[0].version) == (8, 18)


def test_a_target_that_reads_no_such_ir_version_gets_an_older_one():
    """onnxruntime 1.14 reads opset 18, and IR versions up to 8."""
    assert opshift.inline(read("newer"), target="onnxruntime-1.14").ir_version == 8


def test_what_is_inlined_brings_the_ir_version_with_it():
    text = '<ir_version: 10, opset_import: ["" : 18]> g (float[2] x) => (float y) { y = ReduceL2<keepdims=0>(x) }'
    made = opshift.inline(onnx.parser.parse_model(text), ["ReduceL2"])
    assert "ReduceL2" not in {node.op_type for node in made.graph.node}
    assert (made.ir_version, made.opset_import[0].version) == (8, 18)


@pytest.mark.parametrize(
    "typed", ["inline {} --op ReduceL2", "fold {}", "optimize {}", "convert {} --quantization qdq"]
)
def test_a_file_keeps_its_bytes(typed, tmp_path):
    source, output = tmp_path / "in.onnx", tmp_path / "out.onnx"
    source.write_bytes(read("newer").SerializeToString())
    assert cli.main(typed.format(f"{source} {output}").split()) == 0
    assert output.read_bytes() == source.read_bytes()
