"""Two values of one body, and whether their terms are the same."""

from __future__ import annotations

from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.fusion.reader import Reader
from opshift.passes.fusion.reading.all import RULES
from opshift.passes.fusion.terms import Terms

from tests.support import model

INPUTS = "float[2,3,4] x, float[2,3,4] y, float[4] v, double[2,3,4] dx, int64[2] i, int32[2] j, bool[2,3,4] b, bool[2,3,3] m, float u, float[2,4,3] k, float[N] open, bool open1, float[2,3,2] co, float[2,3,2] si"
CONSTANTS = """float half = {0.5}, float two = {2}, float three = {3}, float zero = {0}, float one = {1}, float six = {6}, float minus = {-1}, float nothing = {0}, float least = {1e-05},
    float[1] ones = {1}, float[1,1] twos = {2}, float[3] scale = {1, 1, 1}, float[3] bias = {0, 0, 0}, float[3] other = {1, 2, 1}, int64 n = {6}, int64 w = {4}, bool no = {0}, bool yes = {1},
    int64[1] last = {-1}, int64[1] first = {0}, int64[1] mid = {2}, int64[1] end = {4}, int64[1] three1 = {3}, int64[2] halves = {2, 2}, int64[2] parts = {1, 3}, int64[1] second = {1}, int64[2] both = {1, 2}, float quarter = {0.25}, int64 none0 = {0}"""


def terms_of(body: str, opset: int = 18) -> tuple[Reader, int, int]:
    source = model(f"{body} out = Identity(x)", opset, inputs=INPUTS, outputs="out", constants=CONSTANTS)
    source.graph.initializer.add(name="lowest", data_type=1, float_data=[float("-inf")])
    reader = Reader(Terms(), Scope(source.graph, Context(source, source), opset, path=()), RULES)
    for node in source.graph.node:
        reader.read(node)
    return reader, reader.term("d"), reader.term("e")


def differing(bodies: list[str | tuple[str, int]], same: bool) -> list[str]:
    """Those of which it is not so that they are the same, or are not."""
    found = []
    for given in bodies:
        body, opset = given if isinstance(given, tuple) else (given, 18)
        _, d, e = terms_of(body, opset)
        if (d == e) is not same:
            found.append(body)
    return found
