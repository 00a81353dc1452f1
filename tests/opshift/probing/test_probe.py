"""`opshift probe`: what it concludes from verdicts, that a crash does not end it, and what it writes."""

import os
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import numpy as np
import onnx
import onnx.backend.test.loader
import onnxruntime
import pytest
from opshift.passes.backends.target_files import find, parse

from opshift.cli import main as cli
from opshift.probing import probe, samples
from opshift.probing.worker import Task, Verdict, Worker
from opshift.verification import adapters
from opshift.verification.engines import EngineError, OnnxRuntime
from tests.conformance.cases import installed
from tests.support import model

pytestmark = pytest.mark.usefixtures("quick_workers")

X = np.array([1.0, -2.0], np.float32)

PICKY = "tests.opshift.picky:Picky"


@pytest.fixture(scope="module", autouse=True)
def kept():
    """The published tests from the file of who made them before: generators take seconds."""
    found = [SimpleNamespace(**vars(case), data_sets=[(case.inputs.values(), case.outputs)]) for case in installed()]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(onnx.backend.test.loader, "load_model_tests", lambda kind: found)
        yield


@pytest.fixture(scope="module")
def worker():
    made = Worker(PICKY, timeout=20)
    yield made
    made.stop()


def task(body, expected, **options):
    of = model(f"y = {body}", 13, inputs="float[2] x", outputs="float[2] y")
    return Task(of.SerializeToString(), {"x": X}, [expected], **options)


def test_verdicts_of_a_worker(worker):
    assert worker.run(task("Relu(x)", np.maximum(X, 0))) == Verdict("agrees")
    assert worker.run(task("Floor(x)", np.floor(X))) == Verdict("differs", "other values")
    assert worker.run(task("Relu(x)", np.zeros(3, np.float32))) == Verdict("differs", "shape [2] instead of [3]")
    assert worker.run(task("Relu(x)", np.zeros(2))) == Verdict("differs", "type float32 instead of float64")
    assert worker.run(task("Nonsense(x)", X)).status == "refused"


def test_a_crash_ends_neither_the_worker_nor_what_comes_after(worker):
    assert worker.run(task("Abs(x)", np.abs(X))).status == "died"
    assert worker.run(task("Relu(x)", np.maximum(X, 0))).agrees


@pytest.mark.long
def test_what_takes_too_long_is_ended():
    impatient = Worker(PICKY, timeout=2)
    try:
        assert impatient.run(task("Neg(x)", -X)) == Verdict("hung", "no result within 2 s")
        assert impatient.run(task("Relu(x)", np.maximum(X, 0))).agrees
    finally:
        impatient.stop()


def test_nan_and_rounding_agree_and_more_does_not(worker):
    assert worker.run(task("Log(x)", np.array([0, np.nan], np.float32))).agrees
    assert worker.run(task("Mul(x, x)", np.array([1.0005, 4], np.float32))).agrees
    assert not worker.run(task("Mul(x, x)", np.array([1.0005, 4], np.float32), rtol=1e-4)).agrees


@pytest.mark.long
@pytest.mark.newest
def test_what_is_measured(worker, monkeypatch):
    monkeypatch.setattr(probe, "_DERIVED", 2)  # each test of Abs ends the worker
    found = probe.measure(worker, {"Relu", "Ceil", "Floor", "Clip", "Abs"})
    known = find("onnxruntime-" + onnxruntime.__version__.rpartition(".")[0])
    assert (found.opset, found.ir_version, found.ml_opset) == (known.opset, known.ir_version, known.ml_opset)
    assert (found.static_shapes, found.functions, found.folds_sizes) == (True, False, True)
    assert "tensor(complex64)" in found.lacks_types
    assert not {"tensor(float)", "tensor(int64)", "tensor(string)"} & set(found.lacks_types)
    of = {op: finding for (_, op), finding in found.findings.items()}
    assert (of["Relu"].newest, of["Relu"].missing) == (14, 0)
    assert (of["Ceil"].newest, of["Ceil"].missing) == (6, 13)
    assert (of["Floor"].newest, of["Abs"].newest) == (0, 0)
    assert of["Clip"].constant == {"min", "max"}


def test_what_is_written(worker):
    found = probe.ProbedBackend(13, 7, 0, True, False, True, ["tensor(string)"], {})
    found.findings = {
        ("", "Abs"): probe.Finding(0, 13),
        ("", "Ceil"): probe.Finding(6, 13, Counter(agrees=2)),
        ("", "Clip"): probe.Finding(13, 0, Counter(agrees=2, differs=1), frozenset({"min"})),
        ("ai.onnx.ml", "Scaler"): probe.Finding(0, 1),
    }
    text = probe.text("npu", "1.2.3", found)
    backend = parse(text, "npu.toml")["npu-1.2"]
    assert (backend.opset, backend.ir_version, backend.static_shapes, backend.functions) == (13, 7, True, False)
    assert backend.folds_sizes
    assert backend.lacks == {("", "Abs"): 1, ("", "Ceil"): 13, ("ai.onnx.ml", "Scaler"): 1}
    assert "tensor(string)" not in backend.types
    assert [(sorted(limit.ops), limit.constant) for limit in backend.limits] == [([("", "Clip")], ("min",))]
    assert "agree: Clip 2/3." in text
    assert "AveragePool" in text[: text.index("name =")]  # nobody tried it
    assert "ai.onnx.ml::" not in text[: text.index("name =")]  # none of them is read
    assert "npu 1.2.3" in backend.source


