"""OpenVINO IR files: what is read of them, what is refused, and what the commands make of them."""

import re
import sys

import numpy as np
import onnx
import pytest
from opshift.passes.errors import InvalidModel, Refused
from opshift.passes.model import tensor_data
from opshift.passes.openvino import xml_file
from opshift.passes.openvino.refused import REFUSED

import opshift
from opshift.cli.main import main
from opshift.files import model_file
from opshift.verification.engines import OnnxRuntime
from tests.opshift.networks import Net

pytestmark = [pytest.mark.posix, pytest.mark.usefixtures("in_this_process")]


def add(folder, *, weights=(1.0, 2.0, 3.0)):
    """x + weights, for x of any number of rows."""
    net = Net()
    x = net.parameter([-1, len(weights)], name="x")
    made = net.layer(
        "Add", [x, net.const(weights, np.float32)], {"auto_broadcast": "numpy"}, [("f32", [-1, len(weights)])]
    )
    net.result(made)
    return net.write(folder)


def test_a_network_becomes_a_model(tmp_path):
    path = add(tmp_path)
    model = opshift.convert_version(str(path), 13)
    assert isinstance(model, onnx.ModelProto)
    onnx.checker.check_model(model)
    assert [node.op_type for node in model.graph.node] == ["Add"]
    assert [value.name for value in model.graph.input] == ["x"]
    assert not model.graph.input[0].type.tensor_type.shape.dim[0].HasField("dim_value")
    x = np.float32([[0.5, -0.0, np.inf]])
    (y,) = OnnxRuntime(model).run({"x": x})
    np.testing.assert_array_equal(y, x + np.float32([1, 2, 3]))


def test_weights_stay_in_their_file(tmp_path):
    path = add(tmp_path, weights=range(1000))
    (held,) = model_file.read(path).graph.initializer
    assert tensor_data.is_stored(held)
    assert tensor_data.place(held) == tensor_data.DataPlace("net.bin", 0, 4000)
    path.with_suffix(".bin").write_bytes(bytes(4000))  # nobody has read them
    assert main(["convert", str(path), str(tmp_path / "out.onnx"), "--opset", "17", "--no-verify"]) == 0
    model = onnx.load(tmp_path / "out.onnx")
    assert not onnx.numpy_helper.to_array(model.graph.initializer[0]).any()


def test_an_output_elsewhere_takes_the_weights_along(tmp_path):
    path, folder = add(tmp_path, weights=range(1000)), tmp_path / "elsewhere"
    folder.mkdir()
    assert main(["convert", str(path), str(folder / "out.onnx"), "--opset", "17", "--no-verify"]) == 0
    assert (folder / "net.bin").read_bytes() == path.with_suffix(".bin").read_bytes()


def test_the_commands_read_networks(tmp_path, capsys):
    pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")
    path, output = str(add(tmp_path)), str(tmp_path / "net.onnx")
    assert main(["convert", path, output, "--opset", "13"]) == 0
    assert "equal: the same " in capsys.readouterr().out
    assert main(["verify", path, output]) == 0
    assert main(["verify", output, path]) == 0
    assert main(["inspect", path]) == 0
    assert "Add: 1" in capsys.readouterr().out
    assert opshift.verify(path, output).equal


def test_another_model_differs_from_the_network(tmp_path, capsys):
    pytest.importorskip("openvino", reason="OpenVINO is an optional dependency")
    model = model_file.read(add(tmp_path))
    onnx.save(model, tmp_path / "out.onnx")
    (tmp_path / "other").mkdir()
    path = add(tmp_path / "other", weights=(1.0, 2.0, 4.0))
    assert main(["verify", str(path), str(tmp_path / "out.onnx")]) == 4
    assert "instead of" in capsys.readouterr().out


