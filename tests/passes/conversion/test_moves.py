"""What moves do to a node, and what of it is refused and noted."""

import itertools

import onnx
import onnx.defs
import onnx.helper
import onnx.parser
import pytest
from onnx import NodeProto, TensorProto
from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.changes import Ledger
from opshift.passes.conversion import moves
from opshift.passes.conversion.convert import convert
from opshift.passes.conversion.route import Arrived, CallPlan, Cross, Inline, Route
from opshift.passes.conversion.work import Work
from opshift.passes.errors import CannotConvert
from opshift.passes.inlining.expander import Expander
from opshift.passes.model import call_signatures, schemas
from opshift.passes.model.call_signatures import CallSignature, Survey
from opshift.passes.model.legality import LegalityJudge
from opshift.passes.model.schemas import MICROSOFT
from opshift.passes.model.types import tensor_type
from opshift.passes.rewrite import registry

from tests.support import check_refused, model

IO = {"inputs": "float[2,3] x, float16[2] h, int64[1] k", "outputs": "y"}


def work_of(body, opset, **more):
    source = model(body, opset, **{**IO, **more})
    scope = Scope(source.graph, Context(source, source), opset, path=())
    versions = {entry.domain: entry.version for entry in source.opset_import}
    return Work(source.graph.node[0], versions, 0), scope


def move_of(body, opset, target, *, expander=None, targets=None, **more):
    work, scope = work_of(body, opset, **more)
    route = Route({"": target} if targets is None else targets, dict(work.versions), expander or Expander())
    return route.next_move(work, scope)


GELU = "y = Gelu(x)"
MOVES = [
    ("y = Relu(x)", 14, 18, Arrived()), ("y = Relu(x)", 14, 13, Cross(14, False)), ("y = Relu(x)", 6, 18, Cross(13, True)), ("y = Relu(x)", 18, 5, Cross(14, False)),
    ("y = Softmax<axis=1>(x)", 12, 13, Cross(13, True)), (GELU, 20, 21, Arrived()), ("y = my.Thing(x)", 20, 7, Arrived()),
]  # fmt: skip


@pytest.mark.parametrize(("body", "opset", "target", "move"), MOVES)
def test_the_next_move_leads_to_the_target(body, opset, target, move):
    assert move_of(body, opset, target, domains='"my" : 1') == move


def test_what_the_target_lacks_becomes_its_definition():
    assert isinstance(move_of(GELU, 20, 19), Inline)
    found = move_of(GELU, 20, 21, expander=Expander(frozenset({("", "Gelu")})))
    assert isinstance(found, Inline)
    found = move_of(
        "y = com.microsoft.FastGelu(x)",
        1,
        1,
        expander=Expander(frozenset({(MICROSOFT, "FastGelu")})),
        domain=MICROSOFT,
        targets={},
    )
    assert isinstance(found, Inline)
    assert found.definition is not None
    function = onnx.helper.make_function("my", "F", ["a"], ["b"], [], [])
    assert move_of(
        "y = my.F(x)", 18, 18, expander=Expander(local={("my", "F"): [function]}), domains='"my" : 1'
    ) == Inline(None)


REFUSED = [
    ("y = Gelu(x)", 19, 18, "it is new in opset 20, but the model imports opset 19"),
    ("y = Nothing(x)", 19, 18, "ONNX has no operator of this name in domain 'ai.onnx'"),
    ("y = ATen(x)", 19, 18, "it is an operator of onnxruntime that ONNX does not define"),
    ("y = Gelu(k)", 20, 19, "its definition does not accept int64"),
    ("y = Gelu(unknown)", 20, 19, 'the type of "unknown" is unknown'),
]


@pytest.mark.parametrize(("body", "opset", "target", "why"), REFUSED)
def test_what_can_get_no_further_says_why(body, opset, target, why):
    with pytest.raises(CannotConvert, match=why) as raised:
        move_of(body, opset, target)
    assert (raised.value.edge, raised.value.up) == ((20, False) if target == 19 else (0, raised.value.up))


