"""What is shown and not run as it stands: Python beside packages that `dev` does not hold, and commands in passing."""

import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import onnx
import onnx.reference
import pytest

from opshift.cli.parser import Misuse, parse_arguments
from tests.test_docs import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ENCODER = ROOT / "examples" / "encoder.onnx"


def fenced(page: Path, *languages: str) -> list[str]:
    found = re.findall(r"^```(\w*)(?: title=[^\n]*)?$\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    return [text for language, text in found if language in languages]


def torch() -> dict[str, object]:
    """An exporter that yields the example."""
    program = SimpleNamespace(model_proto=onnx.load(ENCODER))
    module = ModuleType("torch")
    module.onnx = SimpleNamespace(export=lambda network, inputs, *, dynamo, opset_version: program)
    return {"torch": module}


def modules_of(names: dict[str, dict[str, object]]) -> dict[str, object]:
    made = {}
    for name, held in names.items():
        made[name] = ModuleType(name)
        vars(made[name]).update(held)
    return made


def olive() -> dict[str, object]:
    """The names of Olive that a pass of one's own needs."""
    return modules_of(
        {
            "olive": {"run": None},
            "olive.model": {"ONNXModelHandler": SimpleNamespace},
            "olive.package_config": {"OlivePackageConfig": object},
            "olive.passes": {"Pass": object},
            "olive.passes.pass_config": {"BasePassConfig": object, "PassConfigParam": SimpleNamespace},
        }
    )


def optimum() -> dict[str, object]:
    """An exporter that has written the example, and what registers a configuration of it."""
    config = type(
        "BertOnnxConfig", (), {"post_process_exported_models": lambda self, path, models, files: (models, files)}
    )
    register = lambda exporter, overwrite_existing: lambda model, task, library_name: lambda held: held  # noqa: E731
    return modules_of(
        {
            "optimum": {},
            "optimum.exporters": {},
            "optimum.exporters.onnx": {"main_export": None},
            "optimum.exporters.onnx.model_configs": {"BertOnnxConfig": config},
            "optimum.exporters.tasks": {"TasksManager": SimpleNamespace(create_register=register)},
        }
    )


def npu_compiler() -> dict[str, object]:
    """A compiler that runs what it is given in onnx.reference."""
    module = ModuleType("npu_compiler")

    def build(path, *, flags):
        model = onnx.load(path)
        run = onnx.reference.ReferenceEvaluator(model).run
        return lambda *values: run(None, dict(zip([value.name for value in model.graph.input], values, strict=True)))

    module.build = build
    return {"npu_compiler": module}


def does_what_an_adapter_is_asked(space, folder):
    model = onnx.load(ENCODER)
    sizes = {
        value.name: [2, *(dim.dim_value or 3 for dim in value.type.tensor_type.shape.dim)][1:]
        for value in model.graph.input
    }
    session = space["Session"](str(ENCODER), str(folder), sizes, {}, space["OPTIONS"])
    feeds = {name: np.zeros(shape, np.float32) for name, shape in sizes.items()}
    assert len(session.run(feeds)) == len(model.graph.output)


def does_what_follows_an_export(space, folder):
    assert onnx.load(folder / "network-11.onnx").opset_import[0].version == 11


def does_what_olive_asks_of_a_pass(space, folder):
    made = space["OpsetConversion"]
    given = {name: parameter.default_value for name, parameter in made._default_config(None).items()}
    handler = SimpleNamespace(model_path=str(ENCODER))
    done = made()._run_for_config(handler, SimpleNamespace(**given), str(folder / "out.onnx"))
    assert onnx.load(done.model_path).opset_import[0].version == 13
    unknown = SimpleNamespace(model_path=str(folder / "none.onnx"))
    with pytest.raises(RuntimeError, match=r"none\.onnx: No such file"):
        made()._run_for_config(unknown, SimpleNamespace(**given), str(folder / "out"))


def does_what_optimum_asks_of_a_configuration(space, folder):
    shutil.copy(ENCODER, folder / "model.onnx")
    held = {"model": (None, None)}
    assert space["Converted"]().post_process_exported_models(folder, held, ["model.onnx"]) == (held, ["model.onnx"])
    assert onnx.load(folder / "model.onnx").opset_import[0].version == 12
    assert [path.name for path in folder.iterdir()] == ["model.onnx"]
    with pytest.raises(RuntimeError, match=r"none\.onnx: No such file"):
        space["Converted"]().post_process_exported_models(folder, held, ["none.onnx"])


STAND_INS = {
    "torch": (torch, {"network": None, "example": None}, does_what_follows_an_export),  # 900 MB
    "npu_compiler": (npu_compiler, {}, does_what_an_adapter_is_asked),
    "olive": (olive, {}, does_what_olive_asks_of_a_pass),  # brings torch
    "optimum": (optimum, {}, does_what_optimum_asks_of_a_configuration),  # brings torch
}
"""What takes the place of packages that `dev` does not hold: their names, what a block finds, and what it has to do."""

EXAMPLES = [ROOT / "examples" / name for name in ("olive_pass.py", "optimum_export.py")]
ELSEWHERE = [(page, text) for page in PAGES for text in fenced(page, "py")]
ELSEWHERE += [(path, path.read_text(encoding="utf-8")) for path in EXAMPLES]


def needed(text: str) -> str:
    return next(name for name in STAND_INS if re.search(rf"^(import|from) {name}\b", text, re.M))


@pytest.mark.parametrize(("page", "text"), ELSEWHERE, ids=[needed(text) for _, text in ELSEWHERE])
def test_recipes_beside_other_packages_run_with_stand_ins(page, text, tmp_path, monkeypatch):
    modules, names, check = STAND_INS[needed(text)]
    for name, module in modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "docs", **names}
    exec(compile(text, str(page), "exec"), space)
    check(space, tmp_path)


