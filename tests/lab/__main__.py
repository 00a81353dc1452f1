"""`python -m tests.lab`: list what is run by hand; `python -m tests.lab VERB ...` runs one, `VERB --help` tells its options."""

from __future__ import annotations

import ast
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple


class Lab(NamedTuple):
    """Something to run: its module, and what it does."""

    module: str
    what: str


LABS = {
    "what opshift does with models": {
        "conformance": Lab("tests.conformance", "Take published cases to every opset; --inline, --sweep, --carry"),
        "exported": Lab("tests.exported", "Take exported models to other opsets, fold and optimize them"),
        "package": Lab("tests.scenarios.package_models", "Take the models in the onnx package to other opsets"),
        "models": Lab("tests.models", "Take the model files in packages through every verb, and write docs/models.md"),
        "networks": Lab("tests.networks", "Take published cases and exported models to OpenVINO IR and back"),
        "neighbours": Lab("tests.passes.fusion.neighbours", "Fold operators that stand between two neighbours"),
        "random": Lab("tests.random", "Take random models through every verb; each finding becomes a script"),
        "random-networks": Lab("tests.random.openvino", "Read random networks of OpenVINO: [seconds] [seed] [recipe]"),
        "types": Lab("tests.lab.types", "Convert small hard models and corpora to half precision, and judge them"),
        "fuzz": Lab("tests.opshift.fuzz", "Read damaged files"),
        "fuzz-structure": Lab("tests.opshift.fuzz_structure", "Take models that no exporter writes through every verb"),
    },
    "what a change of the code does": {
        "hashes": Lab(
            "tests.hashes", "Record what every verb makes of all corpora, and compare; --core without extras"
        ),
        "replays": Lab("tests.replays", "Compare the bytes with replay and without"),
        "frames": Lab("tests.lab.frames", "Print the functions between main and the first step that a command takes"),
        "mutation": Lab("tests.mutation", "Change lines at random, and count which changes a test notices"),
        "proof": Lab("tests.lab.proof.command", "Give the proof pairs of models, and count how many it judges rightly"),
    },
    "files that commands write": {
        "freeze": Lab("tests.frozen", "Freeze the published cases of a new opset; --reach"),
        "endings": Lab("tests.opshift.catalog.tabulate", "Write which steps are close and what each refuses"),
        "schema": Lab("tests.opshift.jobs.schema", "Write the JSON schema of what programs are told"),
        "conformance-page": Lab("tests.conformance.report", "Write docs/conformance.md of the verdicts of runs"),
        "pictures": Lab("tests.opshift.cli.look", "Take pictures of an HTML report: REPORT.html FOLDER"),
        "make-torch": Lab("tests.exported.make_torch", "Export models by torch and onnxscript; --large FOLDER"),
        "make-transformers": Lab("tests.exported.make_transformers", "Export models of transformers"),
        "make-tensorflow": Lab("tests.exported.make_tensorflow", "Export models by tensorflow-cpu and tf2onnx"),
        "make-keras": Lab("tests.exported.make_keras", "Export models by keras, tensorflow-cpu and tf2onnx"),
        "make-jax": Lab("tests.exported.make_jax", "Export models by jax, flax and jax2onnx"),
        "make-paddle": Lab("tests.exported.make_paddle", "Export models by paddlepaddle and paddle2onnx"),
        "make-classical": Lab("tests.classical.make", "Export models of scikit-learn, LightGBM and XGBoost"),
        "make-signals": Lab("tests.lab.proof.make_signals", "Export signal processing by torch, for the proof"),
    },
}


def _text_without_parser(module: str) -> str:
    """What a module says of itself, if it reads its arguments without a parser that would."""
    spec = find_spec(module)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_spec(f"{module}.__main__")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    parses = "ArgumentParser" in source or "export(__doc__" in source
    return "" if parses else ast.get_docstring(ast.parse(source)) or module


def main(arguments: list[str]) -> int:
    """Run a verb, or list them all."""
    labs = {verb: lab for group in LABS.values() for verb, lab in group.items()}
    if arguments and arguments[0] in labs:
        verb, *rest = arguments
        sys.argv = [f"python -m tests.lab {verb}", *rest]
        if rest[:1] in (["-h"], ["--help"]) and (text := _text_without_parser(labs[verb].module)):
            print(text)
            return 0
        runpy.run_module(labs[verb].module, run_name="__main__", alter_sys=True)
        return 0
    width = max(map(len, labs))
    for title, group in LABS.items():
        print(f"{title}:")
        for verb, lab in group.items():
            print(f"  {verb:{width}}  {lab.what}")
    asked = arguments and arguments[0] not in ("-h", "--help")
    if asked:
        print(f"there is no {arguments[0]!r}", file=sys.stderr)
    return 2 if asked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
