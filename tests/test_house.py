"""The rooms of the house: what each is for, tests beside them, and nothing imported where import-linter cannot see it."""

import ast
import dis
import importlib.util
import re
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

import pytest

ROOT = Path(__file__).parents[1]
TOPS = ("opshift", "passes", "functions")
MODULES = sorted(path for top in TOPS for path in (ROOT / top).rglob("*.py"))
BY_NAME = {
    "opshift/__init__.py",  # what a user asks for, when it is asked for
    "opshift/adapters/serve.py",  # a file that opens models in a backend
    "opshift/files/formats.py",  # the reader of another format
    "opshift/catalog/lowest.py",  # the node tests of onnx
    "opshift/probing/worker.py",  # a backend's adapter
    "opshift/verification/feeding/asked.py",  # looks whether an engine is installed
    "functions/compile.py",  # every file of definitions
    "passes/model/lazy_numpy.py",
    "passes/model/messages.py",  # onnx's message classes without onnx
    "passes/simplification/rules/__init__.py",  # every file of rules, those of optimization too
    "passes/rewrite/registry.py",  # the file of an operator
}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


NAMED = re.compile("importlib|__import__|import_module|run_module")


def by_name(tree: ast.AST) -> bool:
    """Whether a module imports others by names that are computed or texts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and {alias.name for alias in node.names} & {"importlib", "importlib.util"}:
            return True
        if isinstance(node, ast.ImportFrom) and node.module in ("importlib", "importlib.util"):
            return True
        if isinstance(node, (ast.Name, ast.Attribute)) and getattr(node, "id", getattr(node, "attr", "")) in (
            "__import__",
            "import_module",
            "run_module",
        ):
            return True
    return False


def test_only_a_handful_of_look_ups_import_by_name():
    told = [path for path in MODULES if NAMED.search(path.read_text(encoding="utf-8"))]
    found = {str(path.relative_to(ROOT)) for path in told if by_name(tree(path))}
    assert found == BY_NAME


def test_an_import_by_name_is_found():
    for text in ("import importlib", "from importlib import import_module", '__import__("x")', "runpy.run_module(x)"):
        assert NAMED.search(text)
        assert by_name(ast.parse(text))
    assert not by_name(ast.parse("from importlib.metadata import version\nimport os.path"))


def test_each_room_says_in_a_sentence_what_it_is():
    for path in MODULES:
        if path.name == "__init__.py":
            said = (ast.get_docstring(tree(path)) or "").split("\n\n")[0]
            assert said.endswith("."), path


def test_each_room_stands_on_a_floor_of_the_contract_and_of_the_page():
    contract = (ROOT / ".ci" / "importlinter.ini").read_text(encoding="utf-8").split()
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for path in (*(ROOT / "opshift").iterdir(), *(ROOT / "passes").iterdir(), ROOT / "functions"):
        if (path.suffix == ".py" and not path.stem.startswith("__")) or (path / "__init__.py").exists():
            room = path.relative_to(ROOT).with_suffix("")
            name = ".".join(room.parts if room.parts[0] == "opshift" else ("opshift", *room.parts))
            assert name in contract, name
            assert f"`{room}" in page, room


TOPICS = {  # tests of what a whole room does, which are named after that
    "passes/operators/shared/classical": {"tree_kernels"},
    "opshift/jobs": {"narrow_integers"},
    "opshift/cli": {
        "endings",
        "fold_command",
        "for_targets",
        "ledger_command",
        "misspelt",
        "schema",
        "streams",
        "weights",
        "wildcards",
    },
    "opshift/files": {"drafts", "external_interrupted", "missing_imports"},
    "opshift/verification": {"classical", "mutants", "pairs", "tables"},
    "opshift/verification/feeding": {"looked_for", "realistic"},
    "passes/fusion": {
        "tables",
        "fold_attention",
        "fold_by_name",
        "fold_exported",
        "fold_groups",
        "fold_near",
        "fold_published",
        "fold_stays",
        "fold_vendors",
        "neighbours",
    },
    "passes/model": {"tables", "faults"},
    "passes/openvino": {"attributes"},
    "passes/rewrite": {"tables"},
    "passes/operators": {"ledger", "basic", "on_request", "over_boundaries"},
    "passes/operators/microsoft": {"nothing", "places", "recurrences"},
    "passes/operators/nn": {"attention_expanded", "bfloat16", "inside", "places", "pooling_by_norms"},
    "passes/operators/tensor": {"bfloat16", "inside", "resize_expanded", "resize_runtime"},
    "passes/conversion": {"tables", "versions", "survivors"},
    "passes/optimization": {"tables", "constants", "false_claims", "structure"},
    "passes/simplification": {"rules"},
    "passes/simplification/rules": {"growth", "held", "remarks"},
    "passes/analysis": {"tables", "claims_of_constants", "formals_handed_on", "formals_of_many"},
    "passes/analysis/inferring": {"rounds_of_inference"},
    "functions": {"openvino_carried", "openvino_inside", "openvino_runtime"},
}


def test_tests_lie_beside_what_they_test():
    for top in ("opshift", "passes", "functions"):
        for path in (ROOT / "tests" / top).rglob("test_*.py"):
            room, name = path.parent.relative_to(ROOT / "tests"), path.stem.removeprefix("test_")
            module = ROOT / room / name
            assert module.is_dir() or module.with_suffix(".py").exists() or name in TOPICS.get(str(room), ()), path


POSIX = re.compile(
    r"symlink_to|os\.symlink|mkfifo|\bresource\.|\bpty\.|/proc/|/dev/|os\.fork|SIGKILL|SIGALRM|os\.kill|chmod\(|\"bash\""
)
"""What only POSIX has."""


@pytest.mark.long
def test_what_only_posix_has_is_marked():
    """`-m "not posix"` leaves it out; what is replaced where POSIX is not has a test of its own."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path.name not in ("test_house.py", "test_without_posix.py"):
            text = path.read_text(encoding="utf-8")
            assert not POSIX.search(text) or "pytest.mark.posix" in text, path


