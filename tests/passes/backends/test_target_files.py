"""Target files: what they may say, what a version inherits, and that the ones we carry say nothing ONNX does not know."""

from importlib.resources import files

import onnx.defs
import pytest
from opshift.passes.backends import measurements
from opshift.passes.backends.backend import MeasuredCall, Types
from opshift.passes.backends.target_files import find, loads, parse, read, targets, write
from opshift.passes.model import schemas

HEAD = 'name = "npu"\nsource = "its manual"\n'
SCHEMAS = {}
for schema in onnx.defs.get_all_schemas_with_history():
    SCHEMAS.setdefault((schema.domain, schema.name), []).append(schema)
CARRIED = sorted(
    e.name for e in files("opshift.passes.backends").joinpath("targets").iterdir() if e.name.endswith(".toml")
)


def one(text):
    return list(parse(HEAD + text, "npu.toml").values())[-1]


@pytest.mark.parametrize("name", CARRIED)
def test_every_fact_in_a_file_is_about_something_that_onnx_defines(name):
    held = loads(files("opshift.passes.backends").joinpath("targets", name).read_text(encoding="utf-8"), name)
    assert held["title"]
    assert name == held["name"] + ".toml"
    for backend in parse(
        files("opshift.passes.backends").joinpath("targets", name).read_text(encoding="utf-8"), name
    ).values():
        assert backend.source
        assert 0 <= backend.opset <= onnx.defs.onnx_opset_version()
        listed = {*(backend.supports or ()), *backend.lacks, *(op for limit in backend.limits for op in limit.ops)}
        assert not [op for op in listed if op[0] in ("", "ai.onnx.ml") and op not in SCHEMAS]
        assert not [op for op in backend.vendors if op[1] not in schemas.operators(op[0])]
        for op, version in backend.lacks.items():
            assert version in [1, *(s.since_version for s in SCHEMAS[op])]
        for limit in backend.limits:
            assert limit.why
            for op in limit.ops:
                known = [schemas.schema(*op, schemas.latest(op[0]))] if op[0] in schemas.VENDORS else SCHEMAS[op]
                attributes = {name for s in known for name in s.attributes}
                assert not limit.attribute or limit.attribute in attributes | {p.name for s in known for p in s.inputs}
                formals = {p.name for s in known for p in (*s.inputs, *s.outputs)}
                assert formals.issuperset(limit.constant)
                assert formals.union(attributes).issuperset(limit.unused)


@pytest.mark.parametrize("stem", ["onnxruntime", "tensorrt", "winml", "rknn", "sentis", "tidl", "qnn", "coreml"])
def test_the_backends_that_users_name_are_there(stem):
    assert find(stem).name.startswith(f"{stem}-")
    assert stem in {name.rpartition("-")[0] for name in targets()}


def test_onnxruntime_reads_what_its_table_says():
    rows = {name: (b.opset, b.ir_version) for name, b in targets().items() if name.startswith("onnxruntime-")}
    assert {f"onnxruntime-1.{minor}" for minor in range(2, 33)} <= set(rows)
    assert rows["onnxruntime-1.2"] == (11, 6)
    assert rows["onnxruntime-1.14"] == (18, 8)
    assert (rows["onnxruntime-1.31"], rows["onnxruntime-1.32"]) == ((26, 13), (28, 14))


def test_operators_that_releases_of_onnxruntime_lack():
    """As sessions of one node in each of them say, at the newest opset that each loads."""
    by_minor = [find(f"onnxruntime-1.{minor}") for minor in range(20, 33)]
    assert [b.has("", "LpNormalization", 22) for b in by_minor[1:7]] == [False] * 4 + [True] * 2
    assert [b.has("", "TensorScatter", 24) for b in by_minor[4:6]] == [False, True]
    assert not any(b.has("", "RoiAlign", 22) for b in by_minor[1:])
    assert all(b.has("", "RoiAlign", 16) for b in by_minor)


def test_few_backends_have_classical_models():
    tree = "ai.onnx.ml", "TreeEnsembleRegressor", 1
    assert {name.rpartition("-")[0] for name, held in targets().items() if held.has(*tree)} == {
        *("onnxruntime", "tract", "winml", "winml-nuget")
    }
    npu = one('[versions."1"]\nopset = 13\n[versions."1".measured]\n"ai.onnx.ml::Scaler" = "1-4; T: float"')
    assert npu.has("ai.onnx.ml", "Scaler", 1)
    assert not npu.has(*tree)


