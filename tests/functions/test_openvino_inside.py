"""OpenVINO's operators inside branches and functions, and one behind the other."""

import numpy as np
import onnx.parser
from opshift.functions import OPENVINO

from tests.functions.test_openvino import IMPORT, inlined
from tests.support import evaluate, model


def test_in_a_branch():
    source = model(
        f"""y = If(c) <then_branch = t () => (float[2] p) {{ p = {OPENVINO}.ReduceL1(x, a) }},
            else_branch = e () => (float[2] q)
            {{ n = {OPENVINO}.NormalizeL2<eps=1e-8, eps_mode="max">(x, a)
            q = ReduceMax<keepdims=0>(n, a) }}>""",
        18,
        inputs="float[2,3] x, bool c",
        outputs="float[2] y",
        constants="int64[1] a = {1}",
        domains=IMPORT,
    )
    after = inlined(source)
    x = np.array([[3, -4, 0], [0, 0, 0]], np.float32)
    results = [evaluate(after, {"x": x, "c": np.array(c)})[0].tolist() for c in (True, False)]
    np.testing.assert_allclose(results, [[7, 0], [0.6, 0]], rtol=1e-6)


def test_in_a_function_that_passes_its_attributes_on():
    source = model(
        'y = local.f<e=0.25, m="max", k=1>(x)',
        18,
        inputs="float[2,3] x",
        outputs="float[2,1] y",
        domains=f'"local" : 1, {IMPORT}',
    )
    source.functions.append(
        onnx.parser.parse_function(
            f"""<domain: "local", opset_import: ["" : 18, "{OPENVINO}" : 1]> f <e, m, k> (x) => (y) {{
            a = Constant<value_ints = [1]>()
            n = {OPENVINO}.NormalizeL2<eps: float = @e, eps_mode: string = @m>(x, a)
            y = {OPENVINO}.ReduceL1<keep_dims: int = @k>(n, a) }}"""
        )
    )
    x = np.array([[3, -4, 0], [0.1, 0, 0]], np.float32)
    np.testing.assert_allclose(evaluate(inlined(source), {"x": x})[0], [[1.4], [0.2]], rtol=1e-6)


def test_one_after_the_other_with_axes_known_only_at_run_time():
    source = model(
        f"""n = {OPENVINO}.NormalizeL2<eps=1e-8, eps_mode="add">(x, a)
        z = {OPENVINO}.ReduceL1<keep_dims=1>(n, a)
        y = ReduceSumSquare(z, a)""",
        18,
        inputs="float[2,3] x, int64[N] a",
        outputs="float[2,M] y",
        domains=IMPORT,
    )
    x = np.array([[3, -4, 0], [0, 5, 0]], np.float32)
    after = inlined(source, 17)
    np.testing.assert_allclose(evaluate(after, {"x": x, "a": np.array([1])})[0], [[1.96], [1]], rtol=1e-6)
