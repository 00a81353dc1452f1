"""A short run of the random judge, and the judge judged: what is broken on purpose is found and made small."""

from __future__ import annotations

import itertools
import os
import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import pytest
from onnx import ModelProto
from opshift.passes.analysis import formals
from opshift.passes.changes import Result

from tests.frozen import store
from tests.node_calls import Known
from tests.random import runner, verbs, verdict
from tests.random.calls import ANY, Corpus, Trait
from tests.random.engines import Engines
from tests.random.models import Source, drawn_source, tame
from tests.random.shrink import Finding, shrunk
from tests.random.turns import turn
from tests.random.verbs import Verb, drawn_verbs
from tests.random.verdict import CRASHED, DIED, FAILS, FINDINGS, INVALID, NEAR, OK, REFUSED, UNJUDGED, WRONG, Judge
from tests.random.worker import flat

pytestmark = pytest.mark.posix

SEEDS = range(7100, 7130)
HEAD = '<ir_version: 8, opset_import: ["" : 13]>'
ELU = f"{HEAD} g (float[3,2] x) => (float[3,2] y, float[3,2] z) {{ a = Elu<alpha=0.5>(x) y = Neg(a) z = Abs(x) }}"
DOWN = Verb("down", (("convert", ({"": 12},)),))


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    with Engines() as started:
        yield started


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(case for opset in store.frozen_opsets() for case in store.read(opset))


def source(text: str) -> Source:
    model = onnx.parser.parse_model(text)
    feeds = {"x": np.array([[-2, 1], [0.5, -0.5], [3, -3]], np.float32)}
    return Source(model, feeds, "graph")


def test_numbers_are_tamed_beside_sequences():
    held = replace(source(ELU), feeds={"x": np.array([1e30, 2], np.float32), "s": [np.zeros(3), np.zeros((1, 2))]})
    tamed = tame(held)
    assert tamed is not None
    assert tamed.feeds["s"] is held.feeds["s"]
    assert tamed.feeds["x"][1] == 2
    assert abs(tamed.feeds["x"][0]) < 10


@pytest.mark.long
def test_nothing_goes_wrong_with_some_models(engines: Engines, corpus: Corpus):
    bad, judged = [], 0
    for seed in SEEDS:
        drawn = drawn_source(seed, engines, corpus, longest=8)
        if drawn is None or not (judge := Judge(engines, drawn)).sound:
            continue
        for verb in drawn_verbs(random.Random(seed), drawn.model, 2):
            verdict = judge.judge(verb)
            judged += verdict.status not in (REFUSED, UNJUDGED)
            if verdict.status in FINDINGS:
                bad.append(f"seed {seed}: {verb}: {verdict.status}: {verdict.why}")
    assert not bad, "\n".join(bad)
    assert judged > len(SEEDS) / 2, "too few conversions to say anything"


@pytest.mark.long
def test_a_seed_always_draws_the_same(engines: Engines, corpus: Corpus):
    drawn = [drawn_source(SEEDS[0] + 1, engines, corpus) for _ in range(2)]
    assert drawn[0] is not None
    assert drawn[1] is not None
    assert drawn[0].model == drawn[1].model


def _no_attribute(model: ModelProto) -> None:
    for node in model.graph.node:
        del node.attribute[:]


def _other_zero(model: ModelProto) -> None:
    model.graph.node.append(onnx.helper.make_node("Neg", [model.graph.output[1].name], ["n"]))
    model.graph.node.append(onnx.helper.make_node("Neg", ["n"], ["-z"]))
    model.graph.output[1].name = "-z"


def _no_output(model: ModelProto) -> None:
    del model.graph.node[:]


def _far_index(model: ModelProto) -> None:
    index = onnx.helper.make_tensor("index", onnx.TensorProto.INT64, [1], [9])
    model.graph.node.append(onnx.helper.make_node("Constant", [], ["index"], value=index))
    model.graph.node.append(onnx.helper.make_node("Gather", ["x", "index"], ["far"]))


def _broken(monkeypatch: pytest.MonkeyPatch, breaking: Callable[[ModelProto], None]) -> None:
    attempt = Verb.attempt

    def attempted(verb: Verb, model: ModelProto) -> Result:
        result = attempt(verb, model)
        if result.model is not None:
            breaking(result.model)
        return result

    monkeypatch.setattr(Verb, "attempt", attempted)


@pytest.mark.parametrize(("breaking", "status"), [(_no_attribute, WRONG), (_no_output, INVALID), (_far_index, FAILS)])
def test_what_is_broken_is_found(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, breaking: Callable[[ModelProto], None], status: str
):
    _broken(monkeypatch, breaking)
    assert Judge(engines, source(ELU)).judge(DOWN).status == status


