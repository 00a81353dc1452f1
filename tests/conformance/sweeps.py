"""Cases that ONNX does not publish, derived from those that it does: empty tensors, sizes of 1, and parameters that come at
run time or as constants. What engines compute from the source is what its converted forms have to compute."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ParamSpec, Protocol, TypeVar

import numpy as np
import onnx.helper
import onnx.numpy_helper
from onnx import ModelProto, TypeProto
from opshift.passes import convert, schemas

from opshift import apart
from opshift.engines import EngineError
from tests import quirks
from tests.conformance.agreement import difference
from tests.conformance.cases import Case, digest
from tests.conformance.engines import AsWritten, Evaluator, Judge, Runtime
from tests.conformance.judge import UNJUDGED, Verdict, checked, judge
from tests.support import model

OLDEST = 7  # of the opsets that onnxruntime has kernels for
BELOW = (7, 9, 12, 17)  # where what replaces a newer operator meets other versions of its parts
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


def plain(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call it here."""
    return function(*arguments, **named)


def zero(base: Case, calling: Calling) -> Iterator[Case]:
    """With 0 and with 1 in place of each size of an input, by itself, with all that are equal, and as a parameter."""
    for size in (0, 1):
        for name, given in _resized(base, size):
            if (outputs := _settled(base, base.model, given, calling)) is None:
                continue
            changed = {
                (of, axis)
                for of, value in given.items()
                if isinstance(value, np.ndarray)
                for axis, (a, b) in enumerate(zip(value.shape, base.inputs[of].shape, strict=True))
                if a != b
            }
            for turn, known in zip(TURNS, (_all, _elsewhere(changed), _none), strict=True):
                yield from _case(f"{base.name}[{name}, {turn}]", base, base.model, given, outputs, known)


def runtime(base: Case, calling: Calling) -> Iterator[Case]:
    """With each input as a constant, at run time, left out, and of unknown lengths."""
    for left in [(), *_omissible(base)]:
        of = _without(base.model, left)
        given = {name: value for name, value in base.inputs.items() if name not in left}
        if (outputs := _settled(base, of, given, calling)) is None:
            continue
        here = [name for name, value in given.items() if isinstance(value, np.ndarray)]
        most = [(), tuple(here[1:])]
        some = [] if left else [*((name,) for name in here), *(tuple(n for n in here if n != name) for name in here)]
        for constants in dict.fromkeys([*most, *some]):
            if len(constants) == len(base.inputs):
                continue
            for words, known in DECLARED.items():
                name = "".join([*(f" no {n}" for n in left), *(f" constant {n}" for n in constants), words]).strip(", ")
                if left or constants or words:
                    yield from _case(f"{base.name}[{name}]", base, _held(of, given, constants), given, outputs, known)


SWEEPS: dict[str, Callable[[Case, Calling], Iterator[Case]]] = {"zero": zero, "runtime": runtime}


def bases(published: Sequence[Case]) -> list[Case]:
    """One case of one node for each kind of call and version of its operator, published or brought to an older opset."""
    single = [
        case
        for case in published
        if len(case.model.graph.node) == 1
        and not case.model.graph.node[0].domain
        and all(value.name in case.inputs for value in case.model.graph.input)
    ]
    found: dict[str, Case] = {}
    for case in [*sorted(single, key=_oddity), *map(_unpublished, range(len(UNPUBLISHED)))]:
        for version in (case, *_older(case)):
            found.setdefault(_kind(version), version)
    return list(found.values())


def derived(base: Case, sweep: str, calling: Calling = plain) -> list[Case]:
    """What a sweep makes of a case and some engine runs, each once."""
    found: dict[str, Case] = {}
    for case in SWEEPS[sweep](base, calling):
        found.setdefault(digest(case), case)
    return list(found.values())


def verdicts(base: Case, sweep: str) -> list[Verdict]:
    """What becomes of all that is derived from a case; where an engine ends its process, of each derived case by itself."""
    try:
        return apart.call(_verdicts, base, sweep, plain)
    except apart.Ended:
        return _verdicts(base, sweep, guarded)


