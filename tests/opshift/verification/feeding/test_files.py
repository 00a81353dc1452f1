"""Sets of inputs in files: which array is which input of which set, and what is no inputs at all."""

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from onnx import TypeProto
from opshift.passes.inputs.wanted import Wanted
from opshift.passes.model.types import tensor_type

from opshift.files.writing import CannotWrite
from opshift.verification.feeding import files
from opshift.verification.feeding.asked import Asked, at, check_inputs, read_options
from tests.support import model

FLOAT = tensor_type(1, [None])
TWO = {"x": FLOAT, "z": FLOAT}
A, B = np.float32([1, 2]), np.float32([3])


def plain(sets):
    return [{name: np.asarray(value).tolist() for name, value in one.items()} for one in sets]


def test_one_array_is_the_only_input(tmp_path):
    np.save(tmp_path / "a.npy", A)
    assert plain(files.read(tmp_path / "a.npy", {"x": FLOAT})) == [{"x": [1, 2]}]
    with pytest.raises(ValueError, match="holds one array, the model has 2 inputs"):
        files.read(tmp_path / "a.npy", TWO)


@pytest.mark.parametrize(
    ("arrays", "inputs", "sets"),
    [
        ({"x": A, "z": B}, TWO, [{"x": [1, 2], "z": [3]}]),
        ({"10/x": A, "2/x": B, "2/z": A}, TWO, [{"x": [3], "z": [1, 2]}, {"x": [1, 2]}]),
        ({"x": A, "1/x": B}, TWO, [{"x": [1, 2]}, {"x": [3]}]),
        ({"0/x": A}, {"0/x": FLOAT}, [{"0/x": [1, 2]}]),
        ({"1/0/x": A}, {"0/x": FLOAT}, [{"0/x": [1, 2]}]),
        ({"other": A}, TWO, [{"other": [1, 2]}]),
    ],
)
def test_arrays_by_name_and_set(arrays, inputs, sets, tmp_path):
    np.savez(tmp_path / "a.npz", **arrays)
    assert plain(files.read(tmp_path / "a.npz", inputs)) == sets


def written(folder, *arrays):
    folder.mkdir(parents=True, exist_ok=True)
    for number, array in enumerate(arrays):
        (folder / f"input_{number}.pb").write_bytes(onnx.numpy_helper.from_array(array).SerializeToString())
    return folder


def test_test_data_are_in_the_order_of_the_inputs_and_of_the_sets(tmp_path):
    assert plain(files.read(written(tmp_path / "one", A, B), TWO)) == [{"x": [1, 2], "z": [3]}]
    assert plain(files.read(written(tmp_path / "some", A), TWO)) == [{"x": [1, 2]}]
    for number, array in ((10, B), (9, A)):
        written(tmp_path / "all" / f"test_data_set_{number}", array)
    written(tmp_path / "all" / "other", A)
    assert plain(files.read(tmp_path / "all", TWO)) == [{"x": [1, 2]}, {"x": [3]}]
    (written(tmp_path / "many", *[A] * 11)).joinpath("input_9.pb").unlink()
    found = files.read(tmp_path / "many", {f"i{number}": FLOAT for number in range(11)})
    assert list(found[0]) == [*(f"i{number}" for number in range(9)), "i10"]


def test_what_a_folder_does_not_hold(tmp_path):
    with pytest.raises(ValueError, match=r"input_1\.pb\); the model has 1 inputs"):
        files.read(written(tmp_path / "two", A, B), {"x": FLOAT})
    (tmp_path / "none").mkdir()
    with pytest.raises(OSError, match=r"input_0\.pb is missing") as told:
        files.read(tmp_path / "none", TWO)
    assert told.value.filename == str(tmp_path / "none")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x93NUMPY", b"text"])
def test_what_is_no_array(content, tmp_path):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(OSError, match=r"not a \.npz or \.npy"):
        files.read(tmp_path / "a.npz", TWO)
    with pytest.raises(OSError, match="No such file"):
        files.read(tmp_path / "none.npz", TWO)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (tensor_type(1, [None]), A),
        (TypeProto(sequence_type=TypeProto.Sequence(elem_type=FLOAT)), [A, B]),
        (TypeProto(optional_type=TypeProto.Optional(elem_type=FLOAT)), A),
        (TypeProto(optional_type=TypeProto.Optional(elem_type=FLOAT)), None),
    ],
)
def test_what_is_kept_is_read_again(kind, value, tmp_path):
    files.save(str(tmp_path / "kept"), [{"x": value}], {"x": kind})
    ((found),) = files.read(tmp_path / "kept", {"x": kind})
    assert type(found["x"]) is type(value)
    np.testing.assert_equal(found["x"], value)
    (tmp_path / "kept" / "test_data_set_0" / "input_0.pb").write_bytes(b"\x0a\xff")
    with pytest.raises(OSError, match=f"no {kind.WhichOneof('value')} of ONNX"):
        files.read(tmp_path / "kept", {"x": kind})