@pytest.mark.long
def test_the_command_writes_a_target_file(tmp_path, capsys):
    path = tmp_path / "ort.toml"
    assert cli.main(["probe", "--backend", "onnxruntime", "--op", "Relu", "--op", "Det", "--output", str(path)]) == 0
    assert "# Of these operators alone: Det, Relu.\n" in path.read_text()
    assert "AveragePool" not in path.read_text()
    held = next(iter(parse(path.read_text(), "ort.toml").values()))
    assert held.opset >= 23
    assert held.functions
    assert cli.main(["probe", "--backend", "onnxruntime", "--op", "Relu", "--op", "Det"]) == 0
    assert capsys.readouterr().out == path.read_text()


@pytest.mark.parametrize(("name", "complaint"), [("nonsense", "can be probed"), ("absent", "pip install absent")])
def test_what_cannot_be_probed_is_a_usage_error(name, complaint, monkeypatch, capsys):
    lacking = adapters.Adapter("opshift.verification.engines:OnnxRuntime", packages=("absent",))
    monkeypatch.setitem(adapters.KNOWN, "absent", lacking)
    assert cli.main(["probe", "--backend", name]) == 2
    assert complaint in capsys.readouterr().err


class Sizes(OnnxRuntime):
    """onnxruntime without Binarizer, shapes that are inputs, and axes that hold anything unless they are constants."""

    def __init__(self, model, outputs=None, folder=None):
        given = {value.name for value in model.graph.input}
        for node in model.graph.node:
            if node.op_type == "Binarizer":
                raise EngineError("unknown")
            if node.op_type == "Reshape" and node.input[1] in given:
                raise EngineError("only known shapes")
        super().__init__(model, outputs, folder)
        self._parameters = [n.input[1] for n in model.graph.node if n.op_type == "ReduceMean" and len(n.input) > 1]

    def run(self, feeds):
        if any(feeds[name].size for name in self._parameters if name in feeds):
            raise EngineError("only known axes")
        return super().run(feeds)


@pytest.mark.long
def test_sizes_empty_inputs_and_operators_of_ml_that_are_missing():
    small = Worker(f"{__name__}:Sizes")
    try:
        found = probe.measure(small, {"Reshape", "ReduceMean", "Binarizer"})
    finally:
        small.stop()
    assert (found.static_shapes, found.folds_sizes, found.ml_opset) == (False, True, 5)
    of = {op: finding for (_, op), finding in found.findings.items()}
    assert (of["Reshape"].constant, of["ReduceMean"].constant) == ({"shape"}, {"axes"})
    assert (of["Binarizer"].newest, of["Binarizer"].missing) == (0, 1)


def test_a_version_is_tried_with_tests_of_others_converted_to_it():
    held = [case for case in samples.list_published() if case.op == ("", "Relu")]
    derived = list(probe._convert_samples(("", "Relu"), held, 12))
    assert [(n.op_type, case.model.opset_import[0].version) for case in derived for n in case.model.graph.node] == [
        ("Relu", 12)
    ]
    onnx.checker.check_model(derived[0].model)


def test_an_exported_model_that_agrees_shows_that_an_operator_is_there(worker):
    op = ("", "Floor")
    held = [case for case in samples.list_published() if case.op == op]
    assert probe.judge(worker, op, held, 13).missing
    witness = samples.Sample(
        "w",
        op,
        model("t = Relu(x) y = Floor(t)", 9, inputs="float[2] x", outputs="float[2] y"),
        {"x": X},
        [np.array([2, 1], np.float32)],
        1e-3,
        1e-7,
    )
    found = probe.judge(worker, op, held, 13, [witness])
    assert (found.newest, found.missing) == (13, 0)


def test_exported_models_come_with_their_data():
    held = {case.name: case for case in samples.list_exported("pytorch-converted", "simple")}
    case = held["test_PReLU_2d_multiparam"]
    assert [node.op_type for node in case.model.graph.node] == ["PRelu"]
    np.testing.assert_allclose(
        OnnxRuntime(next(probe._convert_samples(("", "PRelu"), [case], 9)).model).run(case.feeds)[0],
        case.expected[0],
        rtol=1e-5,
    )
    values = [value for case in held.values() for value in (*case.feeds.values(), *case.expected)]
    assert all(isinstance(value, np.ndarray) for value in values)  # sequences are left out


def test_backends_are_not_imported_before_they_are_needed():
    code = "import sys, opshift.verification.adapters; print({'openvino', 'cv2', 'tract', 'onnx', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "set()"
