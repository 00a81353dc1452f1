"""Products: transposed operands of every rank, factors, addends and activations; distances and inverses."""

import numpy as np
import pytest

from tests.passes.operators.microsoft.harness import DOUBLE, FLOAT, HALF, Call, calls, check, check_refused, computed

FLAGS = [None, 1]
RAN = [((3, 3), (3, 3), 12), ((3, 3, 3), (3, 3, 3), 48), ((3, 2, 3), (1, 3, 3), 21), ((2, 2, 2, 2), (2, 2, 2, 2), 48), ((3,), (3, 3), 12), ((4, 3, 3), (3, 3), 12)]  # fmt: skip


@pytest.mark.parametrize(("left", "right", "ran"), RAN)
def test_every_combination_of_transposed_operands(left, right, ran):
    flags = {f"trans{name}": FLAGS for name in ("A", "B", "BatchA", "BatchB")}
    made = calls("FusedMatMul", {"A": left, "B": right}, {**flags, "alpha": [None, 0.25, -1.0]}, types=[FLOAT])
    assert check(made) == ran


def test_what_onnxruntime_does_not_transpose_is_refused():
    made = calls("FusedMatMul", {"A": (3, 3), "B": (3,)}, {"transA": [None, 0, 1]}, types=[FLOAT])
    assert check(made[:2]) == 2
    check_refused(made[2:], "transA=1 and B is a vector")


def test_doubles_and_sizes_of_zero_and_one():
    for left, right in [((2, 0, 3), (2, 3, 4)), ((1, 1), (1, 1)), ((3, 0), (0, 2))]:
        assert check(calls("FusedMatMul", {"A": left, "B": right}, {"alpha": [0.3]}, types=[DOUBLE, FLOAT])) == 2


def test_the_older_name():
    flags = {"transA": FLAGS, "transB": FLAGS, "alpha": [None, 0.5]}
    assert check(calls("TransposeMatMul", {"A": (2, 3, 3), "B": (2, 3, 3)}, flags, types=[FLOAT])) == 8


@pytest.mark.parametrize("activation", ["Relu", "Tanh", "Sigmoid", "Softplus", "Softsign"])
def test_gemm_with_an_activation(activation):
    attributes = {
        "activation": [activation],
        "transA": FLAGS,
        "transB": FLAGS,
        "alpha": [None, 0.5],
        "beta": [None, 2.0],
    }
    assert check(calls("FusedGemm", {"A": (3, 3), "B": (3, 3), "C": [(3,), (3, 3)]}, attributes, types=[FLOAT])) == 48


def test_activations_with_attributes():
    names = ["Elu", "LeakyRelu", "HardSigmoid", "Selu", "ThresholdedRelu", "ScaledTanh", "ParametricSoftplus"]
    given = {"activation_alpha": [0.3], "activation_beta": [0.6], "activation_gamma": [1.2]}
    assert check(calls("FusedGemm", {"A": (3, 4), "B": (4, 5)}, {"activation": names, **given}, types=[FLOAT])) == 7
    check_refused(calls("FusedGemm", {"A": (3, 4), "B": (4, 5)}, {"activation": ["Elu", "Erf", None]}, types=[FLOAT]), "supported: ")  # fmt: skip


def test_an_activated_product_by_the_text():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4, 3)).astype(FLOAT), rng.normal(size=(2, 4, 5)).astype(FLOAT)
    call = Call("FusedMatMulActivation", (a, b), (True,), {"activation": "LeakyRelu", "activation_alpha": 0.1, "transA": 1, "alpha": 0.5})  # fmt: skip
    expected = 0.5 * a.astype(np.float64).transpose(0, 2, 1) @ b
    expected = np.where(expected < 0, np.float32(0.1) * expected, expected)
    for opset in (21, 13):
        np.testing.assert_allclose(computed(call, opset)[0], expected, rtol=1e-5, atol=1e-6)


def test_distances():
    made = calls("CDist", {"A": [(4, 5), (1, 5), (0, 5)], "B": [(3, 5), (1, 5)]}, {"metric": [None, "euclidean", "sqeuclidean"]}, types=[FLOAT, DOUBLE])  # fmt: skip
    assert check(made) == 36
    check_refused(calls("CDist", {"A": (2, 2), "B": (2, 2)}, {"metric": ["cosine"]}, types=[FLOAT]), "sqeuclidean or euclidean")  # fmt: skip


def regular(size, *batch):
    return np.random.default_rng(size).normal(size=(*batch, size, size)) + 3 * np.eye(size)


def test_inverses():
    xs = [regular(1), regular(2), regular(3), regular(2, 2), regular(3, 2, 2), np.array([[0.0, 2.0], [4.0, 0.0]])]
    assert check(calls("Inverse", {"X": xs}, types=[FLOAT, DOUBLE, HALF]), symbolic=False) == 18
    check_refused(
        calls("Inverse", {"X": regular(4)}, types=[FLOAT]), "Inverse gets matrices of 4 rows; supported: 1 to 3 rows"
    )


def test_what_is_sparse_is_refused():
    check_refused(
        [Call("SparseToDenseMatMul", (np.eye(2, dtype=FLOAT), np.eye(2, dtype=FLOAT)), (True,))], "COO or CSR"
    )
