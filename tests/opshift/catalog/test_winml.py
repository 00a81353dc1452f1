"""What the tables of execution providers say, as target files."""

import json
import zipfile

import pytest
from opshift.passes.backends import target_files

from opshift.catalog import winml
from opshift.catalog.winml import Table
from tests.support import model

IO = {"inputs": "float[2,3] x", "outputs": "float[] y"}


def read(*tables):
    written = winml.text("npu", "An NPU", tables, "0.4.0", "2026-10-20")
    (found,) = target_files.parse(written, "npu.toml").values()
    return found


def table(op, version, ran=True, **columns):
    return Table(("", op), version, ran, columns)


def test_what_no_call_was_compiled_of_is_lacked():
    found = read(table("Abs", 6, False), table("Abs", 13, False), table("Relu", 6), table("Relu", 14, False))
    assert found.lacks == {("", "Abs"): 1, ("", "Relu"): 14}
    assert not found.has("", "Relu", 14)
    assert found.has("", "Relu", 13)


def test_the_oldest_version_that_runs_is_told():
    found = read(table("Gather", 11, False), table("Gather", 13))
    assert found.oldest == {("", "Gather"): 13}
    assert (found.has("", "Gather", 12), found.has("", "Gather", 13)) == (False, True)


def test_ranks_types_and_sizes_become_limits():
    columns = {"T_Relu": {"FLOAT": True, "DOUBLE": False}, "X_dim": {1: True, 2: True, 6: False}}
    (found,) = [limit for limit in read(table("Relu", 6, **columns)).limits if limit.types]
    assert found.types == {"tensor(float)"}
    held = read(table("Relu", 6, **columns, X_dynamic_axes={0: True, 1: False}))
    assert {limit.ranks for limit in held.limits} == {(), (0, 1, 2, 3, 4, 5)}
    assert [limit.numbers for limit in held.limits].count(True) == 1
    assert held.measured["", "Relu"].ranks == (1, 2)
    assert not held.measured["", "Relu"].symbolic


def test_types_of_inputs_that_have_but_one_stay():
    (limit,) = read(table("Reshape", 13, T_Reshape={"FLOAT": True, "BOOL": False})).limits
    assert limit.types == {"tensor(float)", "tensor(int64)"}


def test_what_had_to_be_constant_and_which_attributes_ran():
    shape = {"shape_is_constant": {True: True, False: False}}
    (limit,) = read(table("Reshape", 13, **shape)).limits
    assert limit.constant == ("shape",)
    (limit,) = read(table("Pad", 13, attr_mode={"constant": True, "wrap": False})).limits
    assert (limit.attribute, limit.takes) == ("mode", ("constant",))
    assert read(table("Softmax", 13, attr_axis={1: True, 0: False})).limits == ()


def test_a_limit_holds_for_the_versions_that_have_it():
    few, many = {"T_Relu": {"FLOAT": True, "INT32": False}}, {"T_Relu": {"FLOAT": True, "INT32": True}}
    (limit,) = read(table("Relu", 6, **few), table("Relu", 13, **few), table("Relu", 14, **many)).limits
    assert [limit.holds("", "Relu", version) for version in (6, 13, 14)] == [True, True, False]
    (limit,) = read(table("Relu", 13, **many), table("Relu", 14, **few)).limits
    assert [limit.holds("", "Relu", version) for version in (13, 14)] == [False, True]


@pytest.mark.parametrize("name", [name for name, _ in winml.TITLES.values()])
def test_the_files_that_come_with_it_can_be_read(name):
    found = target_files.find(name)
    assert found.name == f"{name}-2026.10"
    assert len(found.measured) > 80
    assert "MIT" in found.source


def test_what_the_table_says_of_a_model_is_said():
    from opshift.passes.backends.obstacles import obstacles

    found = target_files.find("qnn-npu")
    assert [str(o) for o in obstacles(model("y = Erf(x)", 13, **IO), found)] == ['Erf "y": not supported']
    assert [str(o) for o in obstacles(model("y = Tanh(x)", 11, **IO), found)] == [
        'Tanh "y": version 6 is not supported'
    ]
    assert list(obstacles(model("y = Tanh(x)", 13, **IO), found)) == []


def cells(kind, *values):
    return [json.dumps({"t": kind, "v": value}, separators=(",", ":")) for value in values]


def test_rows_are_read_column_by_column():
    rows = {
        "T_Relu": cells("str", "FLOAT", "INT8", "INT8", "FLOAT"),
        "X_dynamic_axes": cells("tuple", [], [1], [2], [2]),
        "X_is_none": cells("bool", False, False, False, True),
        "X_is_constant": cells("bool", True, True, True, False),
        "compile_run_success": [[True, True], [False, True], [True, False], [True, True]],
    }
    found = winml.table("rules/Relu_QNNExecutionProvider_NPU_ai.onnx_opset14.parquet", lambda: rows)
    assert (found.op, found.version, found.ran) == (("", "Relu"), 14, True)
    assert found.columns["T_Relu"] == {"FLOAT": True, "INT8": False}
    assert found.columns["X_dynamic_axes"] == {0: True, 1: True}
    assert found.columns["X_is_constant"] == {True: True}


@pytest.mark.parametrize("name", ["MatMulAddPattern_{}_opset14", "Relu_{}_opset14_qdq", "README"])
def test_patterns_and_quantized_calls_are_left_aside(name):
    path = f"rules/{name.format('QNNExecutionProvider_NPU_ai.onnx')}.parquet"
    assert winml.table(path, lambda: pytest.fail("it is read")) is None


def test_the_date_of_a_wheel_is_that_of_its_tables(tmp_path, monkeypatch):
    wheel = tmp_path / "winml_cli-0.4.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as stored:
        for folder in winml.TITLES:
            entry = zipfile.ZipInfo(f"rules/{folder}/Relu_{folder}_ai.onnx_opset14.parquet", (2026, 10, 20, 0, 0, 0))
            stored.writestr(entry, b"")
    monkeypatch.setattr(winml, "_read", lambda wheel, entry: {"compile_run_success": [[True, True]]})
    written = dict(winml.targets(wheel))
    assert set(written) == {name for name, _ in winml.TITLES.values()}
    assert all('date = "2026-10-20"' in each for each in written.values())
