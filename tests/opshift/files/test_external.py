"""External data: kept, copied, consolidated, embedded; refused where it is not safe or not there."""

import os
import subprocess
import sys

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime
import pytest
from onnx import TensorProto
from opshift.passes.errors import InvalidModel
from opshift.passes.model import tensor_data
from opshift.passes.model.encoding.fields import encode_number

import opshift
from opshift.cli import main as cli
from opshift.files import copying, external, model_file
from tests.opshift.files.weights import WEIGHT, listing, saved, source
from tests.support import evaluate, model

pytestmark = [
    pytest.mark.posix,
    pytest.mark.usefixtures("small_files_are_lazy"),
    pytest.mark.usefixtures("in_this_process"),
]

X = np.array([[1, 5, 2]], np.float32)


def convert(path, output, *more):
    return cli.main(["convert", str(path), *([str(output)] if output else []), "--opset", "13", *more])


def run(path):
    """What onnxruntime computes from a file: w is there, and is what it was."""
    return onnxruntime.InferenceSession(str(path)).run(None, {"x": X})[0]


def places(path):
    held = onnx.load(path, load_external_data=False)
    return {t.name: {e.key: e.value for e in t.external_data} for t in held.graph.initializer}


EXPECTED = np.array([[5 * WEIGHT.sum()]], np.float32)


@pytest.mark.parametrize("embedded", [True, False])
@pytest.mark.parametrize(
    ("policy", "written"),
    [
        (None, {True: [], False: []}),
        ("keep", {True: [], False: []}),
        ("copy", {True: [], False: ["out.weights.bin"]}),
        ("all", {True: ["out.onnx.data"], False: ["out.onnx.data"]}),
        ("none", {True: [], False: []}),
    ],
)
def test_every_policy_in_the_same_folder(policy, written, embedded, here):
    path = saved(here, embedded=embedded)
    before = {name: (here / name).read_bytes() for name in listing(here)}
    assert convert(path, here / "out.onnx", *(["--external-data", policy] if policy else [])) == 0
    assert listing(here) == sorted([*before, "out.onnx", *written[embedded]])
    assert {name: (here / name).read_bytes() for name in before} == before
    np.testing.assert_array_equal(run(here / "out.onnx"), EXPECTED)
    onnx.checker.check_model(here / "out.onnx", full_check=True)
    where = {"all": "out.onnx.data", "copy": "out.weights.bin", "none": None}.get(policy, "weights.bin")
    assert places(here / "out.onnx")["w"].get("location") == (None if embedded and policy != "all" else where)


