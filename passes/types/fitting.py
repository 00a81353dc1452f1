"""Which integers of 64 bits have to keep their type, and why: those whose numbers may be beyond 32 bits."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from opshift.passes.analysis import scope as scopes
from opshift.passes.errors import Refusal, reason
from opshift.passes.model import tensors
from opshift.passes.model.messages import TensorProto, normalize_domain
from opshift.passes.model.traversal import results
from opshift.passes.types.operands import ANY, signature
from opshift.passes.types.problem import FREE, WIDE, Owner, Place, Problem, Value
from opshift.passes.types.ranges import MOST, Interval, Ranges
from opshift.passes.types.reasons import NONE, SHAPES, Reason
from opshift.passes.types.staying import Staying

T = TensorProto

_LACKING = {"Unique": "onnxruntime has no Unique for int32"}
SIZES_ALONE = Reason("its inputs and outputs are sizes, which are int64", SHAPES)
"""Why shapes that are computed of shapes stay."""
_KEPT = {"BitCast": (0,), "Loop": (0,), "Pad": (3,)}
"""Operands that stay int64: bits, the count of a Loop, and axes of Pad, of which onnx infers sizes only so."""


class Fitting(Staying):
    """Gives the variables of integers the reasons why they keep their type.

    Attributes:
        ranges: between which numbers values lie.
    """

    def __init__(self, problem: Problem, folder: str | None, given: Mapping[str, tuple[float, float]]):
        super().__init__(problem, folder)
        self._given = given
        self.ranges: Ranges | None = None

    def find(self) -> None:
        self._keep_asked()
        self._keep_operands()
        open_ends = self._open_ends()
        self._narrow_constants(open_ends)
        bounds = self.problem.wanted.bounds
        bound = scopes.open_main_graph(bounds, self._folder).shape if bounds is not None else None
        ranges = self.ranges = Ranges(self.problem, self.sizes, self._folder, self._given, open_ends, bound)
        for value in list(self.problem.values()):
            if not self.problem.moves(value.elem_type):
                continue
            known = ranges.of(value)
            if value.variable > 0:
                self._fit(value.variable, value, known)
            for place, index, at in value.readers:
                variable = place.reads[index][at] if index >= 0 else place.output_reads[at]
                if variable <= 0:
                    continue
                if id(value) in open_ends and value.tensor is not None:
                    self.limits[id(place), index, at] = MOST
                else:
                    self._fit(variable, value, known)
        for place in self.problem.places:
            self._weigh(place)

    def _weigh(self, place: Place) -> None:
        """Let arithmetic be narrow for its own sake, but what leads from sizes to sizes alone, both int64, as it is."""
        sizes, to_sizes = _only_of_sizes(place), _only_to_sizes(place)
        for index, node in enumerate(place.nodes):
            read, made = [name for name in node.input if name], [name for name in node.output if name]
            if all(name in sizes for name in read) and all(name in to_sizes for name in made):
                self.node(place, index, SIZES_ALONE)
            elif self.problem.wanted.target or (node.op_type in ARITHMETIC and not normalize_domain(node.domain)):
                self.pulling.add((id(place), index))

    def find_refusals(self, narrow: Sequence[bool], target: str) -> Iterator[Refusal]:
        """Name the nodes that still compute with int64, or read sizes that are computed, which the target does not."""
        for place in self.problem.places:
            sizes = _only_of_sizes(place)
            for index, node in enumerate(place.nodes):
                variables = [each for each in place.groups[index].values() if each > 0 and not narrow[each]]
                why = next(filter(None, (self.problem.reasons[each] for each in variables)), NONE)
                for at in _SIZES.get(node.op_type, ()) if not normalize_domain(node.domain) else ():
                    value = place.find(node.input[at]) if at < len(node.input) and node.input[at] else None
                    if (
                        value is not None
                        and value.elem_type == T.INT64
                        and value.tensor is None
                        and value.name in sizes
                    ):
                        why = why or Reason(f'"{value.name}" is a size that is computed', SHAPES)
                if why:
                    fix = "--fix-shape" if SHAPES in why.kinds else ""
                    first = node.name or next(filter(None, node.output), "")
                    said = reason(f"{why}; {target} keeps int64 in int32", fix=fix)
                    yield Refusal(first, node.op_type, normalize_domain(node.domain), 0, False, said)

    def _keep_operands(self) -> None:
        """Read as int64 what has to be, though the schema does not say so."""
        for place in self.problem.places:
            for index, node in enumerate(place.nodes):
                if normalize_domain(node.domain):
                    continue
                if node.op_type in _LACKING:
                    self.node(place, index, _LACKING[node.op_type])
                for at in _KEPT.get(node.op_type, ()):
                    value = place.find(node.input[at]) if at < len(node.input) and node.input[at] else None
                    if value is not None and value.elem_type == T.INT64:
                        place.reads[index][at] = WIDE
                        value.readers.append((place, index, at))

    # --- ends that are open -------------------------------------------------------------------------------------

    def _open_ends(self) -> set[int]:
        """The values that hold the largest or the least number and go nowhere but to ends of Slice, by identity."""
        found: set[int] = set()
        for value in self.problem.values():
            if value.tensor is not None and value.elem_type == T.INT64 and tensors.size(value.tensor) <= tensors.SMALL:
                held = tensors.integers(value.tensor)
                if held and not -MOST - 1 <= min(held) <= max(held) <= MOST:
                    reached = self._follow_to_slices(value)
                    found.update(map(id, reached or ()))
        return found

    def _follow_to_slices(self, value: Value) -> list[Value] | None:
        """The values that a value is moved to, if all it comes to in the end are ends of Slice; else None."""
        found, pending = [value], [value]
        while pending:
            for place, index, at in pending.pop().readers:
                if index < 0:
                    return None
                node = place.nodes[index]
                if normalize_domain(node.domain):
                    return None
                if at in _OPEN.get(node.op_type, ()):
                    continue
                if node.op_type not in _PASSING or (at and node.op_type != "Concat"):
                    return None
                made = place.values.get(node.output[0])
                if made is None:
                    return None
                if all(made is not each for each in found):
                    found.append(made)
                    pending.append(made)
        return found

    # --- what fits ----------------------------------------------------------------------------------------------

    def _fit(self, variable: int, value: Value, known: Interval | None) -> None:
        if known is None:
            self.problem.stay(variable, Reason(f'nothing bounds "{value.name}"', general="nothing bounds a value"))
        elif not known.fits:
            beyond = known.high if known.high > MOST else known.low
            large = f"may be {beyond:.0f}, which is beyond int32"
            self.problem.stay(variable, Reason(f'"{value.name}" {large}', general=f"a value {large}"))
        elif known.basis:
            self.assumed[variable] = self.assumed.get(variable, frozenset()) | known.basis

    def _narrow_constants(self, open_ends: Container[int]) -> None:
        """Let constants be int32 where an operator takes either type."""
        for place in self.problem.places:
            for index, node in enumerate(place.nodes):
                domain = normalize_domain(node.domain)
                for at, name in enumerate(node.input):
                    value = place.find(name) if name else None
                    if value is None or value.tensor is None or place.reads[index][at] != FREE:
                        continue
                    of = signature(domain, node.op_type, place.opsets.get(domain, 1))
                    operand = of.input(at) if of is not None else None
                    if value.elem_type != T.INT64 or operand is None or operand.group != ANY:
                        continue
                    if node.op_type != "Cast" or id(value) in open_ends:
                        place.reads[index][at] = self.problem.variable(value.elem_type, Owner(place, index))


_OPEN = {"Slice": (1, 2)}
"""The inputs that may hold the largest number for an end that is open."""
_PASSING = frozenset(("Cast", "Concat", "Identity", "Reshape", "Squeeze", "Unsqueeze"))
"""The operators by which an open end may come to a Slice."""
ARITHMETIC = frozenset(
    [
        *("Abs", "Add", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Clip", "CumSum", "Div"),
        *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "MatMul", "Max", "Min", "Mod", "Mul", "Neg"),
        *("Pow", "Range", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "Sign", "Sub", "Sum", "Where"),
    ]
)
_SIZES = {
    **{"CenterCropPad": (1,), "ConstantOfShape": (0,), "Expand": (1,), "Pad": (1,), "Reshape": (1,), "Resize": (3,)},
    **{"Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,), "Tile": (1,), "TopK": (1,), "Unsqueeze": (1,)},
    **{"Loop": (0,), "ReduceSum": (1,), "Trilu": (1,), "Upsample": (1,)},
}
"""The inputs that are sizes, and axes, of which int64 is asked for."""


def _only_of_sizes(place: Place) -> set[str]:
    """The values that hang on sizes and constants alone."""
    found = {value.name for value in place.values.values() if value.tensor is not None}
    for index, node in enumerate(place.nodes):
        made = node.op_type in ("Shape", "Size")
        plain = not normalize_domain(node.domain) and node.op_type not in ("If", "Loop", "Scan") and bool(node.input)
        if index not in place.calls and (made or (plain and all(name in found for name in node.input if name))):
            found.update(filter(None, node.output))
    return found


def _only_to_sizes(place: Place) -> set[str]:
    """The values that end as sizes alone."""
    ends = set(results(place.body))
    readers: dict[str, list[tuple[int, int]]] = {}
    for index, node in enumerate(place.nodes):
        for at, name in enumerate(node.input):
            readers.setdefault(name, []).append((index, at))
    hidden = {name for inner in place.inner.values() for name in _read_inside(inner)}
    found: set[str] = set()
    for index in reversed(range(len(place.nodes))):
        for name in filter(None, place.nodes[index].output):
            if name in ends or name in hidden or name not in readers:
                continue
            if all(_is_size(place, reader, at, found) for reader, at in readers[name]):
                found.add(name)
    return found


def _read_inside(place: Place) -> Iterator[str]:
    """The names that a body in a node reads."""
    yield from results(place.body)
    for node in place.nodes:
        yield from node.input
    for inner in place.inner.values():
        yield from _read_inside(inner)


def _is_size(place: Place, index: int, at: int, to_sizes: set[str]) -> bool:
    node = place.nodes[index]
    if normalize_domain(node.domain) or node.op_type in ("If", "Scan") or index in place.calls:
        return False
    return at in _SIZES.get(node.op_type, ()) or all(name in to_sizes for name in node.output if name)
