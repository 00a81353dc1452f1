"""Names that are spelled like known ones."""

import pytest
from opshift.passes.spelling import hint, likely

KNOWN = ["Gelu", "Celu", "Resize", "GELU2"]


@pytest.mark.parametrize(("name", "found"), [("resise", "Resize"), ("GELU", "Gelu"), ("Zzz", None), ("", None)])
def test_the_likely_name_is_the_nearest_whatever_its_case(name, found):
    assert likely(name, KNOWN) == found
    assert likely(name, []) is None


def test_of_names_that_differ_in_case_alone_the_first_is_told():
    assert likely("gelu", ["GELU", "Gelu"]) == "GELU"


def test_a_hint_ends_an_error():
    assert hint("Rezise", KNOWN) == "; did you mean Resize?"
    assert hint("--opst", ["opset"], lambda found: f"--{found}") == "; did you mean --opset?"
    assert hint("Zzz", KNOWN) == ""