@pytest.mark.parametrize(
    ("policy", "written"),
    [(None, ["weights.bin"]), ("copy", ["weights.bin"]), ("all", ["out.onnx.data"]), ("none", [])],
)
def test_every_policy_in_another_folder(policy, written, here, tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    path = saved(here, embedded=False)
    assert convert(path, there / "out.onnx", *(["--external-data", policy] if policy else [])) == 0
    assert listing(there) == ["out.onnx", *written]
    np.testing.assert_array_equal(run(there / "out.onnx"), EXPECTED)


def test_data_are_kept_where_a_relative_path_still_leads_there(here, tmp_path, capsys):
    path = saved(here, embedded=False)
    assert convert(path, tmp_path / "out.onnx", "--external-data", "keep") == 0
    assert places(tmp_path / "out.onnx")["w"]["location"] == "here/weights.bin"
    assert listing(tmp_path) == ["here/in.onnx", "here/weights.bin", "out.onnx"]
    np.testing.assert_array_equal(run(tmp_path / "out.onnx"), EXPECTED)
    (tmp_path / "there").mkdir()
    assert convert(path, tmp_path / "there/out.onnx", "--external-data", "keep") == 5
    assert "--external-data copy or all" in capsys.readouterr().err
    assert listing(tmp_path / "there") == []


@pytest.mark.parametrize(("threshold", "moved"), [(4096, True), (4097, False)])
@pytest.mark.parametrize("embedded", [True, False])
def test_the_threshold_is_in_bytes(threshold, moved, embedded, here):
    path = saved(here, embedded=embedded)
    assert convert(path, here / "out.onnx", "--external-data", "all", "--threshold", str(threshold)) == 0
    assert ("location" in places(here / "out.onnx")["w"]) == moved
    assert (here / "out.onnx.data").exists() == moved
    np.testing.assert_array_equal(run(here / "out.onnx"), EXPECTED)


def test_consolidated_data_begin_at_pages_and_are_what_they_were_in_any_encoding(here):
    held = source()
    variants = {
        "floats": TensorProto(dims=[40], data_type=TensorProto.FLOAT, float_data=map(float, range(40))),
        "doubles": TensorProto(dims=[40], data_type=TensorProto.DOUBLE, double_data=map(float, range(40))),
        "ints": TensorProto(dims=[2, 20], data_type=TensorProto.INT64, int64_data=range(-20, 20)),
        "halves": TensorProto(dims=[40], data_type=TensorProto.FLOAT16, int32_data=range(15360, 15400)),
        "bytes": TensorProto(dims=[80], data_type=TensorProto.INT8, int32_data=range(-40, 40)),
        "nibbles": TensorProto(dims=[161], data_type=TensorProto.UINT4, int32_data=[0x21] * 81),
        "unsigned": TensorProto(dims=[40], data_type=TensorProto.UINT32, uint64_data=range(2**32 - 40, 2**32)),
        "complex": TensorProto(dims=[20], data_type=TensorProto.COMPLEX64, float_data=map(float, range(40))),
    }
    for name, tensor in variants.items():
        held.graph.initializer.add().CopyFrom(tensor)
        held.graph.initializer[-1].name = name
    held.graph.initializer.add(name="texts", dims=[40], data_type=TensorProto.STRING, string_data=[b"four"] * 40)
    onnx.save(held, here / "in.onnx")
    more = ["--external-data", "all", "--threshold", "64", "--no-verify"]
    assert cli.main(["convert", str(here / "in.onnx"), str(here / "out.onnx"), "--opset", "21", *more]) == 0
    found = places(here / "out.onnx")
    assert {name for name, entries in found.items() if entries} == {"w", *variants}
    assert all(int(entries["offset"]) % 4096 == 0 for entries in found.values() if entries)
    before = {t.name: onnx.numpy_helper.to_array(t) for t in held.graph.initializer}
    for tensor in onnx.load(here / "out.onnx").graph.initializer:
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), before[tensor.name])


def test_kept_data_need_not_be_there(here):
    path = saved(here, embedded=False)
    (here / "weights.bin").unlink()
    assert cli.main(["convert", str(path), str(here / "out.onnx"), "--opset", "19", "--no-verify"]) == 0
    assert listing(here) == ["in.onnx", "out.onnx"]
    assert places(here / "out.onnx") == places(path)


@pytest.mark.parametrize("policy", ["copy", "all", "none"])
def test_moved_data_must_be_there(policy, here, capsys):
    path = saved(here, embedded=False)
    (here / "weights.bin").unlink()
    more = ["--external-data", policy, "--no-verify"]
    assert cli.main(["convert", str(path), str(here / "out.onnx"), "--opset", "19", *more]) == 5
    assert "weights.bin" in capsys.readouterr().err
    assert listing(here) == ["in.onnx"]


def test_moving_data_is_enough_to_be_asked_for(here, capsys):
    path = saved(here, embedded=False)
    assert cli.main(["convert", str(path), "--external-data", "none", "--no-verify"]) == 0
    assert listing(here) == ["in.onnx", "in.packed.onnx", "weights.bin"]
    assert cli.main(["convert", str(path), str(here / "out.onnx")]) == 2
    assert "nothing to do: give --opset" in capsys.readouterr().err


