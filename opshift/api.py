"""The Python API: convert, inline, plan and verify models, each a path, an `onnx.ModelProto` or an `onnx_ir.Model`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from opshift import files
from opshift.passes import convert, fit, schemas
from opshift.passes.backend import Backend
from opshift.passes.changes import Change
from opshift.passes.errors import InvalidModel, Refusal, Refused
from opshift.passes.expand import Op
from opshift.passes.names import bodies
from opshift.passes.obstacles import open_dimensions
from opshift.passes.protos import ModelProto, default_domain
from opshift.verification import Verification, verify_protos

if TYPE_CHECKING:
    import onnx
    import onnx_ir

    Model = onnx.ModelProto | onnx_ir.Model | str | os.PathLike[str]

Given = TypeVar("Given")
Target = int | str | Mapping[str, int] | Backend


@dataclass(frozen=True)
class Plan:
    """What a conversion would do.

    Attributes:
        changes: one entry for each node that a step would change, with its grade.
        refusals: the reasons why the model cannot be converted; empty if it can.
        nearest: where there are refusals, the opset nearest to the target that can be reached.
        needs: what is left to the user: dimensions to which the target needs numbers.
    """

    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]
    nearest: int | None = None
    needs: tuple[Refusal, ...] = ()

    @property
    def grade(self) -> str:
        """`exact`: the same values for every input. `close`: the same real-number function, other rounding."""
        return "close" if any(change.grade == "close" for change in self.changes) else "exact"


def convert_version(model: Given, target_version: Target, *, ir_version: int | None = None) -> Given:
    """Convert a model to another opset, up or down; a drop-in for `onnx.version_converter.convert_version`.

    Args:
        model: a path, an `onnx.ModelProto` or an `onnx_ir.Model`; it is never changed.
        target_version: an opset of the default domain, `"latest"`, the name of a target such as
            `"onnxruntime-1.8"`, or opsets by domain, such as `{"": 13, "ai.onnx.ml": 2}`.
        ir_version: the IR version to write; without it, the one that was current when the opset came out, or the
            lowest above that which a feature of the model needs.

    Returns:
        A converted copy of the same kind; an `onnx.ModelProto` for a path (external data stay references).

    Raises:
        Refused: the model cannot be expressed at the target; every reason is listed.
        InvalidModel: the model cannot be read, or imports opsets that are not known.
        ValueError: an unknown target.
    """
    proto, folder = load(model)
    targets, ir = resolve(target_version)
    result = convert.convert(proto, targets, ir_version=ir_version or ir, folder=folder)
    return _like(model, result, folder)


def inline(
    model: Given,
    ops: Iterable[str] = (),
    target: Target | None = None,
    *,
    domain: str | None = None,
    ir_version: int | None = None,
) -> Given:
    """Replace operators by their definitions in more elementary operators.

    Args:
        model: as for `convert_version`.
        ops: operators to replace wherever they occur, such as `"ReduceL2"` or `"domain::Name"`; the model's own
            functions can be named too.
        target: an opset to convert to at the same time; or a backend by name (`"rknn-2.1"`, see `opshift targets`) or
            by the path of a TOML file: everything that it lacks is replaced, to any depth, at an opset and an IR
            version that it reads. The model keeps its opset where that will do.
        domain: replace all operators of a domain, the model's own functions among them.
        ir_version: as for `convert_version`.

    Returns:
        A rewritten copy of the same kind; see `convert_version`.

    Raises:
        Refused: an operator has no definition, or one that does not fit the types or shapes of a call, or the backend
            does not read what is left; every node is named.
        InvalidModel: as for `convert_version`.
        ValueError: as for `convert_version`, or there is nothing to replace.
    """
    proto, folder = load(model)
    wanted = named(proto, ops, domain)
    if not wanted and target is None:
        raise ValueError("name operators, a domain or a target")
    backend = backend_of(target)
    if backend is not None:
        fitted = fit.attempt(proto, backend, ops=wanted, ir_version=ir_version, folder=folder)
        if fitted.model is None:
            raise Refused(fitted.refusals, target=backend.name)
        return _like(model, fitted, folder)
    targets, _ = resolve(target) if target is not None else (own_opset(proto), None)
    result = convert.convert(proto, targets, ops=wanted, ir_version=ir_version, folder=folder)
    return _like(model, result, folder)


def plan(model: Any, target: Target, *, ops: Iterable[str] = (), domain: str | None = None) -> Plan:
    """What bringing `model` to `target` would change, and what would be refused and why; writes nothing.

    Args:
        model: as for `convert_version`.
        target: an opset, or opsets by domain, as for `convert_version`; or a backend, as for `inline`.
        ops: operators to replace by their definitions on the way, as for `inline`.
        domain: replace all operators of a domain on the way, as for `inline`.

    Returns:
        The changes with their grades, or the refusals with the nearest opset that can be reached.

    Raises:
        InvalidModel: as for `convert_version`.
        ValueError: as for `convert_version`.
    """
    proto, folder = load(model)
    wanted = named(proto, ops, domain)
    backend = backend_of(target)
    if backend is not None:
        fitted = fit.attempt(proto, backend, ops=wanted, folder=folder)
        return Plan(fitted.changes, fitted.refusals, needs=tuple(open_dimensions(proto, backend)))
    targets, ir = resolve(target)
    result = convert.attempt(proto, targets, ops=wanted, ir_version=ir, folder=folder)
    reached = None
    if result.refusals:
        reached = convert.nearest(proto, result.refusals, targets, folder)
    return Plan(result.changes, result.refusals, reached)


def verify(before: Any, after: Any, *, grade: str = "exact", seed: int = 0) -> Verification:
    """Run two models on the same seeded inputs and compare their outputs.

    Both run in onnxruntime with graph optimizations off; what it cannot load runs in onnx.reference. Symbolic
    dimensions take several sizes, integer inputs values that are valid where they are used.

    Args:
        before: the model that counts as right; as for `convert_version`.
        after: the model to compare with it, with inputs and outputs of the same names in the same order.
        grade: the tolerance. `"exact"`: 32 units of the type's precision, at the scale of the tensor, for kernels that
            add in another order; `"close"`: 4096, for another formula of the same function. Integers, booleans and
            strings must be equal, NaN and infinities in the same places.
        seed: of the random inputs.

    Returns:
        `equal`, `different` with the first tensor that differs, or `unverified` with the reason.

    Raises:
        InvalidModel: a model cannot be read.
    """
    (one, one_folder), (other, other_folder) = load(before), load(after)
    return verify_protos(one, other, grade=grade, seed=seed, before_folder=one_folder, after_folder=other_folder)


def load(model: Any) -> tuple[ModelProto, str | None]:
    """The message behind what a user gave, and the folder in which its external data lie."""
    if isinstance(model, (str, os.PathLike)):
        return files.read(model), str(Path(model).resolve().parent)
    if isinstance(model, ModelProto):
        return model, None
    if type(model).__module__.partition(".")[0] == "onnx_ir":
        import onnx_ir

        return onnx_ir.to_proto(model), None
    raise InvalidModel(f"a path, an onnx.ModelProto or an onnx_ir.Model is needed, not {type(model).__name__}")


def _like(given: Given, result: convert.Result, folder: str | None) -> Given:
    assert result.model is not None, "what is refused raises"
    proto: Any = result.model if folder is None else files.embedded(result.model, folder)
    if type(given).__module__.partition(".")[0] == "onnx_ir":
        import onnx_ir

        proto = onnx_ir.from_proto(proto)
    return cast(Given, proto)


def resolve(target: Target) -> tuple[dict[str, int], int | None]:
    """The opsets by domain that a user's target stands for, and the IR version of a named target."""
    if isinstance(target, Mapping):
        return {default_domain(d): _known(d, v) for d, v in target.items()}, None
    if isinstance(target, int):
        return {"": _known("", target)}, None
    if target == "latest":
        return {"": schemas.latest()}, None
    backend = backend_of(target)
    if backend is None:
        return {"": _known("", int(str(target)))}, None
    if not backend.opset:
        raise ValueError(f"the source of {backend.name} names no opset: {backend.source}")
    return {"": backend.opset}, backend.ir_version or None