def test_what_is_not_broken_is_not(engines: Engines, monkeypatch: pytest.MonkeyPatch):
    _broken(monkeypatch, _other_zero)  # twice the opposite: the same
    assert Judge(engines, source(ELU)).judge(DOWN).status == OK


SIZES_LEFT_OUT = """<ir_version: 9, opset_import: ["" : 19, "f" : 1]>
    g (float[1,1,1,8] x) => (float[A,B,C,D] y) <float[4] s = {1, 1, 1, 0.7}> { y = f.F(x, s) }
    <domain: "f", opset_import: ["" : 19]> F (x, s, n) => (y) {
        y = Resize<mode="linear", coordinate_transformation_mode="half_pixel_symmetric">(x, , s, n)
    }"""


@pytest.mark.parametrize(("repaired", "status"), [(True, (OK, NEAR)), (False, (WRONG,))])
def test_what_a_call_leaves_out_is_found_where_it_is_taken_for_what_is_there(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, repaired: bool, status: tuple[str, ...]
):
    if not repaired:
        monkeypatch.setattr(formals, "copy_functions", lambda given, *_: formals.ResolvedModel(given))
    of = onnx.parser.parse_model(SIZES_LEFT_OUT)
    drawn = Source(of, {"x": np.arange(1, 9, dtype=np.float32).reshape(1, 1, 1, 8)}, "function")
    assert Judge(engines, drawn).judge(Verb("down", (("convert", ({"": 18},)),))).status in status


def test_an_error_is_a_crash_with_its_place(engines: Engines, monkeypatch: pytest.MonkeyPatch):
    _broken(monkeypatch, lambda _: {}["no such key"])  # type: ignore[call-overload]
    verdict = Judge(engines, source(ELU)).judge(DOWN)
    assert verdict.status == CRASHED
    assert "KeyError: 'no such key' test_random.py" in verdict.why


def test_a_finding_becomes_small(engines: Engines, monkeypatch: pytest.MonkeyPatch):
    _broken(monkeypatch, _no_attribute)
    found = source(ELU)
    small = shrunk(Finding(found, Verb("down", (("convert", ({"": 7},)),)), Judge(engines, found).judge(DOWN)), engines)
    assert [node.op_type for node in small.source.model.graph.node] == ["Elu"]
    assert small.verb.steps == (("convert", ({"": 12},)),)
    assert len(small.source.model.graph.output) == 1
    assert "Elu <alpha: float = 0.5>" in onnx.printer.to_text(small.source.model)


def test_a_script_shows_a_finding(engines: Engines, monkeypatch: pytest.MonkeyPatch, tmp_path, capsys):
    found = source(ELU)
    with monkeypatch.context() as broken:
        _broken(broken, _no_attribute)
        finding = Finding(found, DOWN, Judge(engines, found).judge(DOWN))
    finding.write(tmp_path, 3)
    (script,) = tmp_path.iterdir()
    exec(
        compile(
            script.read_text().replace("import onnxruntime", "import onnxruntime as onnxruntime"), str(script), "exec"
        ),
        {},
    )
    assert "Elu" in capsys.readouterr().out


@pytest.mark.long
def test_an_engine_that_dies_is_started_again(engines: Engines, monkeypatch: pytest.MonkeyPatch):
    x = source(ELU)
    assert engines.run("onnxruntime", x.model, x.feeds)[0] is not None
    worker = engines._worker
    assert worker is not None
    worker.kill()
    assert engines.run("onnxruntime", x.model, x.feeds) == (None, "it died")
    assert engines.run("onnxruntime", x.model, x.feeds)[0] is not None


def test_zeros_of_another_sign_are_not_the_same(engines: Engines, monkeypatch: pytest.MonkeyPatch):
    def positive(model: ModelProto) -> None:
        for node in model.graph.node:
            node.op_type = "Abs" if node.op_type == "Neg" else node.op_type

    _broken(monkeypatch, positive)
    text = f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Neg(x) }}"
    zero = replace(source(text), feeds={"x": np.zeros(2, np.float32)})
    verdict = Judge(engines, zero).judge(DOWN)
    assert (verdict.status, verdict.why) == (WRONG, "exact: output 0: the sign of a zero")


def test_defaults_of_a_function_count():
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 19, "f" : 1]> g (float[2] x) => (float[2] y) { y = f.F(x) }'
        '<opset_import: ["" : 19], domain: "f"> F <a: float = 0.25>(x) => (y) { y = Elu<alpha: float = @a>(x) }'
    )
    (node,) = flat(model).graph.node
    assert node.attribute[0].f == 0.25
    assert not model.graph.node[0].attribute


