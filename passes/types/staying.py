"""What has to keep its type, and why: found by the constants and operators of a model, and by what was seen in runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from math import log, prod, sqrt

from opshift.passes.analysis import scope as scopes
from opshift.passes.analysis.scope import Scope
from opshift.passes.model import numbers, tensor_data, tensors
from opshift.passes.model.messages import NodeProto, TensorProto, ValueInfoProto, normalize_domain
from opshift.passes.model.types import is_fixed
from opshift.passes.types import constants, masks, vanishing
from opshift.passes.types.constants import Numbers
from opshift.passes.types.formats import FORMATS, Format, is_narrower
from opshift.passes.types.masks import HEAVY, MOVING
from opshift.passes.types.problem import FREE, WIDE, Owner, Place, Problem, Value, narrowing
from opshift.passes.types.reasons import ASKED, MEASURED, NONE, RANGE, Reason
from opshift.passes.types.wanted import Range, matches

T = TensorProto

Sizes = list[int | str | None]
METADATA = "opshift.types"
"""The key of a model's metadata under which is written what kept its type, and why."""

_HEAD, _HEAD_REAL = 4.0, 2.0
"""How much larger numbers may be than those seen, on inputs that were drawn and on those of a user."""
_SOUND_AXES = 2
"""The most axes of an input that may be a sound."""
_SQUARED = ("Pow", "ReduceSumSquare", "Square")
_MANY = 1024
"""Elements, of which a sum in a narrow type is not made."""
_MANY_AVERAGED = 8192
_FUSED = 4
"""Nodes between DequantizeLinear and QuantizeLinear that runtimes fuse into one."""
_HARDLY_SMALL = 1e-20
"""The least number of types in which squares of small numbers are still numbers."""
_STEPS_OF_GUARD = 16
"""So many times the least number of a type is a constant beside which others may become 0: 1e-6 in float16."""
_ANGLE = 16.0
"""Angles beyond this one are too far apart in a narrow type."""
_COORDINATES = 256.0


def _may_be_sound(value: ValueInfoProto) -> bool:
    """Whether an input may be a sound of any length. Noise has no tones, and a few samples no loud ones."""
    kind = value.type.tensor_type
    return kind.elem_type == T.FLOAT and 0 < len(kind.shape.dim) <= _SOUND_AXES and not is_fixed(kind.shape.dim[-1])


