"""One walk over a body, from node to node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from opshift.passes.analysis import kernels
from opshift.passes.analysis.type_inference import HOLDING_GRAPHS, Path
from opshift.passes.changes import GRANTED, Change
from opshift.passes.model import schemas
from opshift.passes.model import tensors as constants
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.editing.renaming import rename_all
from opshift.passes.model.encoding.fields import put
from opshift.passes.model.messages import GraphProto, NodeProto, TensorProto, default_domain
from opshift.passes.model.traversal import subgraphs
from opshift.passes.optimization import rules, shape_values
from opshift.passes.optimization.workspace import LARGEST, Call, Draft, content, digest
from opshift.passes.rewrite.says import sentence_of

_MOST_CHANGES = 16  # of one node in one round


_RANDOM = frozenset(
    ["Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"]
)


_COMMUTATIVE = frozenset(["Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal", "Mul", "Or", "Xor"])


_FOLDED = "What hangs on constants alone is computed"


_HELD = "A Constant node becomes an initializer"


_REPEATED = "A value that is computed already is not computed again"


_SHARED = "Equal constants become one"


_TAKEN = "The branch that a constant condition takes takes its place"


class Visit:
    """One walk over one body."""

    def __init__(self, draft: Draft):
        self._draft = draft
        self._whole = draft.whole
        self._rules = rules.at(draft.opset, draft.exact)
        self._taken: dict[int, list[NodeProto]] = {}

    def body(self) -> None:
        draft, nodes = self._draft, self._draft.scope.body.node
        self._share_initializers()
        for index, node in enumerate(nodes):
            made = self.node(node, index)
            if len(made) != 1 or made[0] is not node:
                self._taken[index] = made
        if self._taken:
            put(draft.scope.body, self._taken)
        draft.finish()

    def _share_initializers(self) -> None:
        """Let equal initializers be one; those that are large are read only where another has the same type."""
        draft = self._draft
        held = draft.scope.initializers
        alike = Counter((tensor.data_type, *tensor.dims) for tensor in held.values())
        for name, tensor in held.items():
            key = content(tensor)
            if key is None and self._whole.rounds == 1 and alike[(tensor.data_type, *tensor.dims)] > 1:
                key = digest(tensor)
            if key is None:
                continue
            found = draft.find_shared(key)
            if found is None or name in draft.results:
                draft.shared.setdefault(key, name)
            elif self._whole.uses[name] and self._may(name, "Constant", _SHARED) and draft.stand_for(name, found):
                self._note(name, "Constant", _SHARED)

    def node(self, node: NodeProto, index: int | None) -> list[NodeProto]:
        """What takes the place of a node."""
        draft = self._draft
        self.resolve(node)
        if node.attribute:
            self._inside(node, index)
        if node.domain and default_domain(node.domain):
            draft.register(node)
            return [node]
        before: list[NodeProto] = []
        plain = any(node.output) and not draft.is_open(node)
        for _ in range(_MOST_CHANGES if plain else 0):
            op = node.op_type
            spliced = self._taken_branch(node) if op == "If" else None
            if spliced is not None:
                return [made for inner in spliced for made in self.node(inner, None)]
            call, how = self._ruled(node)
            before += call.before
            if how is None:
                break
            if how == "":
                return before
        if plain and self._whole.measures and draft.opset >= 7 and shape_values.knows(node.op_type):
            shape_values.follow(Call(node, draft))
        if plain and node.output[0] and self._is_constant(node):
            return before
        if plain and self._is_repeated(node):
            return before
        draft.register(node)
        return [*before, node]

    def resolve(self, node: NodeProto) -> None:
        """Let a node read what stands for its inputs."""
        draft = self._draft
        if draft.alias or draft.parent is not None:
            for k, name in enumerate(node.input):
                if name and (value := draft.resolve(name)) != name:
                    node.input[k] = value

    def _ruled(self, node: NodeProto) -> tuple[Call, str | None]:
        """Apply the first rule that changes something: None if none did, "" if the node is gone."""
        call = Call(node, self._draft)
        for rule in self._rules.get(node.op_type, ()):
            op, named = node.op_type, node.name or call.output
            if not self._may(named, op, sentence_of(rule)):
                continue
            self._whole.leans = False
            outcome = rule(call)
            if not outcome or (outcome is not rules.EDITED and not call.output):
                continue
            if self._whole.leans:
                call.close(GRANTED)
            if outcome is rules.EDITED:
                self._note_rule(call, named, op, rule)
                return call, op
            name = node.output[0]
            if self._draft.stand_for(name, str(outcome)):
                self._note_rule(call, named, op, rule)
                return call, ""
            if op != "Identity":
                node.op_type = "Identity"
                del node.attribute[:], node.output[1:]
                call.read(str(outcome))
                self._note_rule(call, named, op, rule)
                return call, op
        return call, None

    def _note_rule(self, call: Call, named: str, op: str, rule: rules.Rule) -> None:
        self._note(named, op, sentence_of(rule), call.grade, call.remark)

    def _may(self, node: str, op: str, how: str) -> bool:
        return self._whole.allowance.permits(node, op, how)

    def _note(self, node: str, op: str, how: str, grade: str = "exact", remark: str = "") -> None:
        since = schemas.since("", op, self._draft.opset) or 0
        change = Change(node, op, "", since, since, how, grade, remark)
        self._whole.changed += 1
        self._whole.changes.append(change)
        self._whole.allowance.made.append(change)

    def _inside(self, node: NodeProto, index: int | None) -> None:
        """Optimize the graphs that a node holds."""
        draft = self._draft
        for attribute, k, graph in subgraphs(node):
            path: Path | None = None
            if draft.path is not None and index is not None and node.op_type in HOLDING_GRAPHS:
                path = (*draft.path, (index, attribute, k))
            Visit(Draft(graph, self._whole, draft.opset, draft, path)).body()

    def _taken_branch(self, node: NodeProto) -> list[NodeProto] | None:
        """The nodes of the branch that a constant condition takes."""
        draft = self._draft
        condition = draft.array(node.input[0]) if node.input else None
        if condition is None or condition.size != 1:
            return None
        wanted = "then_branch" if condition.reshape(-1)[0] else "else_branch"
        branch = next((graph for name, _, graph in subgraphs(node) if name == wanted), None)
        if branch is None or branch.sparse_initializer or len(branch.output) != len(node.output):
            return None
        if not self._whole.fixed.isdisjoint(chain.from_iterable(inner.output for inner in branch.node)):
            return None
        if not self._may(node.name or node.output[0], "If", _TAKEN):
            return None
        self._note(node.name or node.output[0], "If", _TAKEN)
        return self._spliced(node, branch)

    def _spliced(self, node: NodeProto, branch: GraphProto) -> list[NodeProto]:
        fresh = self._whole.context.names.fresh
        made = [
            NodeProto(op_type="Constant", output=[tensor.name], attribute=[make_attribute("value", tensor)])
            for tensor in branch.initializer
        ]
        made += [NodeProto.FromString(inner.SerializeToString()) for inner in branch.node]
        names = {name: fresh(name) for inner in made for name in inner.output if name}
        echoes = []
        for inner_value, outer in zip(branch.output, node.output, strict=True):
            name = inner_value.name
            if name in names and names[name] not in node.output:
                names[name] = outer
            else:
                echoes.append(NodeProto(op_type="Identity", input=[names.get(name, name)], output=[outer]))
        for inner in made:
            rename_all(inner, names)
        for inner in (*made, *echoes):
            self._whole.uses.update(inner.input)
        return [*made, *echoes]

    def _is_constant(self, node: NodeProto) -> bool:
        """Whether the outputs are constants, which are held by now; what has to be a node becomes a Constant."""
        draft = self._draft
        if node.op_type == "Constant":
            return self._is_held(node)
        if not kernels.can_compute(node.op_type) or draft.opset < 7:
            return False
        self._whole.leans = False
        numbers = draft.known(node.output[0]) if node.output[0] in draft.numbers else None
        if numbers is not None and all(isinstance(number, int) for number in numbers[1]):
            tensor = constants.tensor(
                list(numbers[1]) if not numbers[0] else numbers[1][0], draft.kinds[node.output[0]]
            )
            return self._settle(node, [tensor], GRANTED if self._whole.leans else "")
        named = [name for name in node.input if name]
        if not named or not all(draft.tensor(name) is not None for name in named):
            return False
        freed = sum(draft.nbytes(n) for n in set(named) if self._whole.uses[n] <= node.input[:].count(n))
        sizes = [draft.nbytes(name) for name in named]
        if max(sizes) > LARGEST or (max(sizes) > draft.growth + freed and node.op_type not in ("Shape", "Size")):
            return False
        if node.op_type in _GROWING and not self._is_bounded(node, draft.growth + freed):
            return False
        arrays = [draft.array(name) if name else None for name in node.input]
        if any(name and value is None for name, value in zip(node.input, arrays, strict=True)):
            return False
        attributes = {a.name: Call(node, draft).attribute(a.name) for a in node.attribute}
        found = kernels.compute(node.op_type, draft.opset, arrays, attributes)
        if found is None or len(found[0]) < len(node.output):
            return False
        values, exact = found
        if sum(value.nbytes for value in values) > draft.growth + freed or any(v.dtype.kind in "OUS" for v in values):
            return False
        import onnx.numpy_helper

        tensors = [onnx.numpy_helper.from_array(value) for value in values]
        return self._settle(node, tensors, "" if exact else "computed in double precision and rounded once")

    def _is_bounded(self, node: NodeProto, most: int) -> bool:
        """Whether what an operator that repeats values makes is small enough, told before it is made."""
        call = Call(node, self._draft)
        if node.op_type == "Range":
            ends = [call.ints(k) for k in range(3)]
            return all(ends) and abs(ends[1][0] - ends[0][0]) * 8 <= most * max(abs(ends[2][0]), 1)  # type: ignore[index]
        held = call.ints(0 if node.op_type == "ConstantOfShape" else 1)
        if held is None:
            return False
        count = 8
        for number in held:
            count *= max(number, 1)
        if node.op_type == "Tile":
            count *= max(self._draft.nbytes(node.input[0]) // 8, 1)
        return count <= most

    def _settle(self, node: NodeProto, tensors: Sequence[TensorProto], remark: str) -> bool:
        """Hold the outputs of a node as constants; True if the node is needed no more. It is `close` for the remark."""
        draft, op = self._draft, node.op_type
        if draft.exact and remark:
            return False
        pairs = zip(node.output, tensors, strict=False)
        if any(not draft.may_hold(output) and not draft.may_be_node(tensor) for output, tensor in pairs):
            return False
        name = node.name or node.output[0]
        if len(node.output) > 1 and not all(map(draft.may_hold, filter(None, node.output))):
            return False
        if not self._may(name, op, _FOLDED):
            return False
        self._note(name, op, _FOLDED, "close" if remark else "exact", remark)
        for output, tensor in zip(node.output, tensors, strict=False):
            if not output:
                continue
            key = content(tensor)
            same = draft.find_shared(key)
            if same is not None and output not in draft.results and draft.stand_for(output, same):
                continue
            if not draft.hold(output, tensor):
                node.op_type = "Constant"
                del node.input[:], node.attribute[:]
                node.attribute.append(make_attribute("value", tensor))
                return self._is_held(node)
            if key is not None:
                draft.shared.setdefault(key, output)
        return True

    def _is_held(self, node: NodeProto) -> bool:
        """Whether a Constant node is needed no more: its value is an initializer, or the same as another."""
        draft, name = self._draft, node.output[0]
        tensor = constants.of_constant(node)
        if tensor is None or name in self._whole.fixed:
            return False
        key = content(tensor)
        same = draft.find_shared(key) if self._may(node.name or name, "Constant", _SHARED) else None
        if same is not None and name not in draft.results and draft.stand_for(name, same):
            self._note(node.name or name, "Constant", _SHARED)
            return True
        if key is not None:
            draft.shared.setdefault(key, name)
        if self._may(node.name or name, "Constant", _HELD) and draft.hold(name, tensor):
            self._note(node.name or name, "Constant", _HELD)
            return True
        draft.knows(name, tensor)
        return False

    def _is_repeated(self, node: NodeProto) -> bool:
        """Whether an earlier node computes the same; its values stand for this one's then."""
        draft = self._draft
        if node.op_type in _RANDOM or not node.output or not schemas.versions("", node.op_type):
            return False
        if node.op_type == "Constant" or not self._whole.fixed.isdisjoint(node.input):
            return False
        if schemas.has_subgraphs("", node.op_type):
            return False
        held = sorted(a.SerializeToString(deterministic=True) for a in node.attribute)
        inputs = sorted(node.input) if node.op_type in _COMMUTATIVE else node.input
        key = (node.op_type, *inputs, "", *held, len(node.output), draft.opset)
        place: Draft | None = draft
        while place is not None:
            earlier = place.seen.get(key)
            if earlier is not None and len(earlier.output) == len(node.output):
                return self._repeats(node, earlier)
            place = place.parent
        draft.seen[key] = node
        return False

    def _repeats(self, node: NodeProto, earlier: NodeProto) -> bool:
        draft = self._draft
        pairs = [(mine, draft.resolve(other)) for mine, other in zip(node.output, earlier.output, strict=True) if mine]
        if not all(other for _, other in pairs) or any(mine in draft.results for mine, _ in pairs[1:]):
            return False
        if not self._whole.fixed.isdisjoint(chain.from_iterable(pairs)):
            return False
        if not self._may(node.name or node.output[0], node.op_type, _REPEATED):
            return False
        if not all(draft.stand_for(mine, other) for mine, other in pairs):
            return False  # the first one, which is an output
        self._note(node.name or node.output[0], node.op_type, _REPEATED)
        return True


_GROWING = frozenset(["ConstantOfShape", "Expand", "Range", "Tile"])
