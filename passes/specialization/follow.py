"""What follows from fixed sizes and inputs is computed once: shapes, conditions, and the graphs that hang on them."""

from __future__ import annotations

from opshift.passes.analysis.callers import refers
from opshift.passes.changes import Change
from opshift.passes.model import tensors
from opshift.passes.model.editing import dead_code
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import ModelProto, NodeProto, TensorProto
from opshift.passes.model.traversal import find_shadowed
from opshift.passes.optimization.door import BodyVisit
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.rules.axes import state_axes, transpose_unjoined
from opshift.passes.simplification.rules.identities import name_type
from opshift.passes.simplification.whole import Whole
from opshift.passes.simplification.workspace import Workspace

_MOST_ROUNDS = 12
_MEASURING = frozenset(["Shape", "Size"])
_WHOLE = frozenset([TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL])
_STORED = frozenset(["DequantizeLinear"])  # weights stay as small as they are
_HOLDING = frozenset(["If", "Loop"])


def follow(model: ModelProto, values: frozenset[str] = frozenset(), folder: str | None = None) -> list[Change]:
    """Compute in the model itself what hangs on sizes, on these values, which are constants, and on few integers.

    All of it is exact. Nodes that hang on weights alone stay as they are.
    """
    return _follow_rounds(model, _FollowedModel(model, values, folder), _Space, _Follow)


def separate(model: ModelProto, folder: str | None = None) -> list[Change]:
    """Compute all constants, and move axes that were merged only to be moved: then each has a place for the samples.

    No rule is tried that holds because a batch has one sample.
    """
    return _follow_rounds(model, _FollowedModel(model, frozenset(), folder), _LargeSpace, _Separate)


def _follow_rounds(model: ModelProto, whole: _FollowedModel, space: type[_Space], visit: type[_Follow]) -> list[Change]:
    for _ in range(_MOST_ROUNDS):
        whole.begin()
        opset = opsets(model).get("", 1)
        visit(space(model.graph, whole, opset, path=())).body()
        for function in model.functions:
            visit(space(function, whole, opsets(function).get("", opset))).body()
        if not whole.changed:
            break
        dead_code.drop_unused(model, whole.released)
        whole.released.clear()
    return whole.changes


class _FollowedModel(Whole):
    """A model, with what hangs on sizes or on constants that were inputs."""

    def __init__(self, model: ModelProto, values: frozenset[str], folder: str | None):
        super().__init__(model, model, folder)
        self.following = set(values) - find_shadowed(model)
        self.released: set[str] = set(values)
        self.context.inference.now()


class _Space(Workspace):
    exact = True
    whole: _FollowedModel


class _LargeSpace(_Space):
    growth = 1 << 28  # a row for each sample, of which one is kept


class _Follow(BodyVisit):
    """A visit that does no more than follows."""

    def __init__(self, space: Workspace):
        super().__init__(space)
        self._whole: _FollowedModel = self._whole
        self._rules = {"Squeeze": [state_axes]}
        self._is_own = True

    def _share_initializers(self) -> None:
        """Equal initializers stay apart."""

    def _merge(self, call: Call) -> bool:
        return False

    def node(self, node: NodeProto, index: int | None) -> list[NodeProto]:
        own, self._is_own = self._is_own, index is not None
        read = dead_code.names_read(node) if node.op_type in _HOLDING else list(node.input)
        made = super().node(node, index)
        if len(made) != 1 or made[0] is not node:
            self._whole.released.update(filter(None, [*read, *node.input]))
        elif node.input[:] != read[: len(node.input)] or len(node.input) < len(read):
            self._whole.released.update(set(read) - set(node.input) - {""})
        self._is_own = own
        return made

    def _fold(self, call: Call) -> bool:
        if call.op == "Constant":
            return self._hold(call.proto)
        following = self._whole.following
        if call.op in _MEASURING or not following.isdisjoint(call.inputs):
            following.update(filter(None, call.proto.output))
        elif not all(map(self._is_parameter, filter(None, call.inputs))):
            return False
        return super()._fold(call)

    def _is_parameter(self, name: str) -> bool:
        """Whether a value is a few constant integers, of which shapes, axes and pads are computed."""
        held = self._space.tensor(name)
        return held is not None and held.data_type in _WHOLE and tensors.size(held) <= tensors.SMALL

    def _hold(self, node: NodeProto) -> bool:
        """Make initializers of what Constants hold that stood inside a graph, as initializers did there."""
        tensor = tensors.of_constant(node)
        if tensor is None or refers(node):
            return False
        name, fixed = node.output[0], self._whole.fixed
        if not self._is_own:
            self._whole.released.add(name)  # what was computed inside may have left it unread
        if not self._is_own and name not in fixed and self._space.hold(name, tensor):
            return True
        self._space.note_constant(name, tensor)
        return False


class _Separate(_Follow):
    """A visit that computes all constants."""

    def __init__(self, space: Workspace):
        super().__init__(space)
        self._rules = {**self._rules, "CastLike": [name_type], "Reshape": [transpose_unjoined]}

    def _fold(self, call: Call) -> bool:
        if call.op not in _STORED:
            self._whole.following.update(filter(None, call.inputs))
        return super()._fold(call)
