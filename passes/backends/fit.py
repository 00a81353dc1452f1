"""Convert for a backend: to an opset and an IR version that it reads, without operators that it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.backends.backend import Backend
from opshift.passes.changes import Result
from opshift.passes.conversion import ir_versions
from opshift.passes.conversion.attempts import (
    REPAIRS,
    Attempt,
    Conversion,
    choose,
    extend,
    plan_attempt,
    try_attempts,
)
from opshift.passes.conversion.convert import convert_once
from opshift.passes.errors import Refusal
from opshift.passes.inlining import definable
from opshift.passes.model import imports, schemas
from opshift.passes.model.call_signatures import Survey
from opshift.passes.model.messages import ModelProto, NodeProto, normalize_domain
from opshift.passes.model.traversal import Op, bodies, subgraphs
from opshift.passes.model.types import type_text
from opshift.passes.records import replace

_ML = "ai.onnx.ml"
_CONTROL_FLOW = {"GRU", "If", "LSTM", "Loop", "RNN", "Scan"}
_MANY = 4  # nodes, from which on one of them is tried before all


def convert_for_backend(
    source: ModelProto,
    backend: Backend,
    ops: Iterable[Op] = (),
    ir_version: int | None = None,
    folder: str | None = None,
) -> Result:
    """Convert to the nearest opset that the backend reads, and replace all operators that it lacks.

    Replacements are replaced in turn if the backend lacks them, too. An operator is also replaced if the backend
    rejects one of its calls. If that fails, other opsets are tried, at which the backend has other operators.
    A call that only tests saw fail stays if nothing can replace it: the model may run. Inputs and outputs keep their
    types, so a type that they have is no reason to replace operators; the report lists it.
    """
    ops = frozenset(ops)
    if backend.measured and backend.types:
        types = (type_text(value.type) for value in (*source.graph.input, *source.graph.output))
        backend = replace(backend, types=backend.types.union(text for text in types if text))
    result, refusals = _convert_for_backend(source, backend, ops, ir_version, folder)
    first, doubted = result, set[Op]()
    while result.model is None and backend.measured:
        refused = {(refusal.domain, refusal.op) for refusal in refusals} - doubted
        if not refused:  # another operator was blamed at another opset
            refused = _find_failing(source, backend, folder) - doubted
        if not refused:
            return first
        doubted |= {op for op in refused if not definable.is_defined(*op)} or refused
        result, refusals = _convert_for_backend(source, backend.without_failures(doubted), ops, ir_version, folder)
    return result


def _convert_for_backend(
    source: ModelProto, backend: Backend, ops: frozenset[Op], ir_version: int | None, folder: str | None
) -> tuple[Result, Sequence[Refusal]]:
    """Convert to each opset that the backend reads, nearest first, until one succeeds; keep a model that it reads.

    Also returns the refusals that decided.
    """
    if ir_version is None and _is_read(source, backend, ops, folder):
        return Result(source, (), ()), ()
    hopeless = dict[str, Sequence[Refusal]]()
    own = imports.opsets(source).get("", schemas.latest())
    if any(not backend.has(*op, imports.opsets(source).get(_ML, 1)) for op in find_classical_operators(source)):
        own = imports.roomiest(source) or schemas.newest_opset(source.ir_version)
    opsets = backend.opsets_to_try(own)

    def plan(opset: int) -> Attempt:
        """Plan the conversion to one opset of the backend, with the operators to replace there."""
        targets = {"": opset, **ml_opset(source, backend)}
        follows = ir_versions.choose_ir_version(source, targets, ir_version)
        asked = ir_version or (backend.ir_version if 0 < backend.ir_version < follows else None)
        first = plan_attempt(source, targets, {*ops, *_find_missing(source, backend, targets)}, asked, folder)
        return replace(first, why=(f"at opset {opset}",) if opset != opsets[0] else ())

    def carry_out(attempt: Attempt) -> Conversion:
        """Convert once, and check that the backend supports the result."""
        done = convert_once(attempt)
        if done.result.model is None:
            return done
        return replace(done, result=_check_readable(done.result, backend, folder), repairable=False)

    def expand_refused_operators(tried: Sequence[Conversion]) -> list[Attempt]:
        """Plan a second attempt at the same opset: also replace operators that were refused in the first."""
        last = tried[-1]
        refused = {(r.domain, r.op) for r in last.result.refusals if schemas.versions(r.domain, r.op)}
        more = refused - last.attempt.expand
        if not last.is_refused or last.attempt.is_extended or not more:
            return []
        return [extend(plan(last.attempt.targets[""]), more)]

    def take_next_opset(tried: Sequence[Conversion]) -> list[Attempt]:
        """Plan an attempt at the next opset of the backend, after a refusal."""
        last = tried[-1]
        rest = opsets[opsets.index(last.attempt.targets[""]) + 1 :]
        if not last.is_refused or not rest:
            return []
        if last.attempt.targets[""] == opsets[0]:
            try_nodes_alone([refusal for conversion in tried for refusal in conversion.result.refusals])
        return [] if hopeless else [plan(rest[0])]

    def try_nodes_alone(refusals: Sequence[Refusal]) -> None:
        """Convert refused nodes, cut out of the model, to every opset: where one is refused, so is the model.

        Runs once: of hundreds of nodes one of each operator is converted, instead of all. Control flow is not cut out:
        only a Loop replaces it, so one of them has to be there at some opset.
        """
        lacked = {op for op in _CONTROL_FLOW if not any(backend.has("", op, opset) for opset in opsets)}
        lacked &= _CONTROL_FLOW if "Loop" in lacked else {"If"}
        for refusal in refusals:
            if refusal.op in lacked and not refusal.domain and not refusal.where:
                hopeless[refusal.op] = (refusal,)
        if hopeless:
            return
        for name, sample in _cut_nodes(source, refusals, folder):
            result, deciding = _convert_for_backend(sample, backend, ops, ir_version, folder)
            if result.model is None:
                hopeless[name] = deciding

    def blames_opset(conversion: Conversion) -> bool:
        """Find conversions whose refusal does not help a user: the backend has the operator at the opset tried first.

        Such refusals are not shown. Example: at opset 12 it has no Sqrt, which it has at the model's opset 15.
        """
        opset = conversion.attempt.targets[""]
        return any(
            not r.domain and not backend.has("", r.op, opset) and backend.has("", r.op, opsets[0])
            for r in conversion.result.refusals
        )

    first = plan(opsets[0])
    tried = try_attempts(first, carry_out, REPAIRS, [expand_refused_operators, take_next_opset])
    own_attempts = [
        conversion for conversion in tried if not (conversion.is_refused and conversion.attempt.is_extended)
    ]
    of_use = [conversion for conversion in own_attempts if not blames_opset(conversion)]
    result = choose(of_use or own_attempts).result
    if not hopeless:
        return result, result.refusals
    left = tuple(refusal for refusal in result.refusals if refusal.operator in hopeless)
    return replace(result, refusals=left), next(iter(hopeless.values()))


def convert_to_opset(
    source: ModelProto,
    targets: Mapping[str, int],
    backend: Backend,
    ops: Iterable[Op] = (),
    ir_version: int | None = None,
    folder: str | None = None,
    survey: Survey | None = None,
) -> Result:
    """Convert to the opset of a backend (`--opset onnxruntime-1.8`), without operators that it lacks there.

    They are replaced, or the model goes to a lower opset at which the backend has them. If neither works, the model is
    refused; it stays if only failed measurements say that the backend lacks them.
    """
    named = _NamedForOpset(plan_attempt(source, targets, ops, ir_version, folder, survey), backend)
    tried = try_attempts(named.first, convert_once, REPAIRS, [named.replace_lacked, named.expand_what_came_in])
    return named.choose(tried)


class _NamedForOpset:
    """The strategies for `convert_to_opset`: next attempts, and the choice among them.

    Attempts come in groups. The first of a group replaces what the user names, the others also what the backend lacks.
    """

    def __init__(self, first: Attempt, backend: Backend):
        self.first = first
        self._backend = backend
        self._left: dict[int, set[Op]] = {}
        self._brought: dict[int, set[Op]] = {}

    def replace_lacked(self, tried: Sequence[Conversion]) -> list[Attempt]:
        """Plan attempts without operators that the backend lacks: at this opset, and at the last opset before each of
        them is missing.
        """
        first, *others = self._last_group(tried)
        left = self._operators_lacking_in(first)
        if others or not left:
            return []
        attempts, lacks = [], self._backend.lacks
        before = {lacks[op] - 1 for op in left if not op[0] and op in lacks}
        for opset in sorted({self.first.targets[""], *before} - {0}, reverse=True):
            lower = {**self.first.targets, "": opset}
            lacked = {op for op in lacks if _is_lacked(op, self._backend, lower)} | (left - lacks.keys())
            attempt = self._plan(lower, first.attempt.expand | lacked)
            why = (f"at opset {opset}",) if opset != self.first.targets[""] else (f"without {_list_operators(lacked)}",)
            attempts.append(replace(attempt, beside=True, why=why))
        return attempts

    def expand_what_came_in(self, tried: Sequence[Conversion]) -> list[Attempt]:
        """Plan an attempt that replaces operators which a conversion brought in and the backend lacks."""
        brought = self._operators_brought_by(self._take(tried))
        if not brought or any(conversion.attempt.is_extended for conversion in tried):
            return []
        missing = {op for domain, opset in self.first.targets.items() for op in self._backend.missing(domain, opset)}
        more = (missing | brought) - _find_called(self.first.source)
        return [extend(self._plan(self.first.targets, self.first.expand), more)]

    def choose(self, tried: Sequence[Conversion]) -> Result:
        """Choose the conversion that the backend supports, or a refusal that says why there is none.

        Runs once no attempt is left.
        """
        taken = self._take(tried)
        if not any(conversion.attempt.is_extended for conversion in tried):
            return taken.result
        left, result = self._operators_brought_by(taken), taken.result
        if result.model is None:
            return replace(result, refusals=tuple(_blame_reader(refusal, self._backend) for refusal in result.refusals))
        if not left:
            return result
        reasons = _find_obstacles(result.model, self._backend, self.first.folder)
        return replace(result, model=None, refusals=tuple(r for r in reasons if (r.domain, r.op) in left))

    def _take(self, tried: Sequence[Conversion]) -> Conversion:
        """Choose among the attempts of the last group: the best one without operators that the backend lacks.

        If there is none, the first attempt is taken, unless operators are missing by the backend's documentation and
        cannot be replaced. Then the refusals of the second attempt are taken, and blame the backend.
        """
        first, *others = self._last_group(tried)
        if not others:
            return first
        done = [
            conversion
            for conversion in others
            if not conversion.is_refused and not self._operators_lacking_in(conversion)
        ]
        if done:
            return choose(done)
        at_target = others[0]
        if self._backend.measured or not at_target.is_refused:
            return first
        left, refusals = self._operators_lacking_in(first), at_target.result.refusals
        blamed = (_blame_reader(r, self._backend) if (r.domain, r.op) in left else r for r in refusals)
        return replace(at_target, result=replace(at_target.result, refusals=tuple(blamed)))

    def _last_group(self, tried: Sequence[Conversion]) -> Sequence[Conversion]:
        begins = max(place for place, conversion in enumerate(tried) if not conversion.attempt.beside)
        return tried[begins:]

    def _plan(self, targets: Mapping[str, int], expand: Iterable[Op]) -> Attempt:
        return plan_attempt(self.first.source, targets, expand, self.first.ir_version, self.first.folder)

    def _operators_lacking_in(self, conversion: Conversion) -> set[Op]:
        """Find operators of a conversion that the backend lacks; computed once for each conversion."""
        if id(conversion) not in self._left:
            self._left[id(conversion)] = _find_lacked(conversion.result, self._backend, self.first.folder)
        return self._left[id(conversion)]

    def _operators_brought_by(self, conversion: Conversion) -> set[Op]:
        """Find operators that a conversion brought in and the backend lacks; computed once for each result."""
        if id(conversion.result) not in self._brought:
            brought = _find_brought_in(self.first.source, conversion.result, self._backend, self.first.folder)
            self._brought[id(conversion.result)] = brought
        return self._brought[id(conversion.result)]


def _list_operators(ops: Iterable[Op]) -> str:
    return ", ".join(sorted(f"{domain}::{op}" if domain else op for domain, op in ops))


def ml_opset(source: ModelProto, backend: Backend) -> dict[str, int]:
    """Find the opset of `ai.onnx.ml` to convert to: what the backend reads, at most the model's own; empty if the
    model does not use it.
    """
    own = imports.opsets(source)
    if _ML not in own or _ML not in imports.used_domains(source):
        return {}
    return {_ML: min(own[_ML], backend.ml_opset or own[_ML])}


def find_vendor_operators(source: ModelProto, backend: Backend, folder: str | None) -> set[Op]:
    """Find vendor operators in the model that the backend lacks, or of which it lacks a call.

    Runs before a conversion for the backend.
    """
    vendor_ops = {op for op in find_foreign_operators(source) if op[0] in schemas.VENDORS}
    if not vendor_ops:
        return vendor_ops
    return vendor_ops & {
        (normalize_domain(obstacle.domain), obstacle.op) for obstacle in _find_obstacles(source, backend, folder)
    }


def find_foreign_operators(source: ModelProto) -> set[Op]:
    """Find operators in the model that are neither ONNX's nor functions of the model."""
    return {op for op in _find_called(source) if not schemas.is_onnx_domain(op[0])}


