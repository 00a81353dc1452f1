"""ncnn: pnnx converts, and ncnn's runtime runs it on the processor."""

import importlib.metadata
import os
import re
import signal
import subprocess

import ncnn
import numpy as np
import pnnx

RELEASE = importlib.metadata.version("ncnn").rpartition(".")[2]
"""Its date, which is how ncnn numbers releases."""
REASONS = [r"not exists or registered", r"not supported|[Uu]nsupported|NYI", r"^ignore ", r"failed|error"]

_KINDS = {"float32": "f32", "float16": "f16", "float64": "f64", "int32": "i32", "int64": "i64", "int8": "i8"}
_KINDS |= {"int16": "i16", "uint8": "u8"}


class Session:
    """A converted model. ncnn has no batch: pnnx says in a script which axis of an input, or of an output, was one."""

    def __init__(self, path, folder, inputs, outputs, options):
        self._inputs, self._outputs = list(inputs), list(outputs.values())
        place = os.path.join(folder, "ncnn")
        os.makedirs(place, exist_ok=True)
        for name in os.listdir(place):
            os.unlink(os.path.join(place, name))
        os.link(path, os.path.join(place, "model.onnx"))
        sizes = [dims for _, dims in inputs.values()]
        known = sizes and all(isinstance(size, int) for dims in sizes for size in dims)
        given = ",".join(f"{dims}{_kind(kind)}".replace(" ", "") for kind, dims in inputs.values())
        command = [pnnx.EXEC_PATH, "model.onnx", "fp16=0", *([f"inputshape={given}"] if known else []), *options]
        code = subprocess.run(command, cwd=place, check=False).returncode
        if code < 0:
            raise RuntimeError(f"pnnx ended: {signal.strsignal(-code)}")
        if not os.path.exists(os.path.join(place, "model.ncnn.param")):
            raise RuntimeError("pnnx wrote no file")
        self._net = ncnn.Net()
        self._net.opt.num_threads = 1
        for precision in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage", "bf16_packed"):
            setattr(self._net.opt, f"use_{precision}", False) if hasattr(self._net.opt, f"use_{precision}") else None
        for load, kind in ((self._net.load_param, "param"), (self._net.load_model, "bin")):
            if load(os.path.join(place, f"model.ncnn.{kind}")) != 0:
                raise RuntimeError(f"ncnn does not load what pnnx wrote: model.ncnn.{kind}")
        with open(os.path.join(place, "model_ncnn.py"), encoding="utf-8") as script:
            lines = script.read()
        self._given = {int(a): int(axis) for a, axis in re.findall(r'"in(\d+)", ncnn\.Mat\(.*batch_index=(\d+)', lines)}
        self._yielded = {int(a): int(axis) for a, axis in re.findall(r"out(\d+)\.numpy\(batch_index=(\d+)", lines)}

    def run(self, feeds):
        extractor = self._net.create_extractor()
        for place, name in enumerate(self._inputs):
            array = feeds[name]
            array = np.array(array, np.int32 if array.dtype.kind in "biu" else np.float32, order="C")
            batch = {"batch_index": self._given[place]} if place in self._given else {}
            extractor.input(f"in{place}", ncnn.Mat(array, **batch).clone())
        found = []
        for place, (kind, dims) in enumerate(self._outputs):
            code, mat = extractor.extract(f"out{place}")
            if code != 0:
                raise RuntimeError(f"ncnn does not compute output {place}")
            array = np.array(mat.numpy(**({"batch_index": self._yielded[place]} if place in self._yielded else {})))
            found.append(_declare(array, kind, dims))
        return found


def _kind(kind):
    if kind not in _KINDS:
        raise TypeError(f"pnnx takes no input of {kind}")
    return _KINDS[kind]


def _declare(array, kind, dims):
    """An array in its declared sizes, as ncnn has no scalars and no batch, and in its type where it holds that."""
    if all(isinstance(size, int) for size in dims):
        long = [[size for size in sizes if size != 1] for sizes in (array.shape, dims)]
        array = array.reshape(dims) if long[0] == long[1] else array
    wanted = np.dtype(kind)
    if wanted.kind in "biu" and array.dtype.kind == "f" and np.array_equal(array, np.rint(array)):
        return array.astype(wanted)
    return array