def test_a_definition_that_leads_back_is_none():
    work, scope = work_of(GELU, 20)
    work.within = ((("", "Celu"), 12), (("", "Gelu"), 20), (("", "Elu"), 6))
    route = Route({"": 20}, {"": 20}, Expander(frozenset({("", "Gelu")})))
    with pytest.raises(CannotConvert, match="its definition needs the operator itself: Gelu needs Elu needs Gelu"):
        route.next_move(work, scope)
    work.within = ((("", "Gelu"), 21),)
    assert isinstance(route.next_move(work, scope), Inline)


def kind_of(body, opset):
    source = model(body, opset, **IO, domains=f'"my" : 1, "{MICROSOFT}" : 1')
    return Survey(source).graph.signatures[0], {entry.domain: entry.version for entry in source.opset_import}


PLANS = [
    ("y = Relu(x)", 14, {"": 18}, (), CallPlan.KEEP), ("y = Elu<alpha=0.5>(x)", 14, {"": 18}, (), CallPlan.JUDGE), ("y = Relu(x, x)", 14, {"": 18}, (), CallPlan.JUDGE),
    ("y = Relu(x)", 14, {"": 13}, (), CallPlan.CONVERT), ("y = Gelu(x)", 20, {"": 19}, (), CallPlan.CONVERT), ("y = Relu(x)", 14, {"": 18}, [("", "Relu")], CallPlan.CONVERT),
    ("y = Nothing(x)", 14, {"": 18}, (), CallPlan.CONVERT), ("y = my.Thing(x)", 14, {"": 18}, (), CallPlan.DESCEND), ("y = SequenceEmpty()", 14, {"": 18}, (), CallPlan.KEEP),
    ("y = Relu(x)", 14, {}, (), CallPlan.KEEP), ("y = Gelu(x)", 19, {"": 20}, (), CallPlan.CONVERT),
]  # fmt: skip


@pytest.mark.parametrize(("body", "opset", "targets", "ops", "plan"), PLANS)
def test_what_is_to_be_done_about_all_nodes_of_a_kind(body, opset, targets, ops, plan):
    kind, versions = kind_of(body, opset)
    assert isinstance(kind, CallSignature)
    route = Route(targets, versions, Expander(frozenset(ops)))
    assert route.plan(versions, kind, LegalityJudge()) is plan


def test_a_domain_that_does_not_move_stays_where_it_is():
    route = Route({"": 18}, {"": 14, "my": 3}, Expander())
    assert [route.target(domain, 7) for domain in ("", "my", "other")] == [18, 3, 7]


# --- crossing -----------------------------------------------------------------------------------------------


def crossed(body, opset, edge, up, **more):
    work, scope = work_of(body, opset, **more)
    ledger = Ledger()
    return moves.cross_boundary(work, scope, Cross(edge, up), Expander(), ledger), work, ledger, scope


def test_what_needs_nothing_stands_where_it_stood():
    made, work, ledger, _ = crossed("y = Relu(x)", 14, 14, False)
    assert (made, work.versions[""], work.index, ledger.changes) == (None, 13, None, [])
    made, work, ledger, _ = crossed("y = Relu(x)", 13, 14, True)
    assert (made, work.versions[""]) == (None, 14)


def test_what_is_edited_is_noted():
    made, work, ledger, scope = crossed("y = ReduceMax<axes=[1]>(x)", 13, 18, True)
    assert (made, [*work.proto.input][:1], len(work.proto.input)) == (None, ["x"], 2)
    [change] = ledger.changes
    assert (change.node, change.op, change.domain, change.source, change.target, change.grade) == (
        "y",
        "ReduceMax",
        "",
        13,
        18,
        "exact",
    )
    assert scope.opset_of(work.proto) == 18