def test_without_openvino_nothing_is_proved(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    path, output = add(tmp_path), tmp_path / "net.onnx"
    assert main(["convert", str(path), str(output), "--opset", "13"]) == 3
    assert "pip install opshift[openvino]" in (said := capsys.readouterr().out)
    assert "--no-verify" in said
    assert not output.exists()


def test_the_output_has_a_name_of_its_own(tmp_path):
    path = add(tmp_path)
    assert main(["convert", str(path), "--opset", "13", "--no-verify"]) == 0
    assert (tmp_path / "net.opset13.onnx").exists()
    assert main(["convert", str(path), "--in-place", "--opset", "13", "--no-verify"]) == 2
    assert main(["convert", str(path), "--out-dir", str(tmp_path / "many"), "--opset", "13", "--no-verify"]) == 0
    assert (tmp_path / "many" / "net.onnx").exists()


def test_all_that_has_no_counterpart_is_named(tmp_path, capsys):
    net = Net()
    x = net.parameter([1, 3], name="x")
    one = net.layer("NMSRotated", [x], {}, [("f32", [1, 3])], "opset13", "boxes")
    net.result(net.layer("CTCLoss", [one], {}, [("f32", [1])], "opset4", "loss"))
    path = net.write(tmp_path)
    with pytest.raises(Refused) as caught:
        model_file.read(path)
    assert [str(refusal) for refusal in caught.value.refusals] == [
        f'openvino::NMSRotated-13 "boxes" (layer 1): {REFUSED["NMSRotated"]}',
        f'openvino::CTCLoss-4 "loss" (layer 2): {REFUSED["CTCLoss"]}',
    ]
    assert main(["convert", str(path), str(tmp_path / "out.onnx"), "--opset", "13"]) == 3
    assert not (tmp_path / "out.onnx").exists()


def test_names_and_notes_survive(tmp_path):
    path = add(tmp_path)
    text = path.read_text(encoding="utf-8").replace("</net>", '<rt_info><MO_version value="7"/></rt_info></net>')
    path.write_text(re.sub(r'(<port id="2" )', r'\1names="out\\,put,other" ', text), encoding="utf-8")
    model = model_file.read(path)
    assert model.graph.output[0].name == "out,put"
    assert model.graph.node[0].name == "Add_2"
    assert {entry.key: entry.value for entry in model.metadata_props} == {"MO_version": "7"}


DAMAGES = {
    "no XML": (r"(?s)^.*$", "opset", "not OpenVINO IR"),
    "another document": (r"net\b", "html", "begins with <html>"),
    "a document type": (r"<net", '<!DOCTYPE net [<!ENTITY a "aaaa">]><net', "a document type"),
    "an old version": (r'"11"', '"7"', "IR version 7"),
    "an offset behind the end": (r'offset="0"', 'offset="4"', "ends at byte 16, but net.bin has 12 bytes"),
    "an offset that is none": (r'offset="0"', 'offset="-4"', "no offset or no size"),
    "a size that does not fit": (r'size="12"', 'size="8"', "its shape and type need 12"),
    "a huge shape": (r'shape="3"', 'shape="99999999999999999"', "its shape and type need"),
    "an edge from nowhere": (r'from-port="0"', 'from-port="9"', "the layers have no such ports"),
    "a port without an edge": (r"<edge [^>]*to-port=\"1\"/>", "", "no edge leads to port 1 of layer 2"),
    "two edges to a port": (r'to-port="1"', 'to-port="0"', "two edges lead to port 0 of layer 2"),
    "a cycle": (r'from-layer="0" from-port="0"', 'from-layer="2" from-port="2"', "layer 2 depends on its own output"),
    "two layers of one id": (r'layer id="1"', 'layer id="0"', "two layers have the id 0"),
    "no weights": (r"net", "net", "the weights file net.bin is missing"),
    "depth": (r"<layers>", "<a>" * 200 + "</a>" * 200 + "<layers>", "nested more than"),
    "an edge without an end": (r' from-layer="0"', "", "<edge> has no from-layer"),
    "an input with two outputs": (
        r'(<layer id="0"[^§]*?<output>)',
        r'\1<port id="7" precision="FP32"><dim>3</dim></port>',
        "Parameter layer 0 has 0 inputs and 2 outputs",
    ),
    "an empty dimension": (r"<dim>3</dim>", "<dim/>", "a dimension is ''"),
    "a dimension that is none": (r"<dim>3</dim>", "<dim>3.5</dim>", "a dimension is '3.5'"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_does_not_hold_together_is_refused(damage, tmp_path, capsys):
    path = add(tmp_path)
    pattern, instead, why = DAMAGES[damage]
    text, count = re.subn(pattern, instead, path.read_text(encoding="utf-8"))
    assert count
    path.write_text(text, encoding="utf-8")
    if damage == "no weights":
        path.with_suffix(".bin").unlink()
    with pytest.raises(InvalidModel, match=re.escape(why)):
        xml_file.parse(path)
    assert main(["convert", str(path), str(tmp_path / "out.onnx"), "--opset", "13"]) == 5
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_elements_may_be_nested_up_to_a_limit(tmp_path):
    path = add(tmp_path)
    text = path.read_text(encoding="utf-8")
    for depth in (xml_file.DEEPEST - 1, xml_file.DEEPEST):  # inside of the network
        path.write_text(text.replace("<layers>", "<a>" * depth + "</a>" * depth + "<layers>"), encoding="utf-8")
        if depth < xml_file.DEEPEST:
            xml_file.parse(path)
        else:
            with pytest.raises(InvalidModel, match="nested more than 96 deep"):
                xml_file.parse(path)


def test_more_text_than_any_network_has_is_not_read(tmp_path):
    path = tmp_path / "net.xml"
    with path.open("wb") as file:
        file.truncate(2**29 + 1)
    with pytest.raises(InvalidModel, match="more than 536870912 bytes"):
        xml_file.parse(path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InvalidModel, match="No such file"):
        xml_file.parse(tmp_path / "none.xml")


def test_a_link_to_the_weights_is_followed_in_the_folder_of_the_network(tmp_path):
    path = add(tmp_path, weights=range(1000))
    held = path.with_suffix(".bin")
    held.rename(tmp_path / "weights")
    held.symlink_to("weights")
    model = opshift.convert_version(str(path), 17)
    assert tensor_data.place(model.graph.initializer[0]).location == "weights"
    x = np.ones((1, 1000), np.float32)
    np.testing.assert_array_equal(OnnxRuntime(model, folder=str(tmp_path)).run({"x": x})[0], x + np.arange(1000))


def test_a_network_and_its_weights_may_both_be_links_into_one_folder(tmp_path):
    path = add(tmp_path, weights=range(1000))
    (tmp_path / "links").mkdir()
    path.rename(tmp_path / "a1"), path.with_suffix(".bin").rename(tmp_path / "b2")
    link = tmp_path / "links" / "net.xml"
    link.symlink_to("../a1")
    link.with_suffix(".bin").symlink_to("../b2")
    assert tensor_data.place(model_file.read(link).graph.initializer[0]) == tensor_data.DataPlace("b2", 0, 4000)


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    (tmp_path / "inside").mkdir()
    path = add(tmp_path / "inside", weights=range(1000))
    held = path.with_suffix(".bin")
    held.rename(tmp_path / "outside")
    held.symlink_to("../outside")
    with pytest.raises(InvalidModel, match="is a symbolic link"):
        tensor_data.load_or_raise(model_file.read(path).graph.initializer[0], str(tmp_path / "inside"))


def test_an_attribute_that_nothing_reads_is_refused(tmp_path):
    path = add(tmp_path)
    text = path.read_text(encoding="utf-8").replace('auto_broadcast="numpy"', 'auto_broadcast="numpy" saturate="true"')
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Refused, match="saturate=true, which ONNX has no attribute for"):
        model_file.read(path)


def test_an_input_or_an_output_of_any_rank_is_refused(tmp_path):
    net = Net()
    any_rank = net.layer("Parameter", [], {"shape": "...", "element_type": "f32"}, [("f32", [])], "opset1", "x")
    net.result(net.layer("ReLU", [any_rank], {}, [("f32", [])], "opset1", "y"))
    with pytest.raises(Refused) as caught:
        model_file.read(net.write(tmp_path))
    assert [refusal.why for refusal in caught.value.refusals] == [
        "an input of dynamic rank; ONNX needs the rank of each input and output"
    ]
    net = Net()
    axes = net.parameter([-1], np.int64, "axes")
    attributes = {"keep_dims": "false"}
    net.result(
        net.layer("ReduceSum", [net.parameter([2, 3], name="x"), axes], attributes, [("f32", [])], "opset1", "y")
    )
    with pytest.raises(Refused, match="an output of dynamic rank"):
        model_file.read(net.write(tmp_path))


def test_a_norm_that_openvino_makes_itself_is_read(tmp_path):
    net = Net()
    inputs = [net.parameter([2, 4], name="x"), net.const([1.0, 2.0, -1.0, 0.5], np.float32)]
    attributes = {"epsilon": "0.5", "output_type": "undefined"}
    net.result(net.layer("RMS", inputs, attributes, [("f32", [2, 4])], "ie_internal_opset"))
    model = model_file.read(net.write(tmp_path))
    x = np.float32([[1, 2, 3, 4], [0, 0, 0, 0]])
    expected = x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.5) * np.float32([1, 2, -1, 0.5])
    np.testing.assert_allclose(OnnxRuntime(model).run({"x": x})[0], expected, rtol=1e-6)
