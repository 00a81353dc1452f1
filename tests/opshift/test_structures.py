"""The command line over models with something wrong: an exit code that says so, or what computes the same."""

import pytest

from opshift import cli
from tests.opshift import fuzz_structure


@pytest.mark.newest
def test_what_no_exporter_writes_is_refused_or_computes_the_same(tmp_path):
    codes = fuzz_structure.run(tmp_path, 60)
    assert {cli.DONE, cli.REFUSED, cli.UNREADABLE} <= set(codes)
