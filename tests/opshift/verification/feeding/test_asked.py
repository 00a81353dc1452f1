"""Inputs that a user gives: files, sizes, ranges, how many; what a model does not have is exit code 2."""

import json

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import pytest

import opshift
from opshift.cli import main as cli
from opshift.verification.feeding.asked import read_options
from tests.support import model

pytestmark = pytest.mark.usefixtures("in_this_process")

TWO = {"inputs": "float[batch,seq] image, int64[batch] ids", "outputs": "float[batch,seq] y"}
BODY = "i = Cast<to=1>(ids) j = Unsqueeze(i, a) y = Add(image, j)"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.onnx"
    onnx.save(model(BODY, 17, constants="int64[1] a = {1}", **TWO), path)
    return path


def run(source, *options):
    return cli.main(["verify", str(source), str(source), *map(str, options)])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--input-shape", "imgae:2,3"], "no input 'imgae'; did you mean 'image'?"),
        (["--input-shape", "bacth=2"], "no symbolic dimension 'bacth'; did you mean 'batch'?"),
        (["--input-shape", "image:2"], "'image' has rank 2 ([batch,seq]), but an array of rank 1 is given ([2])"),
        (
            ["--input-shape", "image:2,3", "--input-shape", "batch=4"],
            "'batch' cannot have two sizes, 4 and 2 (in 'image')",
        ),
        (["--input-shape", "image"], "a size is written INPUT:SIZE,SIZE,... or DIMENSION=SIZE"),
        (["--input-shape", "image:2,x"], "a size is written INPUT:SIZE,SIZE,... or DIMENSION=SIZE"),
        (["--val-range", "imgae:[0,1]"], "no input 'imgae'; did you mean 'image'?"),
        (["--val-range", "image:0,1"], "write NAME:[LEAST,LARGEST]"),
        (["--val-range", "image:[1,0]"], "the range [1,0] of 'image' must go from a least to a largest number"),
        (["--val-range", "image:[0,inf]"], "the range [0,inf] of 'image' must go from a least to a largest number"),
        (["--val-range", "ids:[0.2,0.8]"], "'ids' has type int64, which has no numbers in the range [0.2,0.8]"),
        (["--runs", "0"], "opshift: runs must be 1 or more"),
        (["--seed", "-1"], "opshift: seed must be 0 or more"),
    ],
)
def test_what_has_no_meaning_is_usage(source, capsys, options, why):
    assert run(source, *options) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--runs", "2"], "2 runs are asked for (runs), but 1 sets of inputs are given"),
        (["--input-shape", "batch=5"], "'batch' cannot have two sizes, 5 and 2 (in 'image')"),
        (["--val-range", "image:[0,1]"], "values are given for input 'image', so a range for it has no effect"),
    ],
)
def test_what_contradicts_the_inputs_given_is_usage(source, tmp_path, capsys, options, why):
    np.savez(tmp_path / "held.npz", image=np.ones((2, 3), np.float32))
    assert run(source, "--inputs", tmp_path / "held.npz", *options) == 2
    assert why in capsys.readouterr().err
    assert run(source, "--inputs", tmp_path / "held.npz", "--runs", 1, "--val-range", "ids:[0,1]") == 0


@pytest.mark.parametrize("option", ["--inputs", "--input-shape", "--val-range", "--runs", "--save-inputs", "--engine", "--rtol", "--repro"])  # fmt: skip
def test_what_nothing_runs_on_is_usage(source, tmp_path, capsys, option):
    given = {"--runs": "1", "--rtol": "1", "--engine": "reference", "--input-shape": "batch=2", "--val-range": "[0,1]"}
    typed = ["convert", source, tmp_path / "out.onnx", "--opset", 13, "--no-verify", option, given.get(option, "new")]
    assert cli.main([str(word) for word in typed]) == 2
    assert f"{option} has no effect with --no-verify" in capsys.readouterr().err
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("verb", [["convert", "--opset", "13"], ["inline", "--op", "Add", "--opset", "13"], ["fold"]])
def test_each_verb_that_verifies_takes_them(source, tmp_path, capsys, verb):
    command = [*verb, str(source), str(tmp_path / "out.onnx")]
    if verb[0] != "inline":
        assert cli.main([*command, "--input-shape", "batch=2,seq=5", "--runs", "1"]) == 0
        assert "tested on 1 input: image 2x5, ids 2" in capsys.readouterr().out
    assert cli.main([*command, "--input-shape", "x:1"]) == 2
    assert "the model has no input 'x'; it has 'ids', 'image'" in capsys.readouterr().err


