"""Find regions: the nodes by which two models differ, between values that both have (landmarks).

Nodes that are the same in both models, on the same inputs, prove nothing and are not run. Everything else lies in a
region: what makes a landmark in one model, from the landmarks before it, and what makes it in the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property

from opshift.passes.errors import InvalidModel
from opshift.passes.model import imports, schemas, tensor_data, tensors
from opshift.passes.model.messages import FunctionProto, NodeProto, TensorProto, normalize_domain
from opshift.passes.model.pieces import Pieces
from opshift.passes.model.traversal import subgraphs
from opshift.passes.records import dataclass
from opshift.verification.random_operators import GENERATORS
from opshift.verification.side import Side

_CHUNK = 1 << 24
"""Bytes of two weights in files that are compared at a time."""


@dataclass(frozen=True)
class Region:
    """Nodes of both models that compute the same values.

    Attributes:
        outputs: the landmarks that they compute.
        inputs: the landmarks and graph inputs that either of them reads.
        before, after: the nodes, by their place in the main graph; none where a model holds the values as constants.
    """

    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


class Body:
    """One of the two models, indexed by values and constants."""

    def __init__(self, side: Side):
        self.side = side
        self.pieces = Pieces(side.model)
        self.opsets: Mapping[str, int] = imports.opsets(side.model)
        self.functions = {(normalize_domain(f.domain), f.name, f.overload): f for f in side.model.functions}
        self.outputs = [value.name for value in side.model.graph.output]

    @cached_property
    def constants(self) -> dict[str, TensorProto]:
        """Collect initializers and the tensors of Constant nodes, by name. Computed once, when it is first needed."""
        constants = dict(self.pieces.held)
        for node in self.pieces.nodes:
            if node.op_type == "Constant" and not normalize_domain(node.domain) and node.output:
                tensor = tensors.of_constant(node)
                if tensor is not None:
                    constants[node.output[0]] = tensor
        return constants

    @cached_property
    def needed(self) -> set[str]:
        """List values that outputs depend on, without constants and inputs. Computed once, when it is first needed."""
        inside, _ = self.pieces.between(self.outputs, ())
        return {name for index in inside for name in self.pieces.nodes[index].output if name}

    @cached_property
    def unvarying(self) -> set[str]:
        """List values that depend on no input. Computed once, when it is first needed."""
        constant_values = set(self.constants) | set(self.pieces.sparse)
        for index, node in enumerate(self.pieces.nodes):
            if node.op_type not in GENERATORS and constant_values.issuperset(self.pieces.reads(index)):
                constant_values.update(filter(None, node.output))
        return constant_values

    def makes(self, name: str) -> bool:
        """Whether a node that outputs depend on computes this value."""
        return name in self.needed and name not in self.constants

    def since(self, node: NodeProto, opsets: Mapping[str, int]) -> int | None:
        """Look up the version of a node's operator. Two nodes are the same operator only if it is equal."""
        domain = normalize_domain(node.domain)
        opset = opsets.get(domain, 0)
        return schemas.since(domain, node.op_type, opset) or opset

    def tensor(self, name: str) -> TensorProto:
        """Load a constant with its data; raises `InvalidModel` if they are missing. Used for constants inside a
        region.
        """
        tensor = self.constants[name]
        return tensor_data.load_or_raise(tensor, self.side.folder) if tensor_data.is_stored(tensor) else tensor