def backend_of(target: Target | None) -> Backend | None:
    """The backend that a user's target names; None for opsets."""
    if isinstance(target, Backend):
        return target
    if not isinstance(target, str) or target == "latest" or target.isdigit():
        return None
    from opshift.backends import find

    return find(target)


def named(model: ModelProto, ops: Iterable[str], domain: str | None) -> list[Op]:
    """The operators that a user names, one by one and by domain."""
    found = [operator(op) for op in ops]
    if domain is not None:
        wanted = default_domain(domain)
        used = {(default_domain(n.domain), n.op_type) for body in bodies(model) for n in body.node}
        members = sorted(op for op in used if op[0] == wanted)
        if not members:
            raise ValueError(f"the model uses no operator of domain {domain!r}")
        found += members
    return found


def _known(domain: str, opset: int) -> int:
    if not schemas.known_domain(domain):
        raise ValueError(f"the operators of domain {domain!r} are not known")
    if not 1 <= opset <= schemas.latest(domain):
        raise ValueError(f"opset {opset} is not known; 1 to {schemas.latest(domain)} are")
    return opset


def own_opset(model: ModelProto) -> dict[str, int]:
    """The default-domain opset that a model imports, as a target."""
    return {"": convert.opsets(model).get("", schemas.latest())}


def operator(name: str) -> Op:
    """`"Name"` or `"domain::Name"` as (domain, name)."""
    domain, _, op = name.rpartition("::")
    return default_domain(domain), op