ARRAYS = {"image": np.ones((2, 5), np.float32), "ids": np.array([4, 9])}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"imgae": ARRAYS["image"]}, "no input 'imgae'; did you mean 'image'?"),
        ({"image": np.ones((2, 5))}, "an array of float64 is given for input 'image', which takes float32"),
        ({"image": np.ones(2, np.float32)}, "'image' has rank 2 ([batch,seq]), but an array of rank 1 is given ([2])"),
        ({"ids": np.array(["4", "9"])}, "an array of <U1 is given for input 'ids', which takes int64"),
    ],
)
def test_arrays_that_a_model_does_not_take_are_usage(source, tmp_path, capsys, change, why):
    np.savez(tmp_path / "given.npz", **{**ARRAYS, **change})
    assert run(source, "--inputs", tmp_path / "given.npz") == 2
    assert why in capsys.readouterr().err
    with pytest.raises(ValueError, match="input"):
        opshift.verify(str(source), str(source), inputs={**ARRAYS, **change})


def test_both_run_on_the_arrays_that_are_given(source, tmp_path, capsys):
    """The second model differs at ids of 9 alone, which nobody would draw."""
    text = "c = Mul(b, b) n = Equal(ids, c) m = Cast<to=1>(n) i = Cast<to=1>(ids) k = Add(i, m) j = Unsqueeze(k, a) y = Add(image, j)"
    other = tmp_path / "other.onnx"
    onnx.save(model(text, 17, constants="int64[1] a = {1}, int64[1] b = {3}", **TWO), other)
    np.savez(tmp_path / "given.npz", **ARRAYS)
    assert cli.main(["verify", str(source), str(other)]) == 0
    assert cli.main(["verify", str(source), str(other), "--inputs", str(tmp_path / "given.npz")]) == 4
    assert "10.0 instead of 9.0" in capsys.readouterr().out
    assert opshift.verify(str(source), str(other), inputs=[ARRAYS]).status == "different"


def test_what_is_left_out_fits_what_is_given(source):
    found = opshift.verify(str(source), str(source), inputs={"image": ARRAYS["image"]})
    assert found.inputs == ({"image": [2, 5], "ids": [2]},)


def test_what_is_given_and_does_not_fit_is_unverified(source, capsys, tmp_path):
    np.savez(tmp_path / "given.npz", image=ARRAYS["image"], ids=np.arange(3))
    assert run(source, "--inputs", tmp_path / "given.npz") == 3
    assert "the first model does not accept the given inputs" in capsys.readouterr().out


def test_test_data_of_onnx(source, tmp_path, capsys):
    for number in range(2):
        folder = tmp_path / "data" / f"test_data_set_{number}"
        folder.mkdir(parents=True)
        for index, value in enumerate(ARRAYS.values()):
            (folder / f"input_{index}.pb").write_bytes(onnx.numpy_helper.from_array(value).SerializeToString())
        (folder / "output_0.pb").write_bytes(b"")
    assert run(source, "--inputs", tmp_path / "data") == 0
    assert "tested on 2 inputs" in capsys.readouterr().out
    assert run(source, "--inputs", folder, "--inputs", folder) == 0
    assert "tested on 2 inputs" in capsys.readouterr().out
    assert run(source, "--inputs", folder) == 0
    assert "tested on 1 input:" in capsys.readouterr().out
    (folder / "input_2.pb").write_bytes((folder / "input_1.pb").read_bytes())
    assert run(source, "--inputs", folder) == 2
    assert "input_2.pb); the model has 2 inputs" in capsys.readouterr().err
    (folder / "input_2.pb").unlink()
    (folder / "input_1.pb").write_bytes(b"\xff\xff")
    assert run(source, "--inputs", folder) == 5


def test_one_array_is_for_one_input(source, tmp_path, capsys):
    single = tmp_path / "single.onnx"
    onnx.save(model("y = Relu(x)", 17, inputs="float[N] x", outputs="float[N] y"), single)
    np.save(tmp_path / "one.npy", np.ones(7, np.float32))
    assert run(single, "--inputs", tmp_path / "one.npy") == 0
    assert "tested on 1 input: x 7" in capsys.readouterr().out
    assert run(source, "--inputs", tmp_path / "one.npy") == 2


def test_files_that_cannot_be_read(source, tmp_path, capsys):
    (tmp_path / "text.npz").write_text("no arrays")
    np.save(tmp_path / "code.npy", np.array([object()]), allow_pickle=True)
    (tmp_path / "empty").mkdir()
    for name in ("text.npz", "code.npy", "empty", "nowhere.npz"):
        assert run(source, "--inputs", tmp_path / name) == 5
        assert name in capsys.readouterr().err


