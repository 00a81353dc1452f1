"""The stages are applied in order, a backend reads what comes of them, and reports tell what each did."""

import re
from pathlib import Path

import pytest
from opshift.passes.backends.backend import Backend
from opshift.passes.changes import Allowance, Change, Result
from opshift.passes.errors import InvalidModel
from opshift.passes.goals import Goal, Refinement
from opshift.passes.model.messages import ModelProto
from opshift.passes.stages import fold, optimize
from opshift.passes.stages.stage import Facts, apply_stages

from tests.support import model, show


@pytest.fixture
def calls(monkeypatch):
    """What is called in which order; folding puts an Abs into a model that has none, whatever is lacking."""
    told = []

    def folded(source, *, ops=None, lacking=(), allowance=None, folder=None):
        told.append(("fold", ops, set(lacking)))
        made = ModelProto.FromString(source.SerializeToString())
        if made.graph.node[0].op_type == "Abs":
            return Result(made, (), ())
        made.graph.node[0].op_type = "Abs"
        return Result(made, (Change("y", "Abs", "", 13, 13, "folded", "close"),), ())

    def optimized(source, *, allowance=None, folder=None, survey=None):
        told.append(("optimize", source.graph.node[0].op_type))
        return Result(ModelProto.FromString(source.SerializeToString()), (Change("y", "", "", 13, 13, "better"),), ())

    monkeypatch.setattr(fold, "fold", folded)
    monkeypatch.setattr(optimize, "optimize", optimized)
    return told


def refined(source, wanted):
    return apply_stages(Goal(refinement=wanted).stages(), source, Facts(), Allowance())


def source(op="Neg"):
    return model(f"y = {op}(x)", 13, inputs="float[2] x", outputs="float[2] y")


def test_folding_comes_before_optimization_and_after_it(calls):
    result = refined(source(), Refinement(True, optimize=True))
    assert [name for name, *_ in calls] == ["fold", "optimize", "fold"]
    assert [change.how for change in result.changes] == ["folded", "better"]
    assert (result.grade, result.folded) == ("close", 1)


def test_what_is_folded_after_optimization_is_optimized_again(calls, monkeypatch):
    """Here optimization puts back what was there, so that there is something to fold once more."""

    def undone(given, *, allowance=None, folder=None, survey=None):
        calls.append(("optimize", given.graph.node[0].op_type))
        return Result(source(), (), ())

    monkeypatch.setattr(optimize, "optimize", undone)
    result = refined(source(), Refinement(True, optimize=True))
    assert [name for name, *_ in calls] == ["fold", "optimize", "fold", "optimize"]
    assert result.folded == 2


@pytest.mark.parametrize(
    ("wanted", "slow"),
    [
        (Refinement(True), False),
        (Refinement(True, optimize=True), True),
        (Refinement(True, frozenset([("", "GroupNormalization")]), optimize=True), False),
        (Refinement(True, optimize=True, backend=Backend("npu", opset=13)), False),
    ],
)
def test_optimizing_brings_nothing_in_that_onnxruntime_takes_apart_unless_it_is_named(calls, wanted, slow):
    refined(source(), wanted)
    brought = [(name, ("", "GroupNormalization") in rest[-1]) for name, *rest in calls if name == "fold"]
    assert brought
    assert set(brought) == {("fold", slow)}


def test_without_folding_there_is_one_optimization(calls):
    result = refined(source(), Refinement(optimize=True))
    assert calls == [("optimize", "Neg")]
    assert result.folded is None


def test_nothing_is_done_unless_asked_nor_with_a_refusal(calls):
    given = source()
    assert refined(given, Refinement()).model is given
    refused = Goal({"": 7}, refinement=Refinement(True, optimize=True)).run(
        model("y = ImageDecoder(x)", 20, inputs="uint8[2] x", outputs="uint8[A,B,C] y")
    )
    assert refused.refusals
    assert [report.name for report in refused.stages] == ["convert to opset 7"]
    assert calls == []


def test_a_backend_reads_what_comes_out_or_nothing_is_done(calls):
    backend = Backend("npu", opset=13, lacks={("", "Abs"): 1})
    given = source()
    made = Goal(refinement=Refinement(True, backend=backend)).run(given)
    assert [("", "Abs") in lacking for _, _, lacking in calls] == [True, True, True]
    assert show(made.model) == "y = Neg(x)"
    assert made.model is not given
    assert (made.changes, made.folded) == ((), 0)


