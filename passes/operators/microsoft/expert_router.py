"""MoEGroupRouter: which experts see a token, chosen in the best groups alone, and how much each of them counts."""

from __future__ import annotations

from opshift.passes.model.messages import TensorProto
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.operators.shared.recipes import recast
from opshift.passes.operators.shared.shapes import regroup
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.registry import defined
from opshift.passes.rewrite.says import says

T = TensorProto
LEAST = 1e-20  # below which the kernel takes no logarithm


@says("Replaced MoEGroupRouter by Sigmoid, TopK of groups and of experts, and Log")
def scores_of_chosen_experts(node: Node) -> list[str]:
    node.close("Sigmoid and Log round otherwise")
    build, elem_type = node.build, node.elem_type()
    logits = recast(build, node.input(0), elem_type, T.FLOAT)
    if node.input(2):
        weights = recast(build, node.input(2), elem_type, T.FLOAT)
        logits = build.MatMul(logits, build.Transpose(weights, perm=[1, 0]))
    elif node.rank() != 2:
        logits = build.Reshape(logits, build.Concat([-1], build.Shape(node.input(1)), axis=0))
    shares = build.Sigmoid(logits)
    moved = build.Add(shares, node.input(1))
    chosen = _choose(node, shares, moved) if node.is_used(0) else ""
    return [chosen, moved, shares][: len(node.outputs)]


def _choose(node: Node, shares: str, moved: str) -> str:
    build, groups, sentinel = (
        node.build,
        node.attributes.get("n_group", 1),
        node.attributes.get("router_sentinel", -1e4),
    )
    left = _in_best_groups(node, moved, groups) if node.attributes.get("topk_group", 1) < groups else moved
    best, places = build.emit("TopK", [left, [node.attributes["top_k"]]], {"axis": 1}, outputs=2)
    told = build.Log(build.Max(build.GatherElements(shares, places, axis=1), build.constant(LEAST, T.FLOAT)))
    elsewhere = build.constant(sentinel, T.FLOAT)
    told = build.Where(build.Greater(best, build.constant(float("-inf"), T.FLOAT)), told, elsewhere)
    everywhere = build.Expand(elsewhere, build.Shape(shares))
    return recast(build, build.ScatterElements(everywhere, places, told, axis=1), T.FLOAT, node.elem_type())


def _in_best_groups(node: Node, moved: str, groups: int) -> str:
    """The scores, and -inf in the groups that are not among the best."""
    build = node.build
    apart = regroup(node, moved, 1, [groups, None])
    size = (build.scope.shape(apart) or [None])[-1]
    most = node.attributes.get("group_topk", 2)
    counted = [min(most, size)] if isinstance(size, int) else build.Min([most], build.Shape(apart, start=-1))
    greatest, _ = build.emit("TopK", [apart, counted], {"axis": 2}, outputs=2)
    _, best = build.emit(
        "TopK",
        [build.ReduceSum(greatest, [2], keepdims=0), [node.attributes.get("topk_group", 1)]],
        {"axis": 1},
        outputs=2,
    )
    number = build.constant([[[k] for k in range(groups)]], T.INT64)
    active = build.Cast(build.Equal(number, build.Unsqueeze(best, [1])), to=T.INT64)
    active = build.Cast(build.ReduceMax(active, [2], keepdims=1), to=T.BOOL)
    return str(build.Reshape(build.Where(active, apart, build.constant(float("-inf"), T.FLOAT)), build.Shape(moved)))


defined("MoEGroupRouter", scores_of_chosen_experts, opset=18, domain=MICROSOFT)
