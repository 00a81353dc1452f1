"""The command line over models with something wrong: an exit code that says so, or what computes the same."""

import pytest

from opshift.jobs import exit_codes
from tests.opshift import fuzz_structure


@pytest.mark.long
@pytest.mark.newest
def test_what_no_exporter_writes_is_refused_or_computes_the_same(tmp_path):
    codes = fuzz_structure.run(tmp_path, 60)
    assert {exit_codes.DONE, exit_codes.REFUSED, exit_codes.UNREADABLE} <= set(codes)
