"""MoE and QMoE: a router chooses which experts see a token; each is two products with an activation between them."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isinf

from opshift.passes.errors import CannotConvert
from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.model.types import tensor_type
from opshift.passes.operators.shared.quantization import checked_bits, first_of, unpack
from opshift.passes.operators.shared.recipes import recast, wider
from opshift.passes.operators.shared.shapes import share_along
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
WEIGHTS_1, BIAS_1, WEIGHTS_2, BIAS_2, WEIGHTS_3 = 2, 3, 4, 5, 6  # inputs
Q_WEIGHTS, Q_BIASES, Q_WEIGHTS_3, Q_ZEROS, ROUTER_WEIGHTS = (2, 5), (4, 7), 8, (11, 12), 14  # those of QMoE
INTERLEAVED, BEHIND = 1, 2  # swiglu_fusion


@says("Replaced MoE by Softmax, TopK and a Loop over the experts")
def sum_of_chosen_experts(node: Node) -> str:
    _refuse_third(node, WEIGHTS_3)

    def weights(inner: Builder, at: str, index: int) -> str:
        return recast(inner, inner.Gather(node.input(index), at, axis=0), node.elem_type(), wider(node.elem_type()))

    return _sum(node, _shares(node), (WEIGHTS_1, WEIGHTS_2), (BIAS_1, BIAS_2), weights)


@says("Replaced QMoE by Softmax, TopK and a Loop over the experts, with DequantizeLinear of their weights")
def sum_of_quantized_experts(node: Node) -> str:
    _refuse_third(node, Q_WEIGHTS_3)
    if (kind := node.attributes.get("quant_type", "int")) != "int":
        raise CannotConvert(node, f"onnxruntime's CPU kernel does not support quant_type={kind!r}", supported="int")
    if node.attributes.get("weights_prepacked", -1) == 1:
        raise CannotConvert(
            node, "weights_prepacked=1 means that the weights are laid out for one kernel", supported="0"
        )
    _refuse_rounded_again(node)

    def weights(inner: Builder, at: str, index: int) -> str:
        return _dequantize(node, inner, at, index)

    return _sum(node, _shares_of_best(node), Q_WEIGHTS, Q_BIASES, weights)


def _refuse_third(node: Node, third: int) -> None:
    if node.input(third):
        raise CannotConvert(
            node,
            "fc3_experts_weights is given, and onnxruntime's CPU kernel does not support it",
            supported="a call without it",
        )
    if node.attributes.get("use_sparse_mixer", 0):
        raise CannotConvert(node, "use_sparse_mixer=1 is not documented", supported="0")


def _refuse_rounded_again(node: Node) -> None:
    """4 bits in rows, whose kernel makes blocks with scales of its own where one layer alone has zero points."""
    given = [bool(node.input(index)) for index in Q_ZEROS]
    if any(given) and not all(given) and not node.attributes.get("block_size", 0) and _bits(node, given[0]) == 4:
        why = f"zero points of fc{2 - given[0]} alone, for which the kernel rounds the weights of the other once more"
        raise CannotConvert(node, f"{why}", supported="zero points for both layers, or for neither")


def _sum(
    node: Node,
    shares: str,
    layers: tuple[int, int],
    biases: tuple[int, int],
    weights: Callable[[Builder, str, int], str],
) -> str:
    """What the experts make of the tokens that each shares in, one expert after the other."""
    node.close("sums and rounds in another order")
    build, elem_type, wide = node.build, node.elem_type(), wider(node.elem_type())
    tokens = recast(build, node.input(0), elem_type, wide)
    if node.rank() == 3:
        tokens = build.Reshape(tokens, [-1, _size(node, layers[1])])

    def layer(inner: Builder, at: str, x: str, index: int, bias: int) -> str:
        product = inner.MatMul(x, inner.Transpose(weights(inner, at, index), perm=[1, 0]))
        if not node.input(bias):
            return str(product)
        return str(inner.Add(product, recast(inner, inner.Gather(node.input(bias), at, axis=0), elem_type, wide)))

    def expert(inner: Builder, at: str, sums: list[str]) -> list[str]:
        each = inner.Gather(shares, at, axis=1)
        chosen = inner.Reshape(inner.NonZero(each), [-1, 1])
        y = layer(inner, at, inner.GatherND(tokens, chosen), layers[0], biases[0])
        y = layer(inner, at, _activate(node, inner, y, wide), layers[1], biases[1])
        weighted = inner.Mul(y, inner.Unsqueeze(inner.GatherND(each, chosen), [1]))
        return [inner.ScatterND(sums[0], chosen, inner.Add(inner.GatherND(sums[0], chosen), weighted))]

    begin = build.Expand(build.constant(0.0, wide), build.Shape(tokens))
    count = build.Squeeze(build.Shape(node.input(1), start=1, end=2))
    y = recast(build, build.loop(count, [(begin, tensor_type(wide, [None, None]))], expert)[0], wide, elem_type)
    return str(build.Reshape(y, build.Shape(node.input(0)))) if node.rank() == 3 else y


def _size(node: Node, index: int) -> int:
    """The size of a token, which is that of what the second layer makes."""
    size = (node.scope.shape(node.input(index)) or [None, None])[1]
    if not isinstance(size, int):
        raise CannotConvert(node, "the shape of fc2_experts_weights is unknown", supported="a static shape")
    return size


def _shares(node: Node) -> str:
    """What each expert contributes to each token, 0 where it is not chosen."""
    build, wide = node.build, wider(node.elem_type())
    probabilities = build.Softmax(recast(build, node.input(1), node.elem_type(1), wide), axis=-1)
    best, places = _best(node, probabilities)
    return _spread(node, probabilities, places, _normalize(node, best))


def _shares_of_best(node: Node) -> str:
    """The same where Softmax sees the best alone, or shares are told apart from what chooses."""
    build, wide = node.build, wider(node.elem_type())
    logits = recast(build, node.input(1), node.elem_type(1), wide)
    best, places = _best(node, logits)
    if not node.input(ROUTER_WEIGHTS):
        return _spread(node, logits, places, build.Softmax(best, axis=-1))
    told = _backward(build, recast(build, node.input(ROUTER_WEIGHTS), node.elem_type(), wide))
    return _spread(node, logits, places, _normalize(node, build.GatherElements(told, places, axis=1)))


def _best(node: Node, values: str) -> list[str]:
    """The greatest and where they are, counted from the end: of equal ones the last come first."""
    k = node.attributes.get("k", 1)
    return list(node.build.emit("TopK", [_backward(node.build, values), [k]], {"axis": 1}, outputs=2))


def _normalize(node: Node, best: str) -> str:
    if node.attributes.get("normalize_routing_weights", 0) != 1:
        return best
    return str(node.build.Div(best, node.build.ReduceSum(best, [1], keepdims=1)))


def _spread(node: Node, like: str, places: str, shares: str) -> str:
    """What is not greater than 0, as NaN and what is negative, counts for nothing."""
    build = node.build
    shares = _nonnegative(build, shares, wider(node.elem_type()))
    nothing = build.Expand(build.constant(0.0, wider(node.elem_type())), build.Shape(like))
    return _backward(build, build.ScatterElements(nothing, places, shares, axis=1))


def _nonnegative(build: Builder, x: str, elem_type: int) -> str:
    """The greater of 0 and x, and 0 for NaN."""
    zero = build.constant(0.0, elem_type)
    return str(build.Where(build.Greater(x, zero), x, zero))


def _backward(build: Builder, x: str) -> str:
    return str(build.Slice(x, [-1], [-(2**63)], [1], [-1]))


def _dequantize(node: Node, inner: Builder, at: str, index: int) -> str:
    """The weights of one expert, of integers in blocks of a row, or of rows."""
    bits, block = _bits(node, index == Q_WEIGHTS[1]), node.attributes.get("block_size", 0)
    held = inner.Gather(node.input(index), at, axis=0)
    scale = inner.Gather(node.input(index + 1), at, axis=0)
    scale = recast(inner, scale, node.elem_type(index + 1), wider(node.elem_type()))
    packed = node.input(Q_ZEROS[index == Q_WEIGHTS[1]])
    if packed:
        zero = unpack(inner, inner.Gather(packed, at, axis=0), bits)
        zero = first_of(inner, zero, share_along(node, node.input(index + 1), -1, 1))
    else:
        zero = inner.Expand(inner.constant(2 ** (bits - 1), T.UINT8), inner.Shape(scale))
        zero = inner.set_type(zero, T.UINT8, inner.scope.shape(scale))
    blocks = {"axis": 1, "block_size": block} if block else {"axis": 0}
    return str(inner.DequantizeLinear(unpack(inner, held, bits), scale, zero, **blocks))


def _bits(node: Node, layer: int) -> int:
    own = f"fc{layer + 1}_expert_weight_bits"
    return checked_bits(node, own if own in node.attributes else "expert_weight_bits")


def _activate(node: Node, inner: Builder, x: str, wide: int) -> str:
    name = node.attributes.get("activation_type", "relu")
    if name == "gelu":  # which the kernel approximates
        return str(inner.Gelu(x, approximate="tanh"))
    if name in ("relu", "identity"):
        return _nonnegative(inner, x, wide) if name == "relu" else x
    if name == "silu":
        return str(inner.Mul(x, inner.Sigmoid(x)))
    if name == "relu2":
        positive = _nonnegative(inner, x, wide)
        return str(inner.Mul(positive, positive))
    if name not in ("swiglu", "geglu"):
        raise CannotConvert(
            node, f"the documentation of the operator does not define activation_type={name!r}", supported="swiglu"
        )
    gate, linear = _gate_and_linear(node, inner, x)
    if name == "geglu":
        return str(inner.Mul(inner.Gelu(gate, approximate="tanh"), linear))
    alpha = inner.constant(node.attributes.get("activation_alpha", 1.0), wide)
    beta = inner.constant(node.attributes.get("activation_beta", 0.0), wide)
    limit, after = node.attributes.get("swiglu_limit", inf), node.attributes.get("swiglu_limit_after_activation", 0)
    most = "" if isinf(limit) else inner.constant(limit, wide)
    if most:
        gate = gate if after else inner.Clip(gate, None, most)
        linear = inner.Clip(linear, inner.constant(-limit, wide), most)
    activated = inner.Mul(gate, inner.Sigmoid(inner.Mul(alpha, gate)))
    activated = inner.Clip(activated, None, most) if most and after else activated
    return str(inner.Mul(activated, inner.Add(linear, beta)))


def _gate_and_linear(node: Node, inner: Builder, x: str) -> list[str]:
    """The two that one product makes: column by column in turn, or one behind the other."""
    fusion = node.attributes.get("swiglu_fusion", 0)
    if fusion == INTERLEAVED:
        return [inner.Slice(x, [start], [2**63 - 1], [1], [2]) for start in range(2)]
    if fusion == BEHIND:
        return list(inner.emit("Split", [x], {"axis": 1, "num_outputs": 2}, outputs=2))
    raise CannotConvert(node, f"onnxruntime does not support swiglu_fusion={fusion}", supported="1 and 2")


defined("MoE", sum_of_chosen_experts, opset=20, domain=MICROSOFT)
defined("QMoE", sum_of_quantized_experts, opset=21, domain=MICROSOFT)
