"""`python -m tests.lab fuzz-structure [--seconds N] [FOLDER]`: models with something wrong, through each verb.

Random models get what no exporter writes: attributes missing, doubled or of another type, names twice or of nothing,
cycles, other operators, domains, types, shapes and versions. What went wrong is left in FOLDER as the model that shows it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
import time
from pathlib import Path

import onnx
import onnx.defs
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto
from opshift.passes.model.messages import FunctionProto
from opshift.passes.model.traversal import bodies

from opshift.cli import main as cli
from opshift.jobs import exit_codes
from tests.scenarios.random_models import make

CODES = (exit_codes.DONE, exit_codes.USAGE, exit_codes.REFUSED, exit_codes.UNREADABLE)
OPERATORS = sorted({s.name for s in onnx.defs.get_all_schemas() if not s.domain})
NUMBERS = [-(1 << 63), -9, -1, 0, 1, 2, 7, 1 << 31, (1 << 63) - 1]


class Damage:
    """Changes one thing in a model that no exporter would have written so."""

    def __init__(self, draw, model):
        self.draw, self.model = draw, model
        self.body = self.pick(list(bodies(model)))
        self.node = self.pick(self.body.node) if self.body.node else onnx.NodeProto()

    def pick(self, choices):
        return self.draw(st.sampled_from(list(choices)))

    def name(self):
        given = self.body.input if isinstance(self.body, FunctionProto) else [v.name for v in self.body.input]
        return self.pick(["", "nothing", *given, *(n for node in self.body.node for n in (*node.input, *node.output))])

    def value(self):
        """A typed value: an input, an output, or one between; one of nothing in functions."""
        if isinstance(self.body, FunctionProto):
            return onnx.ValueInfoProto()
        return self.pick([*self.body.input, *self.body.output, *self.body.value_info, onnx.ValueInfoProto()])

    def any(self):
        getattr(self, self.pick(name for name in dir(self) if name.startswith("do_")))()

    def do_drop_attribute(self):
        if self.node.attribute:
            del self.node.attribute[self.pick(range(len(self.node.attribute)))]

    def do_repeat_attribute(self):
        if self.node.attribute:
            self.node.attribute.add().CopyFrom(self.pick(self.node.attribute))

    def do_rename_attribute(self):
        if self.node.attribute:
            self.pick(self.node.attribute).name = self.pick(["axis", "axes", "to", "other", ""])

    def do_add_attribute(self):
        name = self.pick(["axis", "axes", "keepdims", "to", "alpha", "mode", "value", "pads", "noop_with_empty_axes"])
        value = self.pick([self.pick(NUMBERS), [self.pick(NUMBERS)], 0.5, "text"])
        self.node.attribute.append(onnx.helper.make_attribute(name, value))

    def do_retype_attribute(self):
        if self.node.attribute:
            self.pick(self.node.attribute).type = self.pick(AttributeProto.AttributeType.values())

    def do_change_number(self):
        if self.node.attribute:
            held = self.pick(self.node.attribute)
            held.i = self.pick(NUMBERS)
            for index in range(len(held.ints)):
                held.ints[index] = self.pick(NUMBERS)

    def do_refer(self):
        if self.node.attribute:
            held = self.pick(self.node.attribute)
            held.ref_attr_name = self.pick([held.name, "nothing"])

    def do_rewire(self):
        if self.node.input:
            self.node.input[self.pick(range(len(self.node.input)))] = self.name()

    def do_drop_input(self):
        if self.node.input:
            del self.node.input[self.pick(range(len(self.node.input)))]

    def do_add_input(self):
        self.node.input.append(self.name())

    def do_rename_output(self):
        if self.node.output:
            self.node.output[self.pick(range(len(self.node.output)))] = self.name()

    def do_drop_output(self):
        if self.node.output:
            del self.node.output[self.pick(range(len(self.node.output)))]

    def do_repeat_node(self):
        self.body.node.append(self.node)

    def do_drop_node(self):
        if self.body.node:
            del self.body.node[self.pick(range(len(self.body.node)))]

    def do_reorder(self):
        nodes = list(reversed(self.body.node))
        del self.body.node[:]
        self.body.node.extend(nodes)

    def do_replace_operator(self):
        self.node.op_type = self.pick([*OPERATORS, "", "F", "Unheard"])

    def do_replace_domain(self):
        self.node.domain = self.pick(["", "ai.onnx", "own", "ai.onnx.ml", "unheard"])

    def do_overload(self):
        self.node.overload = "other"

    def do_retype(self):
        self.value().type.tensor_type.elem_type = self.pick([*TensorProto.DataType.values(), 99])

    def do_reshape(self):
        shape = self.value().type.tensor_type.shape
        if self.draw(st.booleans()) and shape.dim:
            self.pick(shape.dim).dim_value = self.pick(NUMBERS)
        elif self.draw(st.booleans()):
            shape.dim.add().dim_value = self.pick(NUMBERS)
        else:
            del shape.dim[:]

    def do_claim(self):
        """Types for values between the inputs and the outputs that nobody asked for."""
        if not isinstance(self.body, FunctionProto):
            shape = self.pick([None, [], [2], [2, 3], ["N"]])
            kind = self.pick([1, 1, 7, 9])
            self.body.value_info.append(onnx.helper.make_tensor_value_info(self.name(), kind, shape))

    def do_change_initializer(self):
        held = [] if isinstance(self.body, FunctionProto) else self.body.initializer
        if not held:
            return
        tensor = self.pick(held)
        how = self.pick(["type", "dims", "data", "name"])
        if how == "type":
            tensor.data_type = self.pick([*TensorProto.DataType.values(), 99])
        elif how == "dims":
            tensor.dims.append(self.pick(NUMBERS))
        elif how == "data":
            tensor.raw_data = tensor.raw_data[:-1]
        else:
            tensor.name = self.name()

    def do_override(self):
        held = [] if isinstance(self.body, FunctionProto) else self.body.initializer
        if held:
            tensor = self.pick(held)
            self.body.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))

    def do_output_more(self):
        if isinstance(self.body, FunctionProto):
            self.body.output.append(self.name())
        else:
            self.body.output.append(onnx.helper.make_tensor_value_info(self.name(), 1, None))

    def do_import(self):
        entry = self.pick([*self.model.opset_import, self.model.opset_import.add(domain=self.pick(["", "own", "new"]))])
        entry.version = self.pick([0, -1, 1, 6, 13, 18, 26, 28, 29, 1 << 40])

    def do_ir_version(self):
        self.model.ir_version = self.pick([0, 1, 2, 3, 4, 7, 10, 13, 99])

    def do_call_itself(self):
        for function in self.model.functions:
            self.pick([self.node, *function.node]).CopyFrom(
                onnx.NodeProto(op_type=function.name, domain=function.domain, input=function.input, output=["called"])
            )

    def do_repeat_function(self):
        for function in list(self.model.functions):
            self.model.functions.add().CopyFrom(function)


def command(draw, model):
    """What is asked of the model."""
    opset = str(draw(st.integers(7, 26)))
    ops = sorted({node.op_type for body in bodies(model) for node in body.node if node.op_type})
    named = draw(st.sampled_from(ops or ["Relu"]))
    return draw(
        st.sampled_from(
            [
                ["convert", "--opset", opset],
                ["convert", "--opset", opset, "--modernize", "--optimize"],
                ["inline", "--op", f"own::{named}" if named == "F" else named],
                ["inline", "--op", named, "--opset", opset],
                ["inline", "--domain", "own"],
                ["fold"],
                ["fold", "--optimize"],
            ]
        )
    )


def check(draw, folder):
    """It is said in one line what is wrong with a model, or it becomes one that computes the same."""
    model = make(draw)
    for _ in range(draw(st.integers(0, 3))):
        Damage(draw, model).any()
    verb, *options = command(draw, model)
    path, output = folder / "model.onnx", folder / "out.onnx"
    path.write_bytes(model.SerializeToString())
    output.unlink(missing_ok=True)
    out, err = io.StringIO(), io.StringIO()
    started = time.process_time()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
        code = cli.main([verb, str(path), str(output), *options])
    assert code in CODES, f"{code} of {[verb, *options]}: {err.getvalue()}{out.getvalue()}"
    assert code != exit_codes.UNREADABLE or err.getvalue().count("\n") == 1, err.getvalue()
    assert output.exists() == (code == exit_codes.DONE)
    assert time.process_time() - started < 10, f"{[verb, *options]} takes too long"
    return code


def run(folder, examples, number=0):
    """Check so many models; raises for the smallest one that goes wrong, which is then in the folder."""

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(st.data())
    def each(data):
        codes.append(check(data.draw, folder))

    codes: list[int] = []
    each()
    return codes


def main() -> None:
    """Fuzz for as long as asked."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab fuzz-structure")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--first", type=int, default=0, help="the number of the first series")
    parser.add_argument("folder", nargs="?", help="where the model that went wrong is kept")
    options = parser.parse_args()
    end, count, number = time.monotonic() + options.seconds, 0, options.first
    with tempfile.TemporaryDirectory() as fresh:
        folder = Path(options.folder or fresh)
        folder.mkdir(parents=True, exist_ok=True)
        while time.monotonic() < end:
            count += len(run(folder, 100, number))
            number += 1
    print(count, "models")


if __name__ == "__main__":
    main()