def test_verbs_differ_and_are_drawn_from_a_seed():
    model = source(ELU).model
    drawn = [list(map(str, drawn_verbs(random.Random(3), model, 8))) for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 8
    assert set(verbs.DOING) >= {step[0] for verb in drawn_verbs(random.Random(3), model, 8) for step in verb.steps}


def test_a_judge_that_dies_goes_on_behind_its_seed(corpus: Corpus, monkeypatch: pytest.MonkeyPatch):
    def judged(told: Connection, engines: Engines, corpus: Corpus, seed: int, *_: object) -> runner.Judged:
        if seed == 5:
            told.send(("graph", "up", DIED))
            os.kill(os.getpid(), signal.SIGKILL)
        return runner.Judged(seed)

    monkeypatch.setattr(runner, "_judged", judged)
    said = runner.run(corpus, 4, 60, runner.Wanted())
    found = [(next_one.seed, next_one.rows) for next_one in itertools.islice(said, 3)]
    assert found == [(4, []), (5, [("graph", "up", DIED)]), (6, [])]


@pytest.mark.long
def test_every_version_has_its_turn(corpus: Corpus):
    drawn = [turn(corpus, seed) for seed in range(3 * len(corpus.known))]
    assert {key for key, _ in drawn[: len(corpus.known)]} == set(corpus.known)
    assert len({trait for key, trait in drawn if key[1] == "Conv"}) >= 3


def test_every_word_has_its_turn(corpus: Corpus):
    alone = Corpus([])
    alone.known, alone.words = (
        [key for key in corpus.known if key[1] == "Resize"][:1],
        {("Resize", "mode"): [b"a", b"b"]},
    )
    assert {Trait("mode", b"a"), Trait("mode", b"b"), ANY} <= {turn(alone, seed)[1] for seed in range(60)}


def test_what_a_rounding_changes_as_much_is_not_wrong(engines: Engines, monkeypatch: pytest.MonkeyPatch):
    """The hyperbolic cosine of little is 1, whatever it was of."""

    def breaking(model: ModelProto) -> None:
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(1 + 2**-22, np.float32), "s"))
        model.graph.node.insert(0, onnx.helper.make_node("Mul", ["x", "s"], ["z"]))
        model.graph.node[-1].input[0] = "z"

    _broken(monkeypatch, breaking)
    monkeypatch.setattr(Result, "grade", "close")
    for name, status in (("Acosh", UNJUDGED), ("Cosh", NEAR)):
        text = f"{HEAD} g (float[2] x) => (float[2] y) {{ y = {name}(x) }}"
        ones = replace(source(text), feeds={"x": np.ones(2, np.float32)})
        assert Judge(engines, ones).judge(DOWN).status == status


@pytest.mark.parametrize(("theirs", "status"), [((0, 1), UNJUDGED), ((0,), WRONG), ((1,), WRONG), ((), WRONG)])
def test_who_makes_of_the_source_what_others_make_of_the_result_alone_is_in_dispute(
    engines: Engines, theirs: tuple[int, ...], status: str
):
    """It has to be so of all that differs: the rest is found."""
    text = f"{HEAD} g (float[2] x) => (float[2] y, float[2] z) {{ y = Elu<alpha=0.5>(x) z = Selu<alpha=0.5>(x) }}"
    judge = Judge(engines, replace(source(text), feeds={"x": np.array([-1, 2], np.float32)}))
    plain = onnx.parser.parse_model(text.replace("<alpha=0.5>", ""))
    made, _ = engines.run("onnxruntime", plain, judge.source.feeds)
    found, _ = judge.expected("onnx.reference")
    assert made is not None
    assert found is not None
    judge._runs["onnx.reference"] = ([made[at] if at in theirs else found[at] for at in range(2)], "")
    assert judge._by("onnxruntime", plain, "exact").status == status


def test_what_an_engine_refuses_of_its_own_accord_is_not_found(engines: Engines):
    """A window of nothing but NaN, which onnx.reference takes where a kernel has gaps alone."""
    text = f"{HEAD} g (float[1,1,3] x) => (float[1,1,N] y) {{ y = MaxPool<kernel_shape=[2], dilations=[2]>(x) }}"
    held = replace(source(text), feeds={"x": np.float32([[[np.nan, np.nan, 1]]])})
    plain = onnx.parser.parse_model(text.replace(", dilations=[2]", ""))
    verdict = Judge(engines, held)._by("onnx.reference", plain, "exact")
    assert (verdict.status, "zero-size" in verdict.why) == (UNJUDGED, True)
    wider = onnx.parser.parse_model(text.replace("kernel_shape=[2], dilations=[2]", "kernel_shape=[4]"))
    assert Judge(engines, held)._by("onnx.reference", wider, "exact").status == FAILS


