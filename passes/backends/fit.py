"""Makes a model one that a backend reads: its opset, its IR version, and none of the operators that it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opshift.passes.backends.backend import Backend
from opshift.passes.changes import Result
from opshift.passes.conversion import convert, ir_versions
from opshift.passes.errors import Refusal
from opshift.passes.model import imports, schemas
from opshift.passes.model.kinds import Survey
from opshift.passes.model.messages import ModelProto, default_domain
from opshift.passes.model.traversal import Op, bodies
from opshift.passes.records import replace

_ML = "ai.onnx.ml"


def attempt(
    source: ModelProto,
    backend: Backend,
    *,
    ops: Iterable[Op] = (),
    ir_version: int | None = None,
    folder: str | None = None,
) -> Result:
    """`convert.attempt` at the opset that the backend reads and that is nearest to the model's own.

    Expands what the backend lacks, and `ops`, to any depth. An operator of which it does not take some call is
    expanded, too, wherever it occurs. Where that fails, other opsets are tried at which the backend has other
    operators; the refusals are those of the attempt that had fewest.
    """
    if ir_version is None and _is_read(source, backend, frozenset(ops), folder):
        return Result(source, (), ())
    own = imports.opsets(source).get("", schemas.latest())
    if any(not backend.has(*op, imports.opsets(source).get(_ML, 1)) for op in classical(source)):
        own = imports.roomiest(source) or schemas.newest_opset(source.ir_version)
    failures: list[Result] = []
    for opset in backend.opsets_to_try(own):
        targets = {"": opset, **ml_opset(source, backend)}
        follows = ir_versions.wanted(source, targets, ir_version)
        asked = ir_version or (backend.ir_version if 0 < backend.ir_version < follows else None)
        wanted = {*ops, *_lacking(source, backend, targets)}
        result = _checked(
            convert.attempt(source, targets, ops=wanted, ir_version=asked, folder=folder), backend, folder
        )
        beyond = {(r.domain, r.op) for r in result.refusals if schemas.versions(r.domain, r.op)} - wanted
        if result.model is None and beyond:
            wanted |= beyond
            again = _checked(
                convert.attempt(source, targets, ops=wanted, ir_version=asked, folder=folder), backend, folder
            )
            result = again if again.model is not None else result
        if result.model is not None:
            return result
        failures.append(result)
    return min(failures, key=lambda failure: len(failure.refusals))


def at_opset(
    source: ModelProto,
    targets: Mapping[str, int],
    backend: Backend | None,
    ops: Iterable[Op] = (),
    ir_version: int | None = None,
    folder: str | None = None,
    survey: Survey | None = None,
) -> Result:
    """`convert.attempt` for a backend that is named for its opset, without what it is said to lack there.

    That is expanded, or the model comes to the opset below at which the backend still has it: what is exact, then what
    takes fewer nodes. Where neither can be done, the model is refused; but where only tests were measured, none of
    which agreed, it stays as it is. What comes in on the way is no operator that the backend lacks: that is expanded
    in turn, or refused.
    """
    made = _without_lacked(source, targets, backend, ops, ir_version, folder, survey)
    brought = _brought(source, made, backend, folder)
    if backend is None or not brought:
        return made
    missing = {op for domain, opset in targets.items() for op in backend.missing(domain, opset)} | brought
    ops = {*ops, *(missing - _called(source))}
    again = _without_lacked(source, targets, backend, ops, ir_version, folder)
    left = _brought(source, again, backend, folder)
    if again.model is not None and not left:
        return again
    if again.model is None:
        return replace(again, refusals=tuple(_unread(refusal, backend) for refusal in again.refusals))
    found = _obstacles(again.model, backend, folder)
    return replace(again, model=None, refusals=tuple(r for r in found if (r.domain, r.op) in left))


def _without_lacked(
    source: ModelProto,
    targets: Mapping[str, int],
    backend: Backend | None,
    ops: Iterable[Op],
    ir_version: int | None,
    folder: str | None,
    survey: Survey | None = None,
) -> Result:
    made = convert.attempt(source, targets, ops=ops, ir_version=ir_version, folder=folder, survey=survey)
    left = _left(made, backend, folder) if backend is not None else set()
    if backend is None or not left:
        return made
    before = {backend.lacks[op] - 1 for op in left if not op[0] and op in backend.lacks}
    tried = []
    for opset in sorted({targets[""], *before} - {0}, reverse=True):
        lower = {**targets, "": opset}
        lacked = {op for op in backend.lacks if _is_lacked(op, backend, lower)} | (left - backend.lacks.keys())
        tried.append(convert.attempt(source, lower, ops={*ops, *lacked}, ir_version=ir_version, folder=folder))
    done = [result for result in tried if result.model is not None and not _left(result, backend, folder)]
    if done:
        return min(done, key=lambda result: (result.grade == "close", sum((result.after or {}).values())))
    if backend.measured or not tried[0].refusals:
        return made
    told = (_unread(r, backend) if (r.domain, r.op) in left else r for r in tried[0].refusals)
    return replace(tried[0], refusals=tuple(told))


def ml_opset(source: ModelProto, backend: Backend) -> dict[str, int]:
    """The opset of `ai.onnx.ml` that the backend reads, where the model uses it."""
    own = imports.opsets(source)
    if _ML not in own or _ML not in imports.used_domains(source):
        return {}
    return {_ML: min(own[_ML], backend.ml_opset or own[_ML])}


def vendors(source: ModelProto, backend: Backend, folder: str | None) -> set[Op]:
    """The operators of vendors that the model calls and the backend lacks, or of which it does not take some call."""
    held = {op for op in foreign(source) if op[0] in schemas.VENDORS}
    if not held:
        return held
    return held & {(default_domain(found.domain), found.op) for found in _obstacles(source, backend, folder)}


def foreign(source: ModelProto) -> set[Op]:
    """The operators that the model calls, and that are neither ONNX's nor functions of its own."""
    return {op for op in _called(source) if not schemas.known_domain(op[0])}