def test_data_that_are_there_already_are_not_overwritten(here, capsys):
    path = saved(here)
    (here / "out.onnx.data").write_bytes(b"mine")
    assert convert(path, here / "out.onnx", "--external-data", "all") == 6
    assert "would overwrite it" in capsys.readouterr().err
    assert (here / "out.onnx.data").read_bytes() == b"mine"
    assert listing(here) == ["in.onnx", "out.onnx.data"]


def test_everything_in_one_file_is_refused_over_2_gb(here, monkeypatch, capsys):
    path = saved(here, embedded=False)
    monkeypatch.setattr(model_file, "MOST", 4096)
    assert convert(path, here / "out.onnx", "--external-data", "none", "--no-verify") == 2
    assert "--external-data all" in capsys.readouterr().err
    assert listing(here) == ["in.onnx", "weights.bin"]


# --- in place -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["keep", "all", "none"])
@pytest.mark.parametrize("embedded", [True, False])
def test_in_place(policy, embedded, here):
    path = saved(here, embedded=embedded)
    assert convert(path, None, "--in-place", "--external-data", policy) == 0
    assert onnx.load(path, load_external_data=False).opset_import[0].version == 13
    np.testing.assert_array_equal(run(path), EXPECTED)
    if policy == "all":  # once more: the data lie under the name that the new ones would have
        assert cli.main(["convert", str(path), "--opset", "14", "--in-place", "--external-data", "all"]) == 0
        assert places(path)["w"]["location"] == "in.onnx.2.data"
        np.testing.assert_array_equal(run(path), EXPECTED)


def test_in_place_follows_a_link_to_the_model(here, tmp_path):
    path = saved(here)
    (tmp_path / "link.onnx").symlink_to(path)
    assert convert(tmp_path / "link.onnx", None, "--in-place") == 0
    assert (tmp_path / "link.onnx").is_symlink()
    assert onnx.load(path).opset_import[0].version == 13


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("policy", ["none", "all"])
def test_an_output_that_is_a_link_is_followed(here, tmp_path, policy, there, capsys):
    path, real, link = saved(here), tmp_path / "elsewhere" / "real.onnx", tmp_path / "link.onnx"
    real.parent.mkdir()
    if there:
        real.write_bytes(path.read_bytes())
    link.symlink_to(os.path.join("elsewhere", "real.onnx"))
    assert convert(path, link, "--external-data", policy, "--report", str(tmp_path / "page.html")) == 0
    assert link.is_symlink()
    assert onnx.load(real, load_external_data=False).opset_import[0].version == 13
    np.testing.assert_array_equal(run(real), EXPECTED)
    assert f"written to {real}" in capsys.readouterr().out
    assert [held.name for held in tmp_path.glob("*.data")] == []


def test_a_report_that_is_a_link_is_followed(here, tmp_path):
    page, link = tmp_path / "page.html", tmp_path / "link.html"
    page.write_text("older")
    link.symlink_to(page)
    assert convert(saved(here), here / "out.onnx", "--report", str(link)) == 0
    assert link.is_symlink()
    assert page.read_text(encoding="utf-8") != "older"


def test_a_link_to_no_folder_cannot_be_written(here, tmp_path, capsys):
    (tmp_path / "link.onnx").symlink_to(tmp_path / "none" / "out.onnx")
    assert convert(saved(here), tmp_path / "link.onnx") == 6
    assert "does not exist" in capsys.readouterr().err


def test_in_place_takes_no_output_and_an_output_is_not_the_input(here, capsys):
    path = saved(here)
    kept = path.read_bytes()
    assert convert(path, here / "out.onnx", "--in-place") == 2
    assert convert(path, path) == 2
    assert "--in-place" in capsys.readouterr().err
    assert path.read_bytes() == kept


def test_what_cannot_be_done_in_place_changes_nothing(here, monkeypatch):
    path = saved(here)
    kept = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(5, "broken disk")))
    assert convert(path, None, "--in-place", "--external-data", "all") == 6
    assert (listing(here), path.read_bytes()) == (["in.onnx"], kept)


