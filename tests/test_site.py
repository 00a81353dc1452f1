"""The site: a page for each operator, and nothing that only those who write its pages need."""

import importlib
import sys
from pathlib import Path

import pytest
from opshift.passes.inlining import definable
from opshift.passes.model import schemas

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


@pytest.fixture
def make(monkeypatch):
    """The modules that prepare the site, which stand beside its pages."""
    monkeypatch.syspath_prepend(str(DOCS / "make"))
    yield importlib.import_module
    for name in ("index", "inserted", "operators"):
        sys.modules.pop(name, None)


def menu(entries):
    for entry in entries:
        yield from [entry] if isinstance(entry, str) else menu(next(iter(entry.values())))


def test_every_page_is_in_the_menu_once():
    told = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"]
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} - {"support.md", "definitions.md"}
    assert sorted(menu(told)) == sorted([*pages, "operators/index.md"])


def test_every_operator_has_a_file_of_its_own(make):
    operators = make("operators")
    every = [(domain, op) for domain in operators.DOMAINS for op in definable.operators(domain)]
    assert {"", "ai.onnx.ml", *schemas.VENDORS} <= {domain for domain, _ in every}
    assert len({operators.spelled(op).lower() for op in every}) == len(every)


def test_the_list_of_operators(make):
    listed = make("operators").listed([("", "Gelu"), ("com.microsoft", "BeamSearch")])
    assert '<td><a href="Gelu.html">Gelu</a></td><td>20</td><td>1</td><td>close</td><td>yes</td>' in listed
    assert (
        '<a href="com.microsoft.BeamSearch.html">BeamSearch</a> <small>com.microsoft</small></td><td>1</td>' in listed
    )


def test_the_page_of_an_operator(make):
    operators = make("operators")
    text = "\n".join(operators.page(("", "Gelu")))
    assert text.startswith("# Gelu\n")
    for told in ("--op Gelu", "opshift fold in.onnx out.onnx\n", "Reaches down to opset 1.", "### 20, its first"):
        assert told in text
    lacking, partly = text[text.index("## Targets that lack it") :].split("## Targets that run some calls of it")
    assert "**: lacked\n" in lacking
    assert "tensorrt 8.0" in lacking
    assert "**: no other call in the tables runs\n" in partly
    assert "**: only `mode` and \\*x\\*" in "**: " + operators.quoted("only `mode` and *x*")
    refused = "\n".join(operators.page(("com.microsoft", "BeamSearch")))
    assert "None: it runs its subgraphs in a search" in refused


def test_what_readers_do_not_see(make):
    prepared = make("inserted").prepared
    assert prepared("Written by `a command`; do not edit. What it is.\n") == "What it is.\n"
    assert prepared("[all](../support.md) and [some](definitions.md)\n") == (
        "[all](../operators/index.md) and [some](operators/index.md)\n"
    )
    assert "## opshift convert" in prepared("<!-- commands -->")
    drawn = prepared("![What it does](assets/opshift.svg)\n")
    assert drawn.startswith('<div class="wide"><svg')
    assert '\n\n<div class="narrow"><svg' in drawn


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_no_page_asks_its_readers_not_to_edit_it(page, make):
    assert "do not edit" not in make("inserted").prepared(page.read_text(encoding="utf-8"))