class Staying:
    """Gives the variables of a problem the reasons why they keep their types.

    Attributes:
        limits: the magnitude that takes the place of numbers beyond the range, for each reading of a constant: by
            the identity of the body, the node and the input.
        assumed: what was taken for granted of a variable, for it to become narrow.
        pulling: the nodes that become narrow for their own sake, by the identity of the body and their index.
        lost: how many numbers of constants become 0, by the name of the constant.
        unmatched: the options of a user that name no node.
    """

    def __init__(self, problem: Problem, folder: str | None):
        self.problem = problem
        self.limits: dict[tuple[int, int, int], float] = {}
        self.assumed: dict[int, frozenset[str]] = {}
        self.pulling: set[tuple[int, int]] = set()
        self.lost: dict[str, int] = {}
        self.unmatched: tuple[str, ...] = ()
        self._folder = folder
        self._scope: Scope | None = None
        self._held: dict[int, Numbers | None] = {}
        self._passed: set[int] = set()
        seen = problem.wanted.seen
        self._ranges: dict[str, Range] | None = dict(seen.ranges) if seen is not None else None
        self._keeps_masks = seen is not None and seen.exact_masks
        self._head = _HEAD_REAL if seen is not None and seen.real else _HEAD
        of_sounds = seen is not None and not seen.real and any(map(_may_be_sound, problem.model.graph.input))
        self._sees_squares = seen is not None and not of_sounds

    def find(self) -> None:
        """Find all reasons."""
        problem = self.problem
        self._keep_asked()
        if not problem.wanted.narrows:
            return
        for value in problem.constants:
            if value.target:
                self._constant(value)
        for place in problem.places:
            for index, op in enumerate(place.ops):
                rule = RULES.get(op)
                if rule is not None:
                    rule(self, place, index, place.nodes[index])
        self._keep_measured()

    # --- what is asked ------------------------------------------------------------------------------------------

    def _keep_asked(self) -> None:
        wanted = self.problem.wanted
        before = self._read_kept_before()
        if not (wanted.keep or wanted.only or wanted.held or before or wanted.seen):
            return
        nodes = [node for place in self.problem.places for node in place.nodes]
        self.unmatched = tuple(
            f"{option} {pattern}"
            for option, patterns in (("--keep", wanted.keep), ("--only", wanted.only))
            for pattern in patterns
            if not any(matches((pattern,), node) for node in nodes)
        )
        choices = wanted.seen.choices if wanted.seen is not None else {}
        for place in self.problem.places:
            for index, node in enumerate(place.nodes):
                first = next(filter(None, node.output), "")
                why = NONE
                if found := matches(wanted.keep, node):
                    why = Reason(f"--keep {found}", ASKED)
                elif wanted.only and not matches(wanted.only, node):
                    why = Reason("--only does not name it", ASKED)
                elif first in wanted.held:
                    why = wanted.held[first]
                    self._keep_bodies(place, index, why)
                elif first in before:
                    why = before[first]
                elif first in choices:
                    self._choose(place, node, choices[first])
                if why:
                    self.node(place, index, why)

    def _keep_bodies(self, place: Place, index: int, why: Reason) -> None:
        """All in the bodies of a node keeps its type, and what they yield."""
        bodies = [inner for (at, _, _), inner in place.inner.items() if at == index]
        for value in [place.values.get(name) for name in place.outputs[index]] if bodies else ():
            if value is not None:
                self.problem.stay(value.variable, why)
        for inner in bodies:
            for each in range(len(inner.nodes)):
                self.node(inner, each, why)
                self._keep_bodies(inner, each, why)

    def _choose(self, place: Place, node: NodeProto, why: Reason) -> None:
        """What is chosen from keeps its type, back to where it is computed: all on the way moves the choice as well."""
        pending = [place.find(name) for name in node.input]
        for value in pending:
            if (
                value is None
                or value.tensor is not None
                or not self.problem.moves(value.elem_type)
                or len(pending) > 64
            ):
                continue
            self.value(value, why)
            maker = value.place.nodes[value.maker] if value.maker >= 0 else None
            if maker is not None and maker.op_type not in HEAVY:
                pending += [value.place.find(name) for name in maker.input]

    def _read_kept_before(self) -> dict[str, Reason]:
        """Read from the metadata which nodes an earlier run kept, with the reason, by their first output."""
        if not self.problem.wanted.narrows:
            return {}
        for entry in self.problem.model.metadata_props:
            if entry.key == METADATA:
                try:
                    held = json.loads(entry.value)
                    names = [FORMATS[target].name for target in self.problem.wanted.mapping.values()]
                    return {str(k): Reason(str(v)) for name in names for k, v in held.get(name, {}).items()}
                except (ValueError, AttributeError):
                    return {}
        return {}

    # --- how it is said -----------------------------------------------------------------------------------------

    def node(self, place: Place, index: int, why: str) -> None:
        """Let all that a node reads and makes keep its type."""
        for variable in place.groups[index].values():
            self.problem.stay(variable, why)

    def value(self, value: Value, why: str) -> None:
        """Let a value keep its type, and all nodes that read it."""
        self.problem.stay(value.variable, why)
        for place, index, at in value.readers:
            if index >= 0 and place.reads[index][at] > 0:
                if place.nodes[index].op_type in MOVING:
                    continue  # which passes on what it is given
                self.problem.stay(place.reads[index][at], why)

    def format(self, elem_type: int) -> Format:
        """The type that a type becomes."""
        return FORMATS[self.problem.wanted.mapping[elem_type]]

    def _is_narrowed(self, place: Place, index: int) -> int:
        """The type of a node's operands that would become narrower; 0 without one."""
        for variable in place.groups[index].values():
            if narrowing(self.problem, variable):
                return self.problem.elem_types[variable]
        return 0

    def range(self, value: Value | None) -> Range | None:
        """The numbers that a value was seen to have."""
        if value is None or self._ranges is None or value.place is not self.problem.main:
            return None
        return self._ranges.get(value.name)

    def numbers(self, value: Value | None) -> Numbers | None:
        """What a constant holds; None for other values."""
        if value is None or value.tensor is None or not self.problem.moves(value.elem_type):
            return None
        if id(value) not in self._held:
            target = self.problem.wanted.mapping[value.elem_type]
            self._held[id(value)] = constants.numbers(value.tensor, target, self._folder)
        return self._held[id(value)]

    def _largest(self, value: Value | None) -> float | None:
        """The largest magnitude in a constant."""
        held = self.numbers(value)
        return None if held is None else held.most

    def scalar(self, value: Value | None) -> float | None:
        """The number that a constant of one element holds."""
        if value is None or value.tensor is None or tensors.size(value.tensor) != 1:
            return None
        held = tensor_data.load(value.tensor, self._folder)
        found = numbers.read(held) if held is not None else None
        return None if found is None else float(found[0])

    def sizes(self, name: str) -> Sizes | None:
        """The sizes of a value of the main graph."""
        found = self._open().shape(name)
        return None if found is None else list(found)

    def _open(self) -> Scope:
        if self._scope is None:
            self._scope = scopes.open_main_graph(self.problem.model, self._folder)
        return self._scope

    # --- constants ----------------------------------------------------------------------------------------------

    def _constant(self, value: Value) -> None:
        assert value.tensor is not None, "it is a constant"
        held, form = self.numbers(value), self.format(value.elem_type)
        if held is None or not is_narrowed_type(self.problem, value.elem_type):
            return
        if held.beyond:
            self._beyond(value, held, form)
        if held.lost:
            self._vanishing(value, held, form)
        if held.least < form.normal:
            self._scales(value, form)

    def _beyond(self, value: Value, held: Numbers, form: Format) -> None:
        """Numbers beyond the range: bounds become the type's own, masks make room, all else keeps its type."""
        flow, limit = None, None
        why = Reason(f"its constant {held.most:.3g} is beyond the range of {form.name}", RANGE)
        for place, index, at in value.readers:
            if index < 0 or place.reads[index][at] <= 0:
                continue
            op = place.nodes[index].op_type if not normalize_domain(place.nodes[index].domain) else ""
            if (op == "Clip" and at in (1, 2)) or op in ("Min", "Max"):
                self.limits[id(place), index, at] = form.most
                continue
            if flow is None:
                flow = masks.follow(self.problem, value)
                limit = masks.replacement(flow, held.most, form, None if self._keeps_masks else self._ranges)
                if limit is not None:
                    self._passed.update(id(each) for each in flow.values)
                holds = Reason(f"it holds {held.most:.3g}, which is beyond the range of {form.name}", RANGE)
                for each in flow.values if limit is None else ():
                    self.value(each, holds)
            if limit is None:
                self.problem.stay(place.reads[index][at], why)
            else:
                self.limits[id(place), index, at] = limit

    def _vanishing(self, value: Value, held: Numbers, form: Format) -> None:
        used = False
        for place, index, at in value.readers:
            if index < 0 or place.reads[index][at] <= 0:
                continue
            node, variable = place.nodes[index], place.reads[index][at]
            op = node.op_type if not normalize_domain(node.domain) else ""
            told = f"{held.least:.3g}" if held.size == 1 else f"numbers down to {held.least:.3g}"
            used = True
            if op == "Div" and at == 1:
                self.problem.stay(variable, Reason(f"its divisor {told} would become 0", RANGE))
            elif op == "Mul" and (held.size == 1 or held.channel):
                made = place.values.get(node.output[0])
                if made is not None:
                    self.value(made, Reason(f"its factor {told} would become 0", RANGE))
            elif op in ("Add", "Sum", "Sub", "Max") or (op == "Clip" and at == 1):
                self._guards(place, node, held.least, form)
            elif at == _BIAS.get(op):
                continue  # beside numbers that are multiplied, what is added is too small to be seen
            elif op in _WEIGHTED:
                if held.channel and (held.most <= form.vanishes_below or self._is_scaled(place, node, value, form)):
                    general = "a channel of a weight would become 0"
                    why = Reason(f"a channel of {value.name} would become 0", RANGE, general=general)
                    self.problem.stay(variable, why)
            elif op in ("QuantizeLinear", "DequantizeLinear"):
                self.problem.stay(variable, Reason(f"its scale {told} would become 0", RANGE))
        if used:
            self.lost[value.name] = held.lost

    def _guards(self, place: Place, node: NodeProto, least: float, form: Format) -> None:
        """A number that would become 0, where it keeps the result of a node from 0."""
        made = place.values.get(node.output[0])
        if made is not None and self._matters(made, least, form, set()):
            self.value(made, _keeps_from_zero(least, form))

    def _matters(self, value: Value, least: float, form: Format, seen: set[int]) -> bool:
        """Whether it matters to those that read a value that it is at least so small a number, and not 0 or rounded.

        What is on the way keeps its type.
        """
        if id(value) in seen or len(seen) > 64:
            return False
        seen.add(id(value))
        vanishes = least <= form.vanishes_below
        why = _keeps_from_zero(least, form)
        found = False
        for place, index, at in value.readers:
            if index < 0:
                continue
            node = place.nodes[index]
            op = node.op_type if not normalize_domain(node.domain) else ""
            made = place.values.get(node.output[0])
            if op in MOVING or op in ("Max", "Abs", "Where", "Clip", "Mul", "Neg"):
                if op == "Mul" and self.scalar(place.find(node.input[1 - at])) is None:
                    continue
                if made is not None and self._matters(made, least, form, seen):
                    self.value(made, why)
                    found = True
                continue
            reached = _SENSITIVE.get(op)
            if reached is None or (op == "Div" and at == 0) or (op == "Pow" and at == 1):
                continue
            found |= vanishes
            power = self.scalar(place.find(node.input[1])) if op == "Pow" else None
            after = reached(least) if power is None else least**power
            if made is None or op == "Log" or (op == "Div" and self.scalar(place.find(node.input[0])) is None):
                continue
            if after < 1 / form.most and self._matters(made, after, form, seen):
                self.value(made, why)
            elif after > form.most:
                found = True
                self.value(made, Reason(f"it reaches 1 / {least:.3g}, which is beyond the range of {form.name}", RANGE))
        return found

    def _is_scaled(self, place: Place, node: NodeProto, weight: Value, form: Format) -> bool:
        """Whether what a node makes is scaled, so that small channels of its weight count."""
        name = node.output[0]
        for _ in range(4):
            value = place.values.get(name)
            if value is None:
                return False
            following = [place.nodes[index] for where, index, _ in value.readers if where is place and index >= 0]
            for reader in following:
                if reader.op_type == "BatchNormalization":
                    if self._scales_channels(place, reader, weight, form):
                        return True
                elif reader.op_type in _SCALING and self._scales_by(place, reader, name):
                    return True
            following = [reader for reader in following if reader.op_type == "Add" or reader.op_type in MOVING]
            if not following:
                return False
            name = following[0].output[0]
        return False

    def _scales_by(self, place: Place, node: NodeProto, name: str) -> bool:
        """Whether a node may scale a value by much: two values that are multiplied scale nothing."""
        if node.op_type not in ("Mul", "Div"):
            return True
        others = [place.find(other) for other in node.input if other != name]
        if not others or others[0] is None or others[0].tensor is None:
            return False
        held = self.numbers(others[0]) if node.op_type == "Mul" else None
        return held is None or held.most >= _LARGE_FACTOR

    def _scales_channels(self, place: Place, node: NodeProto, weight: Value, form: Format) -> bool:
        """Whether BatchNormalization makes channels large of which the weights of Conv become 0.

        Training leaves channels without use, of weights and scales that are both next to 0.
        """
        import numpy as np

        operands = [place.find(node.input[1]), place.find(node.input[4]), weight]
        tensors = [each.tensor if each is not None else None for each in operands]
        numbers = [constants.read(each, self._folder) if each is not None else None for each in tensors]
        scale, variance, weights = numbers
        if scale is None or variance is None or weights is None:
            return True
        factors = np.abs(scale) / np.sqrt(np.maximum(variance, 0) + float(place.value_of(node, "epsilon", 1e-5)))
        largest = np.abs(weights).reshape(len(weights), -1).max(axis=1)
        if len(largest) == len(factors):
            factors = factors[(largest > 0) & (largest <= form.vanishes_below)]
        return bool(factors.max(initial=0) >= _LARGE_FACTOR)

    def _scales(self, value: Value, form: Format) -> None:
        """Scales that lose precision, since they are among the least numbers of the type."""
        for place, index, at in value.readers:
            if index < 0 or at != 1 or place.reads[index][at] <= 0:
                continue
            if place.nodes[index].op_type in ("QuantizeLinear", "DequantizeLinear"):
                self.problem.stay(place.reads[index][at], Reason(f"its scale loses precision in {form.name}", RANGE))

    # --- operators ----------------------------------------------------------------------------------------------

    def sums(self, place: Place, index: int, node: NodeProto) -> None:
        """A sum over many elements, or of squares."""
        elem_type = self._is_narrowed(place, index)
        if not elem_type:
            return
        value = place.find(node.input[0])
        count = self._count(place, node)
        averages = node.op_type in ("ReduceMean", "GlobalAveragePool", "AveragePool")
        if count is not None and count > (_MANY_AVERAGED if averages else _MANY):
            self.node(place, index, f"it adds up {count} numbers")
            return
        if averages or node.op_type in ("ReduceSum", "GlobalLpPool", "LpPool"):
            return
        seen = self.range(value)
        most = self.format(elem_type).most
        if seen is not None and seen.most**2 * (count or 1) * self._head**2 > most:
            self.node(place, index, Reason(f"it adds up squares of numbers up to {seen.most:.3g}", MEASURED, RANGE))

    def _count(self, place: Place, node: NodeProto) -> int | None:
        """How many elements are added up, as far as their sizes are known."""
        if place is not self.problem.main:
            return None
        sizes = self._sizes_along(place, node, self.problem.declared_sizes(node.input[0]))
        if sizes is None or not all(isinstance(size, int) for size in sizes):
            sizes = self._sizes_along(place, node, self.sizes(node.input[0]))
        return None if sizes is None else prod(size for size in sizes if isinstance(size, int))

    def _sizes_along(self, place: Place, node: NodeProto, sizes: Sizes | None) -> Sizes | None:
        """The sizes of the axes along which a node adds up."""
        if sizes is None:
            return None
        axes = place.value_of(node, "axes")
        if axes is None and len(node.input) > 1 and node.input[1]:
            value = place.find(node.input[1])
            axes = tensors.integers(value.tensor) if value is not None and value.tensor is not None else None
            if axes is None:
                held = self._open().ints(node.input[1])
                axes = list(held) if held is not None else None
        if node.op_type.startswith("Global"):
            axes = list(range(2, len(sizes)))
        try:
            return sizes if axes is None else [sizes[axis] for axis in axes]
        except IndexError:
            return None

    def divides(self, place: Place, index: int, node: NodeProto) -> None:
        """A division, or Log, of small numbers that are made of others, such as the variance of a row."""
        elem_type = self._is_narrowed(place, index)
        if not elem_type or self.format(elem_type).least < _HARDLY_SMALL:
            return
        form, op = self.format(elem_type), node.op_type
        divisor = place.find(node.input[1] if op == "Div" else node.input[0])
        ends = vanishing.SQUARES | vanishing.PROBABILITIES if op == "Log" else vanishing.SQUARES
        guard = _STEPS_OF_GUARD * form.least
        small = list(vanishing.find(divisor, ends, self._largest, guard))
        rooted = vanishing.is_root(divisor)
        if small and op == "Div" and not rooted:  # as the product of two rows by that of their sizes
            small += vanishing.find(place.find(node.input[0]), ends, self._largest, guard)
        use = "its logarithm is taken" if op == "Log" else "it is a divisor"
        for value in small:
            why = Reason(f"small numbers in it would become 0 in {form.name}, and {use}", RANGE)
            self.problem.stay(value.variable, why)
        if not small or divisor is None:
            return
        made, numerator = place.values.get(node.output[0]), place.find(node.input[0])
        if made is not None and op != "Log" and (op != "Div" or (numerator and numerator.tensor is not None)):
            why = Reason(f"it divides by small numbers, and may be beyond the range of {form.name}", RANGE)
            self.value(made, why)
        elif op == "Log" or not rooted:
            self.node(place, index, Reason(f"small numbers that it reads would become 0 in {form.name}", RANGE))

    def powers(self, place: Place, index: int, node: NodeProto) -> None:
        """Pow, which divides where the power is negative."""
        power = self.scalar(place.find(node.input[1]))
        rule = Staying.divides if power is not None and power < 0 else Staying.exponential
        rule(self, place, index, node)

    def bounds(self, place: Place, index: int, node: NodeProto) -> None:
        """Clip whose lower bound is an attribute that would become 0."""
        elem_type, least = self._is_narrowed(place, index), place.value_of(node, "min")
        if elem_type and least is not None and 0 < least <= self.format(elem_type).vanishes_below:
            self._guards(place, node, least, self.format(elem_type))

    def running_sums(self, place: Place, index: int, node: NodeProto) -> None:
        """CumSum."""
        if self._is_narrowed(place, index):
            self.node(place, index, "it adds up along an axis")

    def normalizes(self, place: Place, index: int, node: NodeProto) -> None:
        """A normalization whose epsilon is added, and whose squares are summed up, in the type of its input."""
        elem_type = self._is_narrowed(place, index)
        if not elem_type:
            return
        form = self.format(elem_type)
        if place.opsets.get("", 1) >= 21 and node.op_type == "GroupNormalization":
            return
        epsilon = float(place.value_of(node, "epsilon", 1e-5))
        if node.op_type == "MeanVarianceNormalization":
            epsilon = 1e-9
        if node.op_type != "LpNormalization" and epsilon <= form.vanishes_below:
            self.node(place, index, Reason(f"its epsilon {epsilon:.3g} would become 0 in {form.name}", RANGE))
            return
        seen = self.range(place.find(node.input[0]))
        squares = node.op_type != "BatchNormalization" and seen is not None
        if squares and seen is not None and (seen.most * self._head) ** 2 > form.most:
            self.node(place, index, Reason(f"it squares numbers up to {seen.most:.3g}", MEASURED, RANGE))
        if node.op_type == "BatchNormalization":
            for group in ("T2", "U"):
                if group in place.groups[index]:
                    self.problem.stay(place.groups[index][group], "mean and variance keep their type")

    def exponential(self, place: Place, index: int, node: NodeProto) -> None:
        """Exp, Pow and Mul by a large constant, as far as nothing was seen of them."""
        elem_type = self._is_narrowed(place, index)
        if not elem_type or (self._sees_squares and place is self.problem.main):
            return
        form = self.format(elem_type)
        made = place.values.get(node.output[0])
        if made is None or form.most > 1e30:
            return
        factors = [self.scalar(place.find(name)) for name in node.input] if node.op_type == "Mul" else []
        if node.op_type == "Exp" or any(factor is not None and abs(factor) > form.most for factor in factors):
            self._keep_unbounded(made, Reason(f"its result may be beyond the range of {form.name}", RANGE))
            return
        squares = node.op_type == "Mul" and node.input[0] == node.input[1]
        power = self.scalar(place.find(node.input[1])) if node.op_type == "Pow" else 2.0 if squares else None
        if power is not None and power > 1 and not self._is_bounded(place, node.input[0]):
            self._keep_unbounded(made, Reason(f"its squares may be beyond the range of {form.name}", RANGE))

    def _is_bounded(self, place: Place, name: str) -> bool:
        """Whether a value lies between -1 and 1, or about so, by what makes it."""
        value = place.find(name)
        while value is not None and value.maker >= 0 and value.place.nodes[value.maker].op_type in MOVING:
            value = value.place.find(value.place.nodes[value.maker].input[0])
        return value is not None and value.maker >= 0 and value.place.nodes[value.maker].op_type in _BOUNDED

    def _keep_unbounded(self, value: Value, why: Reason) -> None:
        """Let a value keep its type that may be large, and what is made of it until it is bounded again."""
        path = [value]
        ends = False
        for each in path:
            for place, index, _ in each.readers:
                if index < 0:
                    continue
                node = place.nodes[index]
                op = node.op_type if not normalize_domain(node.domain) else ""
                if op in ("Sqrt", "Log") or (op == "Pow" and each.name == node.input[0]):
                    ends = True
                elif op in MOVING or op in ("ReduceMean", "ReduceSum", "Add", "Mul", "Div", "Sum"):
                    made = place.values.get(node.output[0])
                    if op == "Div" and each.name != node.input[1]:
                        continue
                    if op == "Div":
                        ends = True
                    elif op == "Mul" and self.scalar(place.find(node.input[0])) is None:
                        if self.scalar(place.find(node.input[1])) is None:
                            continue
                    elif made is not None and made not in path and len(path) < 32:
                        path.append(made)
        if ends:
            for each in path:
                self.value(each, why)

    def angles(self, place: Place, index: int, node: NodeProto) -> None:
        """Sin and Cos of positions times frequencies: positions are integers, and rounded beyond some thousand."""
        if not self._is_narrowed(place, index):
            return
        first = place.find(node.input[0])
        path, integers = self._angle(first) if first is not None else ([], False)
        seen = self.range(first)
        if integers:
            why = Reason("it is an angle that is made of integers")
        elif seen is not None and seen.most > _ANGLE:
            why = Reason(f"it is an angle up to {seen.most:.3g}", MEASURED)
            path = path[:1]
        else:
            return
        for value in path:
            self.value(value, why)

    def _angle(self, start: Value) -> tuple[list[Value], bool]:
        """The values that a value is made of, from the last one back, and whether integers are among them."""
        path: list[Value] = []
        integers = False
        pending: list[Value | None] = [start]
        while pending and len(path) < 64:
            value = pending.pop(0)
            if value is None or value in path or not self.problem.moves(value.elem_type) or value.tensor is not None:
                continue
            place = value.place
            if value.maker < 0:
                if value.name in place.given:
                    path.append(value)
                    pending.append(place.given[value.name])
                continue
            maker = place.nodes[value.maker]
            op = maker.op_type if not normalize_domain(maker.domain) else ""
            if op == "Cast":
                path.append(value)
                before = place.find(maker.input[0])
                integers |= before is not None and before.elem_type in _INTEGERS
                pending.append(before)
            elif op in ("Range", "CumSum"):
                integers = True
                path.append(value)
            elif op in MOVING or op in _STEPS:
                path.append(value)
                pending += [place.find(name) for name in maker.input if name]
        return path, integers

    def casts(self, place: Place, index: int, node: NodeProto) -> None:
        """Casts of integers, which are sizes or positions, and to integers, which are indices."""
        value = place.find(node.input[0])
        made = place.values.get(node.output[0])
        if value is None:
            return
        if made is not None and self.problem.moves(made.elem_type) and value.elem_type in _INTEGERS:
            target = self.problem.wanted.mapping[made.elem_type]
            if self.range(made) is None and self._is_position(place, node.input[0]):
                self.value(made, f"it is a size or a position, which {FORMATS[target].name} rounds")
        elif self.problem.moves(value.elem_type) and place.value_of(node, "to", 0) in (T.INT32, T.INT64):
            path, integers = self._angle(value)
            unseen = self.range(value) is None and (value.place is not self.problem.main or self._ranges is None)
            if integers or unseen:
                for each in path if integers else path[:2]:
                    self.value(each, "it is cast to an integer, for an index or a count")

    def compares(self, place: Place, index: int, node: NodeProto) -> None:
        """Comparisons with an integer that is rounded."""
        for name in node.input:
            value = place.find(name)
            number = self.scalar(value)
            if number is None or value is None or not self.problem.moves(value.elem_type) or number % 1:
                continue
            if abs(number) > self.format(value.elem_type).integers:
                why = f"it compares with {number:.0f}, which {self.format(value.elem_type).name} rounds"
                for operand in map(place.find, node.input):
                    if operand is not None:
                        self.value(operand, why)

    def _is_position(self, place: Place, name: str) -> bool:
        """Whether an integer is a size, a position, or a count, by what makes it."""
        for _ in range(8):
            value = place.find(name)
            if value is None or value.maker < 0 or value.place is not place:
                return False
            node = place.nodes[value.maker]
            if node.op_type in _COUNTING:
                return True
            if node.op_type not in MOVING and node.op_type not in ("Add", "Sub", "Mul", "Div", "Cast"):
                return False
            name = node.input[0]
        return False

    def positions(self, place: Place, index: int, node: NodeProto) -> None:
        """Boxes in pixels, or where an image is sampled."""
        if not self._is_narrowed(place, index):
            return
        seen = self.range(place.find(node.input[1])) if len(node.input) > 1 else None
        if node.op_type == "GridSample":
            grid = place.find(node.input[1])  # which may be of either type, whatever the image is
            maker = grid.place.nodes[grid.maker] if grid is not None and grid.maker >= 0 else None
            if grid is not None and maker is not None and maker.op_type not in HEAVY:
                self.value(grid, "it says where an image is sampled")
        elif seen is None or seen.most * self._head > _COORDINATES:
            self.node(place, index, "its boxes are coordinates, which are rounded")

    def quantization(self, place: Place, index: int, node: NodeProto) -> None:
        """Below opset 19 the operators of a quantized part take float32 alone, and so does what stands between."""
        if place.opsets.get("", 1) >= 19:
            self._together(place, index, node)
        elif node.op_type == "QuantizeLinear":
            self._keep_quantized_part(place, node)

    def _keep_quantized_part(self, place: Place, node: NodeProto) -> None:
        """Nodes between DequantizeLinear and QuantizeLinear, which runtimes fuse with both."""
        path, pending = list[int](), [(node.input[0], 0)]
        while pending:
            name, depth = pending.pop()
            value = place.find(name)
            if value is None or value.place is not place or value.maker < 0:
                continue
            maker = place.nodes[value.maker]
            if maker.op_type == "DequantizeLinear":
                for index in path:
                    self.node(
                        place,
                        index,
                        "it is between DequantizeLinear and QuantizeLinear, which need float32 below opset 19",
                    )
                return
            if depth < _FUSED and value.maker not in path:
                path.append(value.maker)
                pending += [(each, depth + 1) for each in maker.input]

    def _together(self, place: Place, index: int, node: NodeProto) -> None:
        """Nothing stands between an operator of a quantized part and its neighbours."""
        if node.op_type == "DequantizeLinear":
            value = place.values.get(node.output[0])
            for where, at, which in value.readers if value is not None else ():
                variable = where.reads[at][which] if at >= 0 else FREE
                if value is not None and variable > 0 and value.variable > 0:
                    self.problem.ties.append((value.variable, variable))
            return
        value = place.find(node.input[0])
        variable = place.reads[index][0]
        if value is not None and value.variable > 0 and variable > 0:
            self.problem.ties.append((value.variable, variable))

    def accumulates(self, place: Place, index: int, node: NodeProto) -> None:
        """What a Loop or a Scan adds to, round after round."""
        for (at, _, _), inner in place.inner.items():
            if at != index or node.op_type not in ("Loop", "Scan"):
                continue
            for where, variable in enumerate(inner.output_reads):
                formal = next((v for v in inner.values.values() if v.variable == variable and v.maker < 0), None)
                if variable <= 0 or formal is None:
                    continue
                if self._adds_up(inner, formal, where):
                    why = f"the {node.op_type} adds to it, round after round"
                    self.value(formal, why)

    def _adds_up(self, inner: Place, formal: Value, where: int) -> bool:
        """Whether a carried value comes out as itself with something added."""
        pending, seen, added = [formal], set[int](), False
        while pending:
            value = pending.pop()
            for place, index, at in value.readers:
                if place is not inner:
                    continue
                if index < 0:
                    if at == where and value is not formal:
                        added = True
                    continue
                node = inner.nodes[index]
                if node.op_type in ("Add", "Sub", "Sum", "Where", "Identity", "Cast") and index not in seen:
                    seen.add(index)
                    made = inner.values.get(node.output[0])
                    if made is not None:
                        pending.append(made)
        return added

    # --- what was seen ------------------------------------------------------------------------------------------

    def _keep_measured(self) -> None:
        if self._ranges is None:
            return
        for value in list(self.problem.main.values.values()):
            seen = self._ranges.get(value.name)
            if seen is None or value.tensor is not None or id(value) in self._passed:
                continue
            if not self.problem.moves(value.elem_type) or not is_narrowed_type(self.problem, value.elem_type):
                continue
            form, head = self.format(value.elem_type), self._head
            if value.maker >= 0:
                node = self.problem.main.nodes[value.maker]
                if node.op_type in _SQUARED or (node.op_type == "Mul" and node.input[0] == node.input[1]):
                    head = head**2
            if seen.most * head > form.most:
                if value.variable == WIDE and seen.most <= form.most:
                    continue
                self.value(value, Reason(f"it reaches {seen.most:.3g}", MEASURED, RANGE))
            elif 0 < seen.most <= form.normal / 16:
                self.value(value, Reason(f"it is {seen.most:.3g} at most", MEASURED, RANGE))
            elif seen.whole:
                why = f"it holds integers up to {seen.most:.0f}, which {form.name} rounds"
                self.value(value, Reason(why, MEASURED))


