"""RNN, GRU and LSTM: output_sequence went, layout and bfloat16 came."""

from __future__ import annotations

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.operators.shared.recipes import carrier_casts
from opshift.passes.operators.shared.recurrence import scan_over_time
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import Pair, Replacement, changed, defined
from opshift.passes.rewrite.says import says

T = TensorProto
RECURRENT = ["RNN", "GRU", "LSTM"]

# Layout 1 has the batch first. At the inputs X, initial_h and initial_c are swapped; at the outputs Y, from
# [seq, direction, batch, hidden] to [batch, seq, direction, hidden], Y_h and Y_c.
SWAPPED = [1, 0, 2]
INPUTS = {0: SWAPPED, 5: SWAPPED, 6: SWAPPED}
OUTPUTS = [[2, 0, 1, 3], SWAPPED, SWAPPED]


@says("Replaced layout=1 by Transposes before and after")
def sequence_first(node: Node) -> Replacement:
    if not node.attributes.pop("layout", 0):
        return None
    build, inputs = node.build, node.inputs
    for index, order in INPUTS.items():
        if node.input(index):
            inputs[index] = build.Transpose(inputs[index], perm=order)
    results = build.again(node.proto, inputs)
    results = [results] if isinstance(results, str) else results
    wanted = zip(node.outputs, results, OUTPUTS, strict=False)
    return [build.Transpose(value, perm=order) if name else value for name, value, order in wanted]


@says("Dropped output_sequence")
def without_output_sequence(node: Node) -> None:
    node.attributes.pop("output_sequence", 0)


@says("Set output_sequence=1 where the output Y is used")
def with_output_sequence(node: Node) -> None:
    if node.outputs and node.outputs[0]:
        node.attributes["output_sequence"] = 1


@says("Corrected the spelling of the attribute direction")
def spell_forward(node: Node) -> None:
    if node.attributes.get("direction", "forward") == "foward":
        node.attributes["direction"] = "forward"


@says("Dropped linear_before_reset of GRU; added the output Y_h, which GRU-1 requires")
def reset_before_linear(node: Node) -> None:
    if node.attributes.pop("linear_before_reset", 0):
        raise CannotConvert(node, "linear_before_reset is set", supported="0")
    node.attributes.setdefault("direction", "forward")
    first, last = [*node.outputs, "", ""][:2]
    if not last:
        node.touched = True
        node.proto.output[:] = [first, node.scope.context.names.fresh(f"{node.name}/Y_h")]


changed("GRU", 3, Pair(up=spell_forward, down=reset_before_linear))
changed(RECURRENT, 7, Pair(up=without_output_sequence, down=with_output_sequence))
changed(RECURRENT, 14, Pair(down=sequence_first))
changed(RECURRENT, 22, Pair(down=carrier_casts({T.BFLOAT16: T.FLOAT}, why="carries the state in float32")))
defined(RECURRENT, scan_over_time, opset=13)
