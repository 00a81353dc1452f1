"""Calls of other types than the published ones: a judge says what they yield, the backend which it takes."""

import numpy as np
import pytest
from opshift.passes.backends import measurements
from opshift.passes.backends.backend import MeasuredCall, Types
from opshift.passes.model.types import plain_type

from opshift.probing import probe, retyped
from opshift.probing.samples import Sample
from opshift.probing.worker import Worker
from opshift.verification import adapters
from opshift.verification.engines import EngineError, OnnxRuntime
from tests.support import model

pytestmark = pytest.mark.usefixtures("quick_workers")

X = np.array([[0.5, -1.25], [2.0, 0.0]], np.float32)
HERE = __name__


class Picky(OnnxRuntime):
    """onnxruntime that has no MatMul of integers, adds int32 wrongly, and takes no input of double."""

    def __init__(self, of, outputs=None, folder=None):
        self._ops = {node.op_type for node in of.graph.node}
        self._types = {value.type.tensor_type.elem_type for value in of.graph.input}
        casts = {each.i for node in of.graph.node for each in node.attribute if each.name == "to"}
        self._held = self._types | casts
        if "MatMul" in self._ops and not self._held <= {1, 10, 11}:
            raise EngineError("input == CV_32F")
        if 11 in self._types:
            raise EngineError("no double goes in")
        super().__init__(of, outputs, folder)

    def run(self, feeds):
        return [value + 1 if self._ops >= {"Add"} and 6 in self._held else value for value in super().run(feeds)]


@pytest.fixture(scope="module")
def oracle():
    workers = Worker(adapters.KNOWN["onnxruntime"].session), Worker("opshift.verification.engines:Reference")
    yield retyped.Oracle(*workers)
    for each in workers:
        each.stop()


@pytest.fixture(scope="module")
def worker():
    made = Worker(f"{HERE}:Picky")
    yield made
    made.stop()


def case(body, opset=13, **feeds):
    feeds = feeds or {"x": X}
    names = {"float32": "float", "bool": "bool", "int64": "int64"}
    given = ", ".join(f"{names[str(v.dtype)]}[{','.join(map(str, v.shape))}] {name}" for name, v in feeds.items())
    of = model(body, opset, inputs=given, outputs="float[] y")
    for value in of.graph.output:
        value.ClearField("type")
    expected = OnnxRuntime(of).run(feeds)
    return retyped.Base(Sample("made up", ("", of.graph.node[-1].op_type), of, feeds, expected, 1e-3, 1e-6), set())


CASTABLE = [f"tensor({name})" for name in ("float", "double", "float16", "bool", "int8", "int32", "int64", "uint8")]


def measured(base, worker, oracle, missing=(), castable=CASTABLE):
    return retyped.Kinds(worker, oracle, missing, castable).measure([base])


def names(found):
    return set(map(plain_type, found))


def test_types_that_ran_and_those_that_did_not(worker, oracle):
    found = measured(case("y = MatMul(x, x)"), worker, oracle)["T"]
    assert names(found.ran) == {"float", "float16", "double"}  # double inside alone
    assert names(found.failed) == {"int32", "int64"}  # of unsigned ones no cast tells


def test_what_is_computed_wrongly_did_not_run(worker, oracle):
    found = measured(case("y = Add(x, x)"), worker, oracle)["T"]
    assert {"float", "int64", "double"} <= names(found.ran)
    assert "int32" in names(found.failed)


def test_types_that_the_backend_lacks_are_not_asked_for(worker, oracle):
    found = measured(case("y = Add(x, x)"), worker, oracle, missing=["tensor(int32)"])["T"]
    assert not {"int32"} & names(found.ran | found.failed)


def test_the_type_of_a_result_that_an_attribute_names(worker, oracle):
    found = measured(case("y = Cast<to = 1>(x)"), worker, oracle)
    assert {"float", "int32", "bool", "string"} <= names(found["T2"].ran)
    assert {"float", "int32", "bool"} <= names(found["T1"].ran)


def test_integers_are_not_made_of_what_is_none():
    given = np.array([np.nan, np.inf, -1e9, 0.5], np.float32)
    base = case("y = Cast<to = 11>(x)", x=given)
    for kind, least in (("tensor(int32)", -100), ("tensor(uint8)", 0)):
        made = retyped.of_kind(base.sample, {"T2"}, kind).sample
        np.testing.assert_array_equal(made.feeds["x"], np.array([1, 1, least, 0.5], np.float32))
    np.testing.assert_array_equal(retyped.of_kind(base.sample, {"T2"}, "tensor(float16)").sample.feeds["x"], given)


def test_of_constants_the_value_has_the_type(worker, oracle):
    shape = np.array([2, 2])
    found = measured(case("y = ConstantOfShape<value = float[1] {0.5}>(s)", s=shape), worker, oracle)
    assert {"float", "int32", "bool"} <= names(found["T2"].ran)


def test_what_goes_through_graphs_has_types_too(worker, oracle):
    body = "y = If(c)<then_branch = g () => (a) { a = Relu(x) }, else_branch = h () => (b) { b = Neg(x) }>"
    found = measured(case(body, c=np.array(True), x=X), worker, oracle)["V"]
    assert {"float", "int64", "bool", "string"} <= names(found.ran)


def test_what_a_sample_shows_adds_up():
    base = case("y = Add(x, x)").sample
    held = {"T": Types(frozenset({"tensor(int32)"}), frozenset({"tensor(float)", "tensor(int8)"}))}
    assert retyped.add_types_of(held, base, 14) == {
        "T": Types(frozenset({"tensor(int32)", "tensor(float)"}), frozenset({"tensor(int8)"}))
    }


def test_a_probe_writes_the_types(worker, oracle):
    held = [case("y = MatMul(x, x)").sample]
    found = probe.judge(
        worker, ("", "MatMul"), held, 13, oracle=oracle, kinds=retyped.Kinds(worker, oracle, (), CASTABLE)
    )
    said = measurements.spell_call(found.called)
    assert said.endswith("; T: floats, not int32 int64")
    assert measurements.read("MatMul", said) == MeasuredCall(
        found.called.ranks, found.called.symbolic, found.called.types
    )
