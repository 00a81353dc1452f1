"""What folding makes of a model, and the models of several files of tests."""

import numpy as np
import onnx
from opshift.passes.fusion import fold

from tests.support import check_values, model, show

FEEDS = {
    "x": np.linspace(-3, 4, 24, dtype=np.float32).reshape(2, 3, 4),
    "s": np.array([1, 2, -3, 0.5], np.float32),
    "b": np.array([0.5, 1, -1, 2], np.float32),
    "c": np.array([1, 2, -3], np.float32),
    "d": np.array([0.5, 1, -1], np.float32),
}
INPUTS = "float[2,3,4] x, float[4] s, float[4] b, float[3] c, float[3] d"


def folded(source, **options):
    kept = source.SerializeToString()
    result = fold.attempt(source, **options)
    assert source.SerializeToString() == kept, "the caller's model was changed"
    assert not result.refusals
    onnx.checker.check_model(result.model, full_check=True)
    return result


def written(body, opset, *, inputs=INPUTS, outputs="float[2,3,4] y", constants=""):
    return model(body, opset, inputs=inputs, outputs=outputs, constants=constants)


def check_stays(source, **options):
    result = folded(source, **options)
    assert show(result.model) == show(source)
    assert result.model == source
    assert not result.changes


def check_folds(source, after, **options):
    result = folded(source, **options)
    assert show(result.model) == "\n".join(line.strip() for line in after.strip().splitlines())
    check_values(source, result.model, {n: v for n, v in FEEDS.items() if n in inputs(source)}, rtol=2e-6, atol=2e-6)
    return result


def inputs(source):
    return {value.name for value in source.graph.input}


GELU = "a = Div(x, root) e = Erf(a) f = Add(e, one)"


GELU_CONSTANTS = "float root = {1.4142135}, float one = {1}, float half = {0.5}"


LAYER = "m = ReduceMean<axes=[-1]>(x) d = Sub(x, m)"


LAYER_CONSTANTS = "float e = {0.001}, float two = {2}, float one = {1}"


NORMAL = f"{LAYER} q = Mul(d, d) v = ReduceMean<axes=[2]>(q) w = Add(v, e) r = Sqrt(w) n = Div(d, r) y = Mul(n, s)"
