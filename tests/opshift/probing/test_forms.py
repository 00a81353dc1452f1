"""Attributes and optional inputs: each alone is changed in what runs, and only what never runs is refused."""

import numpy as np
import pytest
from opshift.passes.backends.backend import MeasuredCall, Types

from opshift.probing import forms, probe, retyped
from opshift.probing.findings import Finding, add, read
from opshift.probing.samples import Sample
from opshift.probing.worker import Worker
from opshift.verification import adapters
from opshift.verification.engines import EngineError, OnnxRuntime
from tests.support import model

pytestmark = pytest.mark.usefixtures("quick_workers")

X = np.arange(9, dtype=np.float32).reshape(1, 1, 9)


class Picky(OnnxRuntime):
    """onnxruntime that pads no lower side first, rounds no sizes up, takes no lower bound, and has no Softmax below 13."""

    def __init__(self, of, outputs=None, folder=None):
        held = {each.name: each.s or each.i for node in of.graph.node for each in node.attribute}
        if held.get("auto_pad") == b"SAME_LOWER" or held.get("ceil_mode"):
            raise EngineError("no such pads")
        for node in of.graph.node:
            if node.op_type == "Clip" and len(node.input) > 1 and node.input[1]:
                raise EngineError("no lower bound")
            if node.op_type == "Softmax" and of.opset_import[0].version < 13:
                raise EngineError("no such axis")
        super().__init__(of, outputs, folder)


@pytest.fixture(scope="module")
def oracle():
    workers = Worker(adapters.KNOWN["onnxruntime"].session), Worker("opshift.verification.engines:Reference")
    yield retyped.Oracle(*workers)
    for each in workers:
        each.stop()


@pytest.fixture(scope="module")
def worker():
    made = Worker(f"{__name__}:Picky")
    yield made
    made.stop()


def sample(body, opset=13, **feeds):
    given = ", ".join(f"float[{','.join(map(str, v.shape))}] {name}" for name, v in feeds.items())
    of = model(body, opset, inputs=given, outputs="float[] y")
    for value in of.graph.output:
        value.type.tensor_type.ClearField("shape")
    expected = OnnxRuntime(of).run(feeds)
    return Sample("made up", ("", of.graph.node[-1].op_type), of, feeds, expected, 1e-3, 1e-6)


@pytest.mark.long
def test_values_with_which_no_call_runs_are_found_though_no_sample_has_them(worker, oracle):
    base = retyped.Base(sample("y = MaxPool<kernel_shape = [2], strides = [2], pads = [0, 1]>(x)", x=X), set())
    found = forms.measure_forms([base], [], lambda one: worker.run(one.task()).agrees, oracle)
    assert found.refused == {"auto_pad": ("SAME_LOWER",), "ceil_mode": (1,)}


def test_an_optional_input_is_at_fault_where_the_call_runs_without_it(worker, oracle):
    low, high = np.array(1, np.float32), np.array(5, np.float32)
    failing = sample("y = Clip(x, low, high)", x=X, low=low, high=high)
    runs = sample('y = Clip(x, "", high)', x=X, high=high)
    agrees = lambda one: worker.run(one.task()).agrees  # noqa: E731
    assert agrees(runs)
    assert forms.measure_forms([retyped.Base(runs, set())], [failing], agrees, oracle).unused == ("min",)
    assert forms.measure_forms([retyped.Base(runs, set())], [runs], agrees, oracle).unused == ()


def test_the_oldest_version_that_runs_is_measured(worker, oracle):
    found = probe.judge(worker, ("", "Softmax"), [sample("y = Softmax(x)", x=X)], 13, oracle=oracle)
    assert (found.newest, found.oldest) == (13, 13)
    found = probe.judge(worker, ("", "Relu"), [sample("y = Relu(x)", x=X)], 13, oracle=oracle)
    assert found.called == MeasuredCall((X.ndim,), types={"T": Types(frozenset(["tensor(float)"]))})
    assert (found.newest, found.oldest) == (13, 6)  # onnxruntime has no kernel of Relu-1


def test_what_is_kept_is_read_again(tmp_path, worker, oracle):
    pooled = sample("y = MaxPool<kernel_shape = [2], strides = [2], pads = [0, 1]>(x)", x=X)
    kinds = retyped.Kinds(worker, oracle, (), ["tensor(float)", "tensor(double)"])
    found = probe.judge(worker, ("", "MaxPool"), [pooled], 13, oracle=oracle, kinds=kinds)
    keep = tmp_path / "kept"
    add(keep, ("", "MaxPool"), found)
    add(keep, ("", "Det"), Finding(missing=11))
    with keep.open("a") as file:
        file.write('{"op": ["", "Relu"], "newe')  # as where a machine is switched off
    assert read(keep) == {("", "MaxPool"): found, ("", "Det"): Finding(missing=11)}
    assert read(None) == {}


def test_a_quick_measurement_takes_samples_from_all_over():
    assert probe.spread(list(range(60)), 6) == [0, 10, 20, 30, 40, 50]
    assert probe.spread([1, 2], 6) == [1, 2]