def test_one_set_and_several_in_an_npz(tmp_path):
    path = str(tmp_path / "a.npz")
    files.save(path, [{"x": A, "z": np.array(["a", ""], object)}], TWO)
    assert plain(files.read(path, TWO)) == [{"x": [1, 2], "z": ["a", ""]}]
    files.save(path, [{"x": A}, {"x": B}], TWO)
    assert sorted(np.load(path).files) == ["0/x", "1/x"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npz"], "no draft is left"
    for value in (None, [A]):
        with pytest.raises(ValueError, match=r"a \.npz file cannot hold the type of input 'x'"):
            files.save(path, [{"x": value}], TWO)
    with pytest.raises(CannotWrite):
        files.save(str(tmp_path / "none" / "a.npz"), [{"x": A}], TWO)


# --- what is read_options for --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "ranges"),
    [
        (None, {}),
        ((0, 2), {"": (0, 2)}),
        ({"x": (0, 2)}, {"x": (0, 2)}),
        ("x:[0, 2]", {"x": (0, 2)}),
        ("[0,2]", {"": (0, 2)}),
        (["x:[0,2]", "a:b:[-1,1]"], {"x": (0, 2), "a:b": (-1, 1)}),
        (("x:[0,2]", "z:[1,1]"), {"x": (0, 2), "z": (1, 1)}),
    ],
)
def test_ranges_as_they_are_given(given, ranges):
    wanted = read_options(val_range=given)
    assert wanted.ranges == ranges
    assert wanted.range_of("x") == ranges.get("x", ranges.get(""))


@pytest.mark.parametrize("given", [(2, 0), {"x": (0, float("nan"))}, (float("-inf"), 0)])
def test_ranges_that_hold_nothing(given):
    with pytest.raises(ValueError, match="must go from a least to a largest number"):
        read_options(val_range=given)


SOURCE = {"inputs": "float[N,2] x, uint8[N] k, string[N] s, bfloat16[N] b", "outputs": "y"}


@pytest.mark.parametrize(
    ("name", "bounds", "why"),
    [
        ("k", (0, 255), ""),
        ("k", (-1, 9), "'k' has type uint8, which has no numbers in the range"),
        ("k", (0, 256), "'k' has type uint8, which has no numbers in the range"),
        ("k", (0.2, 0.8), "'k' has type uint8, which has no numbers in the range"),
        ("k", (0.2, 1), ""),
        ("s", (0, 1), "'s' takes strings"),
        ("b", (0.2, 0.8), ""),
        ("x", (-1e30, 1e30), ""),
    ],
)
def test_a_range_is_one_of_the_type(name, bounds, why):
    wanted, of = read_options(val_range={name: bounds}), model("y = Identity(x)", 17, **SOURCE)
    if why:
        with pytest.raises(ValueError, match=why):
            check_inputs(wanted, of)
    else:
        assert check_inputs(wanted, of) == wanted


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (Asked(inputs=[]), "the list of inputs is empty"),
        (Asked(inputs=[3]), "a path, as arrays by name, or as a list"),
        (
            Asked(inputs=({"x": np.ones((3, 2), np.float32)},), shapes={"x": (2, 2)}),
            r"with shape \[3, 2\], but --input-shape asks for \[2, 2\]",
        ),
        (
            Asked(inputs=({"x": np.ones((3, 2), np.float32)},), sizes={"N": 2}),
            r"'N' cannot have two sizes, 2 and 3 \(in 'x'\)",
        ),
        (Asked(inputs=({"x": np.ones((3, 2), np.float32)},), ranges={"x": (0, 1)}), "a range for it has no effect"),
        (Asked(inputs=({"x": np.ones((3, 2), np.float32)},), runs=2), r"2 runs are asked for \(runs\), but 1 sets"),
        (Asked(shapes={"x": (2, 2)}, sizes={"N": 3}), r"'N' cannot have two sizes, 3 and 2 \(in 'x'\)"),
        (Asked(tolerances={"z": 1}), "no output 'z'"),
        (Asked(sizes={"M": 1}), "no symbolic dimension 'M'"),
        (Asked(ranges={"w": (0, 1)}), "no input 'w'"),
    ],
)
def test_what_a_model_does_not_take(wanted, why):
    with pytest.raises(ValueError, match=why):
        check_inputs(wanted, model("y = Identity(x)", 17, **SOURCE))


def test_what_a_model_takes():
    of, held = model("y = Identity(x)", 17, **SOURCE), {"x": np.float32([[1, 2]])}
    wanted = check_inputs(Asked(inputs=held, runs=1, tolerances={"": 1, "y": 2}, ranges={"": (0, 1)}), of)
    assert plain(wanted.sets) == [{"x": [[1, 2]]}]
    assert wanted.sets[0]["x"].dtype == np.float32
    assert check_inputs(Asked(inputs=[held, held]), of).sets[1]["x"].shape == (1, 2)
    assert Asked(inputs=held).sets == ()


def test_what_is_fixed_goes_before_and_is_not_contradicted():
    of = model("y = Identity(x)", 17, **SOURCE)
    assert at(Asked(seed=3), Wanted(), of) == Asked(seed=3)
    found = at(Asked(seed=3), Wanted(sizes={"N": 4}, shapes={"x": (4, 2)}), of)
    assert (found.seed, found.sizes, found.shapes) == (3, {"N": 4}, {"x": (4, 2)})
    for wanted, why in (
        (Asked(sizes={"N": 5}), "'N' is fixed to 4"),
        (Asked(shapes={"x": (5, 2)}), "'x' is fixed to"),
    ):
        with pytest.raises(ValueError, match=why):
            at(wanted, Wanted(sizes={"N": 4}, shapes={"x": (4, 2)}), of)


def test_engines_and_places_that_are_named(tmp_path):
    assert read_options().engines == ()
    assert read_options(engine="reference").engines == ("reference", "reference")
    assert (
        read_options(engine="onnxruntime,reference").engines
        == read_options(engine=("onnxruntime", "reference")).engines
    )
    (tmp_path / "held").mkdir()
    assert read_options(repro=tmp_path / "held").repro == str(tmp_path / "held"), "it is empty"
    (tmp_path / "held" / "x").write_text("")
    for option in ("repro", "save_inputs"):
        with pytest.raises(ValueError, match="is not empty"):
            read_options(**{option: tmp_path / "held"})
    assert read_options(save_inputs=tmp_path / "held" / "x").save == str(tmp_path / "held" / "x")
