"""Compilers as they are installed, each where `OPSHIFT_PYTHON_MNN` and the like name the interpreter that has it.

All at once: `OPSHIFT_PYTHON_MNN=mnn-env/bin/python OPSHIFT_PYTHON_TVM=... python -m pytest tests/opshift/adapters`.
"""

import os

import numpy as np
import onnx
import pytest

from opshift.cli import main as cli
from opshift.probing import installed, proxy
from opshift.probing.worker import Run
from opshift.verification import adapters
from opshift.verification.engines import OnnxRuntime
from tests.support import model

NAMES = [name for name, each in adapters.KNOWN.items() if each.file and proxy.variable(name) in os.environ]
if not NAMES:
    pytest.skip("no interpreter is named that has a compiler", allow_module_level=True)

IMAGE = np.linspace(-1, 1, 3 * 8 * 8, dtype=np.float32).reshape(1, 3, 8, 8)
NET = """
t = Conv<pads = [1, 1, 1, 1]>(x, w) r = Relu(t) p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)
g = GlobalAveragePool(p) f = Flatten(g) b = Gemm(f, v) a = Softmax<axis = 1>(b)
"""
LACKED = {
    "mnn": ("y = IsNaN(x)", "These Op Not Support: ONNX::IsNaN"),
    "iree": ("y = RMSNormalization(x, x)", "failed to legalize"),
    "tvm": ("y = RotaryEmbedding(x, x, x)", "RotaryEmbedding"),
    "rknn": ("y = Mish(x)", "Unsupport onnx opset 23, need <= 19!"),
    "onnx2torch": ("y = Mish(x)", "Converter is not implemented"),
    "ncnn": ("y = IsNaN(x)", "IsNaN"),
}
"""A node that a compiler does not take, and what it says of it."""


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def compiler(name):
    made = installed.find(name).open()
    yield made
    made.stop()


def run(compiler, source, **feeds):
    found = compiler.ask(Run(source.SerializeToString(), [feeds]))
    assert found.why == ""
    return found.outputs[0]


def net(opset=13, extra=""):
    random = np.random.default_rng(0)
    held = {"w": random.standard_normal((4, 3, 3, 3)), "v": random.standard_normal((4, 5))}
    made = model(
        f"{NET}{extra}",
        opset,
        inputs="float[1,3,8,8] x",
        outputs="float[1,5] b, float[1,5] a" if not extra else "float[1,5] y",
    )
    for key, value in held.items():
        made.graph.initializer.append(onnx.numpy_helper.from_array(value.astype(np.float32), key))
    return made


def test_it_runs_a_net_with_its_outputs_in_their_order_and_layout(name, compiler):
    if name == "ncnn":
        pytest.skip("it computes this Flatten otherwise")
    for expected, found in zip(OnnxRuntime(net()).run({"x": IMAGE}), run(compiler, net(), x=IMAGE), strict=True):
        assert np.abs(expected - found).max() <= 0.01 * np.abs(expected).max()
    pooled = model(
        "y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)",
        13,
        inputs="float[1,3,8,8] x",
        outputs="float[1,3,4,4] y",
    )
    assert np.abs(run(compiler, pooled, x=IMAGE)[0] - IMAGE[:, :, 1::2, 1::2]).max() < 0.01
    both = "float[1,3,8,8] x, float[2,1,8] s", "float[1,3,8,8] y, float[2,1,8] t"  # an image, and a state of a GRU
    ranks = model("y = Relu(x) t = Relu(s)", 13, inputs=both[0], outputs=both[1])
    image, state = run(compiler, ranks, x=IMAGE, s=IMAGE[0, :2, :1])
    assert np.abs(image - np.maximum(IMAGE, 0)).max() < 0.01
    assert np.abs(state - np.maximum(IMAGE[0, :2, :1], 0)).max() < 0.01


def test_what_it_lacks_is_said_in_a_line(name, compiler):
    if name not in LACKED:
        pytest.skip("nothing is known")
    body, why = LACKED[name]
    kind = "bool" if "IsNaN" in body else "float"
    source = model(body, 23, inputs="float[1,4] x", outputs=f"{kind}[1,4] y")
    found = compiler.ask(Run(source.SerializeToString(), [{"x": IMAGE[0, 0, :1, :4]}]))
    assert why in found.why
    assert "\n" not in found.why


def test_by_its_table_it_runs_a_newer_model(name, compiler, tmp_path, monkeypatch):
    if name == "ncnn":
        pytest.skip("it computes this Flatten otherwise")
    monkeypatch.chdir(tmp_path)
    newer = net(18, "m = Mish(b) y = HardSwish(m)")
    onnx.save(newer, "in.onnx")
    assert cli.main(["convert", "in.onnx", "out.onnx", "--target", name]) == 0
    found = run(compiler, onnx.load("out.onnx"), x=IMAGE)[0]
    expected = OnnxRuntime(newer).run({"x": IMAGE})[0]
    assert np.abs(expected - found).max() <= 0.01 * np.abs(expected).max()


def test_try_expands_what_it_lacks(name, tmp_path, monkeypatch, capsys):
    if name != "mnn":
        pytest.skip("one is enough")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mnn.toml").write_text('name = "mnn"\nsource = "nothing"\n[versions."0"]\n')
    onnx.save(model("y = Mish(x)", 18, inputs="float[1,3] x", outputs="float[1,3] y"), "in.onnx")
    assert cli.main(["inline", "in.onnx", "out.onnx", "--target", "mnn.toml", "--try"]) == 0
    assert "refuses Mish with 2-D input: expanded, 1 node" in capsys.readouterr().out


def test_mnn_takes_and_yields_what_it_keeps_in_other_types(name, compiler):
    if name != "mnn":
        pytest.skip("of MNN alone")
    x = np.array([[1, -2, 3]], np.float32)
    cast = model("y = Cast<to = 7>(x)", 17, inputs="bool[1,3] x", outputs="int64[1,3] y")
    assert run(compiler, cast, x=x > 0)[0].dtype == np.int64


def test_a_scalar_has_no_axes(name, compiler):
    if name in ("ncnn", "litert"):
        pytest.skip("not tried")
    total = model("y = ReduceSum<keepdims = 0>(x)", 17, inputs="float[1,3] x", outputs="float y")
    found = run(compiler, total, x=np.array([[1, -2, 4]], np.float32))[0]
    assert found.shape == ()
    assert found == 3
