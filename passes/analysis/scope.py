"""`Scope` answers four questions about a name in a graph.

| question | asked of a name, here or in an outer graph |
|---|---|
| which node produces it? | `producer` |
| is it constant, and what is its value? | `is_constant`; `tensor`, `array`, `ints` |
| what type does it have? | `type`, `elem_type` |
| what shape does it have? | `shape`, `rank`, `size` |

Steps, patterns and rules of optimization need no others. A type or a shape comes from inference, from what steps state
of values that they make, or, where nothing else tells it, from what the model declares; `Context.trust` keeps a list of
the last ones.

Inference itself asks about the values of one body, and does not look around. `maker` is the node that produces a value
now, `written` the same with its opset if the conversion made it, `source_of` the node that tells the type (that of the
source, if the one that replaced it has the same), `origin` that node unless it has told all that it can. `own_type` is
the whole answer, `stated` what is known without a look at the node, `certain` what is known without inference,
`declared` what the model says.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from opshift.passes.analysis import claims, evaluate, formals, ranks, sizes
from opshift.passes.analysis import element_types as elements
from opshift.passes.analysis.callers import Callee, key_of, refers
from opshift.passes.analysis.inferring.type_inference import Inference, is_whole
from opshift.passes.analysis.inferring.weightless import OVERRIDABLE_SINCE
from opshift.passes.analysis.trust import Trust
from opshift.passes.model import imports, installed, tensor_data, tensors
from opshift.passes.model.editing.names import Names
from opshift.passes.model.kinds import Survey
from opshift.passes.model.messages import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    default_domain,
)
from opshift.passes.model.traversal import Body, holding, subgraphs, unread
from opshift.passes.model.types import Dim, dims_of, elem_type_of, tensor_type
from opshift.passes.model.types import has_shape as has_shape

if TYPE_CHECKING:
    import numpy as np
    from opshift.passes.analysis.blocks import Blocks


class Recalling(Protocol):
    """A replayed script, which creates its nodes only when somebody asks about them."""

    @property
    def edits(self) -> bool: ...
    @property
    def opaque(self) -> bool: ...
    def recall(self, made: Sequence[NodeProto | bytes], scope: Scope, /) -> None: ...


class Context:
    """What all scopes of one model share. `source` is the unchanged model, for type inference.

    If `trusting`, declared shapes count where inference finds none, as conversions need. `survey` is the source's,
    `blocks` what is known of blocked layouts.
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
        # not of `model`: functions that are inlined are gone from it
        self.names = Names(source, survey)
        self.inference = Inference(source, of_model)
        self.trust = Trust(source, survey, asked=trusting)
        self.dissolved: set[str] = set()  # sequences and optionals that nodes no longer make, see Scope.dissolve
        self.descended: set[str] = set()  # outputs of nodes whose graphs are at the target, whatever the node is at
        self.released: set[str] = set()  # names that lost a use, and constants that may not have found one
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
    def local(self) -> frozenset[tuple[str, str]]:
        """The functions of the source model."""
        return frozenset((default_domain(function.domain), function.name) for function in self._source.functions)

    @cached_property
    def doubtful(self) -> dict[Callee, frozenset[str]]:
        """For each function of the source, the inputs that some calls omit."""
        return formals.doubtful(self._source)


