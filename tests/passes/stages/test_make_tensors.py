"""Maps become tensors before all else, and what is compared with the result has them, too."""

import onnx
import pytest
from opshift.passes.changes import Allowance
from opshift.passes.goals import Goal, inlining, with_tensors
from opshift.passes.stages.make_tensors import MakeTensors
from opshift.passes.stages.stage import Facts

from opshift.cli.main import main
from tests.classical import store

pytestmark = pytest.mark.usefixtures("in_this_process")

ZIPPED = store.read("forest_zipmap")[0]


def is_tensor(value):
    return value.type.HasField("tensor_type")


def test_the_stage_stands_first_where_it_is_asked_for():
    goal = with_tensors(inlining((), portable=True), "tensor", None)
    assert [stage.name for stage in goal.stages()] == ["replace maps by tensors", "replace vendor operators"]
    assert (goal.zipmap, goal.maps) == (True, False)
    assert "replace maps by tensors" not in [stage.name for stage in inlining((), portable=True).stages()]


def test_the_stage_says_what_became_a_tensor():
    result = MakeTensors(zipmap=True, maps=False).apply(ZIPPED, Facts(), Allowance())
    assert all(map(is_tensor, result.model.graph.output))
    assert [change.op for change in result.changes] == ["ZipMap"]
    assert not is_tensor(ZIPPED.graph.output[1])


def test_a_model_without_maps_stays():
    source = store.read("forest_many")[0]
    result = MakeTensors(zipmap=True, maps=True).apply(source, Facts(), Allowance())
    assert (result.model, result.changes) == (source, ())


def test_the_goal_is_named_after_it():
    assert with_tensors(Goal(), "tensor", None).label == "tensors"
    assert with_tensors(Goal({"": 13}), None, "tensor").label == "opset13"


@pytest.mark.parametrize("more", [["--domain", "ai.onnx.ml"], ["--portable"], []])
def test_the_result_is_proved_with_tensors_on_both_sides(more, tmp_path, capsys):
    source, output = str(tmp_path / "m.onnx"), str(tmp_path / "o.onnx")
    onnx.save(ZIPPED, source)
    assert main(["inline", source, output, "--zipmap", "tensor", *more]) == 0
    told = capsys.readouterr().out
    assert "1 x ZipMap, exact" in told
    assert "equal: " in told
    assert all(map(is_tensor, onnx.load(output).graph.output))
