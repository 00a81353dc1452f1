"""`python -m tests.lab neighbours [--op NAME] [--sample N]`: operators written out beside others, and found again.

Every operator with a fold stands between one of `BEFORE` and one of `AFTER`: in a graph of its own, where another reads
its input or its result as well, in a function, and in the branch of an If. It is expanded and folded. *found* is what
has the operators of the source again, in no more nodes; *wrong* what computes something else than the source.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto
from opshift.passes.conversion import convert
from opshift.passes.fusion import fold
from opshift.passes.model.traversal import with_nested

from opshift.verification.engines import ENGINES, EngineError
from tests.support import model

FOUND, MISSED, WRONG, UNJUDGED = "found", "missed", "wrong", "not judged"

CALLS = {
    **{f"{op}({{}})": (2, 3, 4) for op in (
        "Celu<alpha=0.3>", "Elu<alpha=0.5>", "Gelu", 'Gelu<approximate="tanh">', "HardSigmoid<alpha=0.3>", "HardSwish",
        "LeakyRelu<alpha=0.2>", "LogSoftmax", "Mish", "Selu", "Sigmoid", "Softmax", "Softmax<axis=1>", "Softplus", "Softsign",
        "Swish<alpha=0.3>", "LpNormalization<axis=1>", "LpNormalization<p=1>", "MeanVarianceNormalization<axes=[0, 2]>",
        "Abs", "Acosh", "Asinh", "Atanh", "Ceil", "Cosh", "Erf", "Neg", "Reciprocal", "Relu", "Round",
        "Shrink<bias=0.2, lambd=0.3>", "Sign", "Sinh", "Tan", "ThresholdedRelu<alpha=0.3>",
        "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "ReduceL1<axes=[1]>", "ReduceL2<axes=[-1]>",
        "ReduceLogSum<axes=[-1]>", "ReduceLogSumExp<axes=[2]>", "ReduceMin<axes=[1]>", "ReduceSumSquare<axes=[-1]>",
    )},
    "LayerNormalization({}, s4, b4)": (2, 3, 4), "LayerNormalization<axis=-2>({}, s34, b34)": (2, 3, 4),
    "RMSNormalization({}, s4)": (2, 3, 4), "InstanceNormalization({}, s4, b4)": (2, 4, 3),
    "GroupNormalization<num_groups=2>({}, s4, b4)": (2, 4, 6), "PRelu({}, s4)": (2, 3, 4), "SwiGLU({}, u)": (2, 3, 4),
    "Attention({}, k, v)": (2, 3, 4, 4), "Attention({}, k, v, m)": (2, 3, 4, 4), "RotaryEmbedding({}, f, g)": (2, 3, 4, 4),
    "Gemm<alpha=0.5, transB=1>({}, w4, s4)": (4, 4), "Gemm({}, w4)": (4, 4),
}  # fmt: skip
"""Calls by the shape of their first input."""

NEWER = {"LayerNormalization": 17, "RMSNormalization": 23, "GroupNormalization": 21, "Gelu": 20, "Swish": 24, "SwiGLU": 28,
         "Attention": 23, "RotaryEmbedding": 23, "Mish": 18}  # fmt: skip
"""The opsets that operators came with; all others are looked for at 17."""

FURTHER = {
    "k": "float[2,3,5,4] k", "v": "float[2,3,5,4] v", "m": "float[2,1,4,5] m", "f": "float[2,4,2] f", "g": "float[2,4,2] g",
    "s4": "float[4] s4", "b4": "float[4] b4", "s34": "float[3,4] s34", "b34": "float[3,4] b34", "u": "float[2,3,4] u",
    "w4": "float[4,4] w4",
}  # fmt: skip

BEFORE = {
    "": "", "+ constant": "a = Add(x, c)", "* constant": "a = Mul(x, c)", "/ constant": "a = Div(x, c)",
    "- constant": "a = Sub(x, c)", "constant -": "a = Sub(c, x)", "Neg": "a = Neg(x)", "Sqrt": "a = Sqrt(x)",
    "Exp": "a = Exp(x)", "Relu": "a = Relu(x)", "Sigmoid": "a = Sigmoid(x)", "Tanh": "a = Tanh(x)", "Abs": "a = Abs(x)",
    "MatMul": "a = MatMul(x, square)", "scaled MatMul": "a0 = MatMul(x, square) a = Mul(a0, c)",
    "biased MatMul": "a0 = MatMul(x, square) a = Add(a0, row)", "Transpose": "a = Transpose<perm=[PERM]>(x)",
    "Reshape": "a = Reshape(x, shape)", "Add of two": "a = Add(x, z)", "Mul of two": "a = Mul(x, z)",
    "+ vector": "a = Add(x, row)", "* vector": "a = Mul(x, row)", "Pow": "a = Pow(x, two)", "Clip": "a = Clip(x, low, c)",
    "Shrink": "a = Shrink<bias=0.1, lambd=0.2>(x)", "itself": "a = ITSELF(x)",
}  # fmt: skip

AFTER = {
    "": "", "+ constant": "y = Add(n, c)", "* constant": "y = Mul(n, c)", "/ constant": "y = Div(n, c)",
    "constant -": "y = Sub(c, n)", "Neg": "y = Neg(n)", "Sqrt": "y = Sqrt(n)", "Exp": "y = Exp(n)", "Relu": "y = Relu(n)",
    "Sigmoid": "y = Sigmoid(n)", "MatMul": "n0 = Transpose<perm=[PERM]>(n) y = MatMul(n, n0)",
    "Transpose": "y = Transpose<perm=[PERM]>(n)", "Reshape": "y = Reshape(n, flat)", "Add of its input": "y = Add(n, a)",
    "Mul of its input": "y = Mul(n, a)", "Add of two": "y = Add(n, z)", "Mul of two": "y = Mul(n, z)", "Pow": "y = Pow(n, two)",
    "Clip": "y = Clip(n, low, c)", "Shrink": "y = Shrink<bias=0.1, lambd=0.2>(n)", "itself": "y = ITSELF(n)",
}  # fmt: skip

PLACES = ("a graph", "its input read twice", "its result read twice", "a function", "an If")


@dataclass(frozen=True)
class Case:
    """A call between two neighbours."""

    call: str
    before: str
    after: str
    place: str

    @property
    def op(self) -> str:
        return re.split(r"\W", self.call)[0]

    def __str__(self) -> str:
        return f"{self.before or 'nothing'} | {self.call} | {self.after or 'nothing'}, in {self.place}"


@dataclass(frozen=True)
class Verdict:
    """What came of a case."""

    case: Case
    status: str
    why: str = ""


def cases() -> Iterator[Case]:
    """Every call between every two neighbours in a graph, and with each of them in one other place after another."""
    for call in CALLS:
        for b, before in enumerate(BEFORE):
            for a, after in enumerate(AFTER):
                yield Case(call, before, after, PLACES[0])
                if a % len(BEFORE) == b % len(AFTER):
                    yield from (Case(call, before, after, place) for place in PLACES[1:])


def source(case: Case) -> ModelProto:
    """The model that holds the call."""
    shape = CALLS[case.call]
    rank, opset = len(shape), NEWER.get(case.op, 17)
    perm = [*range(rank - 2), rank - 1, rank - 2]
    repeated = [*shape] if case.before != "Transpose" else [shape[axis] for axis in perm]
    texts = [BEFORE[case.before] or "a = Identity(x)", f"n = {case.call.format('a')}", AFTER[case.after]]
    body = "\n".join(texts).replace("PERM", ", ".join(map(str, perm)))
    body = re.sub(r"ITSELF\((\w)\)", lambda found: case.call.format(found[1]), body)
    if not BEFORE[case.before]:
        body = re.sub(r"\ba\b", "x", body.partition("\n")[2])
    if not AFTER[case.after]:
        body = re.sub(r"\bn\b", "y", body)
    held = {f"float[{','.join(map(str, repeated))}] x", f"float[{','.join(map(str, shape))}] z"}
    held |= {given for name, given in FURTHER.items() if re.search(rf"\b{name}\b", case.call)}
    last = repeated[-1]
    constants = {
        "c": "float c = {0.7}", "two": "float two = {2}", "low": "float low = {-1.5}", "flat": "int64[1] flat = {-1}",
        "shape": f"int64[{rank}] shape = {{{', '.join(map(str, shape))}}}",
        "square": f"float[{last},{last}] square = {{{', '.join(str(0.1 * i - 0.4) for i in range(last * last))}}}",
        "row": f"float[{last}] row = {{{', '.join(str(0.3 * i - 0.4) for i in range(last))}}}",
    }  # fmt: skip
    if case.before == "Reshape":
        held = {given.replace(f"{','.join(map(str, repeated))}] x", f"{np.prod(shape)}] x") for given in held}
    used = ", ".join(text for name, text in constants.items() if re.search(rf"\b{name}\b", body))
    given = sorted(text for text in held if re.search(rf"\b{text.split()[1]}\b", body))
    made = model(body, opset, inputs=", ".join(given), outputs="float y", constants=used)
    if case.place == "its input read twice":
        made.graph.output.add(name="a" if BEFORE[case.before] else "x").type.tensor_type.elem_type = 1
    elif case.place == "its result read twice" and AFTER[case.after]:
        made.graph.output.add(name="n").type.tensor_type.elem_type = 1
    elif case.place == "a function":
        made = in_function(made)
    elif case.place == "an If":
        made = in_branch(made)
    for output in made.graph.output:
        output.type.tensor_type.ClearField("shape")
    return made


def in_function(of: ModelProto) -> ModelProto:
    """The nodes as the body of a function."""
    names = [value.name for value in (*of.graph.input, *of.graph.initializer)]
    body = onnx.helper.make_function("local", "block", names, ["y"], of.graph.node, of.opset_import)
    of.functions.append(body)
    of.ir_version = max(of.ir_version, 8)
    of.opset_import.add(domain="local", version=1)
    del of.graph.node[:]
    of.graph.node.append(onnx.helper.make_node("block", names, ["y"], domain="local"))
    return of


def in_branch(of: ModelProto) -> ModelProto:
    """The nodes as one branch of an If, whose other branch is not taken."""
    untyped = onnx.ValueInfoProto(name="y", type=of.graph.output[0].type)
    untyped.type.tensor_type.ClearField("shape")
    then = onnx.helper.make_graph(list(of.graph.node), "then", [], [untyped])
    other = onnx.ValueInfoProto(name="o", type=untyped.type)
    otherwise = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["o"])], "otherwise", [], [other])
    del of.graph.node[:]
    of.graph.node.append(onnx.helper.make_node("If", ["given"], ["y"], then_branch=then, else_branch=otherwise))
    of.graph.input.append(onnx.helper.make_tensor_value_info("given", onnx.TensorProto.BOOL, []))
    return of


def judge(case: Case) -> Verdict:
    """Expand, fold, and run what came out beside the source."""
    whole = source(case)
    expanded = convert.attempt(whole, {"": NEWER.get(case.op, 17)}, ops=[("", case.op)])
    if expanded.model is None or case.op in census(expanded.model):
        return Verdict(case, UNJUDGED, f"not expanded: {[str(refusal) for refusal in expanded.refusals]}")
    folded = fold.attempt(expanded.model, ops=[("", case.op)]).model
    wrong = differs(whole, expanded.model, folded)
    if wrong:
        return Verdict(case, WRONG, wrong)
    before, after = census(whole), census(folded)
    several = after[case.op] >= before[case.op] and after.total() == before.total()
    back = several or (after[case.op] and after.total() < before.total())
    return Verdict(case, FOUND if back else MISSED, "" if back else " ".join(after.elements()))


def census(of: ModelProto) -> Counter[str]:
    """How often each operator occurs, in functions and branches as well."""
    bodies = with_nested([of.graph, *of.functions])
    return Counter(node.op_type for body in bodies for node in body.node if node.op_type != "Constant")


def differs(whole: ModelProto, expanded: ModelProto, folded: ModelProto) -> str:
    """How the folded model differs from the source in onnxruntime, or from what it was expanded to, which it can run."""
    feeds, draw = {}, np.random.default_rng(0)
    for value in whole.graph.input:
        numbers = draw.uniform(-2, 2, [dim.dim_value for dim in value.type.tensor_type.shape.dim])
        feeds[value.name] = np.array(True) if value.name == "given" else numbers.astype(np.float32)
    for judged in (whole, expanded):
        try:
            expected = ENGINES[0](judged).run(feeds)
            break
        except EngineError:
            continue
    else:
        return ""
    actual = None
    for engine in ENGINES:
        try:
            actual = engine(folded).run(feeds)
            break
        except EngineError as error:
            why = str(error)
    if actual is None:
        return why
    for e, a in zip(expected, actual, strict=True):
        if (e.shape, e.dtype) != (a.shape, a.dtype):
            return f"{a.dtype}{a.shape} instead of {e.dtype}{e.shape}"
        if not np.allclose(a, e, rtol=1e-3, atol=1e-5, equal_nan=True):
            return f"{np.nanmax(np.abs(a - e))} apart"
    return ""


def table(verdicts: Sequence[Verdict]) -> str:
    """The counts of each place, in Markdown."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for verdict in verdicts:
        counts[verdict.case.place][verdict.status] += 1
        counts["all"][verdict.status] += 1
    lines = ["| written out in | found again | missed | wrong | share |", "|---|---|---|---|---|"]
    for place, held in counts.items():
        judged = held[FOUND] + held[MISSED] + held[WRONG]
        share = 100 * held[FOUND] / max(judged, 1)
        lines.append(f"| {place} | {held[FOUND]:,} | {held[MISSED]:,} | {held[WRONG]:,} | {share:.2f} % |")
    return "\n".join(lines)


def main() -> int:
    """Print the counts and what was missed; exit 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab neighbours")
    parser.add_argument("--op", action="append", help="only these operators")
    parser.add_argument("--place", action="append", choices=PLACES, help="only there")
    parser.add_argument("--sample", type=int, help="only so many cases, chosen at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--json", type=Path, help="write what came of each case")
    options = parser.parse_args()
    chosen = [c for c in cases() if c.op in (options.op or [c.op]) and c.place in (options.place or [c.place])]
    if options.sample:
        chosen = random.Random(options.seed).sample(chosen, min(options.sample, len(chosen)))
    with ProcessPoolExecutor(options.jobs) as pool:
        verdicts = list(pool.map(judge, chosen, chunksize=16))
    for verdict in verdicts:
        if verdict.status != FOUND:
            print(f"{verdict.status}: {verdict.case}: {verdict.why}")
    print(table(verdicts))
    if options.json:
        options.json.write_text(json.dumps([[str(v.case), v.status, v.why] for v in verdicts], indent=0))
    return int(any(verdict.status == WRONG for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