class Comparison:
    """Two models, and what they have in common.

    Values of one name are taken to be the same value, but for names that were `rejected`: a run showed that the two
    models use them for different things.
    """

    def __init__(self, before: Body, after: Body, rejected: Collection[str] = ()):
        self.before, self.after, self.rejected = before, after, rejected
        self._equal: dict[str, bool] = {}
        self._identical: dict[tuple[int, int], bool] = {}
        self._same_functions: dict[tuple[str, str, str], bool] = {}

    @cached_property
    def landmarks(self) -> set[str]:
        """List values that both models have and that outputs depend on. Regions lie between them."""
        one, other = (
            {name for name in (*body.needed, *body.constants) if name not in self.rejected}
            for body in (self.before, self.after)
        )
        shared = one & other
        given = set(self.before.pieces.given) & set(self.after.pieces.given)
        return {name for name in shared if self.before.makes(name) or self.after.makes(name)} | given

    def is_shared(self, name: str) -> bool:
        """Whether a name is the same value in both models. Asked for each input of a node."""
        if not name or name in self.landmarks:
            return True
        return self._compare_constants(name)

    def _compare_constants(self, name: str) -> bool:
        """Whether a constant is equal in both models; compared once."""
        if name not in self._equal:
            one, other = self.before.constants.get(name), self.after.constants.get(name)
            self._equal[name] = (
                one is not None and other is not None and same_tensor(one, self.before.side, other, self.after.side)
            )
        return self._equal[name]

    def is_identical(self, name: str) -> bool:
        """Whether the same operator computes a value from the same inputs in both models. Such values need no
        region.
        """
        one, other = (body.pieces.makers.get(name) for body in (self.before, self.after))
        if one is None or other is None:
            return False
        nodes = self.before.pieces.nodes[one], self.after.pieces.nodes[other]
        places = (list(node.output).index(name) for node in nodes)
        return self._compare_nodes(one, other) and len(set(places)) == 1

    def _compare_nodes(self, one: int, other: int) -> bool:
        """Whether two nodes compute the same; compared once."""
        if (one, other) not in self._identical:
            self._identical[one, other] = self._is_same_node(one, other)
        return self._identical[one, other]

    def _is_same_node(self, one: int, other: int) -> bool:
        """Whether two nodes have the same operator and read the same values.

        Asked for each value that both models have.
        """
        a, b = self.before.pieces.nodes[one], self.after.pieces.nodes[other]
        if not self._compare_operators(a, b, self.before.opsets, self.after.opsets):
            return False
        reads = [list(body.pieces.reads(k)) for body, k in ((self.before, one), (self.after, other))]
        return list(a.input) == list(b.input) and all(map(self.is_shared, {*a.input, *reads[0], *reads[1]}))

    def _compare_operators(
        self, a: NodeProto, b: NodeProto, opsets: Mapping[str, int], others: Mapping[str, int]
    ) -> bool:
        """Whether two nodes have the same operator, version and attributes, subgraphs and functions included.

        Asked for each pair of nodes.
        """
        if (a.op_type, a.overload, len(a.output)) != (b.op_type, b.overload, len(b.output)):
            return False
        if normalize_domain(a.domain) != normalize_domain(b.domain) or _attributes(a) != _attributes(b):
            return False
        key = normalize_domain(a.domain), a.op_type, a.overload
        function, other = self.before.functions.get(key), self.after.functions.get(key)
        if function is not None or other is not None:
            if key not in self._same_functions:
                self._same_functions[key] = True  # for calls of itself
                same = function is not None and other is not None and self._compare_functions(function, other)
                self._same_functions[key] = same
            return self._same_functions[key]
        if self.before.since(a, opsets) != self.after.since(b, others):
            return False
        inner = zip(subgraphs(a), subgraphs(b), strict=True) if a.attribute else ()
        return all(
            self._compare_operators(x, y, opsets, others)
            for (_, _, one), (_, _, two) in inner
            for x, y in zip(one.node, two.node, strict=True)
        )

    def _compare_functions(self, function: FunctionProto, other: FunctionProto) -> bool:
        """Whether two functions are the same but for opsets at which their operators have the same versions."""
        one, two = FunctionProto(), FunctionProto()
        one.CopyFrom(function)
        two.CopyFrom(other)
        del one.opset_import[:], two.opset_import[:]
        if one.SerializeToString(deterministic=True) != two.SerializeToString(deterministic=True):
            return False
        opsets, others = imports.opsets(function), imports.opsets(other)
        return all(self._compare_operators(a, b, opsets, others) for a, b in zip(one.node, two.node, strict=True))

    def regions(self) -> list[Region]:
        """List the regions, in the order of the second model. The proof runs these one by one.

        Landmarks that one node computes together, in either model, belong to one region (union-find).
        """
        parents: dict[object, object] = {}

        def group_of(of: object) -> object:
            """Find the group of a landmark or a node: the one at the root of its tree of `parents`."""
            while parents.setdefault(of, of) != of:
                parents[of] = parents[parents[of]]
                of = parents[of]
            return of

        given = set(self.before.pieces.given) & set(self.after.pieces.given)
        names = [name for name in self.landmarks - given if not self.is_identical(name)]
        for name in names:
            for which, body in enumerate((self.before, self.after)):
                if body.makes(name):
                    parents[group_of((which, body.pieces.makers[name]))] = group_of(name)
        groups: dict[object, list[str]] = {}
        for name in names:
            groups.setdefault(group_of(name), []).append(name)
        regions = [self.region(group) for group in groups.values()]
        return sorted(regions, key=lambda region: (region.after[-1:] or (-1,), region.outputs))

    def region(self, outputs: Iterable[str], inputs: Collection[str] | None = None) -> Region:
        """Make the region that computes landmarks from `inputs`; without them, from the nearest landmarks.

        Used for each region, and again when one is widened or merged.
        """
        outputs = tuple(sorted(outputs))
        ends = (self.landmarks if inputs is None else set(inputs)) - set(outputs)
        parts, reads = [], dict[str, None]()
        for body in (self.before, self.after):
            wanted = [name for name in outputs if body.makes(name)]
            inside, reached = body.pieces.between(wanted, ends)
            parts.append(tuple(index for index in inside if not _is_constant(body, index)))
            reads.update(dict.fromkeys(name for name in reached if name not in body.constants))
        return Region(outputs, tuple(reads), parts[0], parts[1])


