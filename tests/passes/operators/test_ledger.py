"""Every change of every operator has a decision, made once and in the file of the operator's family."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import onnx.defs
import pytest
from opshift.passes import operators
from opshift.passes.model import schemas
from opshift.passes.operators.microsoft import files as vendor_files
from opshift.passes.rewrite import registry
from opshift.passes.rewrite.operator_files import FILES
from opshift.passes.rewrite.registry import Pair
from opshift.passes.rewrite.says import sentence_of

from opshift import functions

DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview.training")


def transitions() -> Iterator[tuple[str, str, int, int]]:
    """Every pair of adjacent versions that the installed onnx knows: domain, operator, older, newer."""
    known: dict[tuple[str, str], set[int]] = defaultdict(set)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain in DOMAINS:
            known[schema.domain, schema.name].add(schema.since_version)
    for (domain, op), versions in sorted(known.items()):
        yield from ((domain, op, older, newer) for older, newer in pairwise(sorted(versions)))


def family(domain: str, op: str, version: int) -> str:
    found = schemas.schema(domain, op, version)
    return found.family if found else ""


def decided(domain: str, op: str, older: int, newer: int) -> bool:
    return registry.step(domain, op, newer) is not None or schemas.difference(domain, op, older, newer) != "changed"


def test_every_transition_is_decided():
    undecided = [
        f"{domain or 'ai.onnx'}::{op} {older} -> {newer} ({family(domain, op, newer)})"
        for domain, op, older, newer in transitions()
        if not decided(domain, op, older, newer)
    ]
    assert not undecided, "\n".join(["transitions without a decision:", *undecided])


def test_an_undecided_transition_is_found():
    """The question above can be answered with no: this one is decided by its registration alone."""
    key = ("", "QuantizeLinear", 13)
    assert decided("", "QuantizeLinear", 10, 13)
    held = registry._steps.pop(key)
    try:
        assert not decided("", "QuantizeLinear", 10, 13)
    finally:
        registry._steps[key] = held


def test_every_registration_names_a_transition():
    existing = {(domain, op, newer) for domain, op, _, newer in transitions()}
    introduced = {key for key in registry.all_registrations() if key[2] == schemas.versions(*key[:2])[0]}
    assert registry.all_registrations().keys() <= existing | introduced


def test_a_first_version_has_only_a_way_down():
    for (domain, op, version), pair in registry.all_registrations().items():
        if version == schemas.versions(domain, op)[0]:
            assert pair.up is None
            assert pair.down is not None


def test_an_operator_without_a_definition_says_why():
    silent = [
        op
        for domain in DOMAINS[:2]
        for op in schemas.operators(domain)
        if (first := schemas.versions(domain, op)[0]) > 1
        and not functions.has_definition(domain, op)
        and registry.step(domain, op, first) is None
    ]
    assert not silent


@pytest.mark.long
def test_what_several_operator_files_use_lies_in_shared():
    """No file of a family imports another one."""
    room, found = Path(operators.__file__).parent, set()
    for path in room.glob("*/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            inside = [name.split(".")[3] for name in names if name.startswith(f"{operators.__name__}.")]
            found |= {str(path.relative_to(room)) for family in inside if family != "shared"}
    assert not found


def test_every_file_is_told_by_a_table():
    """What no line of `operator_files` or `microsoft/files` names is never imported, so that its steps are not registered."""
    room = Path(operators.__file__).parent
    files = {f"{path.parent.name}.{path.stem}" for path in room.glob("*/[!_]*.py") if path.parent.name != "shared"}
    files.remove("microsoft.files")  # the table itself
    assert files == {file for table in (FILES, vendor_files.FILES) for ops in table.values() for file in ops.values()}


def test_every_operator_is_told_in_the_folder_of_its_family():
    for domain, ops in FILES.items():
        for op, file in ops.items():
            assert file.partition(".")[0] == family(domain, op, schemas.latest(domain)), op


@pytest.mark.parametrize(
    "register",
    [
        lambda: registry.same("RNN", 14, ""),
        lambda: registry.changed("RNN", 14, Pair()),
        lambda: registry.cannot("RNN", 14, ""),
    ],
)
def test_a_second_registration_is_an_error(register):
    before = registry.all_registrations()
    with pytest.raises(ValueError, match="a transition of RNN to version 14 is already registered"):
        register()
    assert registry.all_registrations() == before


@pytest.mark.parametrize(
    ("op", "version", "why"),
    [
        ("RNN", 1, "1 is the first version of RNN"),
        ("RNN", 8, r"RNN has no version 8 \(known: 1, 7, 14, 22\)"),
        ("RNN", 29, r"RNN has no version 29 \(known: 1, 7, 14, 22\)"),
        ("NoSuchOperator", 2, r"NoSuchOperator has no version 2 \(known: none\)"),
    ],
)
def test_a_registration_without_a_transition_is_an_error(op, version, why):
    with pytest.raises(ValueError, match=why):
        registry.changed(op, version, Pair())


def test_what_needs_nothing_says_why():
    """A registration that does nothing carries what a reader of both texts found."""
    silent = [key for key, pair in registry.all_registrations().items() if not (pair.up or pair.down or pair.why)]
    assert not silent


def test_every_step_says_what_it_does():
    """Reports and tables show the sentence; a docstring is gone under `python -OO`."""
    steps = {s for pair in registry.all_registrations().values() if not pair.why for s in (pair.up, pair.down) if s}
    assert len(steps) > 250
    assert not {step.__qualname__ for step in steps if sentence_of(step) == step.__name__.replace("_", " ")}


def test_a_sentence_names_its_own_operator():
    """`Moved axes of Squeeze ...` in the report of an Unsqueeze sends a reader to another node."""
    subject = re.compile(
        r"(?:Replaced|(?:Moved|Set|Dropped)(?: \w+)+? of|(?:axes|axis|(?:attribute|mode) \w+) of) ([A-Z]\w+)"
    )
    told = [(op, step) for (_, op, _), pair in registry.all_registrations().items() for step in (pair.up, pair.down)]
    told += [(op, defined.step) for (_, op), defined in registry._on_request.items()]
    ops = {op for op, _ in told}
    named = [
        (op, sentence_of(step)) for op, step in told if step and ops.intersection(subject.findall(sentence_of(step)))
    ]
    assert len(named) > 250
    assert not [(op, said) for op, said in named if not re.search(rf"\b{op}\b", said)]
