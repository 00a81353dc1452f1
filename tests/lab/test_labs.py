"""Whatever is run by hand is a verb of `python -m tests.lab`."""

import re
from pathlib import Path

import pytest

from tests.lab.__main__ import LABS, main

ROOT = Path(__file__).parents[2]
WORKERS = {"tests.random.worker", "tests.mutation.record"}  # which others start
MODULES = {lab.module for group in LABS.values() for lab in group.values()}


def test_each_program_is_a_verb():
    programs = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")
        for path in (ROOT / "tests").rglob("*.py")
        if re.search(r'^if __name__ == "__main__"', path.read_text(encoding="utf-8"), re.M)
    }
    assert programs - {"tests.lab"} == MODULES | WORKERS


def test_all_verbs_are_listed(capsys):
    assert main([]) == 0
    listed = re.findall(r"^  (\S+)", capsys.readouterr().out, re.M)
    assert listed == [verb for group in LABS.values() for verb in group]


def test_what_is_no_verb_is_said(capsys):
    assert main(["nothing"]) == 2
    assert capsys.readouterr().err == "there is no 'nothing'\n"


def test_a_verb_tells_its_options(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["hashes", "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: python -m tests.lab hashes")


@pytest.mark.parametrize("verb", ["endings", "schema", "networks", "random-networks", "exported"])
def test_help_runs_nothing(verb, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main([verb, "--help"]) == 0
    assert "python -m tests.lab" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