# --- what is not safe ---------------------------------------------------------------------------------------


def damaged(folder, **entries):
    held = source(embedded=False)
    for tensor in held.graph.initializer:
        if tensor.name == "w":
            del tensor.external_data[:]
            tensor.ClearField("raw_data")
            for key, value in {"location": "weights.bin", **entries}.items():
                tensor.external_data.add(key=key, value=value)
    path = folder / "in.onnx"
    onnx.save(source(embedded=False), path)  # and its data
    path.write_bytes(held.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ({"location": "/etc/passwd"}, "outside the model's folder"),
        ({"location": "../weights.bin"}, "outside the model's folder"),
        ({"location": "sub/../weights.bin"}, "outside the model's folder"),
        ({"location": ""}, "outside the model's folder"),
        ({"location": "link.bin"}, "symbolic link"),
        ({"location": "sub/weights.bin"}, "symbolic link"),
        ({"offset": "1000000000000"}, "a tensor needs bytes"),
        ({"offset": "4096", "length": "4000"}, "a tensor needs bytes"),
        ({"offset": "-1"}, "not a number"),
        ({"length": "-5"}, "not a number"),
        ({"length": "many"}, "not a number"),
    ],
)
@pytest.mark.parametrize("policy", ["keep", "copy", "all", "none"])
def test_external_data_that_are_not_safe_are_refused(entries, why, policy, here, tmp_path, capsys):
    (tmp_path / "weights.bin").write_bytes(bytes(8192))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/weights.bin").write_bytes(bytes(8192))
    (here / "link.bin").symlink_to(tmp_path / "weights.bin")
    (here / "sub").symlink_to(tmp_path / "elsewhere")
    path = damaged(here, **entries)
    kept = listing(here)
    more = ["--no-verify", "--external-data", policy]
    assert cli.main(["convert", str(path), str(here / "out.onnx"), "--opset", "19", *more]) == 5
    captured = capsys.readouterr().err
    assert why in captured
    assert captured.count("\n") == 1
    assert listing(here) == kept


def test_a_pipe_is_no_data(here, capsys):
    path = damaged(here, location="pipe")
    os.mkfifo(here / "pipe")
    for policy in ("copy", "all", "none"):
        assert convert(path, here / "out.onnx", "--no-verify", "--external-data", policy) == 5
        assert "no regular file" in capsys.readouterr().err