def classical(source: ModelProto) -> set[Op]:
    """The operators of ai.onnx.ml that the model calls."""
    return {op for op in _called(source) if op[0] == _ML}


def _is_read(source: ModelProto, backend: Backend, ops: frozenset[Op], folder: str | None) -> bool:
    """Whether there is nothing to be done: all that the model says is read, and none of `ops` is called."""
    own = imports.opsets(source)
    targets = {"": next(iter(backend.opsets_to_try(own.get("", schemas.latest()))), 0), **ml_opset(source, backend)}
    if source.ir_version > backend.ir_version or not ir_versions.stays(source, targets):
        return False
    used = imports.used_domains(source)
    if not all(domain in used or backend.reads_import(domain, version) for domain, version in own.items()):
        return False
    calls = frozenset(Survey(source).calls)
    return calls.isdisjoint({*ops, *_lacking(source, backend, targets)}) and not _obstacles(source, backend, folder)


def _called(model: ModelProto) -> set[Op]:
    """The operators that a model calls, without functions of its own."""
    local = {(default_domain(f.domain), f.name) for f in model.functions}
    return {(default_domain(node.domain), node.op_type) for body in bodies(model) for node in body.node} - local


def _brought(source: ModelProto, made: Result, backend: Backend | None, folder: str | None) -> set[Op]:
    """The operators that came in with a conversion, and that the backend has not, or not for the types of a call."""
    if backend is None or made.model is None or not made.changes:
        return set()
    opsets, new = imports.opsets(made.model), _called(made.model) - _called(source)
    lacked = {op for op in new if not backend.has(*op, opsets.get(op[0], 1))}
    return lacked | (new & _failing(made.model, backend, folder)) if new else lacked


def _unread(refusal: Refusal, backend: Backend) -> Refusal:
    return replace(refusal, why=f"{backend.name} does not read it, and {refusal.why}")


def _checked(result: Result, backend: Backend, folder: str | None) -> Result:
    """The result without imports that the backend may not read; refused if it does not read the rest."""
    if result.model is not None:
        imports.drop_unused(result.model, lambda domain, version: not backend.reads_import(domain, version))
    left = tuple(_obstacles(result.model, backend, folder)) if result.model is not None else ()
    return replace(result, model=None, refusals=left) if left else result


def _left(made: Result, backend: Backend, folder: str | None) -> set[Op]:
    """The operators that a converted model calls, and of which the backend is said to lack the version, or the type."""
    if made.model is None or not (backend.lacks or backend.measured):
        return set()
    imported = imports.opsets(made.model)
    local = {(default_domain(f.domain), f.name) for f in made.model.functions}
    called = {(default_domain(domain), op) for domain, op in made.after or ()} - local
    lacked = {op for op in called & backend.lacks.keys() if _is_lacked(op, backend, imported)}
    return lacked | (_failing(made.model, backend, folder) - local)


def _is_lacked(op: Op, backend: Backend, opsets: Mapping[str, int]) -> bool:
    return (schemas.since(*op, opsets.get(op[0], 1)) or 0) >= backend.lacks[op]


def _lacking(source: ModelProto, backend: Backend, targets: dict[str, int]) -> set[Op]:
    """The operators that have to go: what the backend lacks of ONNX's, and of what else the model uses."""
    found = backend.missing("", targets[""])
    if _ML in targets:
        found |= backend.missing(_ML, targets[_ML])
    found |= {op for op in foreign(source) if not backend.has(*op, 1)}
    local = {(default_domain(f.domain), f.name) for f in source.functions}
    return found if backend.functions else found | local


def _obstacles(model: ModelProto, backend: Backend, folder: str | None) -> list[Refusal]:
    # imported here, as in `_failing`: most conversions are for no backend
    from opshift.passes.backends.obstacles import obstacles

    return obstacles(model, backend, folder)


def _failing(model: ModelProto, backend: Backend, folder: str | None) -> set[Op]:
    from opshift.passes.backends.obstacles import failing

    return failing(model, backend, folder)
