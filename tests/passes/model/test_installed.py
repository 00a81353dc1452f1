"""What an older onnx lacks is asked of it, not taken for an answer."""

import onnx.helper
import pytest
from onnx import TensorProto
from opshift.passes.model import installed, schemas
from opshift.passes.model.installed import Lacking

KEPT = (installed._opsets, installed.is_old, installed.infers_less, installed._infers, installed.reads)


@pytest.fixture
def onnx_of(monkeypatch):
    """Let the installed onnx be one that knows these opsets."""

    def be(opset, ml=5, training=1):
        for known in KEPT:
            known.cache_clear()
        monkeypatch.setattr(onnx.helper, "VERSION_TABLE", [("1.0", 3, 1, 1, 1), ("1.x", 9, opset, ml, training)])

    yield be
    monkeypatch.undo()
    for known in KEPT:
        known.cache_clear()


def test_the_newest_lacks_nothing(onnx_of):
    onnx_of(schemas.latest(), schemas.latest("ai.onnx.ml"), schemas.latest("ai.onnx.preview.training"))
    assert installed.doubt() is None
    assert not installed.infers_less()
    installed.check_inference([("", "Swish"), ("there", "Swish"), ("", "Nothing")], {"": schemas.latest()})
    installed.check_type(TensorProto.FLOAT)
    installed.check_type(99)


@pytest.mark.parametrize(
    ("opsets", "old"), [((22, 5), True), ((99, 1), True), ((99, 99, 0), True), ((99, 99, 99), False)]
)
def test_one_is_old_that_knows_less_of_any_domain(onnx_of, opsets, old):
    onnx_of(*opsets)
    assert (installed.doubt() is not None) is old
    if old:
        found = installed.doubt()
        assert (found.op, found.up, found.since) == (installed.LACKING, False, 0)
        assert found.why.startswith(f"onnx {onnx.__version__} is installed; a newer one")


@pytest.mark.parametrize(("opset", "less"), [(21, True), (22, True), (23, False), (28, False)])
def test_releases_before_118_infer_less(onnx_of, opset, less):
    onnx_of(opset)
    assert installed.infers_less() is less


@pytest.mark.parametrize(
    ("newest", "domain", "op", "opset", "known"),
    [
        (22, "", "Relu", 28, True),
        (22, "", "Swish", 24, False),
        (24, "", "Swish", 24, True),
        (22, "", "Attention", 23, False),
        (23, "", "Attention", 23, True),
        (12, "", "Relu", 14, True),  # which took more types then
        (12, "", "Softmax", 13, False),
        (13, "", "Softmax", 28, True),
        (12, "", "Squeeze", 12, True),
        (12, "", "Squeeze", 13, False),
        (12, "", "Squeeze", 21, False),
        (22, "there", "Swish", 1, True),
        (22, "ai.onnx", "Swish", 24, False),
        (22, "", "Nothing", 24, True),
    ],
)
def test_inference_by_the_text_of_another_version_is_none(onnx_of, newest, domain, op, opset, known):
    onnx_of(newest)
    held = {"": opset, "there": opset}
    calls = [("", "Abs"), (domain, op)]
    if known:
        installed.check_inference(calls, held)
        return
    with pytest.raises(Lacking) as raised:
        installed.check_inference(calls, held)
    since = schemas.since("", op, opset)
    assert str(raised.value) == f"it infers nothing of {op} as of opset {since}"
    assert (
        raised.value.refusal.why
        == f"onnx {onnx.__version__} is installed, and it is too old: {raised.value}; install a newer onnx"
    )
    assert (raised.value.refusal.op, raised.value.refusal.up) == (installed.LACKING, False)


def test_lacking_is_no_answer():
    assert not issubclass(Lacking, Exception)


@pytest.mark.parametrize(
    ("kind", "dtype", "read"),
    [
        (TensorProto.FLOAT, "anything", True),
        (TensorProto.STRING, "object", True),
        (TensorProto.COMPLEX64, "complex64", True),
        (TensorProto.BFLOAT16, "bfloat16", True),
        (TensorProto.BFLOAT16, "float32", False),
        (22, "int4", True),
        (22, "int8", False),
        (17, "float8_e4m3fn", True),
        (17, "float32", False),
        (25, None, False),
    ],
)
def test_values_are_read_as_those_of_their_type(onnx_of, monkeypatch, kind, dtype, read):
    def held(elem_type):
        if dtype is None:
            raise KeyError(elem_type)
        return type("held", (), {"name": dtype})

    monkeypatch.setattr(onnx.helper, "tensor_dtype_to_np_dtype", held)
    onnx_of(22)
    assert installed.reads(kind) is read
    if read:
        installed.check_type(kind)
    else:
        with pytest.raises(Lacking, match="it does not read values of type"):
            installed.check_type(kind)
    onnx_of(99, 99, 99)
    installed.check_type(kind)
