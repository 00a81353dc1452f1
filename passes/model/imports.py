"""The opsets that a model imports, and whether they hold together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from opshift.passes.errors import InvalidModel
from opshift.passes.model import schemas
from opshift.passes.model.messages import FunctionProto, ModelProto, normalize_domain
from opshift.passes.model.traversal import Body, Calls, bodies, with_nested

DEEPEST = 32  # a graph in a node's attribute is three messages deeper, and protobuf reads 100 levels


_MOST_NODES = 1 << 26


Callee = tuple[str, str, str]  # domain, name, overload


def opsets(holder: ModelProto | FunctionProto) -> dict[str, int]:
    """The opset by domain that a model or function imports; a model of IR 1 or 2 says nothing and means 1."""
    found = {normalize_domain(i.domain): i.version for i in holder.opset_import}
    if not found and isinstance(holder, ModelProto) and holder.ir_version < 3:
        found[""] = 1
    return found


def missing(model: ModelProto) -> list[str]:
    """The domains of onnxruntime's operators that a model calls and does not import, which onnxruntime allows.

    Its optimizer of transformers leaves models so.
    """
    holders: list[ModelProto | FunctionProto] = [model, *model.functions]
    own = {normalize_domain(function.domain) for function in model.functions}
    found = {
        domain for each in holders for domain in _domains_of(each).intersection(schemas.IMPORTED) - opsets(each).keys()
    }
    return sorted(found - own)


def add_missing(model: ModelProto) -> list[str]:
    """Import these in the model itself; returns which they were."""
    added = missing(model)
    holders: list[ModelProto | FunctionProto] = [model, *model.functions] if added else []
    for holder in holders:
        for domain in sorted(_domains_of(holder).intersection(added) - opsets(holder).keys()):
            holder.opset_import.add(domain=domain, version=1)
    return added


def check_imports(model: ModelProto) -> None:
    """Raise `InvalidModel` for opset imports that do not hold together, and for functions that call themselves."""
    check_opsets(model)
    if model.functions:
        check_recursion(model, _calls(model))


def check_opsets(model: ModelProto) -> None:
    """Raise `InvalidModel` for opset imports that contradict each other or are newer than what is known."""
    holders: list[ModelProto | FunctionProto] = [model, *model.functions]
    for holder in holders:
        seen: dict[str, int] = {}
        for entry in holder.opset_import:
            domain, version = normalize_domain(entry.domain), entry.version
            if seen.setdefault(domain, version) != version:
                raise InvalidModel(
                    f"domain {domain or 'ai.onnx'!r} is imported twice, at opset {seen[domain]} and {version}"
                )
            if schemas.is_onnx_domain(domain) and not 1 <= version <= schemas.latest(domain):
                known = f"1 to {schemas.latest(domain)}"
                raise InvalidModel(f"unknown opset {version} of domain {domain or 'ai.onnx'!r}; supported: {known}")
        if "" not in seen and "" not in opsets(holder) and "" in _domains_of(holder):
            raise InvalidModel("the model uses operators of the default domain ai.onnx, but imports no opset of it")
    if not model.HasField("graph"):
        raise InvalidModel("the model has no graph (not an ONNX model, or an empty one)")


Called = Iterable[Counter[Callee]]
"""How often each operator is called in the main graph, and then in each function."""


def _calls(model: ModelProto) -> Called:
    holders: list[Body] = [model.graph, *model.functions]
    for holder in holders:
        nodes = (node for body in with_nested([holder]) for node in body.node)
        yield Counter([(normalize_domain(n.domain), n.op_type, n.overload) for n in nodes])


def check_recursion(model: ModelProto, called: Called) -> None:
    """Functions must not call themselves, directly or through others (ONNX IR specification, "Functions").

    Nor may they stand for more nodes than any runtime that inlines them could hold.
    """
    names = [(normalize_domain(f.domain), f.name, f.overload) for f in model.functions]
    local = {name: Counter[Callee]() for name in names}
    others = dict.fromkeys(local, 0)
    main, *inner = called
    for name, calls in zip(names, inner, strict=True):
        own = calls.keys() & local.keys()
        local[name].update({callee: calls[callee] for callee in own} if own else ())
        others[name] += sum(calls.values()) - sum(calls[callee] for callee in own)
    ready = [name for name, calls in local.items() if not calls]
    callers: dict[Callee, list[Callee]] = {}
    for name, calls in local.items():
        for callee in calls:
            callers.setdefault(callee, []).append(name)
    waiting = {name: len(calls) for name, calls in local.items()}
    nodes: dict[Callee, int] = {}
    while ready:
        done = ready.pop()
        stands_for = others[done] + sum(nodes[callee] * count for callee, count in local[done].items())
        nodes[done] = min(stands_for, _MOST_NODES)
        for name in callers.get(done, ()):
            waiting[name] -= 1
            if not waiting[name]:
                ready.append(name)
    if len(nodes) < len(local):
        stuck = next(name for name, left in waiting.items() if left)
        raise InvalidModel(f"function {stuck[1]!r} calls itself, directly or through others")
    if sum(nodes.get(callee, 1) * count for callee, count in main.items()) >= _MOST_NODES:
        raise InvalidModel(
            f"the model has {_MOST_NODES} nodes or more when its functions are inlined, which is too many"
        )


def stamp_imports(holder: ModelProto | FunctionProto, targets: Mapping[str, int], *, required: bool) -> None:
    present = set()
    for entry in holder.opset_import:
        domain = normalize_domain(entry.domain)
        present.add(domain)
        if domain in targets:
            entry.version = targets[domain]
    for domain in sorted(set(targets) - present) if required else ():
        holder.opset_import.add(domain=domain, version=targets[domain])


def prune_imports(
    model: ModelProto,
    source: ModelProto,
    targets: Mapping[str, int],
    brought: Mapping[str, int],
    before: Calls,
    after: Calls,
) -> None:
    """Drop the imports of domains whose every call was expanded; import what expansions brought in."""
    unused = {*opsets(model)} - {normalize_domain(domain) for domain, _ in after} - {""}
    gone = unused and {normalize_domain(domain) for domain, _ in before} & unused
    for index in reversed(range(len(model.opset_import))):
        if normalize_domain(model.opset_import[index].domain) in gone:
            del model.opset_import[index]
    holders: list[ModelProto | FunctionProto] = [model, *model.functions]
    called = {normalize_domain(domain) for domain, _ in after}
    for holder in holders:
        missing = (brought.keys() & called) - opsets(holder).keys()
        used = _domains_of(holder) if missing else set()
        for domain, version in brought.items():
            if domain in missing & used:
                holder.opset_import.add(domain=domain, version=targets.get(domain, version))


def imports_of_replacements(source: ModelProto, before: Calls) -> dict[str, int]:
    """The opset by domain that what takes a node's place brings in where nothing is imported.

    For the call of a function it is that of the first one; what steps make of other domains never changed.
    """
    used = {domain for domain, _ in before}
    found = {domain: 1 for domain in ("ai.onnx.ml",) if domain not in used}
    for function in source.functions:
        for domain, version in opsets(function).items():
            found.setdefault(domain, version)
    return found


def _domains_of(holder: ModelProto | FunctionProto) -> set[str]:
    held: list[Body] = [holder] if isinstance(holder, FunctionProto) else [holder.graph]
    if isinstance(holder, ModelProto):
        held += [graph for info in holder.training_info for graph in (info.initialization, info.algorithm)]
    return {normalize_domain(node.domain) for nested in with_nested(held) for node in nested.node}


def roomiest(model: ModelProto) -> int | None:
    """The newest opset of the default domain that the IR version may import and at which all nodes are what they are.

    Models of trees import an old one that none of their nodes needs. None where the model imports none.
    """
    own = opsets(model).get("")
    if own is None or model.functions:
        return own
    ops = {node.op_type for body in bodies(model) for node in body.node if not normalize_domain(node.domain)}
    for opset in range(schemas.newest_opset(model.ir_version), own, -1):
        if all(schemas.since("", op, opset) == schemas.since("", op, own) for op in ops):
            return opset
    return own


def used_domains(model: ModelProto) -> set[str]:
    """The domains whose operators are called, in the graph or in functions."""
    holders: list[ModelProto | FunctionProto] = [model, *model.functions]
    return set().union(*map(_domains_of, holders))


def drop_unused(model: ModelProto, needless: Callable[[str, int], bool]) -> None:
    """Drop the imports of other domains than the default one that nothing uses, and that are `needless`."""
    own = {normalize_domain(function.domain) for function in model.functions}
    holders: list[ModelProto | FunctionProto] = [model, *model.functions]
    for holder in holders:
        doubtful = {d for d, version in opsets(holder).items() if d and needless(d, version)}
        gone = doubtful - own - _domains_of(holder) if doubtful else doubtful
        for index in reversed(range(len(holder.opset_import))) if gone else ():
            if normalize_domain(holder.opset_import[index].domain) in gone:
                del holder.opset_import[index]
