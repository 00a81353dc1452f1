"""Names for new values, that nothing else has."""

from __future__ import annotations

from functools import cached_property

from opshift.passes.model.call_signatures import Survey
from opshift.passes.model.messages import ModelProto, NodeProto
from opshift.passes.model.traversal import graphless

_LARGE = 512  # bytes of a node, most of which are those of a tensor
_MOST_ENDINGS = 64  # of fresh names that are searched for one by one


class Names:
    """Hands out names that are used nowhere else in the model, which is read once, at the first request; a survey that
    checked it has read it already.

    No name is looked up: a name is free if the bytes of the model's nodes hold no such ending. That is asked once for
    each ending, which is what stands behind the last slash; where there are many, they share a mark that is free.
    """

    def __init__(self, model: ModelProto, survey: Survey | None = None):
        self._model = model
        self._survey = survey
        self._endings: dict[str, str] = {}
        self._tails: dict[tuple[str, ...], list[str]] = {}
        self._given: set[str] = set()
        self._count = 0

    def fresh(self, hint: str) -> str:
        """`hint` itself where it is free, else `hint` with a number that no other name has."""
        at = max(hint.rfind("/"), 0)
        return self._take(hint[:at] + self._ending(hint[at:]))

    def fresh_all(self, stem: str, tails: tuple[str, ...]) -> list[str]:
        """The same for `stem` with each of the tails, all of which hold a slash."""
        if tails not in self._tails:
            parts = [tail.rpartition("/") for tail in tails]
            self._tails[tails] = [before + self._ending(f"/{last}") for before, _, last in parts]
        return [self._take(stem + tail) for tail in self._tails[tails]]

    def _take(self, name: str) -> str:
        stem = name
        while name in self._given:
            self._count += 1
            name = f"{stem}_{self._count}"
        self._given.add(name)
        return name

    def _ending(self, ending: str) -> str:
        if ending not in self._endings:
            many = len(self._endings) >= _MOST_ENDINGS
            self._endings[ending] = self._mark + ending if many else self._free(ending)
        return self._endings[ending]

    @cached_property
    def _mark(self) -> str:
        return self._free("/new")

    def _free(self, ending: str) -> str:
        found, number = ending, 1
        while found.encode() in self._bytes_of_names:
            found, number = f"{ending}_{number}", 2 * number
        return found

    @cached_property
    def _bytes_of_names(self) -> bytes:
        """Bytes that hold every name, those of nested graphs included, but not large weights."""
        if self._survey is not None and self._survey.checked:
            held = [b"\n".join([*names.made, *names.early, *names.nodes]) for _, names in self._survey.values]
            stated = [value.name for body, _ in self._survey.values for value in body.value_info]
            return b"\n".join([*held, "\n".join(stated).encode()])
        graph = self._model.graph
        held = [function.SerializeToString() for function in self._model.functions]
        if graph.ByteSize() <= _LARGE * len(graph.node):
            return b"\n".join([*held, graph.SerializeToString()])
        held += map(_spell, graph.node)
        held += [value.name.encode() for value in (*graph.input, *graph.output, *graph.value_info)]
        tensors = (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer))
        return b"\n".join([*held, *(tensor.name.encode() for tensor in tensors)])


def _spell(node: NodeProto) -> bytes:
    """Bytes that hold every name in a node, without the weights that it holds itself."""
    named = not node.domain and node.op_type in graphless()
    if not named or node.ByteSize() <= _LARGE:
        return node.SerializeToString()
    return "\n".join([node.name, *node.input, *node.output]).encode()
