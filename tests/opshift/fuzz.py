"""`python -m tests.lab fuzz [--seconds N] [FOLDER]`: damaged bytes through reading, converting, folding and writing.

atheris chooses the bytes by the lines that they reach, where it is installed; else they are chosen at random. What went
wrong is left in FOLDER as the bytes that show it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import inspect
import io
import random
import sys
import tempfile
import time
from pathlib import Path

from onnx import ModelProto
from onnx.parser import parse_model
from opshift.passes.errors import InvalidModel
from opshift.passes.model import tensor_data

from opshift.cli import main as cli
from opshift.files import model_file, skeletons, wire
from opshift.jobs import exit_codes

CODES = (exit_codes.DONE, exit_codes.REFUSED, exit_codes.UNREADABLE)
TEXTS = [
    "g (float[N,3] x) => (float[N,1] y) <int64[1] a = {1}> { s = ReduceSum(x, a) y = Softmax<axis=1>(s) }",
    "g (float[N,3] x, bool c) => (float[N,3] y) { y = If (c) <then_branch = t () => (float[N,3] p) { p = Clip(x) }, else_branch = e () => (float[N,3] q) { q = Elu<alpha=0.5>(x) }> }",
    'g (float[N,3] x) => (float[N,M] y) { y = own.F<k=2>(x) } <opset_import: ["": 13], domain: "own"> F<k>(x) => (y) { y = Flatten<axis: int = @k>(x) }',
    "g (float[N,3] x) => (float[N,3] y) <float e = {0.01}> { i = Identity(x) m = ReduceMean<axes=[1]>(i) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[1]>(q) p = Add(v, e) r = Sqrt(p) z = Div(d, r) n = Erf(z) y = Mul(z, n) }",
    "g (float[3] x) => (float[3] y) <float[3] w = {1, 2, 3}> { c = Constant<value = float[3] {4, 5, 6}>() s = Add(x, w) y = Mul(s, c) }",
]
SEEDS = [parse_model(f'<ir_version: 8, opset_import: ["": 13, "own": 1]> {text}').SerializeToString() for text in TEXTS]


def check(data: bytes, folder: Path) -> None:
    """What protobuf reads comes through unharmed; what it does not is refused in one line, and nothing is left."""
    path, output = folder / "model.onnx", folder / "out.onnx"
    path.write_bytes(data)
    try:
        expected = ModelProto.FromString(data)
    except Exception:  # protobuf's DecodeError
        expected = None
    try:
        held = model_file.embed_data(model_file.read(path, whole=0, large=8), str(folder))
    except InvalidModel:
        assert expected is None or not expected.HasField("graph") or _refused_for_its_data(data)
    else:
        assert expected is None or _text(expected) == _text(held), "a model changed on its way through the wire"
    for verb in (["convert", "--opset", str(len(data) % 28 + 1)], ["fold", "--optimize"]):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = cli.main([*verb[:1], str(path), str(output), *verb[1:], "--no-verify"])
        assert code in CODES, (verb, said.getvalue())
        assert code != exit_codes.UNREADABLE or said.getvalue().count("\n") == 1
        assert output.exists() == (code == exit_codes.DONE)
        output.unlink(missing_ok=True)
        assert [entry.name for entry in folder.iterdir()] == ["model.onnx"]


def _text(model: ModelProto) -> bytes:
    return model.SerializeToString(deterministic=True)


def _refused_for_its_data(data: bytes) -> bool:
    """Whether there may be references to external data, or what looks like some, of which protobuf knows nothing."""
    return b"location" in data or b"opshift" in data


def damaged(seed: bytes, chance: random.Random) -> bytes:
    """A seed with some bits flipped, bytes replaced, cut out or repeated."""
    data = bytearray(seed)
    for _ in range(chance.choice([1, 1, 2, 4, 16])):
        if not data:
            break
        where = chance.randrange(len(data))
        kind = chance.randrange(4)
        if kind == 0:
            data[where] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[where] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
        elif kind == 2:
            del data[where : where + chance.randrange(1, 20)]
        else:
            data[where:where] = data[where : where + chance.randrange(1, 20)]
    return bytes(data)


def at_random(seconds: float, runs: int, folder: Path) -> int:
    """Check damaged seeds for some time, or so many; returns how many."""
    chance, count, end = random.Random(0), 0, time.monotonic() + seconds
    while count < runs if runs else time.monotonic() < end:
        data = damaged(chance.choice(SEEDS), chance)
        try:
            check(data, folder)
        except BaseException:
            (folder / "crash").write_bytes(data)
            raise
        count += 1
    return count


def by_coverage(seconds: int, runs: int, folder: Path, corpus: Path) -> None:
    """The same, with bytes that atheris chooses; never returns."""
    import atheris

    for holder in (wire, skeletons, skeletons._Thinning, model_file, tensor_data):
        for function in filter(inspect.isfunction, vars(holder).values()):
            atheris.instrument_func(function)
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS):
        (corpus / f"seed-{number}").write_bytes(seed)
    limit = f"-runs={runs}" if runs else f"-max_total_time={seconds}"
    options = [limit, f"-artifact_prefix={corpus}/crash-", "-max_len=1024", "-seed=1"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], lambda data: check(data, folder))
    atheris.Fuzz()


def main() -> None:
    """Fuzz for as long, or as often, as asked."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab fuzz")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--runs", type=int, default=0, help="so often, however long it takes")
    parser.add_argument("corpus", nargs="?", help="where what was found is kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as fresh:
        if importlib.util.find_spec("atheris"):
            by_coverage(options.seconds, options.runs, Path(folder), Path(options.corpus or fresh))
        else:
            print(at_random(options.seconds, options.runs, Path(folder)), "inputs")


if __name__ == "__main__":
    main()
