"""Einsum pair by pair, against numpy.einsum."""

import numpy as np
import pytest

from tests.support import check, check_computes, check_refused

RNG = np.random.default_rng(0)
EQUATIONS = [
    ("ij,jk", (2, 3), (3, 4)),
    ("ij , jk -> ki", (2, 3), (3, 4)),
    ("ij->i", (3, 4)),
    ("ba", (3, 4)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("iii->i", (3, 3, 3)),
    ("iij,jk->ik", (3, 3, 2), (2, 4)),
    ("...ii->...i", (2, 3, 3)),
    ("i,i", (3,), (3,)),
    ("i,j->ij", (2,), (3,)),
    ("ij,->ij", (2, 3), ()),
    ("->", ()),
    ("ab,cd->", (2, 3), (4, 5)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bhwc,hkc->bhwk", (2, 3, 4, 5), (3, 6, 5)),
    ("abcd,bd->ca", (2, 3, 4, 5), (3, 5)),
    ("abcd,cdef->abef", (2, 3, 4, 5), (4, 5, 2, 3)),
    ("abc,bcd,de->ae", (2, 3, 4), (3, 4, 5), (5, 6)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (2, 5, 4, 6)),
    ("...,...", (2, 3), (2, 3)),
    ("ab,ab,ab->a", (2, 3), (2, 3), (2, 3)),
    ("aB,Ba", (2, 3), (3, 2)),
]


def dims(shape):
    return f"[{','.join(map(str, shape))}]" if shape else ""


@pytest.mark.parametrize("kind", ["float", "double", "float16", "int64", "int8", "uint32"])
@pytest.mark.parametrize("case", EQUATIONS, ids=lambda case: case[0])
def test_equations(case, kind):
    equation, *shapes = case
    dtype = {"float": np.float32, "double": np.float64}.get(kind, kind)
    arrays = [
        (np.asarray(RNG.normal(size=shape)) * 4).astype(np.int64 if kind[0] in "iu" else float).astype(dtype)
        for shape in shapes
    ]
    wide = arrays if kind[0] in "iu" else [a.astype(np.float64) for a in arrays]
    expected = np.asarray(np.einsum(equation.replace(" ", ""), *wide)).astype(dtype)
    names = "abcd"[: len(shapes)]
    rtol = {"float": 1e-5, "double": 1e-12, "float16": 2e-3}.get(kind, 0)
    check_computes(
        f'y = Einsum<equation="{equation}">({", ".join(names)})', 12, 11, expected, feeds=dict(zip(names, arrays, strict=True)),
        grade="close" if rtol else "exact", rtol=rtol, atol=rtol * 10,
        inputs=", ".join(f"{kind}{dims(s)} {n}" for n, s in zip(names, shapes, strict=True)), outputs=f"{kind}{dims(expected.shape)} y",
    )  # fmt: skip


@pytest.mark.parametrize("equation", ["bij,bjk->bik", "bij,bkj->kbi", "bij,bjk->b"])
def test_sizes_known_at_run_time(equation):
    a, b = RNG.normal(size=(2, 3, 4)).astype(np.float32), RNG.normal(size=(2, 4, 4)).astype(np.float32)
    expected = np.einsum(equation, a, b)
    check_computes(
        f'y = Einsum<equation="{equation}">(a, b)', 12, 11, expected, feeds={"a": a, "b": b}, grade="close", rtol=1e-5, atol=1e-5,
        inputs="float[B,I,J] a, float[B,J,K] b", outputs=f"float{'[' + ','.join('XYZ'[: expected.ndim]) + ']'} y",
    )  # fmt: skip


def test_what_an_ellipsis_covers_is_broadcast_even_where_it_is_summed():
    a, b = RNG.normal(size=(1, 3)).astype(np.float32), RNG.normal(size=(2, 3)).astype(np.float32)
    check_computes(
        'y = Einsum<equation="...i,...i->i">(a, b)', 12, 11, (a * b).sum(axis=0), feeds={"a": a, "b": b}, grade="close",
        rtol=1e-5, atol=1e-6, inputs="float[1,3] a, float[2,3] b", outputs="float[3] y",
    )  # fmt: skip


def test_a_diagonal_leaves_infinities_alone():
    x = np.array([[1, np.inf], [np.nan, 2]], np.float32)
    check_computes(
        'y = Einsum<equation="ii->i">(x)', 12, 11, np.array([1, 2], np.float32), feeds={"x": x}, grade="close",
        inputs="float[2,2] x", outputs="float[2] y",
    )  # fmt: skip


def test_a_matrix_product_is_one_node():
    check(
        'y = Einsum<equation="bij,bjk->bik">(a, b)', 12, "y = MatMul(a, b)", 11, grade="close",
        inputs="float[2,3,4] a, float[2,4,5] b", outputs="float[2,3,5] y", feeds={n: RNG.normal(size=s).astype(np.float32) for n, s in (("a", (2, 3, 4)), ("b", (2, 4, 5)))}, rtol=1e-5, atol=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("equation", "why"),
    [
        ("ij,jk", "the equation has 2 terms, but there are 1 operands"),
        ("ijk", "does not fit an operand of rank 2"),
        ("i-", "does not fit an operand of rank 2"),
        ("ijk...", "ellipses"),
    ],
)
def test_what_does_not_fit_is_refused(equation, why):
    check_refused(f'y = Einsum<equation="{equation}">(x)', 12, 11, why, inputs="float[2,3] x", outputs="float[K] y")


def test_a_diagonal_of_unknown_size_is_refused():
    check_refused(
        'y = Einsum<equation="ii">(x)', 12, 11, "whose size is unknown", inputs="float[N,N] x", outputs="float y"
    )


@pytest.mark.parametrize(
    ("equation", "dims"),
    [
        ("ijk,kl->ijl", ("I,3,K", "K,L")),
        ("ijk,kl->ijl", ("I,J,K", "K,5")),
        ("ijk,kl->ijl", ("2,J,4", "4,5")),
        ("ijk,kl->ijl", ("2,3,4", "4,5")),
        ("abcd,cdef->abef", ("2,B,4,D", "4,D,2,3")),
        ("bij,bjk->bik", ("B,I,J", "B,J,K")),
        ("bij,bjkl->bikl", ("B,I,5", "B,5,4,2")),
        ("bij,bjkl->bikl", ("B,3,5", "B,5,K,2")),
        ("bijd,bjdk->bik", ("B,3,J,2", "B,J,2,4")),
        ("bidj,bjk->bidk", ("B,3,D,J", "B,J,4")),
        ("bijd,bjdk->bik", ("B,I,5,2", "B,5,2,K")),
        ("bij,bjkl->bikl", ("2,I,5", "2,5,4,2")),
        ("bij,bjkl->bikl", ("0,I,5", "0,5,4,2")),
        ("ij,jk->", ("I,3", "3,K")),
    ],
)
@pytest.mark.parametrize("empty", ["", *"abcdefijkl"])
def test_any_size_may_be_known_at_run_time_and_be_0(equation, dims, empty):
    operands, out = equation.split("->")[0].split(","), equation.split("->")[1]
    if empty and not any(empty in operand for operand in operands):
        return
    given, feeds = [], []
    for operand, sizes in zip(operands, dims, strict=True):
        written = sizes.split(",")
        if empty in operand and empty and written[operand.index(empty)].isdigit():
            written[operand.index(empty)] = "0"
        default = dict(zip("abcdefijkl", (2, 3, 4, 5, 2, 3, 2, 3, 4, 5), strict=True))
        shape = [
            int(w) if w.isdigit() else 0 if label == empty else default[label]
            for w, label in zip(written, operand, strict=True)
        ]
        given.append(",".join(written))
        feeds.append(RNG.normal(size=shape).astype(np.float32))
    check_computes(
        f'y = Einsum<equation="{equation}">(x0, x1)', 12, 11, np.asarray(np.einsum(equation, *feeds)), feeds=dict(zip(("x0", "x1"), feeds, strict=True)),
        grade="close", rtol=1e-4, atol=1e-5, inputs=", ".join(f"float[{d}] x{k}" for k, d in enumerate(given)),
        outputs=f"float[{','.join('PQRS'[: len(out)])}] y" if out else "float y",
    )  # fmt: skip


@pytest.mark.parametrize("batch", [(2, 3), (0, 3), (2, 0)])
def test_axes_under_an_ellipsis_may_be_empty_at_run_time(batch):
    a, b = (RNG.normal(size=shape).astype(np.float32) for shape in ((*batch, 4, 5), (*batch, 5, 2, 3)))
    expected = np.einsum("...ij,...jkl->...ikl", a, b)
    check_computes(
        'y = Einsum<equation="...ij,...jkl->...ikl">(a, b)', 12, 11, expected, feeds={"a": a, "b": b}, grade="close",
        rtol=1e-4, atol=1e-5, inputs="float[M,N,I,5] a, float[M,N,5,2,3] b", outputs="float[M,N,I,2,3] y",
    )  # fmt: skip


@pytest.mark.parametrize("sizes", ["known", "open"])
@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", ((2, 1), (3, 2))),
        ("ij,ij->i", ((2, 1), (2, 3))),
        ("ij,ij->ij", ((2, 3), (1, 3))),
        ("ij,jk,kl->il", ((2, 1), (3, 2), (1, 2))),
        ("...ij,jk->...ik", ((2, 3, 1), (4, 2))),
        ("ij,jk->ik", ((2, 1), (0, 2))),
    ],
)
def test_an_axis_of_size_1_is_repeated_as_engines_do(equation, shapes, sizes):
    operands = {f"x{k}": RNG.normal(size=shape).astype(np.float32) for k, shape in enumerate(shapes)}
    told = [
        [str(n) if n == 1 or sizes == "known" else f"{name}_{k}" for k, n in enumerate(x.shape)]
        for name, x in operands.items()
    ]
    expected = np.asarray(np.einsum(equation, *operands.values()))
    check_computes(
        f'y = Einsum<equation="{equation}">({", ".join(operands)})', 12, 11, expected, feeds=operands, grade="close", rtol=1e-5,
        atol=1e-6, inputs=", ".join(f"float[{','.join(dims)}] {name}" for dims, name in zip(told, operands, strict=True)),
        outputs=f"float[{','.join('PQRS'[: expected.ndim])}] y",
    )  # fmt: skip


@pytest.mark.parametrize(("equation", "dims"), [("ij,jk->ik", ("2,3", "4,2")), ("ii->i", ("2,3",))])
def test_a_letter_of_two_sizes_is_refused(equation, dims):
    inputs = ", ".join(f"float[{d}] x{k}" for k, d in enumerate(dims))
    names = ", ".join(f"x{k}" for k in range(len(dims)))
    io = {"inputs": inputs, "outputs": f"float[{','.join('AB'[: len(dims)])}] y"}
    check_refused(f'y = Einsum<equation="{equation}">({names})', 12, 11, "sizes", **io)