def test_what_is_replaced_goes_back_on_the_list():
    made, _, ledger, _ = crossed("y = Softmax<axis=0>(x)", 13, 13, False)
    assert len(made) > 1
    assert made[-1].proto.output[:] == ["y"]
    assert all(each.versions[""] == 12 for each in made)
    assert {each.within for each in made if each.proto.op_type != "Softmax"} == {((("", "Softmax"), 13),)}
    assert {each.within for each in made if each.proto.op_type == "Softmax"} == {()}
    assert [change.op for change in ledger.changes] == ["Softmax"]


@pytest.mark.parametrize(
    ("body", "opset", "edge", "up", "why"),
    [
        ("y = Add(k, k)", 7, 7, False, None),
        ("y = Relu(unknown)", 14, 14, False, 'the type of "unknown" is unknown'),
        ('y = ReduceMax("", k)', 18, 18, False, "input 0 \\(data\\) is missing"),
    ],
)
def test_what_a_boundary_does_not_take(body, opset, edge, up, why):
    body = body.replace('""', "none")
    work, scope = work_of(body, opset)
    work.proto.input[:] = ["" if name == "none" else name for name in work.proto.input]
    if why is None:
        moves.cross_boundary(work, scope, Cross(edge, up), Expander(), Ledger())
        return
    with pytest.raises(CannotConvert, match=why) as raised:
        moves.cross_boundary(work, scope, Cross(edge, up), Expander(), Ledger())
    assert (raised.value.edge, raised.value.up) == (edge, up)


def test_an_undecided_boundary_is_refused(monkeypatch):
    monkeypatch.setattr(moves.registry, "step", lambda *_: None)
    with pytest.raises(CannotConvert, match="opshift cannot convert this version of the operator yet"):
        crossed("y = Softmax<axis=0>(x)", 13, 13, False)
    made, *_ = crossed("y = Relu(x)", 14, 14, False)
    assert made is None


# --- what takes a place ---------------------------------------------------------------------------------------


def inlined(body, opset, expander, definition=None, **more):
    work, scope = work_of(body, opset, **more)
    ledger = Ledger()
    return moves.inline_call(work, scope, Inline(definition), expander, ledger), ledger


def test_a_definition_takes_the_place_of_its_call():
    made, ledger = inlined(GELU, 20, Expander())
    assert made[-1].proto.output[:] == ["y"]
    assert {each.within for each in made} == {((("", "Gelu"), 20),)}
    assert not any(each.written for each in made)
    [change] = ledger.changes
    assert (change.op, change.source, change.target) == ("Gelu", 20, 20)
    assert change.how.startswith("Replaced ")


def test_what_a_function_holds_was_written_by_the_user():
    nodes = [onnx.parser.parse_node("t = Neg(a)"), onnx.parser.parse_node("b = my.F(t)")]
    function = onnx.helper.make_function("my", "F", ["a"], ["b"], nodes, [onnx.helper.make_opsetid("", 12)])
    expander = Expander(local={("my", "F"): [function]})
    made, ledger = inlined("y = my.F(x)", 18, expander, domains='"my" : 1')
    assert [(each.proto.op_type, each.written, each.versions[""]) for each in made] == [
        ("Neg", True, 12),
        ("F", True, 12),
    ]
    assert ledger.changes[0].how == "Inlined a model-local function"


def test_a_call_that_no_vendor_takes_is_refused():
    definition = moves.registry.definition(MICROSOFT, "FastGelu")
    made, _ = inlined("y = com.microsoft.FastGelu(x)", 1, Expander(), definition, domain=MICROSOFT)
    assert made[-1].proto.output[:] == ["y"]
    with pytest.raises(
        CannotConvert,
        match="onnxruntime rejects this call, so its definition cannot replace it: 3 inputs; supported: 1 to 2",
    ):
        inlined("y = com.microsoft.FastGelu(x, x, x)", 1, Expander(), definition, domain=MICROSOFT)


