"""The package is ready to be published: what its metadata say holds, and what messages name exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import opshift

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
README = (ROOT / "README.md").read_text("utf-8")


def test_the_version_has_one_source():
    assert "version" not in PROJECT
    assert PYPROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "opshift.__version__"}
    assert f"## {opshift.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_links_of_the_readme_resolve_outside_the_repository():
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert links
    base = PROJECT["urls"]["Source"] + "/blob/main/"
    for link in links:
        assert link.startswith("https://"), link
        if link.startswith(base):
            assert (ROOT / link.removeprefix(base)).exists(), link


def test_classifiers_name_the_versions_and_systems_that_are_tested():
    workflow = (ROOT / ".github/workflows/tests.yml").read_text("utf-8")
    tested = re.findall(r'"(3\.\d+)"', workflow[workflow.index("python: [") :].partition("]")[0])
    named = [held.rpartition(" ")[2] for held in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", held)]
    assert named == tested
    assert PROJECT["requires-python"] == f">={named[0]}"
    for system, image in (("MacOS", "macos"), ("Windows", "windows"), ("Linux", "ubuntu")):
        assert any(held.endswith(system) for held in PROJECT["classifiers"])
        assert f"{image}-latest" in workflow


def test_what_is_needed_is_numpy_onnx_and_onnxruntime():
    needed = {re.split(r"[<>=;]", held)[0] for held in PROJECT["dependencies"]}
    assert needed == {"numpy", "onnx", "onnxruntime", "tomli"}


@pytest.mark.parametrize("top", ["opshift", "passes", "functions"])
def test_extras_that_messages_name_exist(top):
    for path in (ROOT / top).rglob("*.py"):
        for extra in re.findall(r"opshift\[(\w+)\]", path.read_text("utf-8")):
            assert extra in PROJECT["optional-dependencies"], (path, extra)


def test_extras_of_the_readme_exist():
    told = README[README.index("Extras: ") :].partition(".\n")[0]
    assert set(re.findall(r"`(\w+)`", told)) <= PROJECT["optional-dependencies"].keys()


def test_every_folder_of_the_repository_is_in_the_source_distribution():
    taken = (ROOT / "MANIFEST.in").read_text("utf-8")
    for name in ("tests", "docs", "examples", "benchmarks", "CHANGELOG.md", "CONTRIBUTING.md", "zensical.toml"):
        assert name in taken


def test_a_checkout_runs_beside_an_installed_package():
    """As Python finds it first where one works in it; an editable installation finds its rooms by other means, which are taken away."""
    code = (
        "import sys; sys.meta_path = [found for found in sys.meta_path if 'editable' not in str(found)];"
        "import opshift.passes, opshift.functions, opshift; print(opshift.passes.__file__, opshift.functions.__file__)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    found = [str(ROOT / room / "__init__.py") for room in ("passes", "functions")]
    assert done.stdout.split() == found, done.stderr


def test_the_command_begins_where_an_interrupt_is_quiet():
    assert PROJECT["scripts"] == {"opshift": "opshift.cli.start:command"}