def find_classical_operators(source: ModelProto) -> set[Op]:
    """Find operators of ai.onnx.ml in the model."""
    return {op for op in _find_called(source) if op[0] == _ML}


def _cut_nodes(source: ModelProto, refusals: Iterable[Refusal], folder: str | None) -> Iterator[tuple[str, ModelProto]]:
    """Cut out one refused node of each operator, to convert it alone, which is faster; none from small models."""
    by_op = {refusal.operator: refusal for refusal in refusals if not refusal.where}
    wanted = {(refusal.node, refusal.op): op for op, refusal in by_op.items()}
    opset, count = imports.opsets(source).get("", 1), 0
    pending = [Scope(source.graph, Context(source, source, folder), opset, path=())]
    samples = list[tuple[str, ModelProto]]()
    while pending:
        scope = pending.pop()
        for index, node in enumerate(scope.body.node):
            count += 1
            inner = [scope.nested_scope(graph, index, name, k) for name, k, graph in subgraphs(node)]
            pending += inner
            called = node.name or next(iter(node.output), ""), node.op_type
            if called in wanted and not inner and (sample := _cut_node(node, scope, source)) is not None:
                samples.append((wanted.pop(called), sample))
    if count >= _MANY:
        yield from samples


def _cut_node(node: NodeProto, scope: Scope, source: ModelProto) -> ModelProto | None:
    """Make a model of one node and its constants; None if it reads or makes anything but tensors: a sequence is
    replaced together with the nodes around it.
    """
    if any((kind := scope.type(name)) is not None and not kind.HasField("tensor_type") for name in node.output if name):
        return None
    sample = ModelProto(ir_version=source.ir_version, opset_import=source.opset_import, functions=source.functions)
    sample.graph.name = source.graph.name
    sample.graph.node.append(node)
    for name in filter(None, dict.fromkeys(node.input)):
        owner, value_type = scope.owner(name), scope.type(name)
        constant = (owner.initializers.get(name) if owner is not None else None) or scope.tensor(name)
        if constant is not None:
            sample.graph.initializer.add().CopyFrom(constant)
            sample.graph.initializer[-1].name = name
        elif value_type is not None and value_type.HasField("tensor_type"):
            sample.graph.input.add(name=name, type=value_type)
        else:
            return None
    for name in filter(None, node.output):
        sample.graph.output.add(name=name, type=scope.type(name))
    return sample


