"""A part of `python -m tests.lab random-networks`: the first networks of a seed."""

import numpy as np
import pytest
from opshift.passes.openvino import reader

from tests.random.layers import RECIPES

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from tests.random import openvino as networks  # noqa: E402


@pytest.mark.long
def test_random_networks_agree():
    outcomes = networks.judged(1, range(9))
    assert not [found for found in outcomes if found[0] not in networks.FINE]
    assert sum(outcome == "agrees" for outcome, _, _ in outcomes) >= 3


def test_a_seed_draws_the_same():
    drawn = [networks.told(networks.network(5, 7)[0]) for _ in range(2)]
    lines = [[line.partition(" [opset")[2].partition("(")[0] for line in text.splitlines()] for text in drawn]
    assert lines[0] == lines[1]
    assert lines[0]


@pytest.mark.long
def test_a_network_that_is_read_wrong_is_found(monkeypatch):
    read = reader.read

    def wrong(path):
        made = read(path)
        for node in made.model.graph.node:
            node.op_type = {"Max": "Min", "Mul": "Add"}.get(node.op_type, node.op_type)
        return made

    monkeypatch.setattr(networks.reader, "read", wrong)
    outcomes = networks.judged(0, range(4), "binary")
    assert "differs" in {outcome for outcome, _, _ in outcomes}


def test_every_recipe_makes_a_layer():
    missing = [name for name in RECIPES if not any(networks.network(0, number, name) for number in range(12))]
    assert not missing


@pytest.mark.parametrize(("held", "sane"), [([0, 1, 1], True), ([], True), ([0, 135, 1], False)])
def test_truths_that_nobody_wrote_are_not_believed(held, sane):
    """OpenVINO leaves out what follows a Unique of no element."""
    assert networks._is_sane(np.array(held, np.uint8).view(bool)) is sane


def negated(sizes, kind):
    x = openvino.opset13.parameter(sizes, kind)
    return openvino.Model([openvino.opset13.result(openvino.opset13.negative(x))], [x], "net")


@pytest.mark.parametrize(("sizes", "kind"), [([-1], np.float32), ([2], np.int32), ([2], np.float32)])
def test_openvino_is_asked_again_in_other_words(sizes, kind):
    fed, right, other = [np.array([1, 2], kind)], np.array([-1, -2], kind), np.array([], kind)
    assert networks._contradicts_itself(negated(sizes, kind), fed, 0, right)
    assert not networks._contradicts_itself(negated(sizes, kind), fed, 0, other)


@pytest.mark.parametrize(("lengths", "refused"), [([0, 3], True), ([1, 2], False)])
def test_a_network_that_openvino_refuses_when_it_knows_more_is_none(lengths, refused):
    """Parts of 0 and 3 rows are no factors, which OpenVINO sees where their numbers are constants."""
    made = openvino.opset13
    x, n = made.parameter([3, 3], np.float32), made.parameter([2], np.int64)
    parts = made.variadic_split(x, made.constant(0), n)
    model = openvino.Model([made.result(made.multiply(parts.output(1), parts.output(0)))], [x, n], "net")
    assert networks._contradicts_itself(model, [np.ones((3, 3), np.float32), np.array(lengths)]) is refused


@pytest.mark.parametrize(("fed", "outcome"), [(1, "unread"), (1.5, "differs")])
def test_what_a_rounding_decides_is_not_judged(monkeypatch, fed, outcome):
    """The floor of 1 is 0 where it is a rounding less, and that of 1.5 is 1."""
    x = openvino.opset13.parameter([2], np.float32)
    model = openvino.Model([openvino.opset13.result(openvino.opset13.floor(x))], [x], "net")
    monkeypatch.setattr(networks, "_expected", lambda *_: [np.zeros(2, np.float32)])
    monkeypatch.setattr(networks, "_contradicts_itself", lambda *_: False)
    assert networks.judge(model, [np.full(2, fed, np.float32)], 18)[0] == outcome


def test_weights_are_read_where_a_difference_is_looked_into(monkeypatch):
    flags, x = openvino.opset13.parameter([2000], bool), openvino.opset13.parameter([2000], np.float32)
    weights = openvino.opset13.constant(np.ones(2000, np.float32))
    model = openvino.Model([openvino.opset13.result(openvino.opset13.select(flags, x, weights))], [flags, x], "net")
    monkeypatch.setattr(networks, "_expected", lambda *_: [np.zeros(2000, np.float32)])
    monkeypatch.setattr(networks, "_contradicts_itself", lambda *_: False)
    assert networks.judge(model, [np.zeros(2000, bool), np.ones(2000, np.float32)], 18)[0] == "differs"


@pytest.mark.parametrize(("ends", "outcome"), [(False, "unread"), (True, "dies")])
def test_an_end_is_a_finding_where_openvino_has_no_part_in_it(monkeypatch, ends, outcome):
    def called(function, *_):
        if function is networks.judged or ends:
            raise networks.isolation.Ended(-11)

    monkeypatch.setattr(networks.isolation, "call", called)
    assert networks._of_the_end(5, 7, "", "it ended")[:2] == (outcome, "it ended")


def test_what_is_made_of_a_network_runs_alone():
    assert networks._run_made(5, 7, "") is None


def test_each_network_has_its_time(monkeypatch):
    limits = []
    monkeypatch.setattr(networks.isolation, "end_after", limits.append)
    networks.judged(5, range(3))
    networks._run_made(5, 0, "")
    assert limits == [networks.LIMIT] * 4
