"""Cases that ONNX does not publish, derived from those that it does: empty tensors, sizes of 1, and parameters that come at
run time or as constants. What engines compute from the source is what its converted forms have to compute."""

from __future__ import annotations

import re
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import count
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np
import onnx.helper
import onnx.numpy_helper
from onnx import ModelProto, TypeProto
from opshift.passes.conversion import convert
from opshift.passes.model import schemas

from opshift.verification import isolation
from opshift.verification.engines import EngineError
from tests import quirks
from tests.conformance.agreement import difference
from tests.conformance.cases import Case, Key, digest
from tests.conformance.engines import AsWritten, Evaluator, Judge, Runtime
from tests.conformance.judge import UNJUDGED, Verdict, checked, judge
from tests.support import model
from tests.undefined import undefined

OLDEST = 7  # of the opsets that onnxruntime has kernels for
MOST = 4  # calls of each version of an operator
SECONDS = 10  # that a derived case may take
LONGEST = 16  # numbers in a parameter
TURNS = ("static", "symbolic", "all symbolic")
UNPUBLISHED = (  # operators without a test of one node
    ("y = ConcatFromSequence<axis=1>(s)", 11, "seq(float[2,3]) s", "float[2,6] y"),
    ("y = ConcatFromSequence<axis=0, new_axis=1>(s)", 11, "seq(float[2,3]) s", "float[2,2,3] y"),
    ("y = GlobalLpPool(x)", 2, "float[2,3,4] x", "float[2,3,1] y"),
    ("y = MaxRoiPool<pooled_shape=[2,2]>(x, r)", 1, "float[2,3,4,4] x, float[2,5] r", "float[2,3,2,2] y"),
    ("y = SequenceAt(s, i)", 11, "seq(float[2,3]) s, int64 i", "float[2,3] y"),
    ("y = SequenceConstruct(a, b)", 11, "float[2,3] a, float[2,3] b", "seq(float[2,3]) y"),
    ("y = SequenceErase(s, i)", 11, "seq(float[2,3]) s, int64 i", "seq(float[2,3]) y"),
    ("y = SequenceLength(s)", 11, "seq(float[2,3]) s", "int64 y"),
    ("y = SplitToSequence<axis=1, keepdims=0>(x)", 11, "float[2,3] x", "seq(float[2]) y"),
)

UNTOLD = ("to", "dtype", "seed")  # attributes that choose a type
COMMON = ("float32", "int64", "bool", "object")
OUTSIDE = re.compile(
    "out of (data )?(bounds|range)|must be within"
)  # what an engine says of indices that are not valid

P = ParamSpec("P")
T = TypeVar("T")


def _all(*_: object) -> bool:
    return True


def _none(*_: object) -> bool:
    return False


Known = Callable[[str, int], bool]
DECLARED: dict[str, Known] = {"": _all, ", unknown sizes": _none}