TINY_BERT = """
from transformers import BertConfig, BertModel
sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
BertModel(BertConfig(vocab_size=50, max_position_embeddings=32, **sizes)).save_pretrained("bert")
"""


def run(*typed: str) -> None:
    done = subprocess.run([sys.executable, *typed], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_examples_run_beside_the_real_packages(tmp_path, monkeypatch):
    """It takes torch, `pip install olive-ai optimum-onnx`, and a minute."""
    if not (find_spec("olive") and find_spec("optimum")):
        pytest.skip("olive-ai or optimum-onnx is not installed")
    monkeypatch.chdir(tmp_path)
    run(str(EXAMPLES[0]), str(ENCODER), "made")
    assert onnx.load("made/model.onnx").opset_import[0].version == 14
    run("-c", TINY_BERT)
    run(str(EXAMPLES[1]), "bert", "exported")
    assert onnx.load("exported/model.onnx").opset_import[0].version == 12


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    for name in ("in", "a", "b"):
        shutil.copy(ENCODER, tmp_path / f"{name}.onnx")
    monkeypatch.chdir(tmp_path)
    for text in fenced(ROOT / "README.md", "python"):
        exec(compile(text, "README.md", "exec"), {"__name__": "readme"})
    printed = capsys.readouterr().out
    assert "equal" in printed
    assert (tmp_path / "old" / "a.onnx").exists()


def typed() -> list[tuple[str, str]]:
    """The commands in blocks that are not run, and those in passing that name a model."""
    found = []
    for page in PAGES:
        lines = [line for text in fenced(page, "", "sh") for line in text.splitlines()]
        shown = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        lines += [
            code.replace("\n", " ") for code in re.findall(r"`([^`]+)`", shown) if re.search(r"\.(onnx|xml)\b", code)
        ]
        found += [(page.stem, line.strip()) for line in lines if line.strip().startswith("opshift ")]
    return found


@pytest.mark.parametrize(("page", "line"), typed())
def test_commands_in_passing_are_understood(page, line):
    try:
        options = parse_arguments(shlex.split(line, comments=True)[1:])
    except Misuse as misuse:
        pytest.fail(f"{page}: {line}: {misuse}")
    assert options.command