@pytest.mark.parametrize("name", ["used.npz", "used"])
def test_what_was_saved_is_read_again(source, tmp_path, name):
    kept = tmp_path / name
    assert run(source, "--seed", "7", "--save-inputs", kept) == 0
    first = opshift.verify(str(source), str(source), inputs=kept)
    assert first.inputs == (
        {"image": [1, 16], "ids": [1]},
        {"image": [2, 24], "ids": [2]},
        {"image": [3, 1], "ids": [3]},
    )
    assert run(source, "--inputs", kept, "--save-inputs", tmp_path / f"again-{name}") == 0
    files = sorted(kept.rglob("*.pb")) or [kept]
    for file in files:
        again = tmp_path / f"again-{name}" / file.relative_to(kept) if kept.is_dir() else tmp_path / f"again-{name}"
        assert file.read_bytes() == again.read_bytes()


def test_sets_are_not_mixed_with_older_ones(source, tmp_path, capsys):
    assert run(source, "--save-inputs", tmp_path / "used") == 0
    assert run(source, "--save-inputs", tmp_path / "used", "--runs", "1") == 2
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.parametrize("opset", [22, 28])
def test_types_that_numpy_does_not_have_are_saved_too(opset, tmp_path, capsys):
    path, kept = tmp_path / "in.onnx", tmp_path / "used.npz"
    io = {"inputs": "bfloat16[2] x, string[2] s", "outputs": "bfloat16[2] y, string[2] t"}
    onnx.save(model("y = Identity(x) t = Identity(s)", opset, **io), path)
    assert run(path, "--save-inputs", kept, "--runs", "1") == 0
    assert run(path, "--inputs", kept) == 0
    assert capsys.readouterr().out.count("equal: the same values") == 2


def test_a_sequence_has_no_place_in_an_npz(tmp_path):
    text = '<ir_version: 8, opset_import: ["" : 13]> g (seq(float[2]) s) => (float[2] y) { y = ConcatFromSequence<axis=0>(s) }'
    path = tmp_path / "in.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    assert run(path, "--save-inputs", tmp_path / "used.npz") == 2
    assert run(path, "--save-inputs", tmp_path / "used") == 0
    assert run(path, "--inputs", tmp_path / "used") == 0


def test_ranges_hold_for_what_is_drawn(source, tmp_path):
    kept = tmp_path / "used.npz"
    shape = ["--input-shape", "batch=100,seq=20", "--runs", "1"]
    assert run(source, "--val-range", "image:[2,3]", "--val-range", "ids:[5,6]", *shape, "--save-inputs", kept) == 0
    held = np.load(kept)
    assert (held["image"].min() >= 2, held["image"].max() <= 3) == (True, True)
    assert set(held["ids"].tolist()) == {5, 6}


@pytest.mark.parametrize(("given", "equal"), [(None, False), ("[0,1]", True), ((0, 1), True), ({"x": (0, 1)}, True)])
def test_a_range_without_a_name_holds_for_all(given, equal):
    before, after = (
        model(f"y = {op}(x)", 17, inputs="float[64] x", outputs="float[64] y") for op in ("Abs", "Identity")
    )
    assert opshift.verify(before, after, val_range=given).equal == equal


@pytest.mark.parametrize(
    ("given", "shapes", "sizes"),
    [
        ("x:0:1,3", {"x:0": (1, 3)}, {}),
        ("x:", {"x": ()}, {}),
        ("x:[1, 3]", {"x": (1, 3)}, {}),
        ("a=1,b=2", {}, {"a": 1, "b": 2}),
        ({"x": [1, 3], "a": 4}, {"x": (1, 3)}, {"a": 4}),
        (["x:1", "a=0"], {"x": (1,)}, {"a": 0}),
    ],
)
def test_how_sizes_are_written(given, shapes, sizes):
    found = read_options(input_shape=given)
    assert (found.shapes, found.sizes) == (shapes, sizes)


@pytest.mark.parametrize("given", [{"x": (0, 1)}, "x:[0,1]", ["x:[0, 1.0]"]])
def test_how_ranges_are_written(given):
    assert read_options(val_range=given).ranges == {"x": (0.0, 1.0)}
    assert read_options(val_range=(0, 1)).ranges == read_options(val_range="[0,1]").ranges == {"": (0.0, 1.0)}


def test_many_models(source, tmp_path, capsys):
    out = str(tmp_path / "out")
    command = ["convert", str(source), "--out-dir", out, "--opset", "13", "--format", "json"]
    assert cli.main([*command, "--input-shape", "batch=2", "--runs", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["verification"]["inputs"] == [
        {"image": [2, 16], "ids": [2]}
    ]
    assert cli.main([*command, "--save-inputs", str(tmp_path / "used.npz")]) == 2
    (found,) = opshift.convert_files([source], tmp_path / "more", 13, input_shape={"bathc": 2})
    assert (found.code, "did you mean 'batch'?" in found.why) == (2, True)