@pytest.mark.long
def test_dims_that_claim_terabytes_are_never_allocated(here, capsys):
    held = source()
    huge = held.graph.initializer.add(name="huge", dims=[1 << 40], data_type=TensorProto.FLOAT, raw_data=bytes(100))
    held.graph.initializer.add(name="axes", dims=[1 << 40], data_type=TensorProto.INT64, raw_data=bytes(8))
    held.graph.node.add(op_type="ReduceMax", input=["x", "axes"], output=["unused"])
    outside = held.graph.initializer.add()
    outside.CopyFrom(huge)
    outside.name, outside.data_location = "outside", TensorProto.EXTERNAL
    outside.ClearField("raw_data")
    outside.external_data.add(key="location", value="weights.bin")
    (here / "weights.bin").write_bytes(bytes(100))
    (here / "in.onnx").write_bytes(held.SerializeToString())
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30));"
    for policy in ("keep", "copy", "all", "none"):
        run = f"{limit} from opshift.cli import main as cli; cli.main(['convert', 'in.onnx', 'out.onnx', '--opset', '13', '--external-data', '{policy}'])"
        done = subprocess.run([sys.executable, "-c", run], cwd=here, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr
        assert "memory" not in done.stderr
        assert listing(here) == ["in.onnx", "weights.bin"]


def test_places_without_a_length_reach_as_far_as_the_dims(tmp_path):
    (tmp_path / "w").write_bytes(bytes(range(100)))
    for elem_type, dims, size in [
        (TensorProto.UINT4, [3], 2),
        (TensorProto.DOUBLE, [2, 3], 48),
        (TensorProto.BOOL, [], 1),
    ]:
        tensor = TensorProto(dims=dims, data_type=elem_type, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="w")
        tensor.external_data.add(key="offset", value="7")
        assert tensor_data.load_or_raise(tensor, str(tmp_path)).raw_data == bytes(range(7, 7 + size))
    tensor.dims[:] = [94]
    with pytest.raises(InvalidModel, match="too short for the tensor"):
        tensor_data.load_or_raise(tensor, str(tmp_path))


# --- more than protobuf reads -------------------------------------------------------------------------------


def beyond(path, gigabytes):
    """A model file with so many gigabytes of zeros in it, which take no room on the disk."""
    held = source(use="Gather(w, z)")
    del held.graph.initializer[-1]
    size = gigabytes << 30
    count = size // 4
    tensor = TensorProto(name="w", dims=[count], data_type=TensorProto.FLOAT).SerializeToString()
    head = tensor + b"\x4a" + encode_number(size)
    initializer = b"\x2a" + encode_number(len(head) + size) + head
    graph = held.graph.SerializeToString() + initializer
    held.ClearField("graph")
    start = held.SerializeToString() + b"\x3a" + encode_number(len(graph) + size) + graph
    with path.open("wb") as file:
        file.write(start)
        file.truncate(len(start) + size)
    return path


@pytest.fixture
def copied(monkeypatch):
    """Ranges are not copied but take no room on the disk either, which they can because they hold zeros."""
    lengths = []

    def without_blocks(source, target, start, end):
        lengths.append(end - start)
        head = os.pread(source, 16, start)
        rest = end - start - os.write(target, head)
        os.truncate(target, os.lseek(target, rest, os.SEEK_CUR))

    monkeypatch.setattr(copying, "copy_range", without_blocks)
    return lengths


@pytest.mark.long
def test_a_file_of_more_than_2_gb_is_verified(here, copied):
    path = beyond(here / "in.onnx", 2)
    assert convert(path, None, "--in-place") == 0
    assert copied == [(2 << 30) + 6]
    assert model_file.read(path).opset_import[0].version == 13
    assert path.stat().st_size > 2 << 30


def test_a_file_of_more_than_2_gb_is_rescued(here, copied):
    path = beyond(here / "in.onnx", 3)
    assert convert(path, here / "out.onnx", "--no-verify", "--external-data", "none") == 2
    assert convert(path, here / "out.onnx", "--no-verify") == 0
    assert (here / "out.onnx").stat().st_size > 3 << 30
    assert tensor_data.nbytes(model_file.read(here / "out.onnx").graph.initializer[-1]) == 3 << 30
    assert convert(here / "out.onnx", here / "rescued.onnx", "--no-verify", "--external-data", "all") == 0
    assert (here / "rescued.onnx.data").stat().st_size == 3 << 30
    assert onnx.load(here / "rescued.onnx", load_external_data=False).opset_import[0].version == 13
    assert copied == [(3 << 30) + 6, 3 << 30]


# --- from Python --------------------------------------------------------------------------------------------


def test_a_path_gives_a_model_with_its_data(here):
    path = saved(here)
    made = opshift.convert_version(str(path), 13)
    assert made.graph.initializer[-1] == source().graph.initializer[-1]
    assert evaluate(made, {"x": X})[0] == EXPECTED
    assert opshift.verify(str(path), made).equal


def test_a_step_reads_what_it_asks_for_from_the_file(here):
    """A sparse constant of an attribute is written out below opset 11."""
    held = model("t = Neg(x) y = Add(t, c)", 11, inputs="float[100] x", outputs="float[100] y")
    values = onnx.numpy_helper.from_array(np.arange(1, 51, dtype=np.float32), "values")
    indices = onnx.numpy_helper.from_array(np.arange(0, 100, 2), "indices")
    sparse = onnx.helper.make_sparse_tensor(values, indices, [100])
    held.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["c"], sparse_value=sparse))
    onnx.save(held, here / "in.onnx")
    read = model_file.read(here / "in.onnx")
    assert all(map(tensor_data.is_stored, external.tensors(read)))
    made = opshift.convert_version(str(here / "in.onnx"), 10)
    assert [a.name for a in made.graph.node[0].attribute] == ["value"]
    dense = np.zeros(100, np.float32)
    dense[::2] = np.arange(1, 51)
    np.testing.assert_array_equal(evaluate(made, {"x": np.ones(100, np.float32)})[0], dense - 1)


