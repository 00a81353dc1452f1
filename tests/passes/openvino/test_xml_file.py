"""What an IR file says, as it is read, and what of it does not hold together."""

import numpy as np
import pytest
from opshift.passes.errors import InvalidModel
from opshift.passes.openvino import xml_file
from opshift.passes.openvino.network import End, Mapped

from tests.opshift.networks import Net

BITS = {
    "u1": 1,
    "u2": 2,
    "u3": 3,
    "u6": 6,
    "i4": 4,
    "u4": 4,
    "nf4": 4,
    "f4e2m1": 4,
    "f8e4m3": 8,
    "f8e5m2": 8,
    "f8e8m0": 8,
    "boolean": 8,
    "i8": 8,
    "u16": 16,
    "bf16": 16,
    "f16": 16,
    "f32": 32,
    "f64": 64,
}


def const(folder, kind, shape, size, *, offset=0, held=64):
    """A network of one constant, whose weights are `held` bytes."""
    net = Net()
    data = {"element_type": kind, "shape": shape, "offset": offset, "size": size}
    net.result(net.layer("Const", [], data, [(kind, [3])]))
    net.data = bytes(held)
    return xml_file.parse(net.write(folder))


@pytest.mark.parametrize("kind", BITS)
def test_a_constant_has_the_bytes_that_its_shape_and_type_need(kind, tmp_path):
    size = (3 * BITS[kind] + 7) // 8
    (layer, _) = const(tmp_path, kind, "3", size).graph.layers
    assert layer.attributes["size"] == str(size)
    for wrong in (size - 1, size + 1):
        with pytest.raises(InvalidModel, match=f"is {wrong} bytes; its shape and type need {size}"):
            const(tmp_path, kind, "3", wrong)


@pytest.mark.parametrize(("kind", "shape"), [("string", "3"), ("f32", "0"), ("what", "3"), ("f9999", "3"), ("", "3")])
def test_what_has_no_known_size_has_any(kind, shape, tmp_path):
    const(tmp_path, kind, shape, 7)


def test_a_constant_ends_where_the_weights_do(tmp_path):
    const(tmp_path, "f32", "3", 12, offset=52)
    with pytest.raises(InvalidModel, match=r"Const layer 0 ends at byte 65, but net\.bin has 64 bytes"):
        const(tmp_path, "f32", "3", 12, offset=53)
    const(tmp_path, "f32", "", 4, held=4)
    const(tmp_path, "f32", "1, 1,", 4, held=4)


@pytest.mark.parametrize(
    ("field", "text", "why"),
    [
        ("offset", "", "no offset or no size"),
        ("offset", "٣", "no offset or no size"),
        ("size", "1" * 19, "no offset or no size"),
        ("size", "x", "no offset or no size"),
        ("shape", "3,x", "not a list of sizes"),
        ("shape", "٣", "not a list of sizes"),
        ("shape", "1" * 19, "not a list of sizes"),
    ],
)
def test_numbers_that_are_none(field, text, why, tmp_path):
    with pytest.raises(InvalidModel, match=why):
        const(tmp_path, "f32", **{"shape": "3", "size": 12, field: text})


def test_an_empty_constant_needs_no_weights(tmp_path):
    net = Net()
    data = {"element_type": "f32", "shape": "0", "offset": 0, "size": 0}
    net.result(net.layer("Const", [], data, [("f32", [0])]))
    path = net.write(tmp_path)
    path.with_suffix(".bin").unlink()
    assert len(xml_file.parse(path).graph.layers) == 2


def edited(folder, *changes, net=None):
    """A network whose text is another; by default x -> ReLU -> result."""
    if net is None:
        net = Net()
        net.result(net.layer("ReLU", [net.parameter([2], name="x")], {}, [("f32", [2])], "opset1", "y"))
    path = net.write(folder)
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return xml_file.parse(path)


