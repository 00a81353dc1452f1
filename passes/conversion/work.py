"""Entries of the worklist: a node, its versions, and the operators whose definitions it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opshift.passes.analysis.scope import Scope
from opshift.passes.model.call_signatures import BodyLayout
from opshift.passes.model.messages import NodeProto, normalize_domain
from opshift.passes.model.traversal import Op
from opshift.passes.records import dataclass
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node

Versions = Mapping[str, int]
Within = tuple[tuple[Op, int], ...]  # the operators, with their versions, that a node was made of, the outermost first


@dataclass
class Work:
    """One node on the worklist."""

    proto: NodeProto
    versions: Versions
    index: int | None = None
    inner: Sequence[BodyLayout] = ()
    descended: bool = False  # its subgraphs are at the target
    within: Within = ()
    written: bool = False  # by the user, in the body of a function

    @property
    def op(self) -> Op:
        return normalize_domain(self.proto.domain), self.proto.op_type

    @property
    def version(self) -> int:
        """The version of the operator's domain."""
        return self.versions.get(normalize_domain(self.proto.domain), 0)

    @property
    def opset(self) -> int:
        """The version of the default domain."""
        return self.versions.get("", 1)

    def node(self, scope: Scope, version: int, build_at: int | None = None) -> Node:
        """Wrap the node for a step, at a version of its operator; new nodes are built at `build_at`.

        Runs before each step.
        """
        builder = Builder(scope, self.opset if build_at is None else build_at, self.proto)
        return Node(self.proto, scope, version, builder)