def test_topics_are_no_modules():
    for room, names in TOPICS.items():
        for name in names:
            assert (ROOT / "tests" / room / f"test_{name}.py").exists(), (room, name)
            assert not (ROOT / room / f"{name}.py").exists(), (room, name)


def compiled(path: Path) -> CodeType:
    """A module as it was compiled to be imported, which takes a tenth of the time to read that its text does."""
    code = SourceFileLoader(path.stem, str(path)).get_code(path.stem)
    assert code is not None
    return code


CHANGING = {dis.opmap[f"{what}_{where}"] for what in ("STORE", "DELETE") for where in ("ATTR", "SUBSCR", "GLOBAL")}
QUESTION = re.compile("_*(is|are|has|may|can|does|was|fits|holds|needs)_")


def changing_questions(code: CodeType) -> set[str]:
    """The functions that are named as questions, and give an attribute, an item or a global another value."""
    inside = [held for held in code.co_consts if isinstance(held, CodeType)]
    changes = QUESTION.match(code.co_name) and not CHANGING.isdisjoint(code.co_code[::2])
    return set().union({code.co_name} if changes else (), *map(changing_questions, inside))


def test_what_is_named_as_a_question_changes_nothing():
    for path in MODULES:
        assert not changing_questions(compiled(path)), path


def test_a_question_that_changes_something_is_found():
    for change in ("x.n = 1", "x[0] = 1", "del x[0]", "x.n += 1"):
        assert changing_questions(compile(f"class C:\n  def _is_new(x):\n    {change}", "", "exec")) == {"_is_new"}
        assert not changing_questions(compile(f"def renew(x):\n    {change}", "", "exec"))
    assert not changing_questions(compile("def is_new(x):\n    y = x.n\n    return y[0]", "", "exec"))


def test_every_room_is_installed():
    """The folders are mapped by name, so that a new one is missing from the wheel until it is listed."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    listed = set(ast.literal_eval(text.partition("\npackages = ")[2].partition("]")[0] + "]"))
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in MODULES if path.name == "__init__.py"}
    assert listed == {name if name.startswith("opshift") else f"opshift.{name}" for name in found}


def test_what_benchmarks_take_from_here_is_there():
    """They run by hand; mypy does not read them, for they need what is not installed everywhere."""
    for path in (ROOT / "benchmarks").glob("*.py"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("opshift"):
                found = importlib.import_module(node.module)
                for name in node.names:
                    inside = f"{node.module}.{name.name}"
                    assert hasattr(found, name.name) or importlib.util.find_spec(inside), (path, inside)
