"""What moves values has one term however it is spelled, and another where it moves them elsewhere."""

import pytest
from opshift.passes.fusion.keys import TENSOR

from tests.passes.fusion.reading.test_dims import IO, SIZES, reader_of

SAME = [
    "d = Transpose<perm=[1,0]>(m) e = Transpose(m)", "a = Transpose(m) d = Transpose(a) e = Identity(m)",
    "a = Transpose<perm=[1,2,0]>(x) d = Transpose<perm=[1,2,0]>(a) e = Transpose<perm=[2,0,1]>(x)",
    "a = Mul(x, half) d = Transpose<perm=[1,2,0]>(a) b = Transpose<perm=[1,2,0]>(x) e = Mul(b, half)",
    "d = Reshape(x, flat) e = Identity(x)", "a = Reshape(x, rest) d = Reshape(a, flat2) e = Reshape(x, flat2)",
    "a = Squeeze(thin, one) d = Unsqueeze(a, one) e = Identity(thin)", "d = Unsqueeze(m, two) e = Unsqueeze(m, minus)",
    "a = Squeeze(thin, one) t = Shape(thin) d = Reshape(a, t) e = Identity(thin)",
    f"{SIZES} d = Gather(h, lonely) e = Squeeze(hn)", f"{SIZES} d = Gather(h, pair) e = Slice(h, zero, two)", f"{SIZES} d = Gather(h, minus) e = Constant<value_ints=[4]>()",
    f"{SIZES} d = Concat<axis=0>(hn, hm, four) e = Identity(h)", f"{SIZES} d = Concat<axis=-1>(hn, hm) e = Slice(h, zero, two)", f"{SIZES} d = Slice(h, zero, minus) e = Slice(h, zero, two)",
    f"{SIZES} d = Slice(h, zero, two, zero) e = Slice(h, zero, two, zero, one)", f"{SIZES} d = Shape<start=1,end=2>(x) e = Identity(hm)",
    "d = Range(lonely, three0, ax1) e = Constant<value_ints=[0,1,2]>()",
    "d = ConstantOfShape<value=int64[1] {7}>(two) e = Constant<value_ints=[7,7]>()", "d = Expand(seven, two) e = Constant<value_ints=[7,7]>()",
    f"{SIZES} d = Expand(x, h) e = Identity(x)",
    "d = Mul(two, four) e = Constant<value_ints=[8]>()",
    "d = Reshape(seven, minus) e = Reshape(seven, one)",
]  # fmt: skip
APART = [
    "d = Transpose<perm=[1,0,2]>(x) e = Transpose<perm=[2,0,1]>(x)", "d = Reshape(x, rest) e = Identity(x)", "d = Unsqueeze(m, zero) e = Unsqueeze(m, one)",
    "d = Unsqueeze(m, zero) e = Identity(m)", "a = Unsqueeze(m, one) d = Squeeze(a) e = Unsqueeze(m, one)", f"{SIZES} d = Gather(h, lonely) e = Gather(h, ax1)",
    f"{SIZES} d = Slice(h, zero, one) e = Slice(h, one, two)", f"{SIZES} d = Slice(h, zero, two, zero, two) e = Slice(h, zero, two)", f"{SIZES} d = Equal(hn, hm) e = Equal(hn, hn)",
    f"{SIZES} d = Gather<axis=1>(places, lonely) e = Gather(places, lonely)", "d = Expand(m, big) e = Identity(m)", "d = Range(lonely, three0, ax1) e = Range(ax1, three0, ax1)",
    f"{SIZES} d = Concat<axis=0>(hn, hm) e = Concat<axis=0>(hm, hn)", f"{SIZES} d = Where(b, hn, hm) e = Identity(hn)", f"{SIZES} d = Shape<start=1>(x) e = Identity(h)",
]  # fmt: skip
MORE = """, float half = {0.5}, int64[1] flat2 = {-1}, int64 three0 = {3}, int64 seven = {7}, int64[3] shape = {1, 1, 1}, bool[1] yes = {1}, bool[1] no = {0}, int64[3] big = {2, 1, 1}"""


def terms_of(body):
    inputs = IO["inputs"] + ", bool[1] b"
    reader = reader_of(body, constants=IO["constants"] + MORE, inputs=inputs)
    return reader, reader.term("d"), reader.term("e")


@pytest.mark.parametrize("body", SAME)
def test_the_same_is_one_term(body):
    reader, d, e = terms_of(body)
    if d != e:
        assert reader.elements("d") == reader.elements("e") is not None
        assert {reader.terms.keys[t].kind for t in (d, e)} >= {TENSOR}


@pytest.mark.parametrize("body", APART)
def test_others_are_others(body):
    reader, d, e = terms_of(body)
    assert d != e
    assert reader.elements("d") != reader.elements("e") or reader.elements("d") is None