def _is_constant(body: Body, index: int) -> bool:
    return any(name in body.constants for name in body.pieces.nodes[index].output)


def _attributes(node: NodeProto) -> list[bytes]:
    return sorted(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)


def same_tensor(a: TensorProto, one: Side, b: TensorProto, other: Side) -> bool:
    """Whether two constants are equal bit for bit; weights in files are compared there, in pieces.

    Asked for constants of one name.
    """
    if a is b:
        return True
    if a.data_type != b.data_type or list(a.dims) != list(b.dims):
        return False
    if tensor_data.is_stored(a) and tensor_data.is_stored(b):
        with suppress(InvalidModel, OSError):
            return _compare_files(a, one.folder, b, other.folder)
    try:
        a, b = (
            tensor_data.load_or_raise(tensor, side.folder) if tensor_data.is_stored(tensor) else tensor
            for tensor, side in ((a, one), (b, other))
        )
    except (InvalidModel, OSError):
        return False
    if a.HasField("raw_data") and b.HasField("raw_data"):
        return a.raw_data == b.raw_data
    return _content(a) == _content(b)


def _compare_files(a: TensorProto, folder: str | None, b: TensorProto, other: str | None) -> bool:
    """Compare two weights in their files, of which nothing is read where both are the same bytes of one.

    Raises `InvalidModel` if one is not a part of a file. Asked for external data.
    """
    one, two = tensor_data.place(a), tensor_data.place(b)
    if folder is None or other is None:
        raise InvalidModel("the files of the tensors are not known")
    is_one_file = tensor_data.path(folder, one.location) == tensor_data.path(other, two.location)
    if is_one_file and (one.offset, one.fields) == (two.offset, two.fields):
        return True
    if any(place.fields and not place.offset for place in (one, two)):
        raise InvalidModel("the tensor has no bytes of its own in an external file")
    rest = tensor_data.nbytes(a)
    with tensor_data.open_file(folder, one) as first, tensor_data.open_file(other, two) as second:
        first.seek(one.offset)
        second.seek(two.offset)
        while rest > 0:
            step = min(rest, _CHUNK)
            if first.read(step) != second.read(step):
                return False
            rest -= step
    return True


def _content(tensor: TensorProto) -> object:
    """Read a tensor's elements in a form that can be compared bit for bit. Used for tensors in memory."""
    from onnx import numpy_helper

    value = numpy_helper.to_array(tensor)
    return value.tolist() if value.dtype.kind in "OSU" else value.tobytes()


def names_of(body: Body, nodes: Sequence[int]) -> tuple[str, ...]:
    """Name nodes for a report: by name, or by their first output."""
    return tuple(
        body.pieces.nodes[index].name or next(filter(None, body.pieces.nodes[index].output), "") for index in nodes
    )