class Scope:
    """What is known of the values of one graph or function body, outer scopes included.

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
        self.body = body
        self.context = context
        self.opset = opset
        self.parent = parent
        self.path = path
        self.made: dict[str, tuple[NodeProto, int]] = {}
        self.later: dict[str, tuple[Recalling, Sequence[NodeProto | bytes]]] = {}  # not yet in `made`, see `written`
        self.typed: dict[str, TypeProto] = {}
        self.folded: dict[str, TensorProto | None] = {}
        self.elem_types: dict[str, int] = {}
        self._judged: set[str] = set()  # outputs of nodes of the source that have told all that they can
        self._told: set[str] = set()  # the same of nodes that were made, whose places others may still take
        self._settled: set[str] = set()  # the same of nodes that were made and stay
        self._elements: dict[str, list[str]] = {}
        self._given: frozenset[str] | None = None
        self._ends: dict[str, tuple[Scope | None, str]] = {}  # None is this scope, which must not hold itself
        self._producers: dict[str, NodeProto] | None = None
        self.shared: dict[bytes, str] = {}
        self.spelled: dict[bytes, tuple[str, bytes]] = {}  # the same, and as a file holds it, where scripts asked
        self.answered: dict[tuple[str, str], tuple[Any, object]] = {}  # of initializers here, what replays asked
        self.constants_made: set[str] = set()

    def inside(self, body: GraphProto, opset: int) -> Scope:
        """Make the scope of a subgraph of a new node."""
        return Scope(body, self.context, opset, self)

    def nested(self, body: GraphProto, index: int, attribute: str, k: int) -> Scope:
        """Make the scope of a subgraph that the source has at the same place."""
        path = None if self.path is None else (*self.path, (index, attribute, k))
        return Scope(body, self.context, self.opset, self, path)

    def branches(self, node: NodeProto, opset: int) -> list[tuple[GraphProto, Scope]]:
        """List the subgraphs of a node, with their scopes."""
        place = None if self.path is None else self._places.get(node.output[0])
        if place is None or self.body.node[place] is not node:
            return [(graph, self.inside(graph, opset)) for _, _, graph in subgraphs(node)]
        return [(graph, self.nested(graph, place, attribute, k)) for attribute, k, graph in subgraphs(node)]

    @cached_property
    def _places(self) -> dict[str, int]:
        """The index of each node with subgraphs, by its first output."""
        return {node.output[0]: index for index, node in holding(self.body) if node.output}

    @property
    def graph(self) -> GraphProto | None:
        return self.body if isinstance(self.body, GraphProto) else None

    # --- who makes it ---------------------------------------------------------------------------------------

    @property
    def producers(self) -> dict[str, NodeProto]:
        if self._producers is None:
            self._producers = {name: node for node in self.body.node for name in node.output[:] if name}
        return self._producers

    @cached_property
    def initializers(self) -> dict[str, TensorProto]:
        """The initializers that callers cannot override."""
        given = self._inputs() if self.context.overridable else frozenset()
        lasting = given.isdisjoint(self._tensors)
        return self._tensors if lasting else {n: t for n, t in self._tensors.items() if n not in given}

    @cached_property
    def _tensors(self) -> dict[str, TensorProto]:
        """All initializers."""
        return {tensor.name: tensor for tensor in self.graph.initializer} if self.graph else {}

    @cached_property
    def results(self) -> dict[str, ValueInfoProto]:
        """The outputs of the graph by name; empty in a function."""
        return {value.name: value for value in reversed(self.graph.output)} if self.graph else {}

    def owner(self, name: str) -> Scope | None:
        """Find the innermost scope that defines `name`."""
        scope: Scope | None = self
        while scope is not None and not scope._defines(name):
            scope = scope.parent
        return scope

    def _defines(self, name: str) -> bool:
        if name in self.made or name in self.initializers:  # which is told without a look at all nodes
            return True
        return name in self._inputs() or name in self.producers

    def _inputs(self) -> frozenset[str]:
        if self._given is None:
            body = self.body
            given = body.input if isinstance(body, FunctionProto) else (value.name for value in body.input)
            sparse = () if self.graph is None else self.graph.sparse_initializer
            self._given = frozenset([*given, *(held.values.name for held in sparse)])
        return self._given

    def producer(self, name: str) -> NodeProto | None:
        """The node that produces `name`, here or in an outer graph; None for inputs and initializers."""
        owner = self.owner(name)
        return None if owner is None else owner.maker(name)

    def maker(self, name: str) -> NodeProto | None:
        """The node of this body that produces `name`."""
        made = self.written(name)
        if made is not None:
            return made[0]
        return None if name in self.initializers else self.producers.get(name)

    def written(self, name: str) -> tuple[NodeProto, int] | None:
        """The new node that produces `name`, with its opset; None for nodes of the source."""
        if name in self.later:
            script, made = self.later[name]
            script.recall(made, self)
        return self.made.get(name)

    def source_of(self, name: str) -> tuple[NodeProto, int] | None:
        """The node to infer the type of `name` from, and its opset: the source's, if it was replaced."""
        if name in self.made or (name in self.later and self.later[name][0].edits):
            return self.written(name)
        node = self.producers.get(name)
        return None if node is None else (node, self.opset)

    def is_opaque(self, name: str) -> bool:
        """Whether a value is known not to be constant, without looking at its producer."""
        return name in self.later and self.later[name][0].opaque

    def opset_of(self, node: NodeProto) -> int:
        """The opset of the default domain that a node of this body is written at now."""
        made = self.written(next(iter(node.output), ""))
        return made[1] if made and made[0] is node else self.opset

    @cached_property
    def _doubtful(self) -> frozenset[str]:
        if self.parent is not None:
            return self.parent._doubtful
        if isinstance(self.body, GraphProto):
            return frozenset()
        return self.context.doubtful.get(key_of(self.body), frozenset())

    def is_open(self, node: NodeProto) -> bool:
        """Whether a node depends on how its function is called: on attributes, or inputs that calls may leave out."""
        return refers(node) or (bool(self._doubtful) and not self._doubtful.isdisjoint(node.input))

    # --- what it holds --------------------------------------------------------------------------------------

    def tensor(self, name: str, most: int | None = None) -> TensorProto | None:
        """The constant `name`, found through initializers, Constant, Identity and outer scopes.

        None also for more than `most` elements, which may have to be read from a file.
        """
        if self.is_opaque(name):
            return None
        scope, name = self._behind_identities(name)
        if scope is None or scope.is_opaque(name):
            return None
        node = scope.maker(name)
        if node is None:
            return scope.held(name, most)
        if _is_constant(node):
            return self._at_hand(tensors.of_constant(node), most)
        return evaluate.constant(node, scope)

    def _behind_identities(self, name: str) -> tuple[Scope | None, str]:
        """Follow Identity nodes from `name`; returns the scope and the name that they lead to."""
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
            if node is None or node.op_type != "Identity" or default_domain(node.domain):
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

    def held(self, name: str, most: int | None = None) -> TensorProto | None:
        """The initializer `name` of this body; None for more than `most` elements."""
        return self._at_hand(self.initializers.get(name), most)

    def _at_hand(self, held: TensorProto | None, most: int | None) -> TensorProto | None:
        if held is None or (most is not None and tensors.size(held) > most):
            return None
        return tensor_data.load(held, self.context.folder)

    def is_constant(self, name: str) -> bool:
        """Whether a value is constant; does not read its data."""
        owner = self.owner(name)
        return owner is not None and (name in owner.initializers or self.tensor(name) is not None)

    def ints(self, name: str) -> list[int] | None:
        """The values of a constant integer vector or scalar; None if it is not constant."""
        found = self.tensor(name)
        return None if found is None else tensors.integers(found)

    def array(self, name: str) -> np.ndarray[Any, Any] | None:
        """The value of a constant of any type; None if it is not constant."""
        found = self.tensor(name)
        return None if found is None else tensors.array(found)

    # --- what type it has -----------------------------------------------------------------------------------

    def type(self, name: str) -> TypeProto | None:
        """The type of a value, declared or inferred; None if unknown."""
        if name in self.producers and (known := self._inferred_alone(name)) is not None:
            return known
        scope = self.owner(name) if name else None
        return None if scope is None else scope.own_type(name)

    def own_type(self, name: str) -> TypeProto | None:
        """The type of a value of this body, from all sources."""
        known = self.stated(name)
        if (known is None or not has_shape(known)) and (origin := self.origin(name)) is not None:
            self.context.inference.node(*origin, self)
            known = self.typed.get(name) or known
        self.notice(name, known)
        return known

    def names_sizes(self, name: str) -> bool:
        """Whether inference alone finds the whole shape, in numbers and the model's symbols."""
        scope = self.owner(name)
        return scope is not None and is_whole(scope._inferred_alone(name))

    def _inferred_alone(self, name: str) -> TypeProto | None:
        """The inferred type of a value of the source without a declaration."""
        if self.path is None or name in self.typed or name in self._declarations or name in self._tensors:
            return None
        node = self.producers.get(name)
        if node is None or node.op_type == "Constant":
            return None
        known = self.context.inference.type(self.path, name)
        return known if known is not None and has_shape(known) else None

    def stated(self, name: str) -> TypeProto | None:
        """The type of a value of this body that is known without its producer."""
        if (known := self.certain(name)) is not None:
            return known
        typed, declared = self.typed.get(name), self.declared(name)
        if self.path is None:
            return typed or declared
        inferred = self.context.inference.type(self.path, name)
        if inferred is None or declared is None or not (has_shape(inferred) and has_shape(declared)):
            return _fuller(inferred, typed or declared)
        return claims.reconciled(declared, inferred)

    def certain(self, name: str) -> TypeProto | None:
        """The type and shape of a value of this body that is known without inference."""
        typed = self.typed.get(name)
        if typed is not None and has_shape(typed):
            return typed
        declared = self.declared(name)
        if declared is not None and has_shape(declared) and self._is_certain(name):
            return declared
        if name not in self._held_types:
            node = self.producers.get(name)
            held = tensors.of_constant(node) if node is not None and _is_constant(node) else None
            if held is None:
                return None
            self._held_types[name] = tensor_type(held.data_type, held.dims)
        return self._held_types[name]

    def notice(self, name: str, known: TypeProto | None) -> None:
        """Remember that only a declaration gives the type of a value, for a remark in the report."""
        if not self.context.trusting or name in self.typed or self.declared(name) is None or self._is_certain(name):
            return
        if self.path is not None:
            self.context.trust.compare(name, self.context.inference.type(self.path, name), known, self)
        elif isinstance(self.body, FunctionProto):
            self.context.trust.take(name, self)

    def _is_certain(self, name: str) -> bool:
        """Whether a declaration can be relied on: those of inputs, which runtimes check, and initializers."""
        return name in self._tensors or (self.parent is None and name in self._inputs())

    def origin(self, name: str) -> tuple[NodeProto, int] | None:
        """The producer of `name` in this body, and its opset; None if it can add nothing to what is known."""
        made = self.written(name)
        if made is not None:
            return None if name in self._settled else made
        node = self.producers.get(name)
        if node is None or name in self._judged:
            return None
        known = None if self.path is None else self.context.inference.type(self.path, name)
        return (node, self.opset) if known is None or not has_shape(known) else None

    def judged(self, node: NodeProto) -> None:
        """Remember that inference of a node can find nothing more; new nodes are asked again until they settle."""
        (self._judged if self.written(node.output[0]) is None else self._told).update(node.output)

    def settle(self, made: Sequence[NodeProto | bytes]) -> None:
        """Remember that replacements are final, so that earlier nodes are not asked again."""
        if self._told:
            for node in made:
                if not isinstance(node, bytes):
                    self._told.difference_update(node.output)
            self._settled |= self._told
            self._told.clear()

    def seed(self, names: Sequence[str], kinds: Sequence[TypeProto | None]) -> None:
        """State types of outer values, if nothing better is known."""
        for name, kind in zip(names, kinds, strict=False):
            known = self.typed.get(name) or self.declared(name)
            if name and kind is not None and elem_type_of(kind) and (known is None or not has_shape(known)):
                self.typed[name] = kind

    def declared(self, name: str) -> TypeProto | None:
        """The type that the model declares for a value of this body, initializers included."""
        if name in self.initializers or (name not in self._declarations and name in self._tensors):
            tensor = self._tensors[name]
            if name not in self._held_types:
                self._held_types[name] = tensor_type(tensor.data_type, tensor.dims)
            return self._held_types[name]
        return self._declarations.get(name)

    @cached_property
    def _held_types(self) -> dict[str, TypeProto]:
        """The types of the initializers that were asked for."""
        return {}

    @cached_property
    def _declarations(self) -> dict[str, TypeProto]:
        """The types that the graph or function states."""
        graph = self.graph
        stated = (*graph.value_info, *graph.output, *graph.input) if graph else getattr(self.body, "value_info", ())
        found = {value.name: value.type for value in stated if value.HasField("type")}
        if not self.context.trusting:
            given = {value.name for value in graph.input} if graph and self.parent is None else set()
            found = {name: kind if name in given else claims.bare(kind) for name, kind in found.items()}
        for held in graph.sparse_initializer if graph else ():  # whose readers know them as dense
            found.setdefault(held.values.name, tensor_type(held.values.data_type, held.dims))
        return found

    def elem_type(self, name: str) -> int:
        """The element type of a tensor; 0 where it is unknown."""
        known = self.elem_types.get(name) or (elements.elem_type(self, name) if name else 0)
        if known:
            return known
        found = self.type(name)
        return elem_type_of(found) if found is not None else 0

    def spread_elem_types(self) -> None:
        """Infer the element types of all values at once, which is cheaper than one by one."""
        elements.spread(self, self.body.node, self._declarations.keys() | self.typed.keys())

    def stated_elem_type(self, name: str) -> int:
        """The element type that the model or a step states for a value of this body; 0 if none does."""
        stated = self.typed.get(name)
        if stated is None and (stated := self.declared(name)) is not None:
            self.context.trust.take_type(name, self)
        return 0 if stated is None else elem_type_of(stated)

    def shape(self, name: str) -> list[Dim] | None:
        """The dimensions of a tensor, each a number, a symbol, or None; None if the rank is unknown."""
        found = self.type(name)
        if name in self.context.inference.less and not is_whole(found):
            raise installed.Lacking(f"it infers less of the sizes of {name!r}")
        if found is not None and has_shape(found):
            return dims_of(found)
        rank = ranks.rank(self, name)  # a graph that tells no sizes may tell how many there are
        return None if rank is None else [None] * rank

    def rank(self, name: str) -> int | None:
        """How many dimensions a tensor has; None where that is unknown."""
        found = ranks.rank(self, name)
        if found is None and (shape := self.shape(name)) is not None:
            return len(shape)
        return found

    def size(self, name: str, axis: int) -> int | None:
        """The number of elements of a tensor along an axis; None where that is unknown, or there is no such axis."""
        found: Dim = sizes.size(self, name, axis)
        if found is None and (shape := self.shape(name)) is not None and -len(shape) <= axis < len(shape):
            found = shape[axis]
        return found if isinstance(found, int) else None

    def inferred_shape(self, name: str) -> list[Dim] | None:
        """The inferred dimensions of a value of the source, even if the declared rank is lower."""
        scope = self.owner(name)
        if scope is None or scope.path is None:
            return self.shape(name)
        found = self.context.inference.type(scope.path, name)
        return dims_of(found) if found is not None and has_shape(found) else None

    # --- what a step adds -----------------------------------------------------------------------------------

    def record(self, node: NodeProto, opset: int) -> None:
        """Add a new node, so that its outputs can be asked about."""
        for name in node.output:
            self.made[name] = (node, opset)

    def declare(self, name: str) -> None:
        """Declare the type of a new value in the graph, for runtimes that cannot infer it."""
        if self.graph is not None and self.written(name) is not None and self.declared(name) is None:
            found = self.type(name)
            if found is not None:
                (self.results.get(name) or self.graph.value_info.add(name=name)).type.CopyFrom(found)

    def dissolve(self, name: str, elements: Sequence[str]) -> None:
        """Remember the elements of a removed sequence or optional, so that its readers use these."""
        self._elements[name] = list(elements)
        self.context.dissolved.add(name)

    def elements(self, name: str) -> list[str] | None:
        """The elements of a removed sequence or optional; None for any other value."""
        scope = self.owner(name)
        return None if scope is None else scope._elements.get(name)

    def constant(self, tensor: TensorProto, hint: str) -> str | None:
        """Return the name of a shared initializer with this value; None in a function body."""
        if self.graph is None:
            return None
        key = tensor.SerializeToString()
        name = self.shared.get(key)
        if name is None:
            name = self.shared[key] = self.context.names.fresh(hint)
            self.constants_made.add(name)
            self._keep(name, tensor, key)
        return name

    def relabelled(self, name: str, elem_type: int, dims: Sequence[int]) -> str | None:
        """Make an initializer with the bytes of a constant, unread, as another type and shape.

        None where `name` is none whose bytes lie together, and in a function body.
        """
        scope, found = self._behind_identities(name)
        held = None if scope is None or scope.is_opaque(found) else scope.initializers.get(found)
        if held is None or not (tensor_data.is_stored(held) or held.HasField("raw_data")):
            return None
        made = TensorProto()
        made.CopyFrom(held)
        made.ClearField("name")
        made.data_type = elem_type
        made.dims[:] = dims
        return self.constant(made, "const") if tensor_data.nbytes(made) == tensor_data.nbytes(held) else None

    def _keep(self, name: str, tensor: TensorProto, key: bytes) -> None:
        """Keep a new constant, which may turn out to be unused."""
        self.context.released.add(name)
        self.hold(name, tensor)

    def hold(self, name: str, tensor: TensorProto) -> None:
        """Make `name` an initializer of this graph."""
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


def inferred(model: ModelProto, folder: str | None = None) -> Scope:
    """Make a scope for a main graph that will not change, with inferred types; external data lie in `folder`."""
    return Scope(model.graph, Context(model, model, folder), imports.opsets(model).get("", 1), path=())


def _is_constant(node: NodeProto) -> bool:
    return node.op_type == "Constant" and not default_domain(node.domain)


def _fuller(inferred: TypeProto | None, declared: TypeProto | None) -> TypeProto | None:
    """Choose the type with a shape; the inferred one if neither or both have one."""
    known = inferred is None or (declared is not None and has_shape(declared) and not has_shape(inferred))
    return declared if known else inferred
