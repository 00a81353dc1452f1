"""OpenVINO IR files: the network in a `.xml`, whose weights lie in the `.bin` beside it and are never read.

The files may be anybody's: whatever does not hold together is refused before anything is made of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import prod
from pathlib import Path
from xml.etree import ElementTree

from opshift.passes.errors import InvalidModel
from opshift.passes.model import tensor_data
from opshift.passes.openvino.network import Body, End, Entry, Mapped, Network, Port, split_names

LARGEST = 1 << 29  # bytes of XML
DEEPEST = 96  # elements in each other
VERSIONS = ("10", "11")
_BITS = {"u1": 1, "u2": 2, "u3": 3, "u6": 6, "i4": 4, "u4": 4, "nf4": 4, "f4e2m1": 4, "boolean": 8, "string": 0}


def parse(path: str | os.PathLike[str]) -> Network:
    """What a file says, checked: every edge leads from a port to a port, nothing is fed by itself, weights are there.

    Raises:
        InvalidModel: as `opshift.passes.openvino.reader.read` says.
    """
    name = os.fspath(path)
    resolved = Path(path).resolve()
    weights = _weights(Path(path), resolved)
    try:
        root = _tree(resolved)
        size = weights.stat().st_size if weights.exists() else -1
        if root.tag != "net":
            raise InvalidModel(f"the file is not OpenVINO IR: it begins with <{root.tag}>")
        if root.get("version") not in VERSIONS:
            raise InvalidModel(
                f"the file is OpenVINO IR version {root.get('version')}; opshift reads {' and '.join(VERSIONS)}"
            )
        graph = _body(root, size, weights.name)
    except InvalidModel as error:
        raise InvalidModel(f"{name}: {error}") from None
    except (OSError, ValueError, ElementTree.ParseError) as error:
        why = (isinstance(error, OSError) and error.strerror) or error
        raise InvalidModel(f"{name}: {'' if isinstance(error, OSError) else 'not OpenVINO IR: '}{why}") from None
    return Network(root.get("name", ""), graph, weights.name, dict(_notes(root.find("rt_info"))))


def _weights(path: Path, resolved: Path) -> Path:
    """The file of the weights: a link to it is followed no further than to the folder that the network lies in."""
    beside = resolved.with_suffix(".bin")
    found = (beside if beside.exists() else path.with_suffix(".bin")).resolve()
    return found if found.parent == resolved.parent else beside


class _Bounded(ElementTree.TreeBuilder):
    """Builds a tree without document types, which can grow without bound, and of bounded depth."""

    depth = 0

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise InvalidModel("the file has a document type declaration, which OpenVINO IR does not have")

    def start(self, tag: str, attrs: dict[str, str], /) -> ElementTree.Element:
        self.depth += 1
        if self.depth > DEEPEST:
            raise InvalidModel(f"the file has elements nested more than {DEEPEST} deep")
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> ElementTree.Element:
        self.depth -= 1
        return super().end(tag)


def _tree(path: Path) -> ElementTree.Element:
    with open(path, "rb", opener=tensor_data.regular) as file:
        if os.fstat(file.fileno()).st_size > LARGEST:
            raise InvalidModel(f"the file has more than {LARGEST} bytes of XML, which is more than opshift reads")
        parser = ElementTree.XMLParser(target=_Bounded())
        while data := file.read(1 << 20):
            parser.feed(data)
        found: ElementTree.Element = parser.close()
        return found


def _notes(of: ElementTree.Element | None, prefix: str = "") -> Iterator[tuple[str, str]]:
    """What `rt_info` says, by the names of its elements."""
    for child in of if of is not None else ():
        key = f"{prefix}{child.get('name') or child.tag}"
        if (value := child.get("value")) is not None:
            yield key, value
        yield from _notes(child, f"{key}.")


def _body(of: ElementTree.Element, size: int, weights: str) -> Body:
    entries: dict[str, Entry] = {}
    for element in _children(of, "layers", "layer"):
        entry = _entry(element, size, weights)
        if entry.id in entries:
            raise InvalidModel(f"two layers have the id {entry.id}")
        entries[entry.id] = entry
    edges = _edges(of, entries)
    return Body(_in_order(entries, edges), edges)


def _children(of: ElementTree.Element, group: str, tag: str) -> list[ElementTree.Element]:
    held = of.find(group)
    return [] if held is None else held.findall(tag)


def _entry(of: ElementTree.Element, size: int, weights: str) -> Entry:
    data = of.find("data")
    kind = _require(of, "type")
    attributes = dict(data.attrib) if data is not None else {}
    if "output_names" in of.attrib:
        attributes["output_names"] = of.attrib["output_names"]
    inputs = [_port(port) for port in _children(of, "input", "port")]
    outputs = [_port(port) for port in _children(of, "output", "port")]
    entry = Entry(_require(of, "id"), of.get("name", ""), kind, of.get("version", ""), attributes, inputs, outputs)
    if len({port.id for port in (*inputs, *outputs)}) < len(inputs) + len(outputs):
        raise InvalidModel(f"two ports of layer {entry.id} have the same id")
    counts = {"Parameter": (0, 1), "Const": (0, 1), "Result": (1, len(outputs))}
    if kind in counts and (len(inputs), len(outputs)) != counts[kind]:
        raise InvalidModel(
            f"{kind} layer {entry.id} has {len(inputs)} inputs and {len(outputs)} outputs, which its "
            "type does not allow"
        )
    if kind != "Result" and not outputs:
        raise InvalidModel(f"layer {entry.id} has no outputs")
    if kind == "Const":
        _check_weights(entry, size, weights)
    for tag in ("body", "then_body", "else_body"):
        if (inner := of.find(tag)) is not None:
            ports = of.find("port_map" if tag == "body" else f"{tag.removesuffix('_body')}_port_map")
            entry.bodies[tag] = _inner(inner, ports, of.find("back_edges"), size, weights)
    return entry


def _inner(
    of: ElementTree.Element,
    ports: ElementTree.Element | None,
    back: ElementTree.Element | None,
    size: int,
    weights: str,
) -> Body:
    made = _body(of, size, weights)
    ids = {entry.id for entry in made.layers}
    for port in ports if ports is not None else ():
        mapped = Mapped(port.get("external_port_id", ""), _require(port, "internal_layer_id"), dict(port.attrib))
        if mapped.inner not in ids:
            raise InvalidModel(f"the body has no layer {mapped.inner}, which a port map names")
        (made.inputs if port.tag == "input" else made.outputs).append(mapped)
    for edge in back if back is not None else ():
        ends = _require(edge, "from-layer"), _require(edge, "to-layer")
        if not set(ends) <= ids:
            raise InvalidModel(f"the body has no layers {ends[0]} and {ends[1]}, which a back edge names")
        made.back_edges.append(ends)
    return made


def _require(of: ElementTree.Element, name: str) -> str:
    found = of.get(name)
    if found is None:
        raise InvalidModel(f"<{of.tag}> has no {name}")
    return found


def _port(of: ElementTree.Element) -> Port:
    dims = tuple(_dimension((dim.text or "").strip()) for dim in of.findall("dim"))
    names = tuple(filter(None, split_names(of.get("names", ""))))
    return Port(_require(of, "id"), of.get("precision", ""), dims, names)


def _dimension(text: str) -> int:
    if text == "-1":
        return -1
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidModel(f"a dimension is {text[:40]!r}")
    return int(text)


def _edges(of: ElementTree.Element, entries: dict[str, Entry]) -> dict[End, End]:
    outputs = {End(entry.id, port.id) for entry in entries.values() for port in entry.outputs}
    inputs = {End(entry.id, port.id) for entry in entries.values() for port in entry.inputs}
    found: dict[End, End] = {}
    for edge in _children(of, "edges", "edge"):
        start = End(_require(edge, "from-layer"), _require(edge, "from-port"))
        end = End(_require(edge, "to-layer"), _require(edge, "to-port"))
        if start not in outputs or end not in inputs:
            raise InvalidModel(
                f"an edge leads from {'.'.join(start)} to {'.'.join(end)}, but the layers have no such ports"
            )
        if end in found:
            raise InvalidModel(f"two edges lead to port {end.port} of layer {end.layer}")
        found[end] = start
    open_ports = inputs - found.keys()
    if open_ports:
        end = min(open_ports)
        raise InvalidModel(f"no edge leads to port {end.port} of layer {end.layer}")
    return found


def _in_order(entries: dict[str, Entry], edges: dict[End, End]) -> list[Entry]:
    """Inputs and results as they stand, the others each behind what feeds it; raises `InvalidModel` for a cycle."""
    done: dict[str, None] = {}
    for first in entries:
        path = [first]
        on_path = {first}
        while path:
            entry = entries[path[-1]]
            ahead = [edges[End(entry.id, port.id)].layer for port in entry.inputs]
            waiting = next((layer for layer in ahead if layer not in done), None)
            if path[-1] in done or waiting is None:
                done[path[-1]] = None
                on_path.discard(path.pop())
            elif waiting in on_path:
                raise InvalidModel(f"layer {waiting} depends on its own output")
            else:
                path.append(waiting)
                on_path.add(waiting)
    held = {kind: [entry for entry in entries.values() if entry.type == kind] for kind in ("Parameter", "Result")}
    inner = [entries[layer] for layer in done if entries[layer].type not in held]
    return [*held["Parameter"], *inner, *held["Result"]]


def _check_weights(entry: Entry, size: int, weights: str) -> None:
    numbers = [entry.attributes.get(key, "") for key in ("offset", "size")]
    if not all(number.isascii() and number.isdigit() and len(number) < 19 for number in numbers):
        raise InvalidModel(f"Const layer {entry.id} has no offset or no size")
    offset, length = map(int, numbers)
    parts = [part.strip() for part in entry.attributes.get("shape", "").split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and len(part) < 19 for part in parts):
        raise InvalidModel(f"the shape of Const layer {entry.id} is not a list of sizes")
    kind = entry.attributes.get("element_type", "")
    digits = "".join(filter(str.isdigit, kind.partition("e")[0] if kind.startswith("f8") else kind))
    bits = _BITS.get(kind, int(digits) if digits and len(digits) < 4 else 0)
    wanted = (prod(map(int, parts)) * bits + 7) // 8
    if kind == "string" or not bits or not wanted:  # an empty one has a byte all the same
        wanted = length
    if length != wanted:
        raise InvalidModel(f"the size of Const layer {entry.id} is {length} bytes; its shape and type need {wanted}")
    if length and size < 0:
        raise InvalidModel(f"the weights file {weights} is missing; it stands beside the .xml")
    if offset + length > max(size, 0):
        raise InvalidModel(
            f"Const layer {entry.id} ends at byte {offset + length}, but {weights} has {max(size, 0)} bytes"
        )
