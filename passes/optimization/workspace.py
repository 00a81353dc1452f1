"""One body while it is optimized: what its values are, and how a rule changes what makes them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from opshift.passes.analysis.polynomial import Number, symbol
from opshift.passes.analysis.scope import Context, Scope, has_shape
from opshift.passes.analysis.type_inference import Path
from opshift.passes.changes import Allowance, Change
from opshift.passes.model import tensor_data, tensors
from opshift.passes.model.attributes import attribute_value, make_attribute
from opshift.passes.model.editing.constants import in_nodes
from opshift.passes.model.editing.renaming import _rename
from opshift.passes.model.messages import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto
from opshift.passes.model.traversal import Body, _own_names, _shadowed, _updated, bodies, referred, results
from opshift.passes.model.types import elem_type_of, tensor_type

GROWTH = 1 << 20  # bytes by which a constant may be larger than what it makes needless
LARGEST = 1 << 28  # bytes of a weight that is read at all
_MEASURING = frozenset(["ConstantOfShape", "Expand", "Flatten", "Reshape", "Shape", "Size"])
FEW = 64  # numbers whose values are followed one by one

Known = tuple[bool, tuple[Number, ...]]
"""Whether it is a scalar, and its numbers."""


class Whole:
    """What all drafts of one model share."""

    def __init__(self, model: ModelProto, source: ModelProto, folder: str | None, allowance: Allowance | None = None):
        self.model = model
        self.allowance = allowance or Allowance()
        self.folder = folder
        self.context = Context(model, source, folder, trusting=False)
        self.changes: list[Change] = []
        self.constants_are_nodes = model.ir_version < 4  # where each initializer is an input, too
        self.uses: Counter[str] = Counter()
        self.fixed: frozenset[str] = _shadowed(model) | referred(model) | _updated(model)
        self.measures = True  # whether dimensions matter to any node
        self.leans = False  # whether what was asked for since this was unset holds of sizes of 1 or more alone
        self.changed = 0
        self.rounds = 0
        self._readers: dict[str, list[NodeProto]] | None = None

    def begin(self) -> None:
        """Begin a round: count how often each value is used, and let types be inferred of what the model is now.

        A name that two graphs give to different values counts as one.
        """
        self.uses, self.measures = Counter(), False
        if self.changed:
            asked = self.context.inference.was_asked
            self.context = Context(self.model, self.model, self.folder, trusting=False)
            if asked:
                self.context.inference.now()
        self.rounds += 1
        self.changed = 0
        for body in bodies(self.model):
            self.uses.update(chain.from_iterable([node.input for node in body.node]))
            self.uses.update(results(body))
            self.measures = self.measures or not _MEASURING.isdisjoint([node.op_type for node in body.node])
        self.uses.update(self.fixed)

    def readers(self, name: str) -> list[NodeProto]:
        """The nodes that read a value, as they were when they were first asked for in this round."""
        if self._readers is None:
            self._readers = {}
            for body in bodies(self.model):
                for node in body.node:
                    for each in set(node.input):
                        self._readers.setdefault(each, []).append(node)
        return self._readers.get(name, [])


class Draft:
    """A body whose nodes are visited once, in order; what a rule finds out about a value holds for all that follow."""

    exact = False  # whether only what is exact may be done
    growth = GROWTH
    results: set[str]
    own: set[str]

    def __init__(self, body: Body, whole: Whole, opset: int, parent: Draft | None = None, path: Path | None = None):
        outer: Scope | None = parent.scope if parent else None
        self.scope: Scope = Scope(body, whole.context, opset, outer, path)
        self._prepare(whole, opset, parent, path)
        self.results = set(results(body))
        if parent or whole.fixed:
            self.own = _own_names(body)
        self._held.update(self.scope.initializers)
        self.holds = isinstance(body, GraphProto) and not whole.constants_are_nodes

    def _prepare(self, whole: Whole, opset: int, parent: Draft | None = None, path: Path | None = None) -> None:
        self.whole = whole
        self.opset = opset
        self.parent = parent
        self.path = path
        self.holds = False
        self.results = set()
        self.own = set()
        self.alias: dict[str, str] = {}
        self.makers: dict[str, NodeProto] = {}
        self.numbers: dict[str, Known] = {}
        self.kinds: dict[str, int] = {}
        self.shapes: dict[str, tuple[Number, ...]] = {}
        self.granted: set[str] = set()  # values of which something holds of sizes of 1 or more alone
        self.measured: dict[tuple[Number, ...], str] = {}
        self.seen: dict[object, NodeProto] = {}
        self.shared: dict[object, str] = {}
        self.emitted: dict[object, str] = {}
        self.pieces: dict[tuple[str, int], dict[int, tuple[int, NodeProto]]] = {}
        self._arrays: dict[str, Any] = {}
        self._held: dict[str, TensorProto] = {}
        self._renamed: dict[str, str] = {}

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
        draft: Draft | None = self
        while draft is not None:
            if name in draft._held:
                return draft._held[name]
            if name in draft.own:
                return None
            draft = draft.parent
        return None

    def array(self, name: str, most: int = LARGEST) -> Any:
        """The constant as a numpy array; None for what is not constant, or of more than `most` bytes."""
        if name not in self._arrays:
            held = self.tensor(name)
            if held is None or tensor_data.nbytes(held) > most:
                return None
            loaded = tensor_data.load(held, self.whole.folder)
            self._arrays[name] = None if loaded is None else tensors.array(loaded)
        found = self._arrays[name]
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
        scope = self.scope.owner(name) or self.scope
        if name in scope.typed:
            return scope.typed[name]
        if scope.path is not None:
            found = self.whole.context.inference.type(scope.path, name)
            if found is not None:
                return found
        return scope.declared(name)

    def elem_type(self, name: str) -> int:
        """The element type of a tensor; 0 where it is unknown."""
        draft: Draft | None = self
        while draft is not None:
            if name in draft.kinds:
                return draft.kinds[name]
            draft = draft.parent
        found = self.type(name)
        return elem_type_of(found) if found is not None else 0

    def shape(self, name: str) -> tuple[Number, ...] | None:
        """The dimensions of a tensor; one without a name or a number is a symbol of its own."""
        draft: Draft | None = self
        while draft is not None:
            if name in draft.shapes:
                self.whole.leans |= name in draft.granted
                return draft.shapes[name]
            draft = draft.parent
        found = self.type(name)
        if found is None or not has_shape(found):
            return None
        self.whole.leans |= name in self.whole.context.inference.granted
        dims: list[Number] = []
        for axis, dim in enumerate(found.tensor_type.shape.dim):
            if dim.HasField("dim_value") and dim.dim_value >= 0:
                dims.append(int(dim.dim_value))
            else:
                dims.append(symbol(dim.dim_param or f"{name}\0{axis}"))
        return tuple(dims)

    def known(self, name: str) -> Known | None:
        """The numbers of a small integer scalar or vector: whether it is a scalar, and the numbers."""
        draft: Draft | None = self
        while draft is not None:
            if name in draft.numbers:
                self.whole.leans |= name in draft.granted
                return draft.numbers[name]
            draft = draft.parent
        held = self.tensor(name)
        if held is None or held.data_type not in _INTEGERS or len(held.dims) > 1 or tensors.size(held) > FEW:
            return None
        value = self.array(name)
        return None if value is None else (value.ndim == 0, tuple(int(number) for number in value.reshape(-1)))

    def learn(
        self, name: str, dims: Sequence[Number] | None = None, numbers: Known | None = None, kind: int = 0
    ) -> None:
        """Note the dimensions of a value, or the numbers that it holds and their type."""
        if dims is not None:
            self.shapes[name] = tuple(dims)
        if numbers is not None:
            self.numbers[name], self.kinds[name] = numbers, kind
        if self.whole.leans:
            self.granted.add(name)

    def is_open(self, node: NodeProto) -> bool:
        """Whether what a node computes hangs on the calls of its function."""
        return self.scope.is_open(node)

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
        draft: Draft | None = self
        while draft is not None and key is not None:
            if key in draft.shared:
                return draft.shared[key]
            draft = draft.parent
        return None

    def register(self, node: NodeProto) -> None:
        """A node is there to stay, for now."""
        for name in node.output:
            if name:
                self.makers[name] = node
                if self.parent is not None:
                    self.own.add(name)

    def knows(self, name: str, tensor: TensorProto) -> None:
        """A node of this body makes a constant."""
        self._held[name] = tensor

    def finish(self) -> None:
        """Give values the names of the outputs whose place they took."""
        if self._renamed:
            _rename(self.scope.body, self._renamed)


def content(tensor: TensorProto) -> object:
    """What two equal constants have in common; None for one of many bytes. Bytes in a file are known by their place."""
    if tensor_data.is_stored(tensor):
        place = sorted((entry.key, entry.value) for entry in tensor.external_data)
        return tensor.data_type, tuple(tensor.dims), tuple(place)
    if tensors.size(tensor) > tensors.SMALL:
        return None
    bare = TensorProto()
    bare.CopyFrom(tensor)
    for field in ("name", "doc_string"):
        bare.ClearField(field)
    return bare.SerializeToString(deterministic=True)


def digest(tensor: TensorProto) -> object:
    """The same for one of many bytes that are at hand; None for one whose bytes lie in a file."""
    if tensor_data.is_stored(tensor) or not tensor.raw_data:
        return None
    return tensor.data_type, tuple(tensor.dims), hashlib.blake2b(tensor.raw_data).digest()


_INTEGERS = {TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL}
_CONSTANTS_OF_ALL_TYPES = 9  # the opset from which on a Constant node holds them
_FIRST_CONSTANTS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE}


class Call:
    """One node, as rules see it."""

    def __init__(self, proto: NodeProto, draft: Draft):
        self.proto = proto
        self.draft = draft
        self.before: list[NodeProto] = []
        self.grade = "exact"
        self.remark = ""

    @property
    def op(self) -> str:
        return self.proto.op_type

    @property
    def opset(self) -> int:
        return self.draft.opset

    @property
    def output(self) -> str:
        return self.proto.output[0]

    def input(self, index: int) -> str:
        """The name of one input; the empty string where it is omitted."""
        return self.proto.input[index] if index < len(self.proto.input) else ""

    def attribute(self, name: str, default: Any = None) -> Any:
        """The value of an attribute."""
        for attribute in self.proto.attribute:
            if attribute.name == name:
                return attribute_value(attribute)
        return default

    def set(self, name: str, value: Any) -> None:
        """Set an attribute, or remove it."""
        for index, attribute in enumerate(self.proto.attribute):
            if attribute.name == name:
                del self.proto.attribute[index]
                break
        if value is not None:
            self.proto.attribute.append(make_attribute(name, value))

    def array(self, index: int, most: int = LARGEST) -> Any:
        """The constant at an input; None where it is none."""
        return self.draft.array(self.input(index), most) if self.input(index) else None

    def ints(self, index: int) -> list[int] | None:
        """The integers of a small constant at an input."""
        found = self.draft.known(self.input(index)) if self.input(index) else None
        if found is None or not all(isinstance(number, int) for number in found[1]):
            return None
        return [number for number in found[1] if isinstance(number, int)]

    def axes(self, position: int = 1) -> list[int] | None:
        """The axes that an attribute or a constant input names; None where they are unknown or left out."""
        given = self.attribute("axes")
        return list(given) if given is not None else self.ints(position)

    def shape(self, index: int = 0) -> tuple[Number, ...] | None:
        return self.draft.shape(self.input(index)) if self.input(index) else None

    def shape_of(self, name: str) -> tuple[Number, ...] | None:
        """The dimensions of any value."""
        return self.draft.shape(name)

    def elem_type(self, index: int = 0) -> int:
        return self.draft.elem_type(self.input(index)) if self.input(index) else 0

    def maker(self, index: int = 0) -> Call | None:
        """The node of this very body that makes an input."""
        made = self.draft.makers.get(self.input(index))
        return None if made is None or made.domain or self.draft.is_open(made) else Call(made, self.draft)

    def alone(self, index: int = 0) -> bool:
        """Whether nothing else uses what an input is."""
        name = self.input(index)
        return self.draft.whole.uses[name] == 1 and not self.draft.is_protected(name)

    def unused(self, index: int) -> bool:
        """Whether nobody reads an output, or it is left out."""
        name = self.proto.output[index] if index < len(self.proto.output) else ""
        return not name or not self.draft.whole.uses[name]

    def read(self, *names: str) -> None:
        """Read these inputs instead of those that were read."""
        kept = list(names)
        while kept and not kept[-1]:
            kept.pop()
        self.proto.input[:] = kept
        self.draft.whole.uses.update(kept)

    def emit(self, op: str, inputs: Sequence[str], shape: Iterable[Number] | None = None, **attributes: Any) -> str:
        """A new node in front of this one; equal ones are one. Returns its output."""
        key = (op, tuple(inputs), tuple(sorted((name, repr(value)) for name, value in attributes.items())))
        found: str | None = self.draft.emitted.get(key)
        if found is None:
            names = self.draft.whole.context.names
            found = names.fresh(f"{self.output}/{op}")
            made = NodeProto(op_type=op, input=inputs, output=[found])
            if self.proto.name:
                made.name = names.fresh(f"{self.proto.name}/{op}")
            made.attribute.extend(make_attribute(name, value) for name, value in attributes.items())
            self.before.append(made)
            self.draft.register(made)
            self.draft.emitted[key] = found
            self.draft.whole.uses.update(inputs)
        if shape is not None:
            self.draft.learn(found, tuple(shape))
        return found

    def constant(self, tensor: TensorProto, hint: str = "") -> str:
        """The name of a constant."""
        return self.draft.constant(tensor, hint or f"{self.output}/const", self.before)

    def grant(self) -> None:
        """Take sizes that only the run tells to be 1 or more."""
        self.draft.whole.leans = True

    def close(self, why: str) -> None:
        """The same real-number function, but rounding may differ; or `why` tells what is taken for granted."""
        self.grade = "close"
        self.remark = f"{self.remark}; {why}" if self.remark else why
