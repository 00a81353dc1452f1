"""The verifier is given wrong models, and honest ones: it tells them apart in each precision and grade."""

import pytest
from onnx import ModelProto, TensorProto

import opshift
from opshift.verification.combined import verify_sides
from opshift.verification.side import Side
from tests import pairs
from tests.lab.proof.mutants import GRADES, MODELS, PRECISIONS, plain

pytestmark = pytest.mark.usefixtures("in_this_process")

COMBINATIONS = [(elem_type, grade) for elem_type in PRECISIONS for grade in GRADES]
STEP = 4  # of the mutants; each goes through one of the combinations


@pytest.mark.parametrize("name", MODELS)
def test_plain_mutants_are_caught(name):
    step = STEP if pairs.whole else 2 * STEP
    found = list(plain(MODELS[name], step))
    assert len(found) > 3
    for number, mutant in enumerate(found):
        elem_type, grade = COMBINATIONS[number % len(COMBINATIONS)]
        source = MODELS[name](elem_type)
        judged = verify_sides(Side(source), Side(mutant.of(source)), grade=grade)
        assert judged.status == "different", (mutant.name, elem_type, grade)


@pytest.mark.parametrize("elem_type", PRECISIONS)
@pytest.mark.parametrize("name", MODELS)
def test_honest_forms_are_equal(name, elem_type):
    source = MODELS[name](elem_type)
    assert verify_sides(Side(source), Side(opshift.optimize(source)), grade="close").equal
    grown = opshift.convert_version(source, 21)
    assert verify_sides(Side(source), Side(_reordered(grown)), grade="exact").equal


def _reordered(model: ModelProto) -> ModelProto:
    """Sums with their terms exchanged, which no engine may take for another function."""
    for node in model.graph.node:
        if node.op_type in ("Add", "Mul"):
            node.input[:] = [node.input[1], node.input[0]]
    return model


def test_forms_of_two_precisions_are_compared_and_cast():
    single, half = (MODELS["encoder"](kind) for kind in (TensorProto.FLOAT, TensorProto.FLOAT16))
    found = verify_sides(Side(single), Side(half), grade="close")
    assert found.equal
    assert found.cast[0] == "x"
    assert verify_sides(Side(half), Side(single), grade="close").equal
    mutant = next(m for m in plain(MODELS["encoder"]) if m.name.endswith("zeroed"))
    assert not verify_sides(Side(single), Side(mutant.of(half)), grade="close")