def _is_read(source: ModelProto, backend: Backend, ops: frozenset[Op], folder: str | None) -> bool:
    """Whether the backend supports the model as it is, and no operator of `ops` is called."""
    own = imports.opsets(source)
    targets = {"": next(iter(backend.opsets_to_try(own.get("", schemas.latest()))), 0), **ml_opset(source, backend)}
    if source.ir_version > backend.ir_version or not ir_versions.is_at_opsets(source, targets):
        return False
    used = imports.used_domains(source)
    if not all(domain in used or backend.reads_import(domain, version) for domain, version in own.items()):
        return False
    calls = frozenset(Survey(source).calls)
    return calls.isdisjoint({*ops, *_find_missing(source, backend, targets)}) and not _find_obstacles(
        source, backend, folder
    )


def _find_called(model: ModelProto) -> set[Op]:
    """List the operators that a model calls, except its own functions."""
    local = {(normalize_domain(f.domain), f.name) for f in model.functions}
    return {(normalize_domain(node.domain), node.op_type) for body in bodies(model) for node in body.node} - local


def _find_brought_in(source: ModelProto, made: Result, backend: Backend, folder: str | None) -> set[Op]:
    """Find operators that a conversion brought in and the backend lacks, or lacks for the types of a call.

    Runs after each attempt.
    """
    if made.model is None or not made.changes:
        return set()
    opsets, new = imports.opsets(made.model), _find_called(made.model) - _find_called(source)
    lacked = {op for op in new if not backend.has(*op, opsets.get(op[0], 1))}
    return lacked | (new & _find_failing(made.model, backend, folder)) if new else lacked