_BOUNDED = frozenset(["Sin", "Cos", "Tanh", "Sigmoid", "Softmax", "Erf", "HardSigmoid", "Softsign", "Hardmax"])
_WEIGHTED = ("Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "RNN")
_LARGE_FACTOR = 64.0
"""A factor from which on channels count that are too small for the type."""
_BIAS = {"Conv": 2, "ConvTranspose": 2, "Gemm": 2, "LSTM": 3, "GRU": 3, "RNN": 3}
"""Where operators take numbers that they add."""
_COUNTING = (
    *("Shape", "Size", "Range", "NonZero", "CumSum", "ArgMax", "ArgMin", "MatMulInteger", "ConvInteger"),
    "MatMulIntegerToFloat",
)
_STEPS = (
    *("Mul", "MatMul", "Einsum", "Add", "Div", "Sub", "Where", "Floor", "Ceil", "Round", "Mod", "Clip", "Min", "Max"),
    *("Neg", "Pow", "Exp", "Reciprocal", "Log", "Abs", "Sqrt"),
)
"""The operators through which an angle or an index is followed to what it is made of."""
_SCALING = ("BatchNormalization", "InstanceNormalization", "Mul", "Div", "LpNormalization")
_INTEGERS = (T.INT64, T.INT32, T.UINT64, T.UINT32, T.INT16, T.UINT16)

_SENSITIVE: dict[str, Callable[[float], float]] = {
    "Sqrt": sqrt,
    "Log": lambda least: -log(least),
    "Div": lambda least: 1 / least,
    "Reciprocal": lambda least: 1 / least,
    "Pow": lambda least: least,
}
"""The operators for which it matters that a number is not 0, and what they make of a small one."""

Rule = Callable[[Staying, Place, int, NodeProto], None]

RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            *("ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp"),
            *("ReduceMean", "GlobalAveragePool", "ReduceProd"),
        ),
        Staying.sums,
    ),
    **dict.fromkeys(("CumSum", "CumProd", "DFT", "STFT", "MelWeightMatrix"), Staying.running_sums),
    **dict.fromkeys(
        (
            *("BatchNormalization", "InstanceNormalization", "GroupNormalization", "LpNormalization"),
            *("MeanVarianceNormalization", "LRN"),
        ),
        Staying.normalizes,
    ),
    **dict.fromkeys(("Exp", "Mul"), Staying.exponential),
    **dict.fromkeys(("Div", "Log", "Reciprocal"), Staying.divides),
    "Pow": Staying.powers,
    "Clip": Staying.bounds,
    **dict.fromkeys(("Sin", "Cos", "Tan"), Staying.angles),
    "Cast": Staying.casts,
    **dict.fromkeys(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"), Staying.compares),
    **dict.fromkeys(("RoiAlign", "MaxRoiPool", "GridSample"), Staying.positions),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), Staying.quantization),
    **dict.fromkeys(("Loop", "Scan"), Staying.accumulates),
}
"""The rule for each operator that has one. A new rule is a method and a line here."""


def _keeps_from_zero(least: float, form: Format) -> Reason:
    return Reason(f"{least:.3g}, which keeps it from 0, would become 0 in {form.name}", RANGE)


def is_narrowed_type(problem: Problem, elem_type: int) -> bool:
    """Whether a type becomes one that holds fewer numbers."""
    return elem_type in problem.wanted.mapping and is_narrower(elem_type, problem.wanted.mapping[elem_type])


def owners(problem: Problem) -> Iterator[tuple[int, Owner]]:
    """The variables of nodes that have a reason to keep their type."""
    for variable, owner in enumerate(problem.owners):
        if owner is not None and owner.node >= 0 and problem.reasons[variable]:
            yield variable, owner
