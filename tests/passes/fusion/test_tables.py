"""Tables name operators and element types that there are."""

from tests.tables import unknown


def test_each_name_is_known():
    assert unknown("opshift.passes.fusion") == set()
