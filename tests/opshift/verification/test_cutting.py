"""A part is run in its place in the whole model; two joined models in turn."""

import numpy as np
import pytest
from opshift.passes.inputs.parts import part_of
from opshift.passes.surgery.extraction import cut_out, find_border, types_of

from opshift.verification import cutting
from opshift.verification.feeding.asked import DRAWN, Asked
from opshift.verification.side import Side
from opshift.verification.verify import apart
from opshift.verification.whole import too_large
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")


def whole():
    return model(
        "a = Abs(x) b = Add(a, w) y = Exp(b)", 17, constants="float w = {1}", inputs="float[N] x", outputs="float[N] y"
    )


def parted():
    source = whole()
    ends = find_border(source, part_of(start="a"))
    return source, cut_out(source, ends, types_of(source, ends))


def test_a_part_yields_what_the_whole_does():
    source, part = parted()
    captured = cutting.capture(Side(source), ["a", "y"], DRAWN)
    assert captured.engine == "onnxruntime"
    assert len(captured.given) == len(captured.values) >= 2
    np.testing.assert_array_equal(captured.values[0]["a"], np.abs(captured.given[0]["x"]))
    found = cutting.verify_part(Side(part), captured)
    assert (found.status, found.is_same, found.runs) == ("equal", True, len(captured.given))


def test_a_part_that_yields_something_else_is_told():
    source, part = parted()
    part.graph.initializer[0].float_data[0] = 1.5
    captured = cutting.capture(Side(source), ["a", "y"], DRAWN)
    found = cutting.verify_part(Side(part), captured)
    assert (found.status, found.tensor) == ("different", "y")
    part.graph.node[0].op_type = "MatMul"
    assert apart(cutting.verify_part, Side(part), captured).status in ("different", "unverified")


def test_what_no_engine_runs_is_not_compared():
    source = model("a = my.Op(x) y = Abs(a)", 17, domains='"my" : 1', inputs="float[3] x", outputs="float[3] y")
    captured = cutting.capture(Side(source), ["a"], DRAWN)
    assert not captured.given
    assert captured.why
    assert cutting.verify_part(Side(source), captured).status == "unverified"


def test_weights_of_more_than_a_gigabyte_are_run_on_request(monkeypatch):
    monkeypatch.setattr("opshift.verification.whole.MOST", 3)
    assert too_large(DRAWN, Side(whole())) == 4
    assert not too_large(Asked(runs=1), Side(whole()))
