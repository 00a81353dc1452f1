"""One body while it is optimized: what its values are, and how a rule changes what makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from opshift.passes.analysis import shapes
from opshift.passes.analysis.claims import Path
from opshift.passes.analysis.polynomial import Number, symbol
from opshift.passes.analysis.scope import Scope
from opshift.passes.model import tensor_data, tensors
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.editing.constants import in_nodes
from opshift.passes.model.editing.renaming import rename
from opshift.passes.model.messages import GraphProto, NodeProto, TensorProto, TypeProto
from opshift.passes.model.traversal import Body, own_names, results
from opshift.passes.model.types import elem_type_of, has_shape, is_name, tensor_type
from opshift.passes.simplification.equal_constants import content
from opshift.passes.simplification.whole import Whole

GROWTH = 1 << 20  # bytes by which a constant may be larger than what it makes needless
LARGEST = 1 << 28  # bytes of a weight that is read at all
FEW = 64  # numbers whose values are followed one by one


class KnownNumbers(NamedTuple):
    """The numbers of a small integer scalar or vector, as far as they are known."""

    scalar: bool
    values: tuple[Number, ...]


class Workspace:
    """A body whose nodes are visited once, in order; what a rule finds out about a value holds for all that follow."""

    exact = False  # whether only what is exact may be done
    growth = GROWTH
    results: set[str]
    own: set[str]

    def __init__(self, body: Body, whole: Whole, opset: int, parent: Workspace | None = None, path: Path | None = None):
        outer: Scope | None = parent.scope if parent else None
        self.scope: Scope = Scope(body, whole.context, opset, outer, path)
        self._prepare(whole, opset, parent, path)
        self.results = set(results(body))
        if parent or whole.fixed:
            self.own = own_names(body)
        self._held.update(self.scope.initializers)
        self.holds = isinstance(body, GraphProto) and not whole.constants_are_nodes

    def _prepare(self, whole: Whole, opset: int, parent: Workspace | None = None, path: Path | None = None) -> None:
        self.whole = whole
        self.opset = opset
        self.parent = parent
        self.path = path
        self.holds = False
        self.results = set()
        self.own = set()
        self.alias: dict[str, str] = {}
        self.makers: dict[str, NodeProto] = {}
        self.numbers: dict[str, KnownNumbers] = {}
        self.elem_types: dict[str, int] = {}
        self.shapes: dict[str, tuple[Number, ...]] = {}
        self.granted: set[str] = set()  # values of which something holds of sizes of 1 or more alone
        self.followed: NodeProto | None = None  # whose numbers and sizes were noted since rules were asked about it
        self.measured: dict[tuple[Number, ...], str] = {}
        self.seen: dict[object, list[NodeProto]] = {}
        self.shared: dict[object, str] = {}
        self.emitted: dict[object, str] = {}
        self.pieces: dict[tuple[str, int], dict[int, tuple[int, NodeProto]]] = {}
        self.splats: dict[str, Any] = {}  # the one value of small constants, or None, where it was asked for
        self.arrays: dict[str, Any] = {}
        self.decided: dict[str, bool] = {}  # conditions that can be but one thing where this body is run
        self._sizes: dict[str, tuple[Number, ...] | None] = {}
        self._held_sizes: dict[str, tuple[Number, ...] | None] = {}  # of constants
        self._integers: dict[str, KnownNumbers | None] = {}
        self._held: dict[str, TensorProto] = {}
        self._renamed: dict[str, str] = {}

    def _around(self) -> Iterator[Workspace]:
        """This body, and those around it."""
        space: Workspace | None = self
        while space is not None:
            yield space
            space = space.parent

    # --- what a value is ------------------------------------------------------------------------------------

    def resolve(self, name: str) -> str:
        """The value that stands for `name` by now."""
        if name in self.alias:
            return self.alias[name]
        if self.parent is None or name in self.own:
            return name
        return self.parent.resolve(name)

    def tensor(self, name: str) -> TensorProto | None:
        """The constant that `name` is, whatever its size; its bytes may lie in a file."""
        space: Workspace | None = self
        while space is not None:
            if name in space._held:
                return space._held[name]
            if name in space.own:
                return None
            space = space.parent
        return None

    def array(self, name: str, most: int = LARGEST) -> Any:
        """The constant as a numpy array; None for what is not constant, or of more than `most` bytes."""
        if name not in self.arrays:
            held = self.tensor(name)
            if held is None or tensor_data.nbytes(held) > most:
                return None
            loaded = tensor_data.load(held, self.whole.folder)
            self.arrays[name] = None if loaded is None else tensors.array(loaded)
        found = self.arrays[name]
        return found if found is None or found.nbytes <= most else None

    def nbytes(self, name: str) -> int:
        """How many bytes a constant has."""
        held = self.tensor(name)
        return tensor_data.nbytes(held) if held is not None else 0

    def type(self, name: str) -> TypeProto | None:
        """What is known of the type of a value."""
        held = self.tensor(name)
        if held is not None:
            return tensor_type(held.data_type, held.dims)
        scope = self._owner(name)
        if name in scope.typed:
            return scope.typed[name]
        if scope.path is not None:
            found = self.whole.context.inference.type(scope.path, name)
            if found is not None:
                return found
        return scope.source.declared_type(name)

    def _owner(self, name: str) -> Scope:
        """The scope of the body whose value a name is."""
        space = self
        while space.parent is not None and name not in space.own:
            space = space.parent
        return space.scope

    def elem_type(self, name: str) -> int:
        """The element type of a tensor; 0 where it is unknown."""
        space: Workspace | None = self
        while space is not None:
            if name in space.elem_types:
                return space.elem_types[name]
            space = space.parent
        held = self.tensor(name)
        if held is not None:
            return held.data_type
        found = self.type(name)
        return elem_type_of(found) if found is not None else 0

    def shape(self, name: str) -> tuple[Number, ...] | None:
        """The dimensions of a tensor; one without a name or a number is a symbol of its own."""
        space: Workspace | None = self
        while space is not None:
            if name in space.shapes:
                self.whole.leans |= name in space.granted
                return space.shapes[name]
            space = space.parent
        held = self.tensor(name)
        sizes = self._sizes if held is None else self._held_sizes
        if name not in sizes:
            sizes[name] = self._sizes_of(name) if held is None else tuple(held.dims)
        found = sizes[name]
        self.whole.leans |= found is not None and name in self.whole.context.inference.granted
        return found

    def _sizes_of(self, name: str) -> tuple[Number, ...] | None:
        sizes = self.inferred_sizes(name)
        if sizes is None:
            found = self.type(name)
            if found is None or not has_shape(found):
                return None
            sizes = shapes.read_sizes(found)
        return tuple(
            [
                size if isinstance(size, int) and size >= 0 else _symbol(size, name, axis)
                for axis, size in enumerate(sizes)
            ]
        )

    def inferred_sizes(self, name: str) -> shapes.Sizes | None:
        """The sizes that inference tells of a value that nodes make."""
        scope = self._owner(name)
        if scope.path is None or name in scope.typed:
            return None
        return self.whole.context.inference.sizes(scope.path, name)

    def known_numbers(self, name: str) -> KnownNumbers | None:
        """Look up known elements of a small integer scalar or vector."""
        space: Workspace | None = self
        while space is not None:
            if name in space.numbers:
                self.whole.leans |= name in space.granted
                return space.numbers[name]
            space = space.parent
        held = self.tensor(name)
        if held is None or held.data_type not in _INTEGERS:
            return None
        if name not in self._integers:
            self._integers[name] = self._few(name, held)
        return self._integers[name]

    def _few(self, name: str, held: TensorProto) -> KnownNumbers | None:
        """The numbers of a constant, if it is a scalar or a vector and small."""
        if len(held.dims) > 1 or tensors.size(held) > FEW:
            return None
        value = self.array(name)
        return None if value is None else KnownNumbers(value.ndim == 0, tuple(map(int, value.reshape(-1).tolist())))

    def learn(
        self, name: str, dims: Sequence[Number] | None = None, numbers: KnownNumbers | None = None, elem_type: int = 0
    ) -> None:
        """Note the dimensions of a value, or the numbers that it holds and their type."""
        if dims is not None:
            self.shapes[name] = tuple(dims)
        if numbers is not None:
            self.numbers[name], self.elem_types[name] = numbers, elem_type
        if self.whole.leans:
            self.granted.add(name)

    def is_open(self, node: NodeProto) -> bool:
        """Whether what a node computes hangs on the calls of its function."""
        return self.whole.hangs and self.scope.is_open(node)

    def is_protected(self, name: str) -> bool:
        """Whether a value has to keep its name and its place."""
        return name in self.results or name in self.whole.fixed

    # --- changes --------------------------------------------------------------------------------------------

    def stand_for(self, name: str, value: str) -> bool:
        """Let `value` take the place of `name` wherever it is used; False if it cannot."""
        if value == name or value in self.whole.fixed or name in self.whole.fixed:
            return False
        if name in self.results:
            made = self.makers.get(value)
            if made is None or value in self.results or value in self._renamed:
                return False
            self._renamed[value] = name
            self.makers[name] = made
            if value in self.numbers:
                self.numbers[name] = self.numbers[value]
            if value in self.shapes:
                self.shapes[name] = self.shapes[value]
            if value in self.granted:
                self.granted.add(name)
            if value in self._held:
                self._held[name] = self._held[value]
            name, value = value, name
            self.alias.update({old: value for old, new in self.alias.items() if new == name})
        self.alias[name] = value
        self.whole.uses[value] += self.whole.uses[name]
        return True

    def hold(self, name: str, tensor: TensorProto) -> bool:
        """Make `name` an initializer of this body; False where it has to be a node."""
        if not self.may_hold(name):
            return False
        self.scope.hold(name, tensor)
        self._held[name] = self.scope.initializers[name]
        return True

    def may_hold(self, name: str) -> bool:
        """Whether a value may be an initializer of this body."""
        return self.holds and not self.is_protected(name)

    def constant(self, tensor: TensorProto, hint: str, before: list[NodeProto]) -> str:
        """The name of a constant with this value; one that is there already is shared."""
        key = content(tensor)
        found = self.find_shared(key)
        if found is None:
            found = self.whole.context.names.fresh(hint)
            if not self.hold(found, tensor):
                for made in self._nodes(found, tensor):
                    before.append(made)
                    self.register(made)
                self._held[found] = tensor
            if key is not None:
                self.shared[key] = found
        return found

    def _nodes(self, name: str, tensor: TensorProto) -> list[NodeProto]:
        """Nodes that make a constant: one, if it may hold that type."""
        if self.may_be_node(tensor):
            return [NodeProto(op_type="Constant", output=[name], attribute=[make_attribute("value", tensor)])]
        named = TensorProto()
        named.CopyFrom(tensor)
        named.name = name
        return in_nodes(named, self.opset, self.whole.context.names.fresh)

    def may_be_node(self, tensor: TensorProto) -> bool:
        """Whether a Constant node holds tensors of this type."""
        return self.opset >= _CONSTANTS_OF_ALL_TYPES or tensor.data_type in _FIRST_CONSTANTS

    def find_shared(self, key: object) -> str | None:
        """The name of a constant with this content, here or outside."""
        for space in self._around() if key is not None else ():
            if key in space.shared:
                return space.shared[key]
        return None

    def register(self, node: NodeProto) -> None:
        """A node is there to stay, for now."""
        for name in node.output[:]:
            if name:
                self.makers[name] = node
                if self.parent is not None:
                    self.own.add(name)

    def note_constant(self, name: str, tensor: TensorProto) -> None:
        """A node of this body makes a constant."""
        self._held[name] = tensor

    def finish(self) -> None:
        """Give values the names of the outputs whose place they took."""
        if self._renamed:
            rename(self.scope.body.node, self._renamed)


_INTEGERS = {TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL}
_CONSTANTS_OF_ALL_TYPES = 9  # the opset from which on a Constant node holds them
_FIRST_CONSTANTS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE}


def _symbol(size: int | str, name: str, axis: int) -> Number:
    """What stands for a size that is no number; one without a name is a symbol of its own."""
    return symbol(size if isinstance(size, str) and is_name(size) else f"{name}\0{axis}")