def _blame_reader(refusal: Refusal, backend: Backend) -> Refusal:
    return replace(refusal, why=f"{backend.name} does not support it, and {refusal.why}")


def _check_readable(result: Result, backend: Backend, folder: str | None) -> Result:
    """Drop imports that the backend may reject; refuse the result if the backend does not support the rest.

    Runs after each attempt that succeeds.
    """
    if result.model is not None:
        imports.drop_unused(result.model, lambda domain, version: not backend.reads_import(domain, version))
    left = tuple(_find_obstacles(result.model, backend, folder)) if result.model is not None else ()
    return replace(result, model=None, refusals=left) if left else result


def _find_lacked(made: Result, backend: Backend, folder: str | None) -> set[Op]:
    """Find operators in a converted model that the backend lacks, at that version or for those types.

    Runs after each attempt.
    """
    if made.model is None or not (backend.lacks or backend.measured):
        return set()
    imported = imports.opsets(made.model)
    local = {(normalize_domain(f.domain), f.name) for f in made.model.functions}
    called = {(normalize_domain(domain), op) for domain, op in made.after or ()} - local
    lacked = {op for op in called & backend.lacks.keys() if _is_lacked(op, backend, imported)}
    return lacked | (_find_failing(made.model, backend, folder) - local)


def _is_lacked(op: Op, backend: Backend, opsets: Mapping[str, int]) -> bool:
    return (schemas.since(*op, opsets.get(op[0], 1)) or 0) >= backend.lacks[op]


def _find_missing(source: ModelProto, backend: Backend, targets: dict[str, int]) -> set[Op]:
    """List all operators that the backend lacks, of ONNX and of other domains that the model uses.

    The model's functions are among them if the backend does not read functions. Runs before each attempt.
    """
    missing = backend.missing("", targets[""])
    if _ML in targets:
        missing |= backend.missing(_ML, targets[_ML])
    missing |= {op for op in find_foreign_operators(source) if not backend.has(*op, 1)}
    local = {(normalize_domain(f.domain), f.name) for f in source.functions}
    return missing if backend.functions else missing | local


def _find_obstacles(model: ModelProto, backend: Backend, folder: str | None) -> list[Refusal]:
    """List what the backend does not support. Imported here, as most conversions are for no backend."""
    from opshift.passes.backends.obstacles import obstacles

    return obstacles(model, backend, folder)


def _find_failing(model: ModelProto, backend: Backend, folder: str | None) -> set[Op]:
    """List operators that failed when the backend was measured. Imported here, as most conversions are for no
    backend.
    """
    from opshift.passes.backends.obstacles import find_failing

    return find_failing(model, backend, folder)
