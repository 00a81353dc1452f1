"""Check declared shapes by ONNX's strict inference, as `onnx.checker` does, and correct wrong ones."""

from __future__ import annotations

from collections.abc import Container

from opshift.passes import process
from opshift.passes.analysis import claims
from opshift.passes.analysis.inferring.inferred_defaults import state_all
from opshift.passes.analysis.inferring.untyped_inputs import infer_shapes
from opshift.passes.analysis.inferring.weightless import check_installed, room, without_weights
from opshift.passes.changes import Change
from opshift.passes.model.messages import ModelProto, TypeProto
from opshift.passes.model.traversal import census, declarations
from opshift.passes.model.types import has_shape


def contradiction(source: ModelProto, *, checked: bool = True) -> str:
    """Return the error of ONNX's strict inference for a model; empty if there is none.

    With `checked`, defaults are assumed as `onnx.checker` does.
    """
    light = without_weights(source, checked=checked)
    check_installed(light)
    try:
        with process.at_most(lambda: room(light)):
            infer_shapes(light, check_type=True, strict_mode=True)
    except MemoryError:
        return "vectors that it computes are too long"
    except Exception as error:
        return " ".join(str(error).split())
    return ""


def _infer_without_declarations(model: ModelProto, names: Container[str]) -> dict[str, TypeProto]:
    """Infer the shapes of these values without their declarations."""
    light = without_weights(model, checked=True)
    for value in declarations(light):
        if value.name in names:
            claims.forget(value.type)
    try:
        with process.at_most(lambda: room(light)):
            inferred = infer_shapes(light)
    except Exception:  # what it cannot digest stays as it is declared
        return {}
    return {v.name: v.type for v in declarations(inferred) if v.name in names and has_shape(v.type)}


def mend(model: ModelProto, source: ModelProto) -> list[Change]:
    """Correct shapes that `source` declares and onnx infers otherwise in `model`; returns a change for each.

    If strict inference still finds an error, sizes that inference does not confirm become dynamic.
    """
    state_all(*census([*reversed(model.functions), model.graph]))
    declared = claims.find_declared(source)
    known = _infer_without_declarations(model, declared)
    claims.mend(model, known)
    if contradiction(model):
        claims.open_unconfirmed(model, declared, known)
    return list(claims.find_contradictions(source, lambda _, name: known.get(name)))