@pytest.mark.parametrize(
    ("body", "opset", "local", "vendor"),
    [
        ("y = com.microsoft.FastGelu(x)", 1, False, MICROSOFT), ("y = com.microsoft.FastGelu(x)", 1, True, ""), ("y = ScaledTanh(x)", 18, False, schemas.ONNXRUNTIME),
        ("y = LayerNormalization(x)", 16, False, schemas.ONNXRUNTIME), ("y = LayerNormalization(x)", 17, False, ""), ("y = Relu(x)", 18, False, ""),
    ],
)  # fmt: skip
def test_in_whose_table_an_operator_stands(body, opset, local, vendor):
    work, _ = work_of(body, opset, domain=MICROSOFT if "Fast" in body else "")
    function = onnx.helper.make_function(MICROSOFT, "FastGelu", [], [], [], [])
    assert moves._find_vendor(work, Expander(local={(MICROSOFT, "FastGelu"): [function]} if local else {})) == vendor


def test_nodes_of_a_domain_without_an_import_are_refused():
    work, scope = work_of("y = Relu(x)", 18)
    node = work.node(scope, 14)
    node.build.emit("Scaler", ["x"], domain="ai.onnx.ml")
    with pytest.raises(
        CannotConvert, match="Scaler is needed, but the model imports no opset of its domain; add an opset import of it"
    ):
        moves._check_imports(node, {"": 18})
    moves._check_imports(node, {"": 18, "ai.onnx.ml": 3})


def test_results_of_scans_have_shapes():
    source = model("y = Relu(x)", 18, **IO)
    scope = Scope(source.graph, Context(source, source), 18, path=())
    for name in ("m", "n"):
        scope.record(onnx.helper.make_node("Neg", ["x"], [name]), 18)
        source.graph.output.add(name=name)
    source.graph.output[2].type.CopyFrom(tensor_type(TensorProto.FLOAT, [9]))
    moves.state_shapes(source.graph, scope)
    assert [value.type for value in source.graph.output[1:]] == [tensor_type(1, [2, 3]), tensor_type(1, [9])]
    assert not source.graph.output[0].type.tensor_type.HasField("shape")


@pytest.mark.parametrize(
    ("found", "said"), [(["a"], "a"), (["b", "a"], "a, b"), (["c", "b", "a", "d", "e", "f", "g"], None)]
)
def test_what_is_listed(found, said):
    told = moves._list_names(frozenset(found))
    assert told == said if said else told.startswith("a, b")


def test_a_work_knows_its_versions():
    work = Work(NodeProto(op_type="Scaler", domain="ai.onnx.ml"), {"": 18, "ai.onnx.ml": 3})
    assert (work.op, work.version, work.opset) == (("ai.onnx.ml", "Scaler"), 3, 18)
    bare = Work(NodeProto(op_type="Scaler", domain="ai.onnx.ml"), {})
    assert (bare.version, bare.opset) == (0, 1)
    _, scope = work_of("y = Relu(x)", 18)
    assert (work.node(scope, 7).opset, work.node(scope, 7).build.opset, work.node(scope, 7, 9).build.opset) == (
        7,
        18,
        9,
    )


def test_what_a_step_takes_away_at_the_end_is_not_left_out_but_gone():
    """An empty name at the end of the inputs says nothing, and some operators had no such input."""
    made, work, _, scope = crossed("y = Clip(x, , )", 11, 6 + 5, False, inputs="float[2] x")
    assert made is None
    assert list(work.proto.input) == ["x"]
    assert scope.opset_of(work.proto) == 10


@pytest.mark.parametrize(("edge", "up", "outdated"), [(11, True, True), (16, True, True)])
def test_graphs_of_what_a_step_looked_at_are_counted_anew(edge, up, outdated):
    body = "y = Scan<num_scan_inputs = 1, body = g (p) => (q) { q = Neg(p) }>(x)"
    work, scope = work_of(body, edge - 1)
    layout = call_signatures.BodyLayout()
    work.inner = [layout]
    moves.cross_boundary(work, scope, Cross(edge, up), Expander(), Ledger())
    pair = registry.step("", "Scan", edge)
    assert layout.outdated is (pair is not None and (pair.up if up else pair.down) is not None)


