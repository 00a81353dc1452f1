"""Every attribute that OpenVINO's operators have is read, or changes nothing for a reason that is told."""

from types import CodeType, FunctionType

import pytest
from opshift.passes.openvino import translate  # noqa: F401 (registers the layers)
from opshift.passes.openvino.idle import IDLE
from opshift.passes.openvino.layer import MAPPINGS

openvino = pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")

from openvino.utils.node_factory import NodeFactory  # noqa: E402

PACKAGE = "opshift.passes.openvino"
FACTORIES = [NodeFactory(f"opset{version}") for version in range(1, 17)]


def attributes(kind):
    """Of all versions of an operator."""
    found = set()
    for factory in FACTORIES:
        try:
            found |= set(factory.create(kind).get_attributes())
        except RuntimeError:  # this opset has ONNX has no such operator
            continue
    return found


def texts(function):
    """All texts in a function and in what it reaches in its package."""
    found, seen, pending = set(), set(), [function]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            found.add(part)
        elif isinstance(part, (tuple, frozenset)):
            pending += part
        elif isinstance(part, property):
            pending.append(part.fget)
        elif isinstance(part, (type, FunctionType)) and part.__module__.startswith(PACKAGE) and part not in seen:
            seen.add(part)
            if isinstance(part, type):
                pending += vars(part).values()
                continue
            codes = [part.__code__]
            while codes:
                code = codes.pop()
                pending += [part.__globals__.get(name) for name in code.co_names]
                pending += [value for value in code.co_consts if not isinstance(value, CodeType)]
                codes += [value for value in code.co_consts if isinstance(value, CodeType)]
    return found


def test_no_attribute_is_forgotten():
    forgotten = {}
    for kind, mapping in MAPPINGS.items():
        known = texts(mapping)
        known |= {f"{name}_mask" for name in known} if kind == "StridedSlice" else set()
        if missing := attributes(kind) - known - IDLE.get(kind, {}).keys():
            forgotten[kind] = missing
    assert not forgotten


def test_operators_tell_their_attributes():
    assert {"kernel", "rounding_type", "index_element_type"} <= attributes("MaxPool")
    assert sum(len(attributes(kind)) for kind in MAPPINGS) > 200


def test_texts_are_those_that_a_function_reaches():
    assert "sampling_ratio" in texts(MAPPINGS["ROIAlign"])
    assert "sampling_ratio" not in texts(MAPPINGS["ROIPooling"])
