"""Models that call onnxruntime's operators without an import, as its optimizer of transformers leaves them."""

import numpy as np
import onnx
import onnx_ir
import pytest
from opshift.passes.errors import InvalidModel
from opshift.passes.model import imports

import opshift
from opshift.cli import main as cli
from opshift.verification.engines import OnnxRuntime
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

BODY = "a = com.microsoft.FastGelu(x) y = com.microsoft.QuickGelu(a)"


@pytest.fixture
def saved():
    made = model(BODY, 17, inputs="float[2,4] x", outputs="float[2,4] y", domains='"com.microsoft" : 1')
    del made.opset_import[1]
    return made


def held(of):
    return {entry.domain: entry.version for entry in of.opset_import}


VERBS = {
    "convert --opset 13": {"": 13, "com.microsoft": 1},
    "optimize": {"": 17, "com.microsoft": 1},
    "convert --fix-shape x:2,4": {"": 17, "com.microsoft": 1},
    "inline --op com.microsoft::FastGelu": {"": 17, "com.microsoft": 1},
    "inline --portable": {"": 17},
}


@pytest.mark.parametrize("typed", VERBS)
def test_the_import_is_written_and_said(saved, typed, tmp_path, capsys):
    onnx.save(saved, tmp_path / "in.onnx")
    verb, *more = typed.split()
    assert cli.main([verb, str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx"), *more]) == 0
    assert "Imported com.microsoft, whose operators the model uses" in capsys.readouterr().out
    made = onnx.load(tmp_path / "out.onnx")
    assert held(made) == VERBS[typed]
    x = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    (a,), (b,) = OnnxRuntime(saved).run({"x": x}), OnnxRuntime(made).run({"x": x})
    np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-5)


def test_other_commands_take_it(saved, tmp_path):
    path = str(tmp_path / "in.onnx")
    onnx.save(saved, path)
    assert cli.main(["inspect", path]) == 0
    assert cli.main(["verify", path, path]) == 0


def test_from_python_the_model_that_is_given_stays_as_it_is(saved):
    kept = saved.SerializeToString()
    assert held(opshift.convert_version(saved, 13)) == {"": 13, "com.microsoft": 1}
    assert opshift.verify(saved, opshift.inline(saved, portable=True))
    assert saved.SerializeToString() == kept
    made = opshift.optimize(onnx_ir.from_proto(saved))
    assert made.opset_imports["com.microsoft"] == 1


def test_in_subgraphs_and_functions():
    made = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17, "own" : 1]> g (float[2] x, bool c) => (float[2] y) {
            y = If (c) <then_branch = t () => (p) { p = com.microsoft.QuickGelu(x) }, else_branch = e () => (q) { q = own.F(x) }>
        }
        <domain: "own", opset_import: ["" : 17]> F (a) => (b) { b = com.microsoft.FastGelu(a) }
    """)
    assert imports.add_missing(made) == ["com.microsoft"]
    assert held(made) == {"": 17, "own": 1, "com.microsoft": 1}
    assert held(made.functions[0]) == {"": 17, "com.microsoft": 1}
    assert imports.add_missing(made) == []


@pytest.mark.parametrize("domain", ["ai.onnx.ml", "own"])
def test_other_domains_have_to_be_imported(domain):
    made = model(f"y = {domain}.Binarizer(x)", 17, inputs="float[2] x", outputs="float[2] y", domains=f'"{domain}" : 1')
    del made.opset_import[1]
    assert imports.missing(made) == []
    with pytest.raises(InvalidModel, match="is not imported"):
        opshift.convert_version(made, 13)