MATRICES = {
    "scales of Resize": ("y = Resize(x, v)", 10, 9, "float[1,4] v = {3, 1, 0.5, 0.5}"),
    "axes of Pad": ("y = Pad(x, p, , v)", 18, 7, ""),
}


@pytest.mark.parametrize("name", MATRICES)
def test_what_the_text_has_as_a_vector_is_refused_as_a_matrix_where_a_step_hangs_on_it(name):
    body, opset, target, constants = MATRICES[name]
    inputs = "float[1,1,1,4] x, int64[8] p" + ("" if constants else ", int64[1,4] v")
    check_refused(body, opset, target, "has rank 2", inputs=inputs, outputs="float[A,B,C,D] y", constants=constants)


@pytest.mark.parametrize("body", ["y = Trilu(x, k)", "y = OneHot(x, k, x)"])
def test_what_the_text_has_as_a_number_is_refused_without_one(body):
    check_refused(body, 14, 7, "0 elements", inputs="float[2,2] x", outputs="float[A,B] y", constants="int64[0] k = {}")


SEQUENCES = (
    "y = SequenceAt(s, k)",
    "t = SequenceErase(s, k) y = SequenceAt(t, i)",
    "t = SequenceInsert(s, x, k) y = SequenceAt(t, i)",
)


@pytest.mark.parametrize("body", SEQUENCES)
def test_a_position_that_is_none_is_refused(body):
    io = {"inputs": "float[2] x", "outputs": "float[A] y", "constants": "int64[0] k = {}, int64 i = {0}"}
    check_refused(f"s = SequenceConstruct(x, x) {body}", 11, 7, "0 elements", **io)


def test_vectors_without_elements_are_refused_where_a_step_hangs_on_them():
    io = {"inputs": "float[1,5,5] x", "outputs": "float[A,B,C] y", "constants": "int64[0] k = {}"}
    check_refused("y = Col2Im(x, k, k)", 18, 7, "input 1 is empty", **io)
    io = {"inputs": "float[2,3] x", "outputs": "float[A,B] y", "constants": "float[0] k = {}, float[1] one = {1}"}
    check_refused("y = Tile(x, k, one)", 1, 6, "input 1 is empty", **io)
    check_refused("y = Tile(x, one, k)", 1, 6, "input 2 has 0 elements", **io)


def test_schemas_that_infer_less_below_a_version_are_known():
    """Of calls that a step makes, types are kept at the boundaries below which nothing tells them."""
    held: dict[str, dict[int, bool]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            held.setdefault(schema.name, {})[schema.since_version] = schema.has_type_and_shape_inference_function
    lost = {
        op: max(later for version, later in itertools.pairwise(sorted(told)) if told[later] and not told[version])
        for op, told in held.items()
        if any(told[later] and not told[version] for version, later in itertools.pairwise(sorted(told)))
    }
    later = {op: version for op, version in lost.items() if version > moves._TOLD_SINCE.get(op, 7)}
    assert not later


def test_sizes_of_a_made_call_are_known_after_it_was_gathered():
    """The second Where knows the sizes of the first, and is gathered without Tile to a common shape."""
    body = "y = Attention(q, k, v, m)"
    inputs = "float[B,2,S,8] q, float[B,2,S,8] k, float[B,2,S,8] v, bool[S,S] m"
    result = convert(model(body, 23, inputs=inputs, outputs="float[B,2,S,8] y"), {"": 8}).model
    made = [node.op_type for node in result.graph.node]
    assert made.count("Where") == 0 < made.count("Loop")
    assert "Tile" not in made
    assert "Expand" not in made