def test_a_version_inherits_what_it_does_not_say():
    held = parse(
        HEAD + '[versions."1"]\nopset = 13\nir = 7\nsupports = ["Relu", "Add"]\nlacks = ["Squeeze-13"]\n'
        '[versions."2"]\nopset = 17\nadds = ["Abs", "Squeeze"]\nsource = "release notes"\n[versions."3"]\nlacks = ["Add"]',
        "npu.toml",
    )
    first, second, third = held.values()
    assert list(held) == ["npu-1", "npu-2", "npu-3"]
    assert (first.opset, second.opset, third.opset, third.ir_version) == (13, 17, 17, 7)
    assert (first.source, second.source, third.source) == ("its manual", "release notes", "its manual")
    assert [b.has("", "Abs", 13) for b in held.values()] == [False, True, True]
    assert [b.has("", "Add", 13) for b in held.values()] == [True, True, False]
    assert not first.has("", "Squeeze", 11)  # not in `supports`
    assert second.has("", "Squeeze", 13)


def test_an_operator_may_be_missing_from_a_version_on():
    backend = one('[versions."1"]\nlacks = ["Squeeze-13", "Loop"]')
    assert backend.has("", "Squeeze", 12)
    assert not backend.has("", "Squeeze", 13)
    assert not backend.has("", "Loop", 7)
    assert backend.has("", "Relu", 13)
    assert ("", "Squeeze") in backend.missing("", 13)
    assert backend.missing("", 12) == {("", "Loop")}
    assert backend.opsets_to_try(18) == [18, 12]


def test_what_is_deprecated_is_not_missing():
    backend = one('[versions."1"]\nsupports = ["Relu"]')
    assert ("", "Upsample") in backend.missing("", 9)
    assert ("", "Upsample") not in backend.missing("", 10)


def test_the_opset_nearest_to_the_models_own_is_tried_first():
    assert one('[versions."1"]\nopset = 17').opsets_to_try(13) == [13, 17]
    assert one('[versions."1"]\nopset = 17').opsets_to_try(21) == [17]
    assert one('[versions."1"]').opsets_to_try(21) == [21]
    since = one('[versions."1"]\nsince = ["MatMul-13", "Abs-6"]')
    assert since.opsets_to_try(11) == [11, 13]  # Abs-6 is there at 11
    assert since.opsets_to_try(5) == [5, 6, 13]


def test_no_opset_is_tried_that_broadcasts_otherwise_for_an_attribute_that_it_lacks():
    """GRU has linear_before_reset from opset 3 on, ArgMax select_last_index from 12 on."""
    limits = 'limits = [{ ops = ["GRU"], attribute = "linear_before_reset", takes = [1] }, '
    limits += '{ ops = ["ArgMax"], attribute = "select_last_index", takes = [0] }]\n[versions.1]\nopset = 18'
    assert one(limits).opsets_to_try(18) == [18, 11]


def test_types_are_listed_or_excepted():
    assert one('[versions."1"]\ntypes = ["float", "int64"]').types == {"tensor(float)", "tensor(int64)"}
    excepted = one('[versions."1"]\nlacks_types = ["string"]').types
    assert "tensor(string)" not in excepted
    assert "tensor(float)" in excepted
    assert one('[versions."1"]').types == frozenset()


def test_what_is_kept_in_another_type_is_told():
    held = parse(HEAD + '[versions."1"]\ncasts = { int64 = "int32" }\n[versions."2"]\ncasts = {}\n', "npu.toml")
    assert [dict(backend.casts) for backend in held.values()] == [{"int64": "int32"}, {}]
    with pytest.raises(ValueError, match="is not a type"):
        one('[versions."1"]\ncasts = { long = "int32" }')


def test_the_newest_of_the_versions_that_a_name_stands_for():
    assert find("tensorrt-8").name == "tensorrt-8.6"
    assert find("onnxruntime-1").name == find("onnxruntime").name
    with pytest.raises(ValueError, match="versions of tensorrt: "):
        find("tensorrt-7")


