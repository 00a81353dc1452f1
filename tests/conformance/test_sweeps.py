"""Derived cases: what is made of a published one, what is none, and a sample of both sweeps through every boundary."""

import random

import numpy as np
import pytest
from onnx import ModelProto

from tests.conformance import sweeps
from tests.conformance.cases import Case
from tests.conformance.judge import CRASHED, INVALID, OK, REFUSED, UNJUDGED, WRONG
from tests.conformance.sweep.bases import Base, bases
from tests.conformance.sweep.changes import SWEEPS
from tests.support import model

SEED, SIZE = 5, 2
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def case(body: str, opset: int, inputs: str, outputs: str, **feeds: np.ndarray) -> Case:
    return Case("test", "0", model(body, opset, inputs=inputs, outputs=outputs), feeds, [])


def derived(of: Case, sweep: str) -> list[Case]:
    return sweeps.derived(SWEEPS[sweep](Base(of)))


def declared(of: ModelProto) -> list[list[int | str] | None]:
    return [
        [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
        if v.type.tensor_type.HasField("shape")
        else None
        for v in of.graph.input
    ]


ADD = case("y = Add(a, b)", 14, "float[2,3] a, float[2,3] b", "float[2,3] y", a=X, b=X)
EXPAND = case("y = Expand(x, s)", 13, "float[1,3] x, int64[2] s", "float[M,N] y", x=X[:1], s=np.array([2, 3]))
CLIP = case(
    "y = Clip(x, lo, hi)", 13, "float[2,3] x, float lo, float hi", "float[2,3] y", x=X, lo=X[0, 1, ...], hi=X[1, 1, ...]
)


def test_sizes_change_by_themselves_and_with_their_equals():
    found = derived(ADD, "zero")
    shapes = {tuple(v.shape for v in c.inputs.values()) for c in found}
    assert {((0, 3), (0, 3)), ((2, 0), (2, 0)), ((1, 3), (2, 3)), ((2, 3), (2, 1)), ((2, 1), (2, 1))} <= shapes
    assert ((0, 3), (2, 3)) not in shapes, "engines do not run it"
    assert all(c.outputs[0].shape == np.broadcast_shapes(*(v.shape for v in c.inputs.values())) for c in found)


def test_sizes_are_declared_unknown_and_all_unknown():
    empty = [c for c in derived(ADD, "zero") if c.inputs["a"].shape == (0, 3)]
    assert [declared(c.model)[0] for c in empty] == [[0, 3], ["a_0", 3], ["a_0", "a_1"]]


def test_parameters_tell_the_new_size():
    told = {tuple(c.inputs["s"].tolist()) for c in derived(EXPAND, "zero") if c.inputs["x"].shape == (1, 0)}
    assert (2, 0) in told


def test_parameters_are_constants_left_out_and_unknown():
    found = {c.name: c.model for c in derived(CLIP, "runtime")}
    constants = {name: [t.name for t in m.graph.initializer] for name, m in found.items()}
    assert constants["test[constant lo]"] == ["lo"]
    assert constants["test[constant lo constant hi]"] == ["lo", "hi"]
    assert found["test[no lo]"].graph.node[0].input == ["x", "", "hi"]
    assert found["test[no lo no hi]"].graph.node[0].input == ["x"]
    assert declared(found["test[unknown sizes]"]) == [["x_0", "x_1"], [], []]


def test_indices_that_are_not_valid_make_no_case():
    gather = case("y = Gather(x, i)", 13, "float[2,3] x, int64[1] i", "float[1,3] y", x=X, i=np.array([1]))
    assert all(c.inputs["x"].shape[0] == 2 or not c.inputs["i"].size for c in derived(gather, "zero"))


def test_engines_that_differ_make_a_dispute():
    squeeze = case("y = Squeeze(x, a)", 13, "float[1,3] x, int64[1] a", "float[3] y", x=X[:1], a=np.array([0]))
    none = [c for c in derived(squeeze, "zero") if not c.inputs["a"].size and c.inputs["x"].size]
    assert [c.outputs[0].shape for c in none] == [(1, 3)] * 3, "the one with a quirk is not asked"
    assert not any(c.disputed for c in none)


@pytest.mark.long
def test_an_engine_that_ends_makes_no_case_and_no_end():
    lstm = case(
        "y, _ = LSTM<hidden_size=1>(x, w, r)", 14, "float[1,1,1] x, float[1,4,1] w, float[1,4,1] r", "float[1,1,1,1] y",
        x=X[:1, :1, None], w=np.ones((1, 4, 1), np.float32), r=np.ones((1, 4, 1), np.float32),
    )  # fmt: skip
    assert sweeps.verdicts([Base(lstm)], "zero")


def test_the_next_boundaries_and_the_last_ones_are_crossed():
    assert sweeps.targets(CLIP) == [7, 12]
    assert sweeps.targets(case("y = Mish(x)", 18, "float[2] x", "float[2] y")) == [7, 17, 22]


@pytest.fixture(scope="module")
def sample(published: list[Case]) -> list[Base]:
    newest = max((c.release for c in published), key=lambda text: [int(n) for n in text.split(".")])
    quick = [
        c for c in published if c.release == newest and c.ops.isdisjoint({"NonMaxSuppression", "Attention", "LSTM"})
    ]
    found = bases(random.Random(SEED).sample(quick, SIZE))
    return [base for base in found if base.case.release][:SIZE]


@pytest.mark.long
@pytest.mark.parametrize("sweep", SWEEPS)
def test_nothing_goes_wrong_in_a_sample(sample: list[Base], sweep: str):
    verdicts = sweeps.verdicts(sample, sweep)
    bad = [
        f"{v.case} {v.source}->{v.target} {v.status}: {v.why}"
        for v in verdicts
        if v.status in (WRONG, INVALID, CRASHED)
    ]
    assert not bad, "\n".join(bad)
    assert sum(v.status == OK for v in verdicts) > len(verdicts) / 2, "too few conversions to say anything"
    assert {v.status for v in verdicts} <= {OK, REFUSED, UNJUDGED, "ok by source"}
