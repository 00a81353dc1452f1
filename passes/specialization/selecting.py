"""Replace an If by Where: both branches are computed, and their results are selected from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from opshift.passes.analysis.claims import is_made_up
from opshift.passes.analysis.knowledge import Origin
from opshift.passes.analysis.scope import Scope
from opshift.passes.changes import Change
from opshift.passes.errors import Refusal, function_place
from opshift.passes.model import schemas
from opshift.passes.model.attributes import attribute_value
from opshift.passes.model.editing import branches
from opshift.passes.model.editing.names import Names
from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto, TensorProto, copy_model, normalize_domain
from opshift.passes.model.traversal import Body, subgraphs, with_nested
from opshift.passes.model.types import Dim
from opshift.passes.specialization.iterations import Unknown, open_with_branches
from opshift.passes.specialization.unrolling import Unrolled

T = TensorProto
_AXES_OF_PAD = 3
_SINCE, _ANY_TYPE = 9, 16
"""The first version of Where, and the one from which on it takes bfloat16."""
_FLOATS = frozenset({T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16})
_ELEMENTWISE = frozenset(
    [
        "Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "Cast", "Ceil", "Celu", "Clip",
        "Cos", "Cosh", "Div", "Elu", "Equal", "Erf", "Exp", "Floor", "Gelu", "Greater", "GreaterOrEqual",
        "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log",
        "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu",
        "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub",
        "Sum", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Where", "Xor",
    ]
)  # fmt: skip
_OF_KNOWN_SIZES = frozenset(
    [
        "ArgMax", "ArgMin", "AveragePool", "Concat", "Constant", "ConstantOfShape", "Conv", "DepthToSpace",
        "Expand", "Flatten", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "Hardmax", "InstanceNormalization",
        "LRN", "LayerNormalization", "LogSoftmax", "LpNormalization", "MatMul", "MaxPool", "Pad", "ReduceL1",
        "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
        "ReduceSum", "ReduceSumSquare", "Reshape", "Shape", "Size", "Slice", "Softmax", "SpaceToDepth", "Split",
        "Squeeze", "Tile", "Transpose", "Trilu", "Unsqueeze",
    ]
)  # fmt: skip
"""Operators that cannot fail once the sizes of all that they read and make are known, and fit."""

Fresh = Callable[[str], str]


def select(model: ModelProto, most: int, folder: str | None = None) -> Unrolled:
    """Replace each If by Where whose branches have `most` nodes at most, can always be computed, and fit each other."""
    changes: list[Change] = []
    while True:  # an If that holds another one goes in the round after that
        copy = copy_model(model)
        work = _Selecting(most, Names(copy).fresh)
        work.graph(copy.graph, open_with_branches(model, folder))
        for function in model.functions:
            work.refuse_all(function, function_place(function.domain, function.name))
        if not work.changes:
            return Unrolled(model, tuple(changes), tuple(work.stays))
        changes += work.changes
        model = copy


class _Selecting:
    def __init__(self, most: int, fresh: Fresh):
        self._most, self._fresh = most, fresh
        self.changes: list[Change] = []
        self.stays: list[Refusal] = []

    def graph(self, graph: GraphProto, scope: Scope) -> None:
        """Replace the Ifs in a graph, those in branches first."""
        nodes: list[NodeProto] = []
        before = len(self.changes)
        for index, (node, source) in enumerate(zip(list(graph.node), scope.body.node, strict=True)):
            is_if = node.op_type == "If" and not normalize_domain(node.domain)
            insides = {
                attribute: (inner, scope.nested_scope(twin, index, attribute, k))
                for (attribute, k, inner), (_, _, twin) in zip(subgraphs(node), subgraphs(source), strict=True)
            }
            for inner, inside in insides.values():
                if is_if:
                    self.graph(inner, inside)
                else:
                    self.refuse_all(inner, "it is inside a Loop or Scan")
            if not is_if:
                nodes.append(node)
                continue
            try:
                self._check(node, [inside for _, inside in insides.values()], scope)
                nodes += self._select(node, [insides[name][0] for name in ("then_branch", "else_branch")], scope)
                version = schemas.since("", "If", scope.opset) or 1
                said = "Replaced If by Where, which computes both branches"
                self.changes.append(Change(node.name or node.output[0], "If", "", version, version, said))
            except Unknown as unknown:
                self._refuse(node, unknown.why)
                nodes.append(node)
        if len(self.changes) > before:
            kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
            del graph.node[:]
            graph.node.extend(kept)

    def _refuse(self, node: NodeProto, why: str, where: str = "") -> None:
        self.stays.append(Refusal(node.name or node.output[0], "If", "", 0, False, why, where))

    def refuse_all(self, body: Body, why: str) -> None:
        """Name all Ifs of a body as ones that stay."""
        for each in with_nested([body]):
            for node in each.node:
                if node.op_type == "If" and not normalize_domain(node.domain):
                    self._refuse(node, why)

    def _check(self, node: NodeProto, insides: Sequence[Scope], scope: Scope) -> None:
        """Raise `Unknown` with the reason why an If has to stay."""
        if scope.opset < _SINCE:
            raise Unknown(f"opset {scope.opset} has no Where; try --opset 13 first")
        count = sum(len(inside.body.node) for inside in insides)
        if count > self._most:
            raise Unknown(f"its branches have {count} nodes; allowed: {self._most}; try --if-to-where {count}")
        for k in range(len(node.output)):
            kinds = [_kind(inside, _output_name(inside, k)) for inside in insides]
            if kinds[0] != kinds[1]:
                raise Unknown(f'its branches yield {_spell(*kinds[0])} and {_spell(*kinds[1])} for "{node.output[k]}"')
            if kinds[0][0] == T.BFLOAT16 and scope.opset < _ANY_TYPE:
                raise Unknown(f"Where of opset {scope.opset} does not take bfloat16")
        for inside in insides:
            for inner in inside.body.node:
                _check_safe(inner, inside)

    def _select(self, node: NodeProto, graphs: Sequence[GraphProto], scope: Scope) -> Iterator[NodeProto]:
        """Both branches, and what selects from them."""
        condition = node.input[0]
        if scope.rank(condition) != 0:  # of one element, whatever its rank
            scalar = self._fresh(f"{condition}/scalar")
            yield NodeProto(op_type="Squeeze", input=[condition], output=[scalar])
            condition = scalar
        results: list[list[str]] = []
        for graph in graphs:
            results.append([self._fresh(value.name) for value in graph.output])
            pairs = zip((value.name for value in graph.output), results[-1], strict=True)
            for made in branches.inline_branch(graph, pairs, {}, self._fresh):
                made.name = self._fresh(made.name) if made.name else ""
                yield made
        for name, chosen, other in zip(node.output, *results, strict=True):
            if name:
                yield NodeProto(op_type="Where", input=[condition, chosen, other], output=[name])


def _output_name(inside: Scope, k: int) -> str:
    graph = inside.graph
    assert graph is not None, "branches are graphs"
    return graph.output[k].name


def _kind(scope: Scope, name: str) -> tuple[int, tuple[Dim, ...]]:
    """The type and the sizes of a tensor, as they are inferred; raises `Unknown` for other values."""
    owner = scope.owner(name) or scope
    dims, origin = owner.shape_with_origin(name)
    elem_type = owner.elem_type(name)
    known = dims is not None and None not in dims and not any(isinstance(d, str) and is_made_up(d) for d in dims)
    if dims is None or not known or origin is not Origin.INFERRED or not elem_type:
        raise Unknown(f'the sizes of "{name}" are unknown; try --fix-shape')
    return elem_type, tuple(dims)


def _spell(elem_type: int, dims: Sequence[Dim]) -> str:
    from opshift.passes.model.types import element_name

    return f"{element_name(elem_type)} {'x'.join(map(str, dims)) or 'scalar'}"


def _check_safe(node: NodeProto, scope: Scope) -> None:
    """Raise `Unknown` for a node that may fail, or draws numbers, where its branch is not meant to run."""
    op = node.op_type
    is_known = op in _ELEMENTWISE | _OF_KNOWN_SIZES or (op == "Gather" and _is_inside(node, scope))
    if normalize_domain(node.domain) or not is_known:
        raise Unknown(f"{op} may fail in the branch that is not taken")
    kinds = [_kind(scope, name) for name in (*node.input, *node.output) if name]
    if op in ("Div", "Mod") and kinds[0][0] not in _FLOATS:
        raise Unknown(f"{op} of integers may divide by zero in the branch that is not taken")
    if any(elem_type == T.STRING for elem_type, _ in kinds):
        raise Unknown(f"{op} of strings may fail in the branch that is not taken")
    shapes = [dims for _, dims in kinds]
    if op in _ELEMENTWISE:
        rank = max(map(len, shapes))
        for axis in range(1, rank + 1):
            sizes = {dims[-axis] for dims in shapes if len(dims) >= axis} - {1}
            if len(sizes) > 1:
                raise Unknown(f"the sizes that {op} reads may not fit each other; try --fix-shape")
    elif any(not isinstance(dim, int) or dim < 1 for dims in shapes for dim in dims):
        raise Unknown(f"{op} reads dynamic sizes; try --fix-shape")
    elif op == "Reshape" and _elements(shapes[0]) != _elements(shapes[-1]):
        raise Unknown("Reshape does not fit in the branch that is not taken")
    elif op == "Pad" and not _is_padded(node, shapes[0], scope):
        raise Unknown("Pad may be larger than what it reads in the branch that is not taken")


def _is_inside(node: NodeProto, scope: Scope) -> bool:
    """Whether a Gather has constant indices that lie inside of what it reads."""
    indices, shape = scope.ints(node.input[1]), scope.shape(node.input[0])
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
    if indices is None or shape is None or not -len(shape) <= axis < len(shape):
        return False
    size = shape[axis]
    return isinstance(size, int) and all(-size <= index < size for index in indices)


def _is_padded(node: NodeProto, shape: Sequence[Dim], scope: Scope) -> bool:
    """Whether a Pad can take its elements from what it reads."""
    attributes = {attribute.name: attribute_value(attribute) for attribute in node.attribute}
    if attributes.get("mode", b"constant") in ("constant", b"constant"):
        return True
    pads = scope.ints(node.input[1]) if len(node.input) > 1 else attributes.get("pads")
    has_axes = len(node.input) > _AXES_OF_PAD and bool(node.input[_AXES_OF_PAD])
    if pads is None or has_axes or len(pads) != 2 * len(shape):
        return False
    return all(isinstance(dim, int) and pad < dim for dim, pad in zip([*shape, *shape], pads, strict=True))


def _elements(dims: Sequence[Dim]) -> int:
    count = 1
    for dim in dims:
        count *= dim if isinstance(dim, int) else 0
    return count