def test_a_limit_holds_from_its_first_to_its_last_version():
    limits = 'limits = [{ ops = ["Clip"], constant = ["min"], first = "2", last = "3" }]\n'
    held = parse(HEAD + limits + "".join(f'[versions."{v}"]\n' for v in range(1, 5)), "npu.toml")
    assert [len(b.limits) for b in held.values()] == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[versions.1]\nopset = 29", "opset 29"),
        ("[versions.1]\nopsets = 13", "version 1 has unknown keys: opsets"),
        ('[versions.1]\nlacks = ["Nonsense"]', "no operator Nonsense"),
        ('[versions.1]\nlacks = ["Relu-2"]', "no operator Relu-2"),
        ('[versions.1]\ntypes = ["float23"]', "float23"),
        ('limits = [{ ops = ["Clip"], constant = ["mim"] }]\n[versions.1]', "Clip has no input or output mim"),
        ('limits = [{ ops = ["Gather"], input = "index", ranks = [1] }]\n[versions.1]', "no input or output index"),
        ('limits = [{ ops = ["Clip"], attribute = "mode" }]\n[versions.1]', "Clip has no attribute mode"),
        ('limits = [{ ops = ["Clip"], when = 1 }]\n[versions.1]', "a limit has unknown keys: when"),
        ("", "versions"),
        ("versions = 3", "AttributeError|TypeError"),
        ("[versions.1", "npu.toml"),
    ],
)
def test_a_file_that_says_what_it_must_not_is_refused_by_name(text, complaint):
    with pytest.raises(ValueError, match=complaint):
        one(text)


def test_a_file_of_the_users_own(tmp_path):
    path = tmp_path / "npu.toml"
    path.write_text(HEAD + '[versions."1"]\nopset = 11\n[versions."2"]\nopset = 13\n')
    assert [b.name for b in read(path).values()] == ["npu-1", "npu-2"]
    assert find(str(path)).name == "npu-2"


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"known are .* onnxruntime"):
        find("nonsense")


def test_what_is_written_is_read_back():
    ops = sorted({schema.name for schema in onnx.defs.get_all_schemas()})[:60]
    ops = [op for op in ops if ("", op) in SCHEMAS]
    text = write("npu", "An NPU", 'measured with "npu" 1.0', "1.0", {"opset": 13, "functions": True, "lacks": ops})
    assert max(map(len, text.splitlines())) <= 120
    backend = parse(text, "npu.toml")["npu-1.0"]
    assert (backend.opset, backend.functions, backend.source) == (13, True, 'measured with "npu" 1.0')
    assert set(backend.lacks) == {("", op) for op in ops}


def test_a_file_can_build_on_a_known_target(tmp_path):
    text = """
        name = "tract"
        base = "tract-0.23"
        source = "tried"
        limits = [{ ops = ["Attention"], symbolic = false, why = "codegen", source = "tried with 0.23.9" }]
        [versions."0.23"]
        lacks = ["Gelu"]
        [versions."0.23".measured]
        Relu = "1-6 symbolic"
        Conv = "1, 3-4"
        LSTM = "any"
        Pad = "2-3; T: float bool, not ints; Tind: int64"
    """
    path = tmp_path / "my.toml"
    path.write_text(text)
    held, base = read(path)["tract-0.23"], find("tract-0.23")
    assert (held.opset, held.types, held.folds_sizes) == (base.opset, base.types, base.folds_sizes)
    assert set(held.lacks) == {*base.lacks, ("", "Gelu")}
    assert held.limits[:-1] == base.limits
    assert (held.limits[-1].numbers, held.limits[-1].source) == (True, "tried with 0.23.9")
    assert held.measured["", "Relu"] == MeasuredCall((1, 2, 3, 4, 5, 6), True)
    assert held.measured["", "Conv"] == MeasuredCall((1, 3, 4), False)
    assert held.measured["", "LSTM"] == MeasuredCall((), False)
    ints = frozenset(f"tensor(int{bits})" for bits in (8, 16, 32, 64))
    assert held.measured["", "Pad"].types == {
        "T": Types(frozenset({"tensor(float)", "tensor(bool)"}), ints),
        "Tind": Types(frozenset({"tensor(int64)"})),
    }


def test_measurements_that_are_none_are_refused():
    with pytest.raises(ValueError, match="write 4 or 1-6"):
        parse('name = "a"\nsource = ""\n[versions."1"]\nmeasured = { Relu = "all" }', "a.toml")
    for said, complaint in (
        ("1; T: flot", "flot is not an element type; did you mean float"),
        ("1; T floats", "write types like .T: floats"),
        ("1; T: ", "write types like .T: floats"),
    ):
        with pytest.raises(ValueError, match=complaint):
            parse(f'name = "a"\nsource = ""\n[versions."1"]\nmeasured = {{ Relu = "{said}" }}', "a.toml")


@pytest.mark.parametrize(
    "said",
    [
        "2-6 symbolic; T: floats, not ints uints",
        "any; T: numbers bool seq(float); Tind: not int32",
        "0, 2; V: narrow float6s optional(seq(int4))",
    ],
)
def test_measurements_are_written_as_they_are_read(said):
    assert measurements.spell_call(measurements.read("Op", said)) == said
