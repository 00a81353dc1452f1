"""The lowest opset that a definition reaches, found by converting calls: onnx's node tests, and a few of our own."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from functools import cache

import onnx.parser
from onnx import ModelProto, TensorProto
from onnx.backend.test.case import node

from opshift import functions
from opshift.passes.conversion import convert
from opshift.passes.inlining import definable
from opshift.passes.model import imports, schemas

_COMMON = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL}
_X = "float[2,3] x"
_SEQUENCE = (
    "s = SequenceConstruct(x, x) i = SequenceInsert(s, x) r = SequenceErase(i, zero) a = SequenceAt(r, zero)"
    "b = ConcatFromSequence<axis = 0>(r) y = Concat<axis = 0>(a, b)"
)
_OURS = {  # the body, input and output of a call at opset 20, where onnx publishes none of a single node
    "GlobalLpPool": ("y = GlobalLpPool(x)", "float[2,3,4] x", "float[2,3,1] y"),
    "Multinomial": ("y = Multinomial<sample_size = 2>(x)", _X, "int32[2,2] y"),
    "Optional": ("o = Optional(x) y = OptionalGetElement(o)", _X, "float[2,3] y"),
    "SplitToSequence": ("s = SplitToSequence<axis = 1>(x) y = SequenceAt(s, zero)", _X, "float[2,1] y"),
    "SequenceEmpty": ("e = SequenceEmpty() s = SequenceInsert(e, x) y = SequenceAt(s, zero)", _X, "float[2,3] y"),
    "SequenceLength": ("s = SequenceConstruct(x, x) y = SequenceLength(s)", _X, "int64 y"),
    "SequenceConstruct": (_SEQUENCE, _X, "float[6,3] y"),
    "SequenceInsert": (_SEQUENCE, _X, "float[6,3] y"),
    "SequenceErase": (_SEQUENCE, _X, "float[6,3] y"),
    "SequenceAt": (_SEQUENCE, _X, "float[6,3] y"),
    "ConcatFromSequence": (_SEQUENCE, _X, "float[6,3] y"),
    f"{functions.OPENVINO}.ReduceL1": (f"y = {functions.OPENVINO}.ReduceL1(x, axes)", _X, "float[2] y"),
    f"{functions.OPENVINO}.NormalizeL2": (
        f'y = {functions.OPENVINO}.NormalizeL2<eps = 0.1, eps_mode = "add">(x, axes)', _X, "float[2,3] y",
    ),
}  # fmt: skip


@cache
def lowest_opset(domain: str, op: str) -> int | None:
    """The lowest opset at which a call is replaced by the definition; None if no call is.

    The first call that can be replaced at all counts, those of float32 and types as old before others. The opset
    is that of the operator's domain, or the default one where that is none of ONNX's.
    """
    counted = "" if domain in (definable.TRAINING, functions.OPENVINO) else domain
    for call in _calls(domain, op):
        for opset in range(1, imports.opsets(call).get(counted, schemas.latest()) + 1):
            if convert.convert_model(call, {counted: opset}, ops=[(domain, op)]).model is not None:
                return opset
    return None


def _calls(domain: str, op: str) -> list[ModelProto]:
    name = f"{domain}.{op}" if domain else op
    if name in _OURS:
        body, given, made = _OURS[name]
        header = f'<ir_version: 8, opset_import: ["" : 20, "{functions.OPENVINO}" : 1]>'
        held = "<int64 zero = {0}, int64[1] axes = {1}>"
        return [onnx.parser.parse_model(f"{header} g ({given}) => ({made}) {held} {{ {body} }}")]
    return sorted(_node_test_models(domain, op), key=lambda model: not _common(model))


def _common(call: ModelProto) -> bool:
    elem_types = {value.type.tensor_type.elem_type for value in call.graph.input}
    return TensorProto.FLOAT in elem_types <= _COMMON


def _node_test_models(domain: str, op: str) -> list[ModelProto]:
    """The models of onnx's node tests that are one call of the operator; a module makes its own when imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in (op.lower(), f"{op.lower()}op"):
            if name in _modules():
                importlib.import_module(_modules()[name])
    cases = [case for case in node._NodeTestCases if case.model is not None and len(case.model.graph.node) == 1]
    found = {
        case.name: case.model for case in cases for n in case.model.graph.node if (n.domain, n.op_type) == (domain, op)
    }
    return [found[name] for name in sorted(found)]


@cache
def _modules() -> dict[str, str]:
    """The modules of node tests by the operator's name."""
    found = pkgutil.walk_packages(node.__path__, f"{node.__name__}.")
    return {module.name.rpartition(".")[2].replace("_", ""): module.name for module in found}