def test_an_infinity_that_is_said_to_stay_is_near_the_largest_number(engines: Engines, monkeypatch: pytest.MonkeyPatch):
    """One that no input makes, where onnx.reference, which leaves it, runs nothing of the source."""
    monkeypatch.setattr(verdict, "ORDER", ("onnxruntime",))
    of = source(f"{HEAD} g (float[3,2] x) => (float[3,2] y) {{ z = Sub(x, x) l = Log(z) y = Clip(l) }}")
    assert Judge(engines, of).judge(Verb("optimize", (("convert", (None, False, True)),))).status == NEAR


def test_what_is_left_where_a_transform_is_0_is_a_rounding(engines: Engines):
    """The imaginary part of a sum of real numbers is 0, or some rounding, whose logarithm is no number, or any."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,10,1] x) => (float[1,10,2] y) { d = DFT(x) y = Log(d) }"""
    of = Source(onnx.parser.parse_model(text), {"x": np.arange(10, dtype=np.float32).reshape(1, 10, 1)}, "graph")
    assert Judge(engines, of).judge(Verb("down", (("convert", ({"": 16},)),))).status in (OK, NEAR, UNJUDGED)


@pytest.mark.parametrize("reader", ["f = Ceil (w)", "f = Unique (w)"])
def test_what_is_left_of_the_end_of_a_window_is_a_rounding(engines: Engines, reader: str):
    """0.42 - 0.5 + 0.08, rounded up, and what makes its sides differ; no input says so."""
    text = f"""<ir_version: 8, opset_import: ["" : 18]> g () => (float[A] o) <bool c = {{1}}> {{ o = If (c) <
        then_branch: graph = b () => (float[K] f) {{
            n = Constant <value: tensor = int32 {{10}}> () w = BlackmanWindow <periodic=0> (n) {reader} }},
        else_branch: graph = d () => (float[L] e) {{ e = Constant <value: tensor = float[1] {{1}}> () }}> }}"""
    of = Source(onnx.parser.parse_model(text), {}, "if")
    assert Judge(engines, of).judge(Verb("down", (("convert", ({"": 16},)),))).status in (OK, NEAR, UNJUDGED)


def test_infinities_of_modest_numbers_are_tamed(engines: Engines, monkeypatch: pytest.MonkeyPatch):
    """One is met as the hyperbolic cosine of 90, and another form may make NaN of it."""

    def breaking(model: ModelProto) -> None:
        model.graph.node.append(onnx.helper.make_node("Sub", ["y", "y"], ["none"]))
        model.graph.node.append(onnx.helper.make_node("Add", ["none", "y"], ["other"]))
        model.graph.output[0].name = "other"

    _broken(monkeypatch, breaking)
    monkeypatch.setattr(Result, "grade", "close")
    of = replace(source(f"{HEAD} g (float[2] x) => (float[2] y) {{ y = Cosh(x) }}"), feeds={"x": np.float32([90, 1])})
    assert Judge(engines, of).judge(DOWN).status == UNJUDGED


@pytest.mark.long
def test_what_is_lost_beside_1_is_asked_again_of_ordinary_numbers(engines: Engines, monkeypatch: pytest.MonkeyPatch):
    """As Softplus of -69 is in its definition; what is wrong of ordinary numbers, too, is found."""
    inlined = Verb("inline", (("inline", (("Softplus",), None)),))
    for body, x in (("y = Softplus(x)", -69), ("z = Log(x) y = Softplus(z)", 1e-30)):
        text = f"{HEAD} g (float[1] x) => (float[1] y) {{ {body} }}"
        of = replace(source(text), feeds={"x": np.float32([x])})
        assert Judge(engines, of).judge(inlined).status == UNJUDGED
    monkeypatch.setattr("tests.random.verdict.Judge._near", lambda *_: False)
    assert Judge(engines, of).judge(inlined).status == WRONG


@pytest.mark.long
def test_seeds_are_judged_again(corpus: Corpus):
    wanted = runner.Wanted(verbs=1, longest=1)
    first, second = (list(runner.again(corpus, [SEEDS[1], SEEDS[2]], wanted)) for _ in range(2))
    assert [judged.seed for judged in first] == [SEEDS[1], SEEDS[2]]
    assert [judged.rows for judged in first] == [judged.rows for judged in second]


@pytest.mark.long
def test_an_engine_that_dies_of_what_an_excuse_asks_leaves_the_rest_known(engines: Engines):
    """onnxruntime ends its process at Unique along slices without elements."""
    text = f"{HEAD} g (float[3,0] x) => (float[n,m] z) {{ a = Shape(x) z = Unique<axis=0>(x) }}"
    model, feeds = onnx.parser.parse_model(text), {"x": np.zeros((3, 0), np.float32)}
    assert engines.values(model, feeds) == {}
    known = Known(model, feeds, engines.values)
    assert list(known["a"]) == [3, 0]
    assert "z" not in known
    assert engines.run("onnxruntime", onnx.parser.parse_model(ELU), {"x": np.ones((3, 2), np.float32)})[0] is not None