class Calling(Protocol):
    """How a function is called that runs an engine."""

    def __call__(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T: ...


@dataclass(frozen=True)
class Base:
    """A case that others are derived from, one of so many of its version of its operator: these take turns in what they declare."""

    case: Case
    index: int = 0
    of: int = 1

    def takes(self, change: int, turn: int, turns: int) -> bool:
        """Whether it is this one's turn to declare a change in this way; where there is one base alone, it always is."""
        return (self.index + change + turn) % min(self.of, turns) == 0


def plain(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call it here."""
    return function(*arguments, **named)


def timed(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call it here; this process ends if that takes too long."""
    signal.alarm(SECONDS)
    try:
        return function(*arguments, **named)
    finally:
        signal.alarm(0)


class Died(EngineError):
    """An engine ended its process, or did not come to an end."""


def guarded(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call it in a process of its own; raises `Died` if that ends."""
    try:
        return isolation.call(timed, function, *arguments, **named)
    except isolation.Ended as ended:
        raise Died(str(ended)) from None


@dataclass(frozen=True)
class Change:
    """What is to be computed of other inputs, and how the model may tell them: each form with its name."""

    base: Case
    bare: Case
    given: Mapping[str, Any]
    forms: list[tuple[str, tuple[str, ...], Known | None]]


def zero(base: Base) -> Iterator[Change]:
    """With 0 and with 1 in place of each size of an input, by itself, with all that are equal, and as a parameter."""
    bare, changes = _bare(base.case, ()), count()
    for size in (0, 1):
        for name, given in _resized(base.case, size):
            changed = frozenset(
                (of, axis)
                for of, value in given.items()
                if isinstance(value, np.ndarray)
                for axis, (a, b) in enumerate(zip(value.shape, base.case.inputs[of].shape, strict=True))
                if a != b
            )
            change, known = next(changes), (_all, partial(_elsewhere, changed), _none)
            taken = [turn for turn in range(len(TURNS)) if base.takes(change, turn, len(TURNS))]
            yield Change(base.case, bare, given, [(f"[{name}, {TURNS[turn]}]", (), known[turn]) for turn in taken])


def runtime(base: Base) -> Iterator[Change]:
    """With each input as a constant, at run time, left out, and of unknown lengths."""
    changes = count()
    for left in [(), *_omissible(base.case)]:
        given = {name: value for name, value in base.case.inputs.items() if name not in left}
        here = [name for name, value in given.items() if isinstance(value, np.ndarray)]
        most = [(), tuple(here[1:])]
        some = [] if left else [*((name,) for name in here), *(tuple(n for n in here if n != name) for name in here)]
        forms = []
        for constants in dict.fromkeys([*most, *some]):
            change = next(changes)
            for turn, (words, known) in enumerate(DECLARED.items()):
                name = "".join([*(f" no {n}" for n in left), *(f" constant {n}" for n in constants), words]).strip(", ")
                if name and len(constants) < len(base.case.inputs) and base.takes(change, turn, len(DECLARED)):
                    forms.append((f"[{name}]", constants, known))
        yield Change(base.case, _bare(base.case, left), given, forms)


SWEEPS: dict[str, Callable[[Base], Iterator[Change]]] = {"zero": zero, "runtime": runtime}


def bases(published: Sequence[Case]) -> list[Base]:
    """A few cases of one node for each version of each operator, published or brought to an older opset."""
    single = [
        case
        for case in published
        if len(case.model.graph.node) == 1
        and not case.model.graph.node[0].domain
        and all(value.name in case.inputs for value in case.model.graph.input)
    ]
    own = [*sorted(single, key=_oddity), *map(_unpublished, range(len(UNPUBLISHED)))]
    older = [version for case in _spread(own) for version in _older(case)]
    found: dict[tuple[str, int], list[Case]] = defaultdict(list)
    for case in _spread([*own, *older]):
        found[_version(case)].append(case)
    return [Base(case, index, len(alike)) for alike in found.values() for index, case in enumerate(alike)]


def derived(changes: Iterable[Change], calling: Calling = plain) -> list[Case]:
    """The cases that changes make and some engine runs, each once."""
    found: dict[str, Case] = {}
    for change in changes:
        if (
            not change.forms
            or undefined(change.bare.model, change.given)
            or (settled := _settled(change, calling)) is None
        ):
            continue
        if checked(
            _case(change, "", (), _all, *settled).model
        ):  # as its sizes are told; else what engines run says nothing
            continue
        for case in (_case(change, *form, *settled) for form in change.forms):
            if not checked(case.model):
                found.setdefault(digest(case), case)
    return list(found.values())


def verdicts(of: Iterable[Base], sweep: str) -> list[Verdict]:
    """What becomes of all that a sweep makes of cases."""
    return _verdicts([change for base in of for change in SWEEPS[sweep](base)])


def _verdicts(changes: list[Change]) -> list[Verdict]:
    """What becomes of what changes make; where an engine ends its process, or does not end, of less and less at once."""
    try:
        return isolation.call(_judged, changes, timed)
    except isolation.Ended:
        if len(changes) == 1:
            return _judged(changes, guarded)
        half = len(changes) // 2
        return [*_verdicts(changes[:half]), *_verdicts(changes[half:])]


def _judged(changes: list[Change], calling: Calling) -> list[Verdict]:
    found = []
    for case in derived(changes, calling):
        for target in targets(case):
            try:
                found.append(calling(judge, case, target))
            except EngineError as ended:
                found.append(Verdict(case.name, case.release, case.opset, target, UNJUDGED, str(ended)))
    return found


def targets(case: Case) -> list[int]:
    """Just behind the next boundary of the operator of a case in both directions, and behind the last one."""
    (op,) = case.ops
    _, own = _version(case)
    above = [first for first in schemas.versions("", op) if first > case.opset]
    below = [side for side in (OLDEST, own - 1) if OLDEST <= side < own]
    return sorted({*below, *above[:1], *above[-1:]})


def _spread(cases: Sequence[Case]) -> list[Case]:
    """The few of each version of an operator that differ most, in the inputs, their ranks and the attributes; the first
    ones of those that differ as much."""
    alike: dict[tuple[str, int], dict[str, Case]] = defaultdict(dict)
    for case in cases:
        alike[_version(case)].setdefault(_kind(case), case)
    chosen = []
    for kinds in alike.values():
        left, seen = {kind: _traits(case) for kind, case in kinds.items()}, set[object]()
        for _ in range(min(MOST, len(left))):
            kind = max(left, key=lambda k: len(left[k] - seen))
            seen |= left.pop(kind)
            chosen.append(kinds[kind])
    return chosen


def _traits(case: Case) -> set[object]:
    """What tells a call from others of its operator."""
    (node,) = case.model.graph.node
    ranks = {
        (index, getattr(case.inputs[name], "ndim", None))
        for index, name in enumerate(node.input)
        if name in case.inputs
    }
    held = {("held", index) for index, name in enumerate(node.input) if name and name not in case.inputs}
    attributes = {a.SerializeToString(deterministic=True) for a in node.attribute if a.name not in UNTOLD}
    made = {("made", index) for index, name in enumerate(node.output) if name}
    return {*ranks, *held, *attributes, *made, *(a.name for a in node.attribute), ("inputs", len(node.input))}


def _version(case: Case) -> tuple[str, int]:
    """The operator of a case and the opset that its version is from."""
    (op,) = case.ops
    return op, schemas.since("", op, case.opset) or 0


def _kind(case: Case) -> str:
    """What is alike but for the values and the types."""
    (node,) = case.model.graph.node
    attributes = sorted(a.SerializeToString(deterministic=True) for a in node.attribute if a.name not in UNTOLD)
    inputs = [np.shape(v) if isinstance(v, np.ndarray) else type(v).__name__ for v in case.inputs.values()]
    held = [tuple(tensor.dims) for tensor in case.model.graph.initializer]
    return repr((_version(case), attributes, list(map(bool, node.output)), inputs, held))


def _oddity(case: Case) -> int:
    """How many of the inputs have a type that few engines know."""
    return sum(isinstance(v, np.ndarray) and v.dtype not in COMMON for v in case.inputs.values())


def _unpublished(index: int) -> Case:
    body, opset, inputs, outputs = UNPUBLISHED[index]
    of = model(body, max(opset, OLDEST), inputs=inputs, outputs=outputs)
    feeds: dict[str, Any] = {}
    for value in of.graph.input:
        sequence = value.type.HasField("sequence_type")
        kind = (value.type.sequence_type.elem_type if sequence else value.type).tensor_type
        shape = [d.dim_value for d in kind.shape.dim]
        count, dtype = int(np.prod(shape)), onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        array = (np.arange(count) % 3).astype(dtype).reshape(shape)
        feeds[value.name] = [array, array] if sequence else array
    return Case(of.graph.node[0].op_type.lower(), "", of, feeds, [])


def _older(case: Case) -> Iterator[Case]:
    """The case at each older version of its operator where it is one node of it, too."""
    node = case.model.graph.node[0]
    for version in schemas.versions("", node.op_type):
        opset = max(version, OLDEST)
        if opset >= case.opset or schemas.since("", node.op_type, opset) == _version(case)[1]:
            continue
        result = convert.attempt(case.model, {"": opset})
        if result.model is not None and [n.op_type for n in result.model.graph.node] == [node.op_type]:
            yield replace(case, name=f"{case.name}@{opset}", model=result.model)


# --- sizes --------------------------------------------------------------------------------------------------


def _resized(base: Case, size: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Inputs with another size, and what was done to them."""
    arrays = {name: value for name, value in base.inputs.items() if isinstance(value, np.ndarray)}
    places = [(name, axis) for name, value in arrays.items() for axis, was in enumerate(value.shape) if was > size]
    equal = Counter(arrays[name].shape[axis] for name, axis in places)
    turns = [(f"{name}:{axis}={size}", [(name, axis)]) for name, axis in places]
    turns += [
        (f"{was}={size}", [(name, axis) for name, axis in places if arrays[name].shape[axis] == was])
        for was, times in equal.items()
        if times > 1
    ]
    for what, chosen in turns:
        given = dict(base.inputs)
        for name, axis in chosen:
            given[name] = np.take(given[name], range(size), axis=axis)
        yield what, given
        was = arrays[chosen[0][0]].shape[chosen[0][1]]
        told = {
            name: np.where(value == was, np.int64(size), value)
            for name, value in given.items()
            if isinstance(value, np.ndarray) and value.dtype == np.int64 and value.size <= LONGEST and was in value
        }
        if told:
            yield f"{what} as told", {**given, **told}
    lists = {name: value for name, value in base.inputs.items() if isinstance(value, list)}
    if any(len(value) > size for value in lists.values()):  # of SequenceMap, all must be as long
        yield f"sequences of {size}", {**base.inputs, **{name: value[:size] for name, value in lists.items()}}
    for name, value in lists.items():
        if value and all(isinstance(v, np.ndarray) and v.ndim for v in value):
            yield f"{name}[:]={size}", {**base.inputs, name: [v[:size] for v in value]}


# --- parameters ---------------------------------------------------------------------------------------------


def _omissible(base: Case) -> list[tuple[str, ...]]:
    """The inputs of the node that may be left out: each by itself, and each with all that follow."""
    node = base.model.graph.node[0]
    schema = schemas.schema("", node.op_type, base.opset)
    if schema is None:
        return []
    options = [(name, schema.input(index)) for index, name in enumerate(node.input) if name in base.inputs]
    optional = [name for name, formal in options if formal is not None and formal.option == "Optional"]
    return list(dict.fromkeys([*((name,) for name in optional), *(tuple(optional[i:]) for i in range(len(optional)))]))


def _held(of: ModelProto, given: Mapping[str, Any], names: Sequence[str]) -> ModelProto:
    copy = _copy(of)
    copy.ir_version = max(copy.ir_version, 4)
    kept = [value for value in copy.graph.input if value.name not in names]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    copy.graph.initializer.extend(onnx.numpy_helper.from_array(given[name], name) for name in names)
    return copy


# --- what is declared, and what comes out -------------------------------------------------------------------


def _case(
    change: Change, name: str, constants: Sequence[str], known: Known | None, outputs: list[Any], disputed: str
) -> Case:
    """The case with the shapes of its inputs declared as far as they are to be known."""
    bare, given = change.bare, change.given
    model = _held(bare.model, given, constants)
    for value in model.graph.input:
        _declare(value.type, given[value.name], value.name, known)
    everything = known is not None and all(
        known(n, a) for n, v in given.items() if isinstance(v, np.ndarray) for a in range(v.ndim)
    )
    for value, found in zip(model.graph.output, outputs, strict=True):
        _declare(value.type, found, value.name, known and (_all if everything else _none))
    fed = {value.name: given[value.name] for value in model.graph.input}
    return replace(bare, name=bare.name + name, model=model, inputs=fed, outputs=outputs, disputed=disputed)


def _declare(kind: TypeProto, value: Any, name: str, known: Known | None) -> None:
    if not kind.HasField("tensor_type"):
        while not kind.HasField("tensor_type"):
            kind = kind.sequence_type.elem_type if kind.HasField("sequence_type") else kind.optional_type.elem_type
        kind.tensor_type.ClearField("shape")
        return
    kind.tensor_type.ClearField("shape")
    if known is None:
        return
    kind.tensor_type.shape.SetInParent()
    for axis, size in enumerate(np.shape(value)):
        dim = kind.tensor_type.shape.dim.add()
        if known(name, axis):
            dim.dim_value = size
        else:
            dim.dim_param = f"{name}_{axis}"


def _bare(case: Case, left: Sequence[str]) -> Case:
    """The case without these inputs of its node, and without any shape in its model."""
    model = _copy(case.model)
    (node,) = model.graph.node
    node.input[:] = ["" if name in left else name for name in node.input]
    while node.input and not node.input[-1]:
        node.input.pop()
    model.ir_version = max(model.ir_version, 4)
    kept = [value for value in model.graph.input if value.name in case.inputs and value.name not in left]
    del model.graph.input[:], model.graph.value_info[:]
    model.graph.input.extend(kept)
    for value in (*model.graph.input, *model.graph.output):
        _declare(value.type, None, "", None)
    return replace(case, model=model)


def _settled(change: Change, calling: Calling) -> tuple[list[Any], str] | None:
    """What the source computes, and why that is disputed; None if no engine runs it, or onnxruntime does not, which runs
    the case that it is derived from: onnx.reference broadcasts what is not to be broadcast."""
    base, bare, given = change.base, change.bare, change.given
    runs: list[tuple[str, list[Any], str]] = []
    for engine in (Runtime, AsWritten, Evaluator):
        try:
            runs.append((*calling(_run, engine, Key(bare), given), quirks.excuse(engine.engine, bare.model, given)))
        except EngineError as error:
            if OUTSIDE.search(str(error)) or isinstance(error, Died):
                return None
    if not runs or (not any(engine.startswith(Runtime.engine) for engine, *_ in runs) and _accepts(Key(base))):
        return None
    trusted = [(engine, outputs) for engine, outputs, excuse in runs if not excuse]
    if not trusted:
        return runs[0][1], runs[0][2]
    (first, expected), *others = trusted
    for other, outputs in others:
        if complaint := difference(bare, expected, outputs):
            return expected, f"{first} and {other} differ about the source: {complaint}"
    return expected, ""


@lru_cache(maxsize=8)
def _accepts(base: Key) -> bool:
    """Whether onnxruntime runs the case that another one is derived from."""
    try:
        _run(Runtime, base, base.case.inputs)
    except EngineError:
        return False
    return True


def _elsewhere(places: frozenset[tuple[str, int]], *place: Any) -> bool:
    return place not in places


def _run(engine: Judge, of: Key, given: Mapping[str, Any]) -> tuple[str, list[Any]]:
    session = _session(engine, of)
    return session.engine, session.run(given)


@lru_cache(maxsize=8)
def _session(engine: Judge, of: Key) -> Runtime | Evaluator:
    return engine(of.case.model)


def _copy(of: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(of)
    return copy
