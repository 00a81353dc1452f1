"""Models that ask for more than there is: one line, an exit code that says so, and bounded time and memory."""

import contextlib
import io
import resource

import onnx
import onnx.parser
import pytest
from opshift.passes import process

from opshift.cli import main as cli
from opshift.jobs import exit_codes
from opshift.verification import isolation
from tests import pairs

pytestmark = pytest.mark.posix

HUGE = 1 << 42
MEMORY = 4 << 30  # bytes more than the tests have, engines included
SECONDS = 60  # of processor time; each takes less than one


def parsed(body, constants="", opset=18, inputs="float[3] x", outputs="float[N] y"):
    held = f"<{constants}>" if constants else ""
    header = f'<ir_version: 8, opset_import: ["": {opset}]>'
    return onnx.parser.parse_model(f"{header} g ({inputs}) => ({outputs}) {held} {{ {body} }}")


def edited(edit, *arguments, **named):
    made = parsed(*arguments, **named)
    edit(made.graph)
    return made


def nested(graph):
    kind = graph.input.add(name="s").type
    for _ in range(45):
        kind = kind.sequence_type.elem_type
    kind.tensor_type.elem_type = 1


def mapped(graph):
    kind = graph.input.add(name="s").type
    kind.map_type.key_type = 99
    kind.map_type.value_type.tensor_type.elem_type = 1


def many_dims(graph):
    for _ in range(100_000):
        graph.input[0].type.tensor_type.shape.dim.add().dim_param = "N"


def twice(graph):
    graph.node[0].attribute.add().CopyFrom(graph.node[0].attribute[0])


def mistaken(graph):
    graph.node[0].op_type = graph.node[1].domain = "n" * 5_000_000


def renamed(graph):
    graph.node[0].output[0] = graph.node[1].input[0] = "n" * 5_000_000


BYTES = {
    "expand": parsed("a = Expand(z, s) y = ReduceMax(x, a)", f"int64[1] z = {{0}}, int64[1] s = {{{HUGE}}}"),
    "tile": parsed("a = Tile(z, s) y = ReduceMax(x, a)", f"int64[1] z = {{0}}, int64[1] s = {{{HUGE}}}"),
    "range": parsed("a = Range(z, s, o) y = ReduceMax(x, a)", f"int64 z = {{0}}, int64 s = {{{HUGE}}}, int64 o = {{1}}"),
    "gather": parsed(
        "a = ConstantOfShape(s) b = Cast<to = 7>(a) c = Gather(z, b) d = Gather(c, b) y = ReduceMax(x, d)",
        "int64[1] z = {0}, int64[2] s = {65536, 65536}",
    ),
    "filled": parsed("a = ConstantOfShape(s) y = Add(a, x)", f"int64[1] s = {{{HUGE}}}", 13),
    "axes": parsed("y = ReduceMax<axes = [9223372036854775807]>(x)", opset=13),
    "computed axes": parsed("y = ReduceMax(x, a)", "int64[1] a = {-9223372036854775808}"),
    "hidden": parsed(
        "y = LSTM<hidden_size = 9223372036854775807>(x, x, x)", "", 13, "float[1,1,1] x", "float[A,B,C,D] y"
    ),
    "window": parsed(
        "y = AveragePool<kernel_shape = [1000000, 1000000], pads = [999999, 999999, 999999, 999999]>(x)",
        "", 19, "float[1,1,4,4] x", "float[A,B,C,D] y",
    ),
    "split": parsed("y = Split<num_outputs = 9223372036854775807>(x)"),
    "input": parsed("y = ReduceMax<axes = [0]>(x)", "", 13, f"float[{1 << 20},{1 << 22}] x"),
    "many dims": edited(many_dims, "y = ReduceMax<axes = [0]>(x)", "", 13),
    "claims": edited(lambda g: g.initializer[0].dims.__setitem__(0, HUGE), "y = ReduceSum(x, a)", "int64[1] a = {0}"),
    "overflow": edited(
        lambda g: g.initializer[0].dims.extend([1 << 32, 1 << 62]), "y = ReduceSum(x, a)", "int64[1] a = {0}"
    ),
    "sequences": edited(nested, "y = ReduceMax<axes = [0]>(x)", "", 13),
    "map": edited(mapped, "y = ReduceMax<axes = [0]>(x)", "", 13),
    "attribute twice": edited(twice, "y = ReduceMax<axes = [0]>(x)", "", 13),
    "long name": edited(renamed, "a = ReduceMax<axes = [0]>(x) y = Neg(a)", "", 13),
    "long operator": edited(mistaken, "a = Neg(x) y = Neg(a)", "", 13),
    "itself": parsed("y = Neg(y)", "", 13),
    "each other": parsed("a = Add(b, z) b = Add(a, z) y = ReduceSum(x, b)", "int64[1] z = {0}"),
    "no body": parsed("y = Loop(x, x, x)", "", 13),
}  # fmt: skip

VECTORS = {
    **{
        f"{op} of a long vector": parsed(
            f"a = ConstantOfShape(s) b = Cast<to = 7>(a) c = {op}(x, b) y = ReduceMax(c, z)",
            f"int64[1] s = {{{1 << 30}}}, int64[1] z = {{0}}",
        )
        for op in ("Reshape", "Expand")
    },
    "doubled": parsed(
        " ".join(["a0 = Identity(z)", *(f"a{i + 1} = Concat<axis = 0>(a{i}, a{i})" for i in range(40))])
        + " b = Reshape(x, a40) y = ReduceMax(b, z)",
        "int64[1] z = {1}",
    ),
}


def attempt(model, target, folder, *options):
    """What the command line says of a model within limits."""
    most = MEMORY + (process.memory_in_use())
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    (folder / "in.onnx").write_bytes(model.SerializeToString())
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        paths = str(folder / "in.onnx"), str(folder / "out.onnx")
        code = cli.main(["convert", *paths, "--opset", str(target), *options])
    assert all(len(line) < 3000 for line in (out.getvalue() + err.getvalue()).splitlines())
    return code, err.getvalue(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


@pytest.mark.long
@pytest.mark.parametrize(("name", "target"), pairs.in_turn(BYTES, [9, 21]))
def test_it_is_said_in_one_line(name, target, tmp_path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    code, said, most = isolation.call(attempt, BYTES[name], target, tmp_path)
    assert code in (exit_codes.DONE, exit_codes.REFUSED, exit_codes.UNREADABLE), said
    assert said.count("\n") == (code == exit_codes.UNREADABLE)
    assert (tmp_path / "out.onnx").exists() == (code == exit_codes.DONE)
    assert most < before + (1 << 30)


@pytest.mark.parametrize("name", VECTORS)
def test_inference_makes_no_room_for_long_vectors(name, tmp_path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    code, said, most = isolation.call(attempt, VECTORS[name], 13, tmp_path, "--no-verify")
    assert (code, said) == (exit_codes.DONE, "")
    assert most < before + (1 << 30)
