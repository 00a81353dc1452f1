"""Who calls which function, and what hangs on that there."""

import onnx
import onnx.parser
import pytest
from opshift.passes.analysis import callers
from opshift.passes.analysis.callers import Callers, Omitted


def model(main, *functions, more=""):
    """Functions are given as `F (x, y) { body }`."""
    held = " ".join(f'<opset_import: ["": 18, "f": 1], domain: "f"> {text}' for text in functions)
    return onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 18, "f": 1]> g (float[N] x, bool c) => (float[M] y) {{ {main} {more} }} {held}'
    )


def asks(domain, op, version):
    return op in ("Clip", "Dropout", "Constant", "LeakyRelu", "ReduceSum", "Cast")


def read(source, inlined=()):
    return Callers(source, asks, inlined)


def spelled(found):
    return {key[1]: str(hanging) for key, hanging in found.items()}


CLIP = "F (x, lo, hi) => (y) { y = Clip(x, lo, hi) }"
HANGS = [
    (("y = f.F(x)", CLIP), {"F": "hi, lo"}, {"F": ["hi, lo"]}),
    (("y = f.F(x, x)", CLIP), {"F": "hi, lo"}, {"F": ["hi"]}),
    (("y = f.F(x, , x)", CLIP), {"F": "hi, lo"}, {"F": ["lo"]}),
    (("a = f.F(x) y = f.F(a, a, a)", CLIP), {"F": "hi, lo"}, {"F": ["", "hi, lo"]}),
    (("y = f.F(x)", "F (x, lo) => (y) { y = Relu(x) z = Add(x, lo) }"), {"F": ""}, {}),
    (("y = f.F(x)", "F (x, lo) => (y) { a = Relu(lo) y = Clip(x, a) }"), {"F": ""}, {}),
    (("y = f.F(x)", "F (x, c) => (y) { y = If(x) <then_branch = t () => (v) { v = Clip(x, c) }, else_branch = e () => (v) { v = Relu(x) }> }"), {"F": "c"}, {"F": ["c"]}),
    (("y = f.F(x)", "F (x, c) => (y) { y = If(x) <then_branch = t () => (v) { c = Relu(x) v = Clip(x, c) }, else_branch = e () => (v) { v = Relu(x) }> }"), {"F": ""}, {}),
    (("y = f.F(x)", "F <a> (x) => (y) { y = LeakyRelu<alpha: float = @a>(x) }"), {"F": "a"}, {"F": ["a"]}),
    (("y = f.F<a = 0.5>(x)", "F <a> (x) => (y) { y = LeakyRelu<alpha: float = @a>(x) }"), {"F": "a"}, {"F": [""]}),
    (("y = f.F(x)", "F <a: float = 0.5> (x) => (y) { y = LeakyRelu<alpha: float = @a>(x) }"), {"F": ""}, {}),
    (("y = f.F(x)", "F <to> (x) => (y) { y = Cast<to: int = @to>(x) }"), {"F": ""}, {}),
    (("y = f.F(x)", "F <v> (x) => (y) { a = Constant<value_float: float = @v>() y = Add(x, a) }"), {"F": ""}, {}),
    (("y = f.G(x)", CLIP, "G (x, lo) => (y) { y = f.F(x, lo) }"), {"F": "hi, lo", "G": "lo"}, {"F": ["hi, lo"], "G": ["lo"]}),
    (("y = f.G(x, x)", CLIP, "G (x, lo) => (y) { y = f.F(x, lo) }"), {"F": "hi, lo", "G": "lo"}, {"F": ["hi"], "G": [""]}),
    (("y = f.G(x)", CLIP, "G (x, lo) => (y) { a = Relu(lo) y = f.F(x, a, lo) }"), {"F": "hi, lo", "G": "lo"}, {"F": ["hi"], "G": ["lo"]}),
    (("y = f.G(x)", CLIP, "G (x, lo) => (y) { y = f.F(lo) }"), {"F": "hi, lo", "G": ""}, {"F": ["hi, lo"]}),
    (("y = f.H(x)", CLIP, "G (x, lo) => (y) { y = f.F(x, lo) }", "H (x, lo) => (y) { y = f.G(x, lo) }"), {"F": "hi, lo", "G": "lo", "H": "lo"}, {"F": ["hi, lo"], "G": ["lo"], "H": ["lo"]}),
    (("y = f.G(x)", "F <a> (x) => (y) { y = LeakyRelu<alpha: float = @a>(x) }", "G <b> (x) => (y) { y = f.F<a: float = @b>(x) }"), {"F": "a", "G": "b"}, {"F": ["a"], "G": ["b"]}),
    (("y = f.G<b = 0.5>(x)", "F <a> (x) => (y) { y = LeakyRelu<alpha: float = @a>(x) }", "G <b> (x) => (y) { y = f.F<a: float = @b>(x) }"), {"F": "a", "G": "b"}, {"F": [""], "G": [""]}),
    (("y = f.G(x)", "F <a> (x) => (y) { y = LeakyRelu<alpha: float = @a>(x) }", "G <b: float = 0.5> (x) => (y) { y = f.F<a: float = @b>(x) }"), {"F": "a", "G": ""}, {"F": [""]}),
    (("y = f.G(x)", "F <a> (x) => (y) { y = LeakyRelu<alpha: float = @a>(x) }", "G <b> (x) => (y) { z = Relu(x) y = f.F<k: float = @b>(z) }"), {"F": "a", "G": ""}, {"F": ["a"]}),
    (("y = Relu(x)", CLIP), {"F": "hi, lo"}, {"F": []}),
    (("y = Relu(x)", CLIP, "G (x) => (y) { y = f.F(x) }"), {"F": "hi, lo", "G": ""}, {"F": ["hi, lo"]}),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "hangs", "variants"), HANGS)
