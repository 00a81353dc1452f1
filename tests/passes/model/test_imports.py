"""The opsets that a model imports."""

import onnx
import onnx.helper
import pytest
from opshift.passes.errors import InvalidModel
from opshift.passes.model import imports

from tests.support import model

IO = {"inputs": "float[2] x", "outputs": "float[2] y"}


def opset(domain, version):
    return onnx.helper.make_opsetid(domain, version)


def function(name, *calls, domain="own", opsets=(("", 17), ("own", 1))):
    nodes = [onnx.parser.parse_node(call) for call in calls]
    return onnx.helper.make_function(domain, name, ["a"], ["b"], nodes, [opset(*held) for held in opsets])


def test_a_model_before_there_were_imports_means_opset_1():
    source = model("y = Relu(x)", 17, **IO)
    assert imports.opsets(source) == {"": 17}
    del source.opset_import[:]
    assert imports.opsets(source) == {}
    source.ir_version = 3
    assert imports.opsets(source) == {}
    source.ir_version = 2
    assert imports.opsets(source) == {"": 1}
    imports.check_opsets(source)
    assert imports.opsets(function("F", opsets=())) == {}


@pytest.mark.parametrize(
    ("held", "why"),
    [
        ([("", 17), ("ai.onnx", 18)], "domain 'ai.onnx' is imported twice, at opset 17 and 18"),
        ([("", 17), ("own", 1), ("own", 2)], "domain 'own' is imported twice, at opset 1 and 2"),
        ([("", 0)], "unknown opset 0 of domain 'ai.onnx'; supported: 1 to"),
        ([("", 99)], "unknown opset 99 of domain 'ai.onnx'; supported: 1 to"),
        ([("", 17), ("ai.onnx.ml", 99)], "unknown opset 99 of domain 'ai.onnx.ml'; supported: 1 to"),
        ([("own", 1)], "the model uses operators of the default domain ai.onnx, but imports no opset of it"),
        ([], "the model uses operators of the default domain ai.onnx, but imports no opset of it"),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_imports_that_do_not_hold_together(held, why, inside):
    source = model("y = Relu(x)", 17, **IO)
    source.functions.append(function("F", "b = Relu(a)"))
    holder = source.functions[0] if inside else source
    del holder.opset_import[:]
    holder.opset_import.extend(opset(*each) for each in held)
    with pytest.raises(InvalidModel, match=why):
        imports.check_opsets(source)


@pytest.mark.parametrize("held", [[("", 1)], [("", 17), ("ai.onnx", 17)], [("", 17), ("own", 0)]])
def test_imports_that_hold_together(held):
    source = model("y = Relu(x)", 17, **IO)
    del source.opset_import[:]
    source.opset_import.extend(opset(*each) for each in held)
    imports.check_imports(source)


def test_a_model_without_a_graph_is_none():
    with pytest.raises(InvalidModel, match="the model has no graph"):
        imports.check_opsets(onnx.ModelProto(ir_version=8, opset_import=[opset("", 17)]))


def test_operators_of_training_are_used_too():
    source = model("", 17, inputs="", outputs="")
    del source.opset_import[:]
    imports.check_opsets(source)
    source.training_info.add().algorithm.node.append(onnx.parser.parse_node("y = Relu(x)"))
    with pytest.raises(InvalidModel, match="uses operators of the default domain"):
        imports.check_opsets(source)


@pytest.mark.parametrize("calls", [[["own.F", "own.F"]], [["own.G"], ["own.F"]], [["Relu"], ["own.H"], ["own.G"]]])
def test_functions_that_lead_back_to_themselves(calls):
    source = model("y = own.F(x)", 17, domains='"own" : 1', **IO)
    for name, made in zip("FGH", calls, strict=False):
        source.functions.append(function(name, *[f"b = {call}(a)" for call in made]))
    with pytest.raises(InvalidModel, match="calls itself, directly or through others"):
        imports.check_imports(source)


@pytest.mark.parametrize(("depth", "fits"), [(25, True), (26, False), (60, False)])
def test_functions_that_stand_for_more_nodes_than_there_can_be(depth, fits):
    """Each calls the next twice."""
    source = model("y = own.F0(x)", 17, domains='"own" : 1', **IO)
    for index in range(depth):
        source.functions.append(function(f"F{index}", *[f"b = own.F{index + 1}(a)"] * 2))
    source.functions.append(function(f"F{depth}", "b = Relu(a)"))
    if fits:
        imports.check_imports(source)
    else:
        with pytest.raises(InvalidModel, match="the model has 67108864 nodes or more when its functions are inlined"):
            imports.check_imports(source)


def test_imports_are_stamped_and_added_where_required():
    source = model("y = Relu(x)", 17, domains='"own" : 1', **IO)
    imports.stamp_imports(source, {"": 18, "ai.onnx.ml": 3}, required=False)
    assert imports.opsets(source) == {"": 18, "own": 1}
    imports.stamp_imports(source, {"": 19, "ai.onnx.ml": 3}, required=True)
    assert imports.opsets(source) == {"": 19, "own": 1, "ai.onnx.ml": 3}


def test_imports_of_what_was_expanded_go_and_of_what_was_brought_come():
    source = model("y = Relu(x)", 17, domains='"own" : 1, "other" : 1, "kept" : 1', **IO)
    source.functions.append(function("F", "b = ai.onnx.ml.Scaler(a)", opsets=[("", 17)]))
    before, after = (
        {("", "Relu"): 1, ("own", "G"): 2, ("kept", "H"): 1},
        {("", "Relu"): 1, ("ai.onnx.ml", "Scaler"): 1, ("kept", "H"): 1},
    )
    brought = {"ai.onnx.ml": 1, "there": 5}
    imports.prune_imports(source, source, {"ai.onnx.ml": 3}, brought, before, after)
    assert imports.opsets(source) == {"": 17, "other": 1, "kept": 1}
    assert imports.opsets(source.functions[0]) == {"": 17, "ai.onnx.ml": 3}


def test_what_expansions_bring_in():
    source = model("y = Relu(x)", 17, **IO)
    source.functions.extend(
        [function("F", opsets=[("", 16), ("there", 2)]), function("G", opsets=[("there", 3), ("ai.onnx.ml", 4)])]
    )
    assert imports.imports_of_replacements(source, {("", "Relu"): 1}) == {"ai.onnx.ml": 1, "": 16, "there": 2}
    assert imports.imports_of_replacements(source, {("ai.onnx.ml", "Scaler"): 1}) == {
        "": 16,
        "there": 2,
        "ai.onnx.ml": 4,
    }


def test_imports_that_nothing_uses_go_where_they_are_needless():
    source = model("y = Relu(x) z = there.G(x)", 17, domains='"own" : 1, "other" : 1, "there" : 1, "asked" : 1', **IO)
    source.functions.append(function("F", "b = Relu(a)", opsets=[("", 17), ("other", 1)]))
    assert imports.used_domains(source) == {"", "there"}
    imports.drop_unused(source, lambda domain, version: domain != "asked" and version == 1)
    assert imports.opsets(source) == {"": 17, "own": 1, "there": 1, "asked": 1}
    assert imports.opsets(source.functions[0]) == {"": 17}


@pytest.mark.parametrize(
    ("body", "opset", "ir", "newest"),
    [
        ("y = ai.onnx.ml.Binarizer(x)", 8, 4, 9),  # an IR version has a newest opset
        ("y = ai.onnx.ml.Binarizer(x)", 8, 8, 18),
        ("t = ai.onnx.ml.Binarizer(x) y = Relu(t)", 8, 8, 12),  # Relu-13
        ("t = ai.onnx.ml.Binarizer(x) y = Identity(t)", 17, 8, 18),
        ("y = ai.onnx.ml.Binarizer(x)", 21, 8, 21),
    ],
)
def test_the_newest_opset_at_which_nodes_stay_as_they_are(body, opset, ir, newest):
    header = f'<ir_version: {ir}, opset_import: ["" : {opset}, "ai.onnx.ml" : 1]>'
    assert imports.roomiest(onnx.parser.parse_model(f"{header} g (float[N] x) => (float[N] y) {{ {body} }}")) == newest