def test_numbers_that_are_no_numbers_are_no_places():
    for value in ("", "x", "1e3", "0x10", "-3"):
        tensor = TensorProto(data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="length", value=value)
        with pytest.raises(InvalidModel, match="not a number"):
            tensor_data.place(tensor)


# --- several data files, and equal weights -------------------------------------------------------------------


def twins(folder, count=4):
    """Weights of 4 kB each, every other of which is the same."""
    held = model("y = Sum(x, w0, w1, w2, w3)", 13, inputs="float[1024] x", outputs="float[1024] y")
    for number in range(count):
        values = np.full(1024, number % 2, np.float32)
        held.graph.initializer.append(onnx.numpy_helper.from_array(values, f"w{number}"))
    onnx.save(held, folder / "in.onnx")
    return folder / "in.onnx"


@pytest.mark.parametrize(("shard", "files"), [("1kB", 4), ("8kB", 4), ("9kB", 2), ("13KiB", 2), ("1MB", 1)])
def test_data_go_into_files_of_a_size(here, shard, files):
    typed = ["--external-data", "all", "--shard", shard]
    assert convert(twins(here), here / "out.onnx", *typed) == 0
    found = sorted(path.name for path in here.glob("out.onnx.*"))
    assert len(found) == files
    assert found[0] == ("out.onnx.2.data" if files > 1 else "out.onnx.data")
    evaluated = evaluate(onnx.load(here / "out.onnx"), {"x": np.zeros(1024, np.float32)})
    np.testing.assert_array_equal(evaluated[0], np.full(1024, 2))


def test_equal_weights_are_written_once(here):
    source = twins(here)
    assert convert(source, here / "out.onnx", "--external-data", "all", "--dedupe") == 0
    assert (here / "out.onnx.data").stat().st_size == 2 * 4096
    assert convert(here / "out.onnx", here / "again.onnx", "--external-data", "all") == 0
    assert (here / "again.onnx.data").stat().st_size == 4 * 4096
    assert convert(here / "again.onnx", here / "last.onnx", "--external-data", "all", "--dedupe") == 0
    assert (here / "last.onnx.data").stat().st_size == 2 * 4096
    np.testing.assert_array_equal(
        evaluate(onnx.load(here / "last.onnx"), {"x": np.zeros(1024, np.float32)})[0], np.full(1024, 2)
    )


@pytest.mark.parametrize("size", ["0", "-1", "many", "2TB", "GB", ""])
def test_what_is_no_size(size):
    with pytest.raises(ValueError, match="not a size"):
        external.size_of(size)


@pytest.mark.parametrize(
    ("text", "size"), [("2GB", 2 * 10**9), ("1.5 kb", 1500), ("1GiB", 1 << 30), (12, 12), ("7", 7)]
)
def test_sizes(text, size):
    assert external.size_of(text) == size


@pytest.mark.parametrize(
    "typed", ["--shard 2GB", "--dedupe", "--dedupe --external-data copy", "--shard x --external-data all"]
)
def test_options_of_data_files_without_any(here, typed):
    assert convert(twins(here), here / "out.onnx", *typed.split()) == 2
    assert not (here / "out.onnx").exists()
