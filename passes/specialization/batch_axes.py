"""The samples of a batch: along which axis of each value they lie."""

from __future__ import annotations

from typing import Any

from opshift.passes.analysis.polynomial import Number, Poly, symbol
from opshift.passes.errors import reason
from opshift.passes.model.lazy_numpy import np
from opshift.passes.model.messages import ModelProto
from opshift.passes.simplification import dimensions
from opshift.passes.simplification.call import Call
from opshift.passes.simplification.whole import Whole
from opshift.passes.simplification.workspace import Workspace

Where = int | None
LARGEST = 1 << 26  # elements of a constant whose rows are compared
MERGED = "the batch axis is merged with other axes"
ALONE = (1, 1)
"""An axis that holds the samples and nothing else, see `Samples.merged`."""


class Mixes(Exception):
    """Samples are not computed one by one, or nobody knows."""


class Samples(Workspace):
    """The main graph of a model, with the axis along which the samples of each value lie."""

    def __init__(self, model: ModelProto, opset: int, held: int | None, target: int | None, folder: str | None):
        whole = Whole(model, model, folder)
        whole.context.inference.now()
        whole.begin()
        super().__init__(model.graph, whole, opset, path=())
        self.size: Poly = symbol("\0samples")
        """How many samples there are, whoever counts them."""
        self.held = held
        """How many the model takes now; None where that is open."""
        self.target = target
        """How many it is to take; None for any number."""
        self.where: dict[str, int] = {}
        self.counts: set[str] = set()
        """Values that hang on how many samples there are."""
        self.merged: dict[str, tuple[Number, Number]] = {}
        """Values with the samples in an axis that a Reshape merged: how many rows it has for all before, and for each.

        [samples, words, numbers] as [samples * words, numbers] is (1, words): each sample has so many rows, one after
        the other. [words, samples, numbers] as [words * samples, numbers] is (words, 1).
        """
        self.indices: dict[str, Number] = {}
        """Indices that go on counting from sample to sample, and how many elements each sample has."""

        self.assumed: set[str] = set()
        """Values whose rank is not known, and is taken as it is declared."""
        self._ranks = {
            value.name: len(value.type.tensor_type.shape.dim)
            for value in (*model.graph.value_info, *model.graph.output)
            if value.type.tensor_type.HasField("shape")
        }

    def shape(self, name: str) -> tuple[Number, ...] | None:
        found, axis = super().shape(name), self.where.get(name)
        if found is None and name in self._ranks:
            self.assumed.add(name)
            found = tuple(symbol(f"{name}\0{at}") for at in range(self._ranks[name]))
        if found is None or axis is None or axis >= len(found):
            return found
        size = dimensions.product([self.size, *self.merged.get(name, ALONE)])
        return None if size is None else (*found[:axis], size, *found[axis + 1 :])


class Batched(Call):
    """One call, of which some inputs hold samples.

    Attributes:
        lies: the axis of the samples in each input.
        merged: what else that axis holds, which is the same in all of them.
        merging: the same of the outputs.
        picks: the sizes of a sample, where the node becomes a Gather from each; none where its rows have an axis.
        wanted: shapes that have to be stated anew, by input.
        counted: shapes whose first size is to be the number of samples of the first input, by input.
        repeated: inputs that are the same for all samples, and have to be there for each, along an axis.
        shared: arrays that take the place of constants, by input.
    """

    def __init__(self, call: Call, space: Samples):
        super().__init__(call.proto, space)
        self.samples = space
        self.lies: list[Where] = [space.where.get(name) if name else None for name in call.proto.input]
        held = {space.merged.get(name, ALONE) for name in call.proto.input if name in space.where}
        if len(held) > 1:
            raise Mixes("its inputs have the batch on different axes")
        self.merged = self.merging = held.pop() if held else ALONE
        self.picks: list[int] | None = None
        self.wanted: dict[int, list[int]] = {}
        self.counted: dict[int, list[int]] = {}
        self.repeated: dict[int, int] = {}
        self.shared: dict[int, Any] = {}

    @property
    def axis(self) -> int:
        """That of the first input, which alone holds samples."""
        if self.lies[0] is None or any(axis is not None for axis in self.lies[1:]):
            raise Mixes("its parameters depend on the batch")
        return self.lies[0]

    def dims(self, index: int = 0) -> tuple[Number, ...]:
        found = self.shape(index)
        if found is None:
            raise Mixes(reason("the rank of its input is unknown", fix="--fix-shape, or a value_info that declares it"))
        return found

    def axis_of(self, name: str, default: int, more: int = 0) -> int:
        """What an attribute names of the axes of the first input."""
        return int(self.attribute(name, default)) % max(len(self.dims()) + more, 1)

    def named_axes(self) -> list[int] | None:
        """Those that an attribute or a constant names; None where they are left out, or unknown."""
        if self.input(1) and self.ints(1) is None:
            raise Mixes("its axes are unknown")
        given = self.attribute("axes")
        return list(given) if given is not None else self.ints(1)

    def check_first(self) -> None:
        """Raise `Mixes` where samples do not lie along the first axis."""
        if self.axis != 0:
            raise Mixes("the batch is not on its first axis")

    def check_alone(self) -> None:
        """Raise `Mixes` where another axis is merged with that of the samples."""
        if self.merged != ALONE:
            raise Mixes(MERGED)

    def repeat(self, index: int, axis: int) -> None:
        """Take an input that is the same for all samples as if it held some along an axis."""
        self.check_alone()
        if self.dims(index)[axis] != 1:
            self.share(index, axis)
        self.repeated[index] = axis

    def share(self, index: int, axis: int) -> None:
        """Keep one row of a constant that states the same row for each sample, as exporters write a row of zeros."""
        count = None if self.samples.held is None else dimensions.product([self.samples.held, *self.merged])
        held = self.array(index, LARGEST) if self.dims(index)[axis] == count else None
        rows = () if held is None else [row.tobytes() for row in np.moveaxis(held, axis, 0)]
        if held is None or len(set(rows)) != 1:
            raise Mixes("an operand has a fixed size on the batch axis")
        self.shared[index] = held.take([0], axis)

    def apart(self, *axes: int) -> int:
        """The samples' axis, which is none of those along which it computes."""
        rank = len(self.dims())
        if self.axis in {axis % rank for axis in axes}:
            raise Mixes("it computes along the batch axis")
        return self.axis