def guarded(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call it in a process of its own; raises `EngineError` if that ends."""
    try:
        return apart.call(function, *arguments, **named)
    except apart.Ended as ended:
        raise EngineError(str(ended)) from None


def _verdicts(base: Case, sweep: str, calling: Calling) -> list[Verdict]:
    found = []
    for case in derived(base, sweep, calling):
        for target in targets(case):
            try:
                found.append(calling(judge, case, target))
            except EngineError as ended:
                found.append(Verdict(case.name, case.release, case.opset, target, UNJUDGED, str(ended)))
    return found


def targets(case: Case) -> list[int]:
    """The nearest opset of each other version of the operator of a case, and some below the first one."""
    (op,) = case.ops
    since = [v for v in schemas.versions("", op) if v > 0]
    until = [v - 1 for v in since[1:]] + [schemas.latest()]
    above = {first for first in since if first > case.opset}
    below = {last for last in until if last < case.opset} | {since[0] - 1, *(b for b in BELOW if b < since[0])}
    return sorted(side for side in above | below if side >= OLDEST)


def _kind(case: Case) -> str:
    """What is alike but for the values and the types."""
    (node,) = case.model.graph.node
    attributes = sorted(a.SerializeToString(deterministic=True) for a in node.attribute if a.name not in UNTOLD)
    inputs = [np.shape(v) if isinstance(v, np.ndarray) else type(v).__name__ for v in case.inputs.values()]
    held = [tuple(tensor.dims) for tensor in case.model.graph.initializer]
    since = schemas.since("", node.op_type, case.opset)
    return repr((node.op_type, since, attributes, list(map(bool, node.output)), inputs, held))


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
        if opset >= case.opset or schemas.since("", node.op_type, opset) == schemas.since("", node.op_type, case.opset):
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


def _without(of: ModelProto, names: Sequence[str]) -> ModelProto:
    copy = _copy(of)
    node = copy.graph.node[0]
    node.input[:] = ["" if name in names else name for name in node.input]
    while node.input and not node.input[-1]:
        node.input.pop()
    kept = [value for value in copy.graph.input if value.name not in names]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    return copy


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
    name: str, base: Case, of: ModelProto, given: Mapping[str, Any], settled: tuple[list[Any], str], known: Known | None
) -> Iterator[Case]:
    """The case with the shapes of these inputs declared as far as they are to be known; nothing if it is not valid."""
    outputs, disputed = settled
    declared = _copy(of)
    del declared.graph.value_info[:]
    for value in declared.graph.input:
        _declare(value.type, given[value.name], value.name, known)
    everything = known is not None and all(
        known(n, a) for n, v in given.items() if isinstance(v, np.ndarray) for a in range(v.ndim)
    )
    for value, found in zip(declared.graph.output, outputs, strict=True):
        _declare(value.type, found, value.name, known and (_all if everything else _none))
    if not checked(declared):
        fed = {value.name: given[value.name] for value in declared.graph.input}
        yield replace(base, name=name, model=declared, inputs=fed, outputs=outputs, disputed=disputed)


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


def _settled(base: Case, of: ModelProto, given: Mapping[str, Any], calling: Calling) -> tuple[list[Any], str] | None:
    """What the source computes, and why that is disputed; None if no engine runs it."""
    bare = _copy(of)
    for value in (*bare.graph.input, *bare.graph.output):
        _declare(value.type, None, "", None)
    runs: list[tuple[str, list[Any], str]] = []
    for engine in (Runtime, AsWritten, Evaluator):
        try:
            runs.append((*calling(_run, engine, bare, given), quirks.excuse(engine.engine, bare, given)))
        except EngineError as error:
            if OUTSIDE.search(str(error)):
                return None
    if not runs:
        return None
    trusted = [(engine, outputs) for engine, outputs, excuse in runs if not excuse]
    if not trusted:
        return runs[0][1], runs[0][2]
    (first, expected), *others = trusted
    if not any(engine.startswith(Runtime.engine) for engine, *_ in runs) and _accepts(base):
        return expected, f"{first} runs the source; onnxruntime, which runs {base.name}, refuses it"
    for other, outputs in others:
        if complaint := difference(Case("", "", bare, {}, []), expected, outputs):
            return expected, f"{first} and {other} differ about the source: {complaint}"
    return expected, ""


def _accepts(base: Case) -> bool:
    """Whether onnxruntime runs the case that another one is derived from."""
    try:
        _run(Runtime, base.model, base.inputs)
    except EngineError:
        return False
    return True


def _elsewhere(places: set[tuple[str, int]]) -> Known:
    return lambda *place: place not in places


def _run(engine: Judge, of: ModelProto, given: Mapping[str, Any]) -> tuple[str, list[Any]]:
    session = engine(of)
    return session.engine, session.run(given)


def _copy(of: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(of)
    return copy
