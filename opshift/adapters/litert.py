"""LiteRT: onnx2tf converts, and LiteRT's interpreter runs it on the processor."""

import glob
import os
import shutil

import numpy as np
import onnx2tf
from ai_edge_litert.interpreter import Interpreter

PACKAGE = "ai-edge-litert"
REASONS = [
    r"Select TensorFlow op|Select TF op|[Ff]lex\w* op",
    r"ERROR: (?!.*(?:input_onnx_file_path|onnx_op_name|Read this|Alternatively|If the input))",
    r"(?:NotImplemented|Runtime|Value|Type|Key|Index|Attribute|Assertion)Error: \S",
]
_SAMPLES = "calibration_image_sample_data_20x128x128x3_float32.npy"


class Session:
    """A converted model. Inputs stay as they lie; an output that comes out with its channels last is turned back."""

    def __init__(self, path, folder, inputs, outputs, options):
        self._inputs, self._outputs = list(inputs), outputs
        place = os.path.join(folder, "litert")
        shutil.rmtree(place, ignore_errors=True)
        os.chdir(folder)  # of images, onnx2tf runs samples that it downloads, if they do not lie where it works
        np.save(_SAMPLES, np.random.default_rng(0).random((20, 128, 128, 3), np.float32))
        onnx2tf.convert(
            input_onnx_file_path=path,
            output_folder_path=place,
            keep_shape_absolutely_input_names=self._inputs,
            not_use_onnxsim=True,
            verbosity="error",
        )
        written = glob.glob(os.path.join(place, "*_float32.tflite"))
        if not written:
            raise RuntimeError("onnx2tf wrote no file")
        self._interpreter = Interpreter(written[0], num_threads=1)
        self._interpreter.allocate_tensors()

    def run(self, feeds):
        details = self._interpreter.get_input_details()
        for place, name in enumerate(self._inputs):
            detail = _find_input(details, place, name)
            if detail is not None:
                array = np.ascontiguousarray(feeds[name], detail["dtype"])
                if list(detail["shape"]) != list(array.shape):
                    raise ValueError(
                        f"onnx2tf gave input {name} the shape {list(detail['shape'])}, and the test feeds "
                        f"{list(array.shape)}"
                    )
                self._interpreter.set_tensor(detail["index"], array)
        self._interpreter.invoke()
        details = self._order(self._interpreter.get_output_details())
        found = [self._interpreter.get_tensor(detail["index"]) for detail in details]
        return [_turn(array, dims) for array, (_, dims) in zip(found, self._outputs.values())]  # noqa: B905

    def _order(self, details):
        """Details in the order of the outputs: TensorFlow numbers them by name, and lists them in another order."""
        signature = next(iter(self._interpreter.get_signature_list().values()), {"outputs": []})
        numbered = {detail["name"].rpartition(":")[2]: detail for detail in details}
        names = {name: numbered.get(str(place)) for place, name in enumerate(sorted(signature["outputs"]))}
        ordered = [names.get(_clean(name)) for name in self._outputs]
        return details if None in ordered else ordered


def _find_input(details, place, name):
    """The input of a name, as TensorFlow writes names; None if nothing reads it."""
    plain = [detail["name"].removeprefix("serving_default_").rpartition(":")[0] or detail["name"] for detail in details]
    if _clean(name) in plain:
        return details[plain.index(_clean(name))]
    return details[place] if len(details) > place else None


def _turn(array, dims):
    """An array in its declared sizes, if these are known and it holds them with its channels, or a 1, elsewhere."""
    known = all(isinstance(size, int) for size in dims)
    if not known or list(array.shape) == list(dims):
        return array
    if [size for size in array.shape if size != 1] == [size for size in dims if size != 1]:
        return array.reshape(dims)
    first = np.moveaxis(array, -1, 1) if array.ndim > 2 else array
    return first if list(first.shape) == list(dims) else array


def _clean(name):
    return "".join(letter if letter.isalnum() or letter in "_." else "_" for letter in name)