def test_what_hangs_on_calls_and_in_which_ways_there_are_calls(texts, hangs, variants):
    found = read(model(*texts))
    assert spelled(found.decisive) == spelled(found.split) == hangs
    assert {key[1]: [str(variant) for variant in of] for key, of in found.variants().items()} == variants


def test_what_is_inlined_is_bound_to_each_call_anyway():
    source = model("y = f.G(x)", CLIP, "G (x, lo) => (y) { y = f.F(x, lo) }")
    found = read(source, {("f", "F")})
    assert (spelled(found.decisive), spelled(found.split)) == ({"F": "hi, lo", "G": "lo"}, {"F": "", "G": "lo"})
    found = read(source, {("f", "G")})
    assert (spelled(found.decisive), spelled(found.split)) == ({"F": "hi, lo", "G": "lo"}, {"F": "hi, lo", "G": "lo"})
    of_defaults = model("y = f.F(x)", "F <a: float = 0.5, b> (x) => (y) { y = Relu(x) }")
    assert spelled(read(of_defaults).decisive) == {"F": ""}
    assert spelled(read(of_defaults, {("f", "F")}).decisive) == {"F": "a"}


def test_calls_in_graphs_and_in_training_are_calls():
    source = model(
        "y = If(c) <then_branch = t () => (v) { v = f.F(x, x) }, else_branch = e () => (v) { v = f.F(x) }>", CLIP
    )
    assert [str(v) for v in read(source).variants()["f", "F", ""]] == ["hi", "hi, lo"]
    algorithm = source.training_info.add().algorithm
    algorithm.node.append(onnx.parser.parse_node("z = f.F(x, , x)"))
    assert callers.outside(source) == [source.graph, source.training_info[0].initialization, algorithm]
    assert [str(v) for v in read(source).variants()["f", "F", ""]] == ["hi", "lo", "hi, lo"]


def test_functions_are_told_apart_by_their_overloads():
    source = model("y = f.F(x)", CLIP, "F (x, k) => (y) { y = Relu(x) }")
    source.functions[1].overload = "other"
    found = read(source)
    assert spelled({k: v for k, v in found.decisive.items() if not k[2]}) == {"F": "hi, lo"}
    assert found.decisive["f", "F", "other"] == callers.NOTHING_OMITTED
    source.graph.node[0].overload = "other"
    assert list(read(source).variants().values()) == [[]]


def test_functions_read_operators_at_their_own_opsets():
    at = []
    source = model("y = f.F(x)", CLIP, "G (x) => (y) { y = Relu(x) a = Clip(y) }")
    source.functions[1].opset_import[0].version = 12
    Callers(source, lambda *asked: at.append(asked), ())
    assert sorted(at) == [("", "Clip", 12), ("", "Clip", 18), ("", "Relu", 12)]


def test_chains_of_calls_end_at_a_number_of_copies(monkeypatch):
    """Each function hands on one input less than the last."""
    monkeypatch.setattr(callers, "MOST_COPIES", 0)
    source = model("y = f.G(x)", CLIP, "G (x, lo) => (y) { y = f.F(x, lo) }")
    found = read(source).variants()
    assert {key[1]: len(of) for key, of in found.items()} == {"F": 1, "G": 1}


def test_omissions_unite():
    one, other = Omitted(frozenset("a"), frozenset("k")), Omitted(frozenset("b"))
    assert one.union(other) == Omitted(frozenset("ab"), frozenset("k"))
    assert str(one.union(other)) == "a, b, k"
    assert callers._order(one) < callers._order(Omitted(frozenset("ab"), frozenset("k")))
    assert callers._order(other) < callers._order(one)