def test_folding_stays_where_only_optimization_makes_what_is_not_read(monkeypatch):
    def folded(source, *, ops=None, lacking=(), allowance=None, folder=None):
        made = ModelProto.FromString(source.SerializeToString())
        made.graph.node[0].op_type = "Abs"
        return Result(made, (Change("y", "Abs", "", 13, 13, "folded"),), ())

    def optimized(source, *, allowance=None, folder=None, survey=None):
        made = ModelProto.FromString(source.SerializeToString())
        made.graph.node[0].op_type = "Floor"
        return Result(made, (Change("y", "Floor", "", 13, 13, "better"),), ())

    monkeypatch.setattr(fold, "fold", folded)
    monkeypatch.setattr(optimize, "optimize", optimized)
    backend = Backend("npu", opset=13, lacks={("", "Floor"): 1})
    made = refined(source(), Refinement(True, optimize=True, backend=backend))
    assert show(made.model) == "y = Abs(x)"
    assert [change.how for change in made.changes] == ["folded"]


def test_what_the_backend_did_not_read_before_is_no_obstacle(calls):
    backend = Backend("npu", opset=12)
    made = refined(source(), Refinement(True, backend=backend))
    assert show(made.model) == "y = Abs(x)"


def test_optional_changes_for_a_backend_can_be_taken_back():
    given = model("a = Identity(x) y = Neg(a)", 13, inputs="float[2] x", outputs="float[2] y")
    goal = Goal(refinement=Refinement(optimize=True, backend=Backend("npu", opset=13)))
    whole = goal.run(given)
    assert whole.optional == whole.changes != ()
    assert not goal.run(given, None, Allowance(most=0)).changes


def test_a_model_that_is_not_valid_is_named(monkeypatch):
    def broken(*_, **__):
        raise IndexError("node.input")

    monkeypatch.setattr(fold, "fold", broken)
    invalid = source()
    del invalid.graph.node[0].input[:]
    with pytest.raises(InvalidModel, match="the model is not valid: Neg"):
        refined(invalid, Refinement(True))
    with pytest.raises(IndexError):
        refined(source(), Refinement(True))


class Counted:
    """A stage that makes a change as often as it is told to."""

    optional = False

    def __init__(self, name, times, settles=""):
        self.name, self.times, self.settles = name, times, settles

    def apply(self, model, facts, allowance):
        if not self.times:
            return Result(model, (), ())
        self.times -= 1
        return Result(ModelProto.FromString(model.SerializeToString()), (Change("y", "Neg", "", 13, 13, "how"),), ())


def test_a_stage_that_settles_something_waits_until_the_model_changes():
    once, other = Counted("once", 3, "done"), Counted("other", 1)
    result = apply_stages([once, once, other, once], source(), Facts(), Allowance())
    assert [(report.name, report.changes) for report in result.stages] == [
        ("once", 1),
        ("once", 0),
        ("other", 1),
        ("once", 1),
    ]
    assert once.times == 1


def test_the_survey_is_dropped_with_the_model_that_it_is_of():
    facts = Facts(survey=object())
    apply_stages([Counted("idle", 0)], source(), facts, Allowance())
    assert facts.survey is not None
    apply_stages([Counted("busy", 1)], source(), facts, Allowance())
    assert facts.survey is None


def test_the_stage_that_contributing_shows_runs():
    """Subgraphs and functions are walked, each node is a change, and a second run finds nothing."""
    text = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    space = {"__name__": "drop_metadata"}
    exec(compile(re.search(r"^```py\n(.*?)^```$", text, re.M | re.S)[1], "CONTRIBUTING.md", "exec"), space)
    stage = space["DropMetadata"]()
    of = model(
        "y = If(c) <then_branch = t () => (a) { a = Abs(x) }, else_branch = e () => (b) { b = Neg(x) }>",
        17,
        inputs="bool c, float[2] x",
        outputs="float[2] y",
    )
    of.graph.node[0].metadata_props.add(key="from", value="an exporter")
    of.graph.node[0].attribute[0].g.node[0].metadata_props.add(key="from", value="an exporter")
    done = apply_stages([stage, stage], of, Facts(), Allowance())
    assert [change.op for change in done.changes] == ["If", "Abs"]
    assert [report.changes for report in done.stages] == [2, 0]
    assert b"exporter" not in done.model.SerializeToString()
    assert stage.apply(done.model, Facts(), Allowance()).model is done.model
