"""Products of matrices and masks have one term, however they are written."""

from tests.passes.fusion.reading.support import differing

SAME = [
    "a = Mul(x, half) d = MatMul(a, k) f = MatMul(x, k) e = Mul(f, half)", "a = Mul(k, half) f = Mul(x, two) d = MatMul(f, a) e = MatMul(x, k)", 'd = Einsum<equation="bij,bjk->bik">(x, k) e = MatMul(x, k)',
    'd = Einsum<equation="bij,bkj->bik">(x, y) t = Transpose<perm=[0,2,1]>(y) e = MatMul(x, t)', 'd = Einsum<equation="bij, bjk -> bki">(x, k) f = MatMul(x, k) e = Transpose<perm=[0,2,1]>(f)',
    'd = Einsum<equation="bij,bjk->bik">(x, k) f = Einsum<equation="cde,cef->cdf">(x, k) e = Identity(f)',
    "w0 = Where(m, zero, lowest) s = MatMul(x, k) d = Add(s, w0) e = Where(m, s, lowest)", "w0 = Where(m, zero, lowest) s = MatMul(x, k) d = Add(w0, s) e = Where(m, s, lowest)",
    "s = MatMul(x, k) p = Softmax(s) n1 = IsNaN(p) g = Where(n1, zero, p) d = MatMul(g, x) e = MatMul(p, x)",
    "s = MatMul(x, k) f = Where(m, s, lowest) p = Softmax(f) g = Where(m, p, zero) d = MatMul(g, x) e = MatMul(p, x)", "s = MatMul(x, k) p = Softmax(s) n1 = Equal(s, lowest) g = Where(n1, zero, p) d = MatMul(g, x) e = MatMul(p, x)",
]  # fmt: skip
APART = [
    "d = MatMul(x, k) e = MatMul(k, x)", 'd = Einsum<equation="bij,bjk->bki">(x, k) e = MatMul(x, k)', 'd = Einsum<equation="bij,bij->b">(x, y) e = MatMul(x, k)', 'd = Einsum<equation="bii,bjk->bik">(m0, k) e = MatMul(x, k)'.replace("m0", "x"),
    'd = Einsum<equation="bij,cjk->bik">(x, k) e = MatMul(x, k)', 'd = Einsum<equation="...ij,...jk->...ik">(x, k) f = Einsum<equation="bij,bjk->bik">(x, k) e = Identity(f)', 'd = Einsum<equation="bij->bji">(x) e = Identity(k)',
    "w0 = Where(m, zero, minus) s = MatMul(x, k) d = Add(s, w0) e = Where(m, s, lowest)", "w0 = Where(m, one, lowest) s = MatMul(x, k) d = Add(s, w0) e = Where(m, s, lowest)", "s = MatMul(x, k) d = Where(m, s, lowest) e = Where(m, lowest, s)",
    "s = MatMul(x, k) p = Softmax(s) n1 = IsNaN(s) g = Where(n1, zero, p) d = MatMul(g, x) e = MatMul(p, x)", "s = MatMul(x, k) p = Softmax(s) g = Where(m, p, zero) d = MatMul(g, x) e = MatMul(p, x)", "s = MatMul(x, k) p = Softmax(s) g = Where(m, zero, p) d = MatMul(g, x) e = MatMul(p, x)",
    "s = MatMul(x, k) p = Softmax(s) n1 = Equal(s, zero) g = Where(n1, zero, p) d = MatMul(g, x) e = MatMul(p, x)", "s = MatMul(x, k) p = Softmax(s) n1 = IsNaN(p) g = Where(n1, one, p) d = MatMul(g, x) e = MatMul(p, x)", "s = MatMul(x, k) n1 = IsNaN(s) g = Where(n1, zero, s) d = MatMul(g, x) e = MatMul(s, x)",
]  # fmt: skip


def test_the_same_is_one_term():
    assert differing(SAME, True) == []


def test_others_are_others():
    assert differing(APART, False) == []
