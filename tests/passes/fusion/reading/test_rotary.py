"""Rotated halves have one term, however they are taken apart and joined."""

from tests.passes.fusion.reading.support import differing

PARTS = "p, q = Split(x, halves)".replace("Split(", "Split<axis=-1>(")
SLICES = "p = Slice(x, first, mid, last) q = Slice(x, mid, end, last)"
SAME = [
    f"{PARTS} d = Slice(x, first, mid, last) e = Identity(p)", f"{PARTS} d = Slice(x, mid, end, mid) e = Identity(q)", "p, q = Split<axis=2,num_outputs=2>(x) d = Slice(x, mid, end, last, second) e = Identity(q)",
    ("p, q = Split<axis=-1,split=[2,2]>(x) r, s = Split<axis=2>(x) d = Identity(q) e = Identity(s)", 12), "d = Slice(x, first, last, last) e = Slice(x, first, three1, last)",
    f"{PARTS} a = Neg(q) d = Concat<axis=-1>(a, p) {SLICES.replace('p =', 'pp =').replace('q =', 'qq =')} aa = Neg(qq) e = Concat<axis=2>(aa, pp)",
    "a = Concat<axis=-1>(x, x) d = Cos(a) f = Cos(x) e = Concat<axis=-1>(f, f)", "a = Concat<axis=-1>(x, x) d = Sin(a) f = Sin(x) e = Concat<axis=-1>(f, f)",
    "a = Concat<axis=-1>(x, x) d = Unsqueeze(a, second) f = Unsqueeze(x, second) e = Concat<axis=-1>(f, f)",
    f"""{PARTS} a = Mul(p, co) f = Mul(q, si) g = Sub(a, f) h = Mul(p, si) l = Mul(q, co) o = Add(h, l) d = Concat<axis=-1>(g, o)
    n1 = Neg(q) t = Concat<axis=-1>(n1, p) cc = Concat<axis=-1>(co, co) ss = Concat<axis=-1>(si, si) r1 = Mul(x, cc) r2 = Mul(t, ss) e = Add(r1, r2)""",
]  # fmt: skip
APART = [
    f"{PARTS} d = Identity(p) e = Identity(q)", f"{PARTS} a = Neg(p) d = Concat<axis=-1>(a, q) f = Neg(q) e = Concat<axis=-1>(f, p)", f"{PARTS} d = Concat<axis=-1>(p, q) e = Concat<axis=-1>(q, p)", "d = Concat<axis=1>(x, x) e = Concat<axis=-1>(x, x)",
    "p, q = Split<axis=-1>(x, parts) r, s = Split<axis=-1>(x, halves) d = Identity(p) e = Identity(r)", "p, q = Split<axis=-1>(x, parts) a = Neg(q) d = Concat<axis=-1>(a, p) r, s = Split<axis=-1>(x, halves) f = Neg(s) e = Concat<axis=-1>(f, r)",
    "d = Slice(x, first, mid, second) e = Slice(x, first, mid, last)", "d = Slice(x, first, end, last, mid) e = Slice(x, first, mid, last)", "a = Concat<axis=-1>(x, x) d = Unsqueeze(a, last) f = Unsqueeze(x, last) e = Concat<axis=-1>(f, f)",
    f"""{PARTS} a = Mul(p, co) f = Mul(q, si) g = Add(a, f) h = Mul(p, si) l = Mul(q, co) o = Add(h, l) d = Concat<axis=-1>(g, o)
    n1 = Neg(q) t = Concat<axis=-1>(n1, p) cc = Concat<axis=-1>(co, co) ss = Concat<axis=-1>(si, si) r1 = Mul(x, cc) r2 = Mul(t, ss) e = Add(r1, r2)""",
    f"""{PARTS} a = Mul(p, co) f = Mul(q, si) g = Sub(a, f) h = Mul(p, si) l = Mul(q, si) o = Add(h, l) d = Concat<axis=-1>(g, o)
    n1 = Neg(q) t = Concat<axis=-1>(n1, p) cc = Concat<axis=-1>(co, co) ss = Concat<axis=-1>(si, si) r1 = Mul(x, cc) r2 = Mul(t, ss) e = Add(r1, r2)""",
]  # fmt: skip


def test_the_same_is_one_term():
    assert differing(SAME, True) == []


def test_others_are_others():
    assert differing(APART, False) == []