def test_what_a_network_says_is_read(tmp_path):
    notes = '<rt_info><a value="1"/><b><c name="d" value="2"/></b></rt_info></net>'
    found = edited(tmp_path, ("</net>", notes), ('type="Result"', 'type="Result" output_names="z,w"'))
    x, y, z = found.graph.layers
    assert [layer.type for layer in (x, y, z)] == ["Parameter", "ReLU", "Result"]
    assert [layer.name for layer in (x, y)] == ["x", "y"]
    assert (x.version, x.inputs, [port.id for port in y.outputs]) == (1, [], ["1"])
    assert x.attributes == {"shape": "2", "element_type": "f32"}
    assert z.attributes == {"output_names": "z,w"}
    assert found.metadata == {"a": "1", "b.d": "2"}
    assert found.weights == "net.bin"
    assert found.graph.edges == {End("1", "0"): End("0", "0"), End("2", "0"): End("1", "1")}


def test_dimensions_are_read(tmp_path):
    found = edited(tmp_path, ("<dim>2</dim>", "<dim> -1 </dim><dim>7</dim>"))
    assert found.graph.layers[0].outputs[0].dims == (-1, 7)
    for wrong in ("-2", "1" * 19, "٣"):
        with pytest.raises(InvalidModel, match="a dimension is"):
            edited(tmp_path, ("<dim>2</dim>", f"<dim>{wrong}</dim>"))
    assert edited(tmp_path, ("<dim>2</dim>", f"<dim>{'1' * 18}</dim>")).graph.layers[0].outputs[0].dims == (
        int("1" * 18),
    )


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('id="1" name', "name", "<layer> has no id"),
        (' type="ReLU"', "", "<layer> has no type"),
        (
            '<input><port id="0"/></input><output><port id="1"',
            '<input><port id="1"/></input><output><port id="1"',
            "two ports of layer 1 have the same id",
        ),
        ('<output><port id="1" precision="FP32"><dim>2</dim></port></output>', "", "layer 1 has no outputs"),
        ('type="ReLU"', 'type="Const"', "Const layer 1 has 1 inputs and 1 outputs"),
        ('type="ReLU"', 'type="Parameter"', "Parameter layer 1 has 1 inputs and 1 outputs"),
        ('to-layer="1"', 'to-layer="9"', "the layers have no such ports"),
        ('from-layer="1"', 'from-layer="9"', "the layers have no such ports"),
        (' to-port="0"', "", "<edge> has no to-port"),
    ],
)
def test_what_does_not_hold_together(old, new, why, tmp_path):
    with pytest.raises(InvalidModel, match=why):
        edited(tmp_path, (old, new))


def test_a_result_takes_one_value(tmp_path):
    net = Net()
    x = net.parameter([2])
    net.layer("Result", [x, x], {}, [])
    with pytest.raises(InvalidModel, match="Result layer 1 has 2 inputs and 0 outputs"):
        edited(tmp_path, net=net)


def test_layers_come_behind_what_feeds_them(tmp_path):
    net = Net()
    x = net.parameter([2])
    first = net.layer("ReLU", [x], {}, [("f32", [2])])
    second = net.layer("Add", [first, first], {}, [("f32", [2])])
    net.result(second)
    net.layers[1], net.layers[2] = net.layers[2], net.layers[1]
    assert [layer.id for layer in edited(tmp_path, net=net).graph.layers] == ["0", "1", "2", "3"]
    with pytest.raises(InvalidModel, match=r"layer [12] depends on its own output"):
        edited(
            tmp_path,
            ('from-layer="0" from-port="0" to-layer="1"', 'from-layer="2" from-port="2" to-layer="1"'),
            net=net,
        )


def looping(maps, back):
    """A network with a body of one layer."""
    inner = Net()
    inner.result(inner.layer("ReLU", [inner.parameter([2])], {}, [("f32", [2])]))
    net = Net()
    held = f"<port_map>{maps}</port_map><back_edges>{back}</back_edges><body>{inner.body}</body>"
    net.result(net.layer("TensorIterator", [net.parameter([2])], {}, [("f32", [2])], inner=held))
    return net


