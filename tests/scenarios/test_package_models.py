"""The models shipped inside the onnx package: each goes through the command line once, and through the API elsewhere."""

import onnx
import onnx.checker
import pytest
from opshift.passes.conversion import convert

from opshift.verification.combined import verify_sides
from opshift.verification.side import Side
from tests import pairs
from tests.scenarios.package_models import LIGHT, LIGHT_OPSETS, OPSETS, SMALL, converted, is_exported, name

pytestmark = pytest.mark.usefixtures("in_this_process")  # what parts them is tested elsewhere
PROVED = {"light_squeezenet"}


def turns(paths, opsets):
    """Each model with one of the opsets and the other ones, or one of these for every second; each has its turn."""
    for index, path in enumerate(paths):
        turn = index % len(opsets)
        others = [opset for opset in opsets if opset != opsets[turn]]
        if not pairs.whole:
            others = [others[index // len(opsets) % len(others)]] if index % 2 else []
        yield pytest.param(path, opsets[turn], others, id=f"{name(path)}-{opsets[turn]}")


def attempt(path, target):
    """The model, and what it becomes, which is valid; None where it is refused."""
    source = onnx.load(path)
    result = convert.attempt(source, {"": target})
    assert result.model is not None or not is_exported(path), "\n".join(map(str, result.refusals))
    if result.model is not None:
        onnx.checker.check_model(result.model)
    return source, result


def test_the_package_has_them_all():
    assert len(SMALL) >= 130
    assert len(LIGHT) == 9


@pytest.mark.parametrize(("path", "target", "others"), pairs.some(list(turns(SMALL, OPSETS)), 3))
def test_small_models(path, target, others, tmp_path):
    converted(path, target, tmp_path)
    for other in others:
        source, result = attempt(path, other)
        if result.model is not None:
            found = verify_sides(Side(source), Side(result.model), grade=result.grade)
            assert found.status in ("equal", "unverified"), found.why
            assert found.equal or not is_exported(path), found.why


@pytest.mark.parametrize(("path", "target", "others"), list(turns(LIGHT, LIGHT_OPSETS)))
def test_light_models(path, target, others, tmp_path):
    """Their weights, which they make when they run, are half a billion bytes: the smallest one runs, or all with `--whole`."""
    converted(path, target, tmp_path, proved=pairs.whole or path.stem in PROVED)
    for other in others:
        attempt(path, other)
