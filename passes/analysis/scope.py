"""`Scope` answers four questions about a name in a graph as it is now, while it is rewritten.

| question | asked of a name, here or in an outer graph |
|---|---|
| which node produces it? | `producer` |
| is it constant, and what is its value? | `is_constant`; `tensor`, `array`, `ints` |
| what type does it have? | `type`, `elem_type`; `type_with_origin` says where that comes from |
| what shape does it have? | `shape`, `rank`, `size`; `shape_with_origin` |

Steps, patterns and rules of optimization need no others. An answer is *inferred* from inputs, constants and nodes, or
only *declared* by the model, or *unknown*. `Context.trust` keeps a list of declared types that were taken.

`Scope.source` answers them about the model before any change. What inference itself asks of a body is `Inferable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from opshift.passes.analysis import element_types as elements
from opshift.passes.analysis import evaluate, formals, ranks, sizes
from opshift.passes.analysis.callers import Callee, key_of, refers
from opshift.passes.analysis.inferable import Inferable, is_constant_node
from opshift.passes.analysis.inferring.type_inference import Inference, is_whole
from opshift.passes.analysis.inferring.weightless import OVERRIDABLE_SINCE
from opshift.passes.analysis.knowledge import Origin
from opshift.passes.analysis.trust import Trust
from opshift.passes.model import imports, installed, tensor_data, tensors
from opshift.passes.model.call_signatures import Survey
from opshift.passes.model.editing.names import Names
from opshift.passes.model.messages import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    normalize_domain,
)
from opshift.passes.model.traversal import Body, holding, shared, subgraphs, unread
from opshift.passes.model.types import Dim, dims_of, elem_type_of
from opshift.passes.model.types import has_shape as has_shape

if TYPE_CHECKING:
    import numpy as np
    from opshift.passes.analysis.blocks import Blocks


class Context:
    """The state that all scopes of one model share. `source` is the unchanged model, for type inference.

    If `trusting`, declared shapes count where inference finds none, as conversions need.
    """

    def __init__(
        self,
        model: ModelProto,
        source: ModelProto,
        folder: str | None = None,
        survey: Survey | None = None,
        *,
        trusting: bool = True,
        blocks: Blocks | None = None,
    ):
        self.model = model
        self.folder = folder
        self.trusting = trusting
        # names of the source, as `model` has lost the functions that are inlined
        self.names = Names(source, survey)
        self.inference = Inference(source, of_model)
        self.trust = Trust(source, survey, asked=trusting)
        self.dissolved: set[str] = set()  # sequences and optionals that nodes no longer make, see Scope.dissolve
        self.descended: set[str] = set()  # outputs of nodes whose subgraphs are converted already
        self.released: set[str] = set()  # names that may be unused now
        self.overridable = model.ir_version >= OVERRIDABLE_SINCE  # initializers that are also inputs are only defaults
        self.blocks = blocks
        self._source = source
        self._unread: set[str] | None = None

    @property
    def unread(self) -> set[str]:
        """The names of unused outputs of nodes in the source."""
        if self._unread is None:
            self._unread = unread(self._source)
        return self._unread

    @cached_property
    def shared(self) -> set[str]:
        """The names of values that are read more than once in the source."""
        return shared(self._source)

    @cached_property
    def local(self) -> frozenset[tuple[str, str]]:
        """The functions of the source model."""
        return frozenset((normalize_domain(function.domain), function.name) for function in self._source.functions)

    @cached_property
    def omittable(self) -> dict[Callee, frozenset[str]]:
        """For each function of the source, the inputs that some calls omit."""
        return formals.find_omittable(self._source)


class Scope(Inferable):
    """Answers questions about the values of one graph or function body, and of the graphs around it.

    `opset` is the default domain's version that the source nodes are written at. `path` finds the graph in the
    source model; it is None for graphs that the conversion made.
    """

    def __init__(
        self,
        body: Body,
        context: Context,
        opset: int,
        parent: Scope | None = None,
        path: tuple[Any, ...] | None = None,
    ):
        super().__init__(body, context, opset, parent, path)
        self.context: Context = context
        self.parent: Scope | None = parent
        self._elements: dict[str, list[str]] = {}
        self._ends: dict[str, tuple[Scope | None, str]] = {}  # None is this scope, which must not hold itself
        self.shared: dict[bytes, str] = {}
        self.spelled: dict[bytes, tuple[str, bytes]] = {}  # the same, and as a file holds it, where scripts asked
        self.answered: dict[tuple[str, str], tuple[Any, object]] = {}  # of initializers here, what replays asked
        self.constants_made: set[str] = set()

    def inside(self, body: GraphProto, opset: int) -> Scope:
        """Make the scope of a subgraph of a new node."""
        return Scope(body, self.context, opset, self)

    def nested_scope(self, body: GraphProto, index: int, attribute: str, k: int) -> Scope:
        """Make the scope of a subgraph that the source has at the same place.

        Used while subgraphs of the source are converted.
        """
        path = None if self.path is None else (*self.path, (index, attribute, k))
        return Scope(body, self.context, self.opset, self, path)

    def branches(self, node: NodeProto, opset: int) -> list[tuple[GraphProto, Scope]]:
        """List the subgraphs of a node, with their scopes. Used by steps for If, Loop and Scan."""
        place = None if self.path is None else self._places.get(node.output[0])
        if place is None or self.body.node[place] is not node:
            return [(graph, self.inside(graph, opset)) for _, _, graph in subgraphs(node)]
        return [(graph, self.nested_scope(graph, place, attribute, k)) for attribute, k, graph in subgraphs(node)]

    @cached_property
    def _places(self) -> dict[str, int]:
        """The index of each node with subgraphs, by its first output."""
        return {node.output[0]: index for index, node in holding(self.body) if node.output}

    @property
    def graph(self) -> GraphProto | None:
        return self.body if isinstance(self.body, GraphProto) else None

    @property
    def function(self) -> str:
        """Name the function that holds the nodes, for a refusal: `function F`; empty in the main graph."""
        scope: Scope = self
        while scope.parent is not None:
            scope = scope.parent
        return "" if isinstance(scope.body, GraphProto) else f"function {scope.body.name}"

    # --- who makes it ---------------------------------------------------------------------------------------

    @cached_property
    def results(self) -> dict[str, ValueInfoProto]:
        """The outputs of the graph by name; empty in a function."""
        return {value.name: value for value in reversed(self.graph.output)} if self.graph else {}

    def owner(self, name: str) -> Scope | None:
        """Find the innermost scope that defines `name`. Other look-ups go through it."""
        scope: Scope | None = self
        while scope is not None and not scope._defines(name):
            scope = scope.parent
        return scope

    def _defines(self, name: str) -> bool:
        """Tell whether this body, not an outer one, defines `name`. Cheap look-ups come first."""
        if name in self.made or name in self.initializers:
            return True
        return name in self.source.inputs or name in self.source.producers

    def producer(self, name: str) -> NodeProto | None:
        """The node that produces `name`, here or in an outer graph; None for inputs and initializers.

        Steps and rules ask this.
        """
        owner = self.owner(name)
        return None if owner is None else owner.maker(name)

    @cached_property
    def _omittable(self) -> frozenset[str]:
        """The inputs of the function around this body that some calls omit; none in the main graph."""
        if self.parent is not None:
            return self.parent._omittable
        if isinstance(self.body, GraphProto):
            return frozenset()
        return self.context.omittable.get(key_of(self.body), frozenset())

    def is_open(self, node: NodeProto) -> bool:
        """Tell whether a node depends on how its function is called: on attributes, or inputs that calls may omit."""
        return refers(node) or (bool(self._omittable) and not self._omittable.isdisjoint(node.input))

    # --- what it holds --------------------------------------------------------------------------------------

    def tensor(self, name: str, most: int | None = None) -> TensorProto | None:
        """The constant `name`, found through initializers, Constant, Identity and outer scopes.

        Also None if it has more than `most` elements, which may have to be read from a file. Steps and rules ask this.
        """
        if self.is_opaque(name):
            return None
        scope, name = self._behind_identities(name)
        if scope is None or scope.is_opaque(name):
            return None
        node = scope.maker(name)
        if node is None:
            return scope.initializer(name, most)
        if is_constant_node(node):
            return self._at_hand(tensors.of_constant(node), most)
        return evaluate.constant(node, scope)

    def _behind_identities(self, name: str) -> tuple[Scope | None, str]:
        """Follow Identity nodes from `name`, here and in outer graphs; returns the scope and the name that they lead
        to.
        """
        scope = self.owner(name) if name else None
        passed: dict[tuple[Scope, str], None] = {}
        while scope is not None:
            if name in scope._ends:
                outer, name = scope._ends[name]
                scope = outer or scope
                break
            if scope.is_opaque(name):
                break
            node = scope.maker(name)
            if node is None or node.op_type != "Identity" or normalize_domain(node.domain):
                break
            if (scope, name) in passed:  # a cycle, which is no valid graph
                return None, name
            passed[scope, name] = None
            name = node.input[0]
            scope = scope.owner(name) if name else None
        if scope is not None:
            for via, repeated in passed:
                via._ends[repeated] = None if scope is via else scope, name
        return scope, name

    def initializer(self, name: str, most: int | None = None) -> TensorProto | None:
        """The initializer `name` of this body; None for more than `most` elements."""
        return self._at_hand(self.initializers.get(name), most)

    def _at_hand(self, held: TensorProto | None, most: int | None) -> TensorProto | None:
        """Load a constant's data, from its file if it is external; None for more than `most` elements.

        Used by every look-up of a constant.
        """
        if held is None or (most is not None and tensors.size(held) > most):
            return None
        return tensor_data.load(held, self.context.folder)

    def is_constant(self, name: str) -> bool:
        """Whether a value is constant; does not read its data. Steps and rules ask this."""
        owner = self.owner(name)
        return owner is not None and (name in owner.initializers or self.tensor(name) is not None)

    def ints(self, name: str) -> list[int] | None:
        """The values of a constant integer vector or scalar; None if it is not constant. Steps and rules ask this."""
        tensor = self.tensor(name)
        return None if tensor is None else tensors.integers(tensor)

    def array(self, name: str) -> np.ndarray[Any, Any] | None:
        """The value of a constant of any type; None if it is not constant. Steps and rules ask this."""
        tensor = self.tensor(name)
        return None if tensor is None else tensors.array(tensor)

    # --- what type it has -----------------------------------------------------------------------------------

    def type(self, name: str) -> TypeProto | None:
        """The type of a value; None where nothing is known. Steps and rules ask this."""
        if name in self.source.producers and (known := self._infer_alone(name)) is not None:
            return known
        scope = self.owner(name) if name else None
        return None if scope is None else scope.own_type(name)

    def type_with_origin(self, name: str) -> tuple[TypeProto | None, Origin]:
        """The type of a value, and where it comes from."""
        value_type, scope = self.type(name), self.owner(name) if name else None
        if scope is None or value_type is None:
            return None, Origin.UNKNOWN
        return value_type, Origin.DECLARED if scope.is_claim(name, value_type) else Origin.INFERRED

    def shape_with_origin(self, name: str) -> tuple[list[Dim] | None, Origin]:
        """The dimensions of a tensor, and where they come from."""
        dims, (value_type, origin) = self.shape(name), self.type_with_origin(name)
        if dims is None:
            return None, Origin.UNKNOWN
        return dims, origin if value_type is not None and has_shape(value_type) else Origin.INFERRED

    def names_sizes(self, name: str) -> bool:
        """Tell whether inference alone finds the whole shape, in numbers and the model's symbols."""
        scope = self.owner(name)
        return scope is not None and is_whole(scope._infer_alone(name))

    def _infer_alone(self, name: str) -> TypeProto | None:
        """Infer the type of a value of the source that no declaration gives; None if a declaration exists."""
        if (
            self.path is None
            or name in self.typed
            or name in self._tensors
            or self.source.declared_type(name) is not None
        ):
            return None
        node = self.source.producer(name)
        if node is None or node.op_type == "Constant":
            return None
        known = self.source.type(name)
        return known if known is not None and has_shape(known) else None

    def find_unknown(self, what: str, name: str) -> tuple[str, NodeProto | None]:
        """Find the first value of unknown type or rank on the way to `name`, and the node that computes it.

        For a refusal: if the user declares this value, those behind it are known. A long way is followed in part.
        """
        known = has_shape if what == "rank" else _is_typed
        found: dict[str, NodeProto | None] = {}
        while name not in found and len(found) < _FAR:
            found[name] = made = self.producer(name)
            read = [each for each in made.input if each] if made is not None else []
            open_ = [each for each in read if (value_type := self.type(each)) is None or not known(value_type)]
            name = next(filter(self._is_of_source, open_), name)
        return (name, found[name]) if name in found else found.popitem()

    def _is_of_source(self, name: str) -> bool:
        """Tell whether a value is one of the source, so that users know its name."""
        owner = self.owner(name)
        return owner is not None and (name in owner.source.inputs or name in owner.source.producers)

    def elem_type(self, name: str) -> int:
        """The element type of a tensor; 0 where it is unknown. Steps and rules ask this."""
        known = self.elem_types.get(name) or (elements.elem_type(self, name) if name else 0)
        if known:
            return known
        value_type = self.type(name)
        return elem_type_of(value_type) if value_type is not None else 0

    def spread_elem_types(self) -> None:
        """Infer the element types of all values at once, which is cheaper than one by one."""
        elements.spread(self, self.body.node, self.source.declarations.keys() | self.typed.keys())

    def shape(self, name: str) -> list[Dim] | None:
        """The dimensions of a tensor, each a number, a symbol, or None; None if the rank is unknown.

        Steps and rules ask this.
        """
        value_type = self.type(name)
        if name in self.context.inference.less and not is_whole(value_type):
            raise installed.Lacking(f"it infers less of the sizes of {name!r}")
        if value_type is not None and has_shape(value_type):
            return dims_of(value_type)
        rank = ranks.rank(self, name)  # a graph that tells no sizes may tell how many there are
        return None if rank is None else [None] * rank

    def rank(self, name: str) -> int | None:
        """The rank of a tensor; None if it is unknown. Steps and rules ask this."""
        rank = ranks.rank(self, name)
        if rank is None and (shape := self.shape(name)) is not None:
            return len(shape)
        return rank

    def size(self, name: str, axis: int) -> int | None:
        """The number of elements of a tensor along an axis; None where that is unknown, or there is no such axis.

        Steps and rules ask this.
        """
        dim: Dim = sizes.size(self, name, axis)
        if dim is None and (shape := self.shape(name)) is not None and -len(shape) <= axis < len(shape):
            dim = shape[axis]
        return dim if isinstance(dim, int) else None

    def shape_in_source(self, name: str) -> list[Dim] | None:
        """The inferred dimensions of a value of the source, even if the declared rank is lower."""
        scope = self.owner(name)
        if scope is None or scope.path is None:
            return self.shape(name)
        return scope.source.shape(name)

    # --- what a step adds -----------------------------------------------------------------------------------

    def record(self, node: NodeProto, opset: int) -> None:
        """Add a node that a step just made, so that the next steps can ask about its outputs."""
        for name in node.output:
            self.made[name] = (node, opset)

    def declare(self, name: str) -> None:
        """Declare the type of a new value in the graph, for runtimes that cannot infer it."""
        if self.graph is not None and self.node_made(name) is not None and self.declared_type(name) is None:
            value_type = self.type(name)
            if value_type is not None:
                (self.results.get(name) or self.graph.value_info.add(name=name)).type.CopyFrom(value_type)

    def dissolve(self, name: str, elements: Sequence[str]) -> None:
        """Remember the elements of a sequence or optional that a step removed, so that nodes which read it use
        these.
        """
        self._elements[name] = list(elements)
        self.context.dissolved.add(name)

    def elements(self, name: str) -> list[str] | None:
        """The elements of a removed sequence or optional; None for any other value.

        Asked by steps of sequence operators.
        """
        scope = self.owner(name)
        return None if scope is None else scope._elements.get(name)

    def constant(self, tensor: TensorProto, hint: str) -> str | None:
        """Return the name of a shared initializer with this value; None in a function body.

        Steps call it through `node.build.constant`.
        """
        if self.graph is None:
            return None
        key = tensor.SerializeToString()
        name = self.shared.get(key)
        if name is None:
            name = self.shared[key] = self.context.names.fresh(hint)
            self.constants_made.add(name)
            self._keep(name, tensor, key)
        return name

    def relabel_constant(self, name: str, elem_type: int, dims: Sequence[int]) -> str | None:
        """Make an initializer of another type and shape from the bytes of a constant, without reading them.

        None if `name` is no initializer with raw or external data, and in a function body.
        """
        scope, own_name = self._behind_identities(name)
        tensor = None if scope is None or scope.is_opaque(own_name) else scope.initializers.get(own_name)
        if tensor is None or not (tensor_data.is_stored(tensor) or tensor.HasField("raw_data")):
            return None
        relabelled = TensorProto()
        relabelled.CopyFrom(tensor)
        relabelled.ClearField("name")
        relabelled.data_type = elem_type
        relabelled.dims[:] = dims
        return (
            self.constant(relabelled, "const") if tensor_data.nbytes(relabelled) == tensor_data.nbytes(tensor) else None
        )

    def _keep(self, name: str, tensor: TensorProto, key: bytes) -> None:
        """Add a new constant to the graph's initializers. `constant` calls it; the constant may turn out to be
        unused.
        """
        self.context.released.add(name)
        self.hold(name, tensor)

    def hold(self, name: str, tensor: TensorProto) -> None:
        """Make `name` an initializer of this graph, in place of an older one of that name."""
        assert self.graph is not None, "a function has no initializers"
        added = self.graph.initializer.add()
        added.CopyFrom(tensor)
        added.name = name
        for known in ("_tensors", "initializers"):
            if known in vars(self):  # else it will be read with the others
                vars(self)[known][name] = added
        self._held_types.pop(name, None)
        if self.answered:
            for kind in ("tensor", "small"):
                self.answered.pop((kind, name), None)


def of_model(model: ModelProto, opset: int) -> Scope:
    """Make a scope for a main graph that will not change, without inferring all of it."""
    return Scope(model.graph, Context(model, model), opset)


def open_main_graph(model: ModelProto, folder: str | None = None) -> Scope:
    """Make a scope for a main graph that will not change, with inferred types; external data lie in `folder`."""
    return Scope(model.graph, Context(model, model, folder), imports.opsets(model).get("", 1), path=())


_FAR = 64  # the most values that are followed


def _is_typed(value_type: TypeProto) -> bool:
    """Tell whether a type is known: a tensor with an element type, or another kind of type."""
    return bool(elem_type_of(value_type)) or value_type.WhichOneof("value") not in (None, "tensor_type")
