"""What type checkers know of the Python API: `mypy --strict tests/opshift/typed.py`, which `.ci/run` does; it is not run."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
from typing_extensions import assert_type

import opshift


def a_path_gives_a_message(text: str, path: Path) -> None:
    assert_type(opshift.convert_version(text, 13), onnx.ModelProto)
    assert_type(opshift.convert_version(path, {"": 13}, optimize=True), onnx.ModelProto)
    assert_type(opshift.inline(path, ["Gelu"], domain=None), onnx.ModelProto)
    assert_type(opshift.fold(text), onnx.ModelProto)
    assert_type(opshift.optimize(path), onnx.ModelProto)


def models_give_their_own_kind(proto: onnx.ModelProto, model: onnx_ir.Model) -> None:
    assert_type(opshift.convert_version(proto, "latest"), onnx.ModelProto)
    assert_type(opshift.convert_version(model, 13), onnx_ir.Model)
    assert_type(opshift.inline(model, ops=["Gelu"]), onnx_ir.Model)
    assert_type(opshift.fold(proto, ["Gelu"], 21), onnx.ModelProto)
    assert_type(opshift.optimize(model), onnx_ir.Model)


def what_is_wrong_is_found(proto: onnx.ModelProto) -> None:
    opshift.convert_version(3, 13)  # type: ignore[call-overload]
    opshift.convert_version(proto, 13, optimise=True)  # type: ignore[call-overload]
    opshift.optimize(proto, 13)  # type: ignore[call-overload]
    opshift.optimize(proto, progress=3)  # type: ignore[call-overload]
    opshift.verify(proto, 3)  # type: ignore[arg-type]


def verification_takes_what_a_user_has(proto: onnx.ModelProto, model: onnx_ir.Model, path: Path) -> None:
    given: Mapping[str, np.ndarray] = {"x": np.zeros(3)}
    found = opshift.verify(proto, path, inputs=given, rtol=1e-3, atol={"y": 0.1}, engine=("onnxruntime", "openvino"))
    assert_type(found, opshift.Verification)
    assert_type(bool(found), bool)
    assert_type(found.equal, bool)
    opshift.verify(model, model, inputs=[given], input_shape={"batch": 2, "x": (1, 2)}, val_range={"x": (0, 1)}, runs=2)
    opshift.verify(path, path, engine="reference", save_inputs=path, repro="there")


def what_is_done_can_be_heard(proto: onnx.ModelProto, path: Path) -> None:
    def heard(what: str, place: int, count: int) -> None:
        print(what, place, count)

    assert_type(opshift.convert_version(path, 13, progress=heard), onnx.ModelProto)
    assert_type(opshift.inline(proto, ["Gelu"], progress=heard), onnx.ModelProto)
    assert_type(opshift.fold(path, progress=print), onnx.ModelProto)
    assert_type(opshift.plan(path, 13, progress=heard), opshift.Plan)
