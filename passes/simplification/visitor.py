"""Visits nodes, one after the other: rules are tried, constants computed, and what is computed twice becomes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import chain

from opshift.passes.analysis import kernels
from opshift.passes.analysis.inferring.type_inference import is_whole
from opshift.passes.changes import GRANTED, Change
from opshift.passes.model import schemas
from opshift.passes.model import tensors as constants
from opshift.passes.model.attributes import attribute_value, make_attribute
from opshift.passes.model.messages import NodeProto, TensorProto, TypeProto, normalize_domain
from opshift.passes.model.traversal import graphless
from opshift.passes.model.types import dims_of, elem_type_of, has_shape
from opshift.passes.rewrite.says import sentence_of
from opshift.passes.simplification import rules, shape_values
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.equal_constants import content
from opshift.passes.simplification.workspace import LARGEST, Workspace

_MOST_CHANGES = 16  # of one node in one round


_RANDOM = frozenset(
    ["Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]
)


_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)


_COMMUTATIVE = frozenset(["Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Mul", "Or", "Xor"])


_FOLDED = "Folded constants"


_HELD = "Made a Constant node an initializer"


_REPEATED = "Removed a repeated computation"


SHARED = "Merged equal constants"


class Visit:
    """One walk over nodes, with the rules by operator that are `tried`."""

    def __init__(self, space: Workspace, tried: Mapping[str, Sequence[rules.Rule]]):
        self._space = space
        self._whole = space.whole
        self._rules = tried
        self._binds = space.whole.allowance.binds
        self._graphless = graphless()

    def node(self, node: NodeProto, index: int | None) -> list[NodeProto]:
        """What takes the place of a node."""
        space = self._space
        self.resolve(node)
        op, domain = node.op_type, node.domain
        if op not in self._graphless or domain:
            self._inside(node, index)
        if (domain and normalize_domain(domain)) or not any(node.output[:]) or space.is_open(node):
            space.register(node)
            return [node]
        before: list[NodeProto] = []
        for _ in range(_MOST_CHANGES):
            spliced = self._replace_control_flow(node) if op in ("If", "Loop") else None
            if spliced is not None:
                return [made for inner in spliced for made in self.node(inner, None)]
            call = Call(node, space)
            how = self._apply_rule(call)
            before += call.before
            if how is None:
                break
            if how == "":
                return before
            op = node.op_type
        else:
            self._whole.stirred = True
            call = Call(node, space)
        followed = space.followed is node  # as a rule asked for it
        if self._whole.measures and space.opset >= 7 and shape_values.knows(call.op) and not followed:
            shape_values.follow(call)
        if (call.output and self._fold(call)) or self._merge(call):
            return before
        space.register(node)
        return [*before, node]

    def resolve(self, node: NodeProto) -> None:
        """Let a node read what stands for its inputs."""
        space, inputs = self._space, node.input[:]
        if space.parent is None and space.alias.keys().isdisjoint(inputs):
            return
        for k, name in enumerate(inputs):
            if name and (value := space.resolve(name)) != name:
                node.input[k] = value

    def _apply_rule(self, call: Call) -> str | None:
        """Apply the first rule that changes something: None if none did, "" if the node is gone."""
        node, op = call.proto, call.op
        self._space.followed = None
        held = self._rules.get(op, ())
        named = node.name or call.output if held else ""
        for rule in held:
            if self._binds and not self._may(named, op, sentence_of(rule)):
                continue
            self._whole.leans = False
            outcome = rule(call)
            if not outcome or (outcome is not rules.EDITED and not call.output):
                continue
            if self._whole.leans:
                call.close(GRANTED)
            if outcome is rules.EDITED:
                self._note_rule(call, named, op, rule)
                return op
            name = node.output[0]
            if self._space.stand_for(name, str(outcome)):
                self._note_rule(call, named, op, rule, like=str(outcome))
                return ""
            if op != "Identity":
                node.op_type = "Identity"
                del node.attribute[:], node.output[1:]
                call.read(str(outcome))
                self._note_rule(call, named, op, rule)
                return op
        return None

    def _note_rule(self, call: Call, named: str, op: str, rule: rules.Rule, like: str = "") -> None:
        """Note what a rule did; a value that stands for the output is `like` it."""
        self._space.followed = None
        asked = self._whole.context.inference.was_asked
        settles = rules.settles(rule) and (not asked or self._infer(call.output) is not None)
        settles |= not call.before and self._is_told(call.output)
        if not settles and not (like and self._is_alike(call.output, like)):
            self._whole.stirred = True
        self._note(named, op, sentence_of(rule), call.grade, call.remark)

    def _infer(self, name: str) -> TypeProto | None:
        """The type, with its shape, that was inferred of a value, if types were asked for at all."""
        inference, path = self._whole.context.inference, self._space.path
        found = inference.type(path, name) if inference.was_asked and path is not None else None
        return found if found is not None and has_shape(found) else None

    def _is_told(self, name: str) -> bool:
        """Whether inference told all sizes of a value that measures none itself: nothing more can be known of it."""
        found = self._infer(name)
        return found is not None and elem_type_of(found) in _FLOATS and is_whole(found)

    def _is_alike(self, name: str, other: str) -> bool:
        """Whether the same was inferred of two values."""
        found = self._infer(name)
        return found is not None and found == self._infer(other)

    def _may(self, node: str, op: str, how: str) -> bool:
        return not self._binds or self._whole.allowance.permits(node, op, how)

    def _note(self, node: str, op: str, how: str, grade: str = "exact", remark: str = "") -> None:
        since = schemas.since("", op, self._space.opset) or 0
        change = Change(node, op, "", since, since, how, grade, remark)
        self._whole.changed += 1
        self._whole.changes.append(change)
        self._whole.allowance.made.append(change)

    def _inside(self, node: NodeProto, index: int | None) -> None:
        """Visit the graphs that a node holds, where a whole body is visited."""

    def _replace_control_flow(self, node: NodeProto) -> list[NodeProto] | None:
        """Replace an If or a Loop whose course is known; only a visit of whole bodies does so."""
        return None

    def _fold(self, call: Call) -> bool:
        """Compute and hold outputs that are constants; what has to be a node becomes a Constant. True if it goes."""
        space, node, output = self._space, call.proto, call.output
        if call.op == "Constant":
            return self._hold(node)
        if not kernels.can_compute(call.op) or space.opset < 7:
            return False
        self._whole.leans = False
        numbers = space.known_numbers(output) if output in space.numbers else None
        if numbers is not None and all(isinstance(number, int) for number in numbers.values):
            tensor = constants.tensor(
                list(numbers.values) if not numbers.scalar else numbers.values[0], space.elem_types[output]
            )
            return self._hold_outputs(call, [tensor], GRANTED if self._whole.leans else "")
        named = [name for name in call.inputs if name]
        for name in named:
            if space.tensor(name) is None:
                return False
        if not named:
            return False
        room = space.growth + sum(space.nbytes(n) for n in set(named) if self._whole.uses[n] <= named.count(n))
        largest = max(map(space.nbytes, named))
        if largest > LARGEST or (largest > room and call.op not in ("Shape", "Size")):
            return self._waits(named)
        if call.op in _GROWING and not self._is_bounded(call, room):
            return self._waits(named)
        arrays = [space.array(name) if name else None for name in call.inputs]
        if any(name and value is None for name, value in zip(call.inputs, arrays, strict=True)):
            return False
        attributes = {a.name: attribute_value(a) for a in node.attribute}
        found = kernels.compute(call.op, space.opset, arrays, attributes)
        if found is None or len(found[0]) < len(call.outputs):
            return False
        values, exact = found
        if sum(value.nbytes for value in values) > room or any(v.dtype.kind in "OUS" for v in values):
            return self._waits(named)
        import onnx.numpy_helper

        tensors = [onnx.numpy_helper.from_array(value) for value in values]
        return self._hold_outputs(call, tensors, "" if exact else "computed in double precision and rounded once")

    def _waits(self, named: Sequence[str]) -> bool:
        """Note that what these make may be computed once nothing else reads them; False."""
        for name in set(named):
            self._whole.check_uses(name, named.count(name))
        return False

    def _is_bounded(self, call: Call, most: int) -> bool:
        """Whether what an operator that repeats values makes is small enough, told before it is made."""
        if call.op == "Range":
            ends = [call.ints(k) for k in range(3)]
            return all(ends) and abs(ends[1][0] - ends[0][0]) * 8 <= most * max(abs(ends[2][0]), 1)  # type: ignore[index]
        held = call.ints(0 if call.op == "ConstantOfShape" else 1)
        if held is None:
            return False
        count = 8
        for number in held:
            count *= max(number, 1)
        if call.op == "Tile":
            count *= max(self._space.nbytes(call.input(0)) // 8, 1)
        return count <= most

    def _hold_outputs(self, call: Call, tensors: Sequence[TensorProto], remark: str) -> bool:
        """Hold the outputs of a node as constants; True if the node is needed no more. It is `close` for the remark."""
        space, node, op = self._space, call.proto, call.op
        if space.exact and remark:
            return False
        pairs = zip(node.output, tensors, strict=False)
        if any(not space.may_hold(output) and not space.may_be_node(tensor) for output, tensor in pairs):
            return False
        name = node.name or node.output[0]
        if len(node.output) > 1 and not all(map(space.may_hold, filter(None, node.output))):
            return False
        if not self._may(name, op, _FOLDED):
            return False
        self._whole.stirred |= not all(map(self._was_known, node.output, tensors))
        self._note(name, op, _FOLDED, "close" if remark else "exact", remark)
        for output, tensor in zip(node.output, tensors, strict=False):
            if not output:
                continue
            key = content(tensor)
            same = space.find_shared(key)
            if same is not None and output not in space.results and space.stand_for(output, same):
                continue
            if not space.hold(output, tensor):
                node.op_type = call.op = "Constant"
                del node.attribute[:]
                call.read()
                node.attribute.append(make_attribute("value", tensor))
                return self._hold(node)
            if key is not None:
                space.shared.setdefault(key, output)
        return True

    def _was_known(self, name: str, tensor: TensorProto) -> bool:
        """Whether inference knew of a constant all that it asks about such."""
        found = self._infer(name)
        return found is not None and tensor.data_type in _FLOATS and dims_of(found) == list(tensor.dims)

    def _hold(self, node: NodeProto) -> bool:
        """Make an initializer of what a Constant node holds, or the same as another. True if the node goes."""
        space, name = self._space, node.output[0]
        tensor = constants.of_constant(node)
        if tensor is None or name in self._whole.fixed:
            return False
        key = content(tensor)
        same = space.find_shared(key) if self._may(node.name or name, "Constant", SHARED) else None
        if same is not None and name not in space.results and space.stand_for(name, same):
            self._note(node.name or name, "Constant", SHARED)
            return True
        if key is not None:
            space.shared.setdefault(key, name)
        if self._may(node.name or name, "Constant", _HELD) and space.hold(name, tensor):
            self._note(node.name or name, "Constant", _HELD)
            return True
        space.note_constant(name, tensor)
        return False

    def _merge(self, call: Call) -> bool:
        """Let the values of an earlier node that computes the same stand for those of this one. True if it goes."""
        space, op, inputs, node = self._space, call.op, call.inputs, call.proto
        if not _may_be_repeated(op) or not self._whole.fixed.isdisjoint(inputs):
            return False
        if op in _COMMUTATIVE:
            inputs = sorted(inputs)
        key = (op, *inputs, "", len(call.outputs), space.opset)
        place: Workspace | None = space
        while place is not None:
            for earlier in place.seen.get(key, ()):
                if _attributes(earlier) == _attributes(node):
                    return self._merge_into(node, earlier)
            place = place.parent
        space.seen.setdefault(key, []).append(node)
        return False

    def _merge_into(self, node: NodeProto, earlier: NodeProto) -> bool:
        """The same of a node that was found, if no name hinders it that has to stay."""
        space = self._space
        pairs = [(mine, space.resolve(other)) for mine, other in zip(node.output, earlier.output, strict=True) if mine]
        if not all(other for _, other in pairs) or any(mine in space.results for mine, _ in pairs[1:]):
            return False
        if not self._whole.fixed.isdisjoint(chain.from_iterable(pairs)):
            return False
        if not self._may(node.name or node.output[0], node.op_type, _REPEATED):
            return False
        if not all(space.stand_for(mine, other) for mine, other in pairs):
            return False  # the first one, which is an output
        if not all(self._is_alike(mine, other) for mine, other in pairs):
            self._whole.stirred = True
        self._note(node.name or node.output[0], node.op_type, _REPEATED)
        return True


@cache
def _may_be_repeated(op: str) -> bool:
    """Whether two nodes of an operator that have the same inputs and attributes make the same."""
    known = bool(schemas.versions("", op)) and not schemas.has_subgraphs("", op)
    return known and op not in _RANDOM and op != "Constant"


def _attributes(node: NodeProto) -> list[bytes]:
    return sorted(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)


_GROWING = frozenset(["ConstantOfShape", "Expand", "Range", "Tile"])
