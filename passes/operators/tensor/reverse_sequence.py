"""ReverseSequence before it existed, and bfloat16."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.operators.shared import flat_indices
from opshift.passes.operators.shared.recipes import BFLOAT16, carrier_casts
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, changed
from opshift.passes.rewrite.says import says


@says("Replaced ReverseSequence by Gather with reversed indices")
def gathered_backwards(node: Node) -> str:
    build, data = node.build, node.input(0)
    time, batch = node.attributes.get("time_axis", 0), node.attributes.get("batch_axis", 1)
    if {time, batch} != {0, 1}:
        raise CannotConvert(node, f"time_axis={time}, batch_axis={batch}", supported="0 and 1")
    if 0 in (node.scope.shape(data) or []):
        return data
    dims = flat_indices.sizes(node, data)
    steps = flat_indices.strides(build, dims[:2])
    across = [-1, 1] if batch == 0 else [1, -1]
    at = build.Reshape(flat_indices.count(build, dims[time]), across[::-1])
    lengths = build.Reshape(node.input(1), across)
    source = build.Where(build.Less(at, lengths), build.Sub(build.Sub(lengths, 1), at), at)
    if steps[time] != 1:
        source = build.Mul(source, steps[time])
    of_batch = build.Reshape(flat_indices.count(build, dims[batch]), across)
    if steps[batch] != 1:
        of_batch = build.Mul(of_batch, steps[batch])
    return str(build.Gather(flat_indices.merge_axes(node, data, dims, 2), build.Add(source, of_batch), axis=0))


changed("ReverseSequence", 10, Pair(down=gathered_backwards))
changed("ReverseSequence", 28, Pair(down=carrier_casts(BFLOAT16)))
