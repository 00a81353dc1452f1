"""Tables name operators and element types that there are."""

from tests.passes.operators.shared.classical.ensembles import MODES
from tests.tables import unknown


def test_each_name_is_known():
    assert unknown("opshift.verification", "NaN", *MODES, "BRANCH_MEMBER", "MNN") == set()