def test_a_body_hangs_on_the_ports_of_its_layer(tmp_path):
    maps = (
        '<input external_port_id="0" internal_layer_id="0" axis="1"/><output external_port_id="1" internal_layer_id="2"/>'
        '<output internal_layer_id="1"/>'
    )
    found = edited(tmp_path, net=looping(maps, '<edge from-layer="2" to-layer="0"/>'))
    body = found.graph.layers[1].bodies["body"]
    held = {"external_port_id": "0", "internal_layer_id": "0", "axis": "1"}
    assert body.inputs == [Mapped("0", "0", held)]
    assert [(mapped.port, mapped.inner) for mapped in body.outputs] == [("1", "2"), ("", "1")]
    assert body.back_edges == [("2", "0")]


@pytest.mark.parametrize(
    ("maps", "back", "why"),
    [
        ('<input internal_layer_id="9"/>', "", "the body has no layer 9"),
        ("<input/>", "", "<input> has no internal_layer_id"),
        ("", '<edge from-layer="2" to-layer="9"/>', "the body has no layers 2 and 9"),
        ("", '<edge from-layer="9" to-layer="2"/>', "the body has no layers 9 and 2"),
        ("", '<edge to-layer="2"/>', "<edge> has no from-layer"),
        ("", '<edge from-layer="2"/>', "<edge> has no to-layer"),
    ],
)
def test_what_a_body_does_not_have(maps, back, why, tmp_path):
    with pytest.raises(InvalidModel, match=why):
        edited(tmp_path, net=looping(maps, back))


def test_both_bodies_of_an_if_are_read(tmp_path):
    branches = []
    for _ in range(2):
        inner = Net()
        inner.result(inner.layer("ReLU", [inner.parameter([2])], {}, [("f32", [2])]))
        branches.append(inner.body)
    held = (
        f'<then_port_map><input external_port_id="1" internal_layer_id="0"/></then_port_map>'
        f'<else_port_map><output external_port_id="2" internal_layer_id="2"/></else_port_map>'
        f"<then_body>{branches[0]}</then_body><else_body>{branches[1]}</else_body>"
    )
    net = Net()
    inputs = [net.parameter([], np.bool_), net.parameter([2])]
    net.result(net.layer("If", inputs, {}, [("f32", [2])], inner=held))
    bodies = edited(tmp_path, net=net).graph.layers[2].bodies
    assert list(bodies) == ["then_body", "else_body"]
    assert [mapped.port for mapped in bodies["then_body"].inputs] == ["1"]
    assert [mapped.port for mapped in bodies["else_body"].outputs] == ["2"]
    assert bodies["else_body"].inputs == bodies["then_body"].outputs == []


@pytest.mark.parametrize("version", ["10", "11"])
def test_both_versions_are_read(version, tmp_path):
    assert len(edited(tmp_path, ('version="11"', f'version="{version}"')).graph.layers) == 3


def test_as_much_text_as_is_read(tmp_path, monkeypatch):
    path = tmp_path / "net.xml"
    edited(tmp_path)
    monkeypatch.setattr(xml_file, "LARGEST", path.stat().st_size)
    xml_file.parse(path)
    monkeypatch.setattr(xml_file, "LARGEST", path.stat().st_size - 1)
    with pytest.raises(InvalidModel, match="bytes of XML"):
        xml_file.parse(path)


@pytest.mark.posix
def test_a_link_to_the_network_finds_weights_beside_either(tmp_path):
    folder = tmp_path / "far"
    folder.mkdir()
    edited(folder)
    (tmp_path / "link.xml").symlink_to(folder / "net.xml")
    assert xml_file.parse(tmp_path / "link.xml").weights == "net.bin"
