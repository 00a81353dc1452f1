"""Writes the types that were decided into a model: casts, constants, attributes that name a type, declared types."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opshift.passes.model import schemas, tensors
from opshift.passes.model.attributes import make_attribute
from opshift.passes.model.editing.names import Names
from opshift.passes.model.messages import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    NodeProto,
    TensorProto,
    TypeProto,
    normalize_domain,
)
from opshift.passes.model.traversal import Body, subgraphs
from opshift.passes.model.types import element_name
from opshift.passes.records import dataclass, field
from opshift.passes.types import constants
from opshift.passes.types.formats import FORMATS
from opshift.passes.types.problem import FREE, NAMED, TENSOR, Place, Problem, Value

T = TensorProto

SMALL = 1024
"""Elements of a constant that is stored in both types, where both are read; a larger one is stored wide, and cast."""


@dataclass
class Written:
    """What was written into a model.

    Attributes:
        casts: the names of the casts that were added, between nodes.
        outside: the names of those at inputs and outputs of the model.
        replaced: the magnitude that took the place of those beyond the range, by the name of the constant.
        converted: constants that have another type now, by name.
        retyped: the nodes that make or read another type now, by their body and index.
        dropped: how many casts are of no effect any more, and gone.
        origins: the name in the source, by that of a value or a function that is another form of it.
    """

    casts: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    replaced: dict[str, float] = field(default_factory=dict)
    converted: list[str] = field(default_factory=list)
    retyped: list[tuple[Place, int]] = field(default_factory=list)
    dropped: int = 0
    origins: dict[str, str] = field(default_factory=dict)


_NAMING = frozenset([*NAMED, "ConstantOfShape", "Optional"])
"""The operators with an attribute that names the type of what they make, or holds a value of it."""

Key = tuple[bool, float]
"""Whether a form of a value is narrow, and what takes the place of numbers beyond the range; 0 for nothing."""


class Casting:
    """Writes into the model of a problem, which is changed."""

    def __init__(
        self,
        problem: Problem,
        limits: Mapping[tuple[int, int, int], float],
        narrow: list[bool],
        folder: str | None,
        *,
        rounding: bool = False,
        original: Callable[[Value], TensorProto | None] = lambda _: None,
    ):
        """With `rounding`, each value that has another type is rounded to the one that it had.

        `original` tells what takes the place of a constant that changes; without it, each number is rounded.
        """
        self._original = original
        self._bodies: dict[int, Body] = {}
        self._problem = problem
        self._limits = limits
        self._rounding = rounding
        self._narrow = narrow
        self._folder = folder
        self._names = Names(problem.model)
        self._after: dict[int, dict[int, list[NodeProto]]] = {}
        self._extra: dict[int, list[TensorProto]] = {}
        self._gone: set[tuple[int, int]] = set()
        self._converted: dict[int, list[tuple[TensorProto, TensorProto]]] = {}
        self._copies: dict[object, FunctionProto] = {}
        self._functions: dict[int, list[tuple[object, FunctionProto]]] = {}
        self._ends = {value.name for value in problem.model.graph.output}
        self._begins = {value.name for value in problem.model.graph.input}
        self.written = Written()

    def write(self) -> Written:
        """Write all of it."""
        model, main = self._problem.model, self._problem.main
        self._end(main)
        self._place(main, model.graph)
        made = [function for held in self._functions.values() for _, function in held]
        replaced = {id(function) for function in self._originals(made)}
        rest = [function for function in model.functions if id(function) not in replaced]
        if made:
            kept = [FunctionProto.FromString(function.SerializeToString()) for function in (*rest, *made)]
            del model.functions[:]
            model.functions.extend(kept)
        if self.written.casts or self.written.outside:
            _import_default(model.opset_import, self._problem.main.opsets)
        return self.written

    def _originals(self, made: list[FunctionProto]) -> list[FunctionProto]:
        names = {(normalize_domain(f.domain), f.name) for f in made}
        return [f for f in self._problem.model.functions if (normalize_domain(f.domain), f.name) in names]

    # --- which form of a value is read --------------------------------------------------------------------------

    def is_narrow(self, value: Value) -> bool:
        """Whether a value that is no constant is narrow."""
        return value.variable > 0 and self._narrow[value.variable]

    def _elem_type(self, value: Value, *, narrow: bool) -> int:
        return self._problem.wanted.mapping[value.elem_type] if narrow else value.elem_type

    def _form(self, value: Value, narrow: bool, limit: float = 0.0, *, outside: bool = False) -> str:
        """The name under which a value is read in one type, which is made where it is read so for the first time."""
        forms = value.forms
        key = (narrow, limit if narrow and value.tensor is not None else 0.0)
        if key in forms:
            return forms[key]
        if value.tensor is not None:
            name = self._constant(value, key, forms)
        elif self.is_narrow(value) == narrow:
            name = value.name
        else:
            elem_type = self._elem_type(value, narrow=narrow)
            name = self._fresh(value.name, elem_type)
            self._cast(
                value, self._form(value, not narrow), name, elem_type, outside=outside or self._is_outside(value)
            )
        forms[key] = name
        return name

    def _fresh(self, name: str, elem_type: int) -> str:
        form = self._names.fresh(
            f"{name}/{FORMATS[elem_type].name}" if elem_type in FORMATS else f"{name}/{element_name(elem_type)}"
        )
        self.written.origins[form] = name
        return form

    def _is_outside(self, value: Value) -> bool:
        return value.place is self._problem.main and value.maker < 0 and value.tensor is None

    def _cast(self, value: Value, before: str, after: str, elem_type: int, *, outside: bool) -> None:
        """Put a cast behind the node that makes a value."""
        imported = any(not normalize_domain(entry.domain) for entry in self._problem.model.opset_import)
        opset = value.place.opsets.get("", 1) if imported else schemas.latest()
        name = self._names.fresh(f"{after}/cast")
        node = NodeProto(op_type="Cast", name=name, input=[before], output=[after])
        node.attribute.append(make_attribute("to", elem_type if opset >= 6 else T.DataType.Name(elem_type)))
        body = value.place.body
        if opset < 6 and after not in self._ends and isinstance(body, GraphProto):  # of which no type is inferred
            body.value_info.add(name=after).type.tensor_type.elem_type = elem_type
        self._after.setdefault(id(value.place), {}).setdefault(value.maker, []).append(node)
        (self.written.outside if outside else self.written.casts).append(name)

    def _constant(self, value: Value, key: Key, forms: dict[Key, str]) -> str:
        """The name of a constant in one type."""
        assert value.tensor is not None, "it is a constant"
        narrow, limit = key
        if not narrow:
            return value.name
        needed = self._read_forms(value)
        elem_type = self._elem_type(value, narrow=True)
        if (False, 0.0) in needed and tensors.size(value.tensor) > SMALL and not limit:
            name = self._fresh(value.name, elem_type)
            self._cast(value, value.name, name, elem_type, outside=False)
            return name
        made = self._original(value) or constants.convert_constant(
            value.tensor, elem_type, self._folder, limit or None, lazy=True
        )
        if made is None:
            name = self._fresh(value.name, elem_type)
            self._cast(value, value.name, name, elem_type, outside=False)
            return name
        own = (False, 0.0) not in needed and key == min(needed)
        name = value.name if own else self._fresh(value.name, elem_type)
        made.name = name if value.maker < 0 else ""
        self.written.converted.append(name)
        if limit:
            self.written.replaced[name] = limit
        if value.maker >= 0:
            node = NodeProto(op_type="Constant", output=[name])
            node.attribute.append(make_attribute("value", made))
            if own:
                origin = value.place.nodes[value.maker]
                node.name, node.doc_string = origin.name, origin.doc_string
                node.metadata_props.extend(getattr(origin, "metadata_props", ()))
                self._gone.add((id(value.place), value.maker))
            self._after.setdefault(id(value.place), {}).setdefault(value.maker, []).append(node)
        elif own:
            self._converted.setdefault(id(value.place), []).append((self._initializer(value), made))
        else:
            self._extra.setdefault(id(value.place), []).append(made)
        return name

    def _initializer(self, value: Value) -> TensorProto:
        """The tensor of a value in the body that is written, which may be a copy of the one that was read."""
        body = self._bodies.get(id(value.place), value.place.body)
        assert isinstance(body, GraphProto), "functions have no initializers"
        assert value.tensor is not None, "it is a constant"
        if body is value.place.body:
            return value.tensor
        return next(tensor for tensor in body.initializer if tensor.name == value.name)

    def _read_forms(self, value: Value) -> set[Key]:
        """In which types a constant is read."""
        found: set[Key] = set()
        for place, index, at in value.readers:
            variable = place.reads[index][at] if index >= 0 else place.output_reads[at]
            if variable != FREE:
                narrow = variable > 0 and self._narrow[variable]
                found.add((narrow, self._limits.get((id(place), index, at), 0.0) if narrow else 0.0))
        return found

    # --- bodies -------------------------------------------------------------------------------------------------

    def _end(self, main: Place) -> None:
        """Let outputs of the model keep their names, in the type that they are to have."""
        for value_info, variable in zip(self._problem.model.graph.output, main.output_reads, strict=True):
            value = main.find(value_info.name)
            if value is None or variable == FREE or value.tensor is not None or value.maker < 0:
                continue
            narrow = variable > 0 and self._narrow[variable]
            own = self.is_narrow(value)
            if own == narrow:
                continue
            forms = value.forms
            if (narrow, 0.0) in forms:
                continue
            forms[own, 0.0] = self._fresh(value.name, self._elem_type(value, narrow=own))
            forms[narrow, 0.0] = value.name
            self._cast(value, forms[own, 0.0], value.name, self._elem_type(value, narrow=narrow), outside=True)

    def _place(self, place: Place, body: Body) -> None:
        nodes = place.nodes if body is place.body else list(body.node)
        self._bodies[id(place)] = body
        if not self._rounding:
            self._drop_idle(place, body)
        for index, node in enumerate(nodes):
            if (id(place), index) not in self._gone:
                self._node(place, index, node)
        self._outputs(place, body)
        self._declare(place, body)
        if self._rounding and place is self._problem.main:
            self._round_inputs(place)
        for tensor, converted in self._converted.get(id(place), ()):  # not before, as a constant may have several forms
            tensor.CopyFrom(converted)
        after = [(index, node) for index, made in self._after.get(id(place), {}).items() for node in made]
        gone = {index for at, index in self._gone if at == id(place)}
        if after or gone:
            order = {id(node): (index in gone, index, False) for index, node in enumerate(nodes)}
            body.node.extend([node for _, node in after])
            added = body.node[len(nodes) :]
            order |= {id(node): (False, index, True) for (index, _), node in zip(after, added, strict=True)}
            body.node.sort(key=lambda node: order[id(node)])  # which moves nodes, and copies none
            del body.node[len(body.node) - len(gone) :]
        if isinstance(body, GraphProto):
            body.initializer.extend(self._extra.get(id(place), ()))
        elif after:
            _import_default(body.opset_import, place.opsets)

    def _node(self, place: Place, index: int, node: NodeProto) -> None:
        reads, mapping, narrow_ones = place.reads[index], self._problem.wanted.mapping, self._narrow
        values, elem_type, names_type = place.values, 0, place.ops[index] in _NAMING
        for at, name in enumerate(place.inputs[index]):
            value = values.get(name) or (place.find(name) if name else None)
            if value is None:
                continue
            variable = reads[at]
            if value.elem_type not in mapping:
                narrow, found = False, value.forms.get((False, 0.0), name)
            elif value.tensor is None:
                own = value.variable > 0 and narrow_ones[value.variable]
                narrow = own if variable == FREE else variable > 0 and narrow_ones[variable]  # or it takes both
                found = name if narrow == own and not value.forms else self._form(value, narrow)
            else:
                narrow = variable > 0 and narrow_ones[variable]
                found = self._form(value, narrow, self._limits.get((id(place), index, at), 0.0))
            if found != name:
                node.input[at] = found
            if narrow:
                elem_type = mapping[value.elem_type]
        for at, name in enumerate(place.outputs[index]):
            value = values.get(name)
            if value is None or value.tensor is not None:
                continue
            narrow = value.variable > 0 and narrow_ones[value.variable]
            found = value.forms.get((narrow, 0.0), name)
            if found != name:
                node.output[at] = found
            if narrow:
                elem_type = mapping[value.elem_type]
                if at == 0 and names_type:
                    self._name_type(place, node, value, elem_type)
                if self._rounding and value.form == TENSOR:
                    raw = found
                    node.output[at] = self._names.fresh(f"{raw}/raw")
                    self._round(value, node.output[at], raw)
        if elem_type:
            self.written.retyped.append((place, index))
        for name, at, graph in subgraphs(node) if index in place.holding else ():
            inner = place.inner.get((index, name, at))
            if inner is not None:
                self._place(inner, graph)
        called = place.calls.get(index)
        if called is not None:
            node.op_type = self._function(called)

    def _name_type(self, place: Place, node: NodeProto, value: Value, elem_type: int) -> None:
        """Let an attribute name the type that is made now."""
        named = NAMED.get(node.op_type)
        if named is not None:
            if node.op_type == "DequantizeLinear" and not place.value_of(node, "output_dtype", 0):
                return
            old = node.op_type == "Cast" and place.opsets.get("", 1) < 6
            _set(node, make_attribute(named.name, T.DataType.Name(elem_type) if old else elem_type))
        elif node.op_type == "ConstantOfShape":
            held = place.value_of(node, "value")
            held = held if held is not None else tensors.tensor([0.0], T.FLOAT)
            made = self._original(value) or constants.convert_constant(held, elem_type, self._folder)
            if made is not None:
                _set(node, make_attribute("value", made))
        elif node.op_type == "Optional" and not any(node.input):
            held = TypeProto()
            held.CopyFrom(place.value_of(node, "type"))
            _retype(held, elem_type)
            _set(node, make_attribute("type", held, AttributeProto.TYPE_PROTO))

    def _round(self, value: Value, before: str, after: str) -> None:
        """Round a value to the type that it had."""
        half = self._names.fresh(f"{after}/rounded")
        self._cast(value, before, half, value.elem_type, outside=False)
        self._cast(value, half, after, self._elem_type(value, narrow=True), outside=False)

    def _round_inputs(self, place: Place) -> None:
        """Round the inputs of the model that have another type now."""
        for value in list(place.values.values()):
            if value.maker < 0 and value.tensor is None and self.is_narrow(value) and value.form == TENSOR:
                after = self._names.fresh(f"{value.name}/read")
                self._round(value, value.name, after)
                for where, index, at in value.readers:
                    if index >= 0 and where.nodes[index].input[at] == value.name:
                        where.nodes[index].input[at] = after

    def _outputs(self, place: Place, body: Body) -> None:
        for at, variable in enumerate(place.output_reads):
            name = body.output[at] if isinstance(body, FunctionProto) else body.output[at].name
            value = place.find(name)
            if value is None or (not self._problem.moves(value.elem_type) and not value.forms):
                continue
            narrow = self.is_narrow(value) if variable == FREE else variable > 0 and self._narrow[variable]
            found = self._form(value, narrow, outside=place is self._problem.main)
            if isinstance(body, FunctionProto):
                body.output[at] = found
                continue
            if place is not self._problem.main:
                body.output[at].name = found
            if narrow:
                _retype(body.output[at].type, self._elem_type(value, narrow=True))

    def _declare(self, place: Place, body: Body) -> None:
        """Declare the types that values have now."""
        held = list(getattr(body, "value_info", ()))
        if isinstance(body, GraphProto):
            held += body.input
        for declared in held:
            value = place.values.get(declared.name)
            if value is None or not self._problem.moves(value.elem_type):
                continue
            if value.tensor is not None:
                narrow = any(key[0] and name == value.name for key, name in value.forms.items())
            else:
                narrow = self.is_narrow(value)
                forms = value.forms
                if forms.get((not narrow, 0.0)) == value.name:
                    narrow = not narrow
            if not narrow:
                continue
            elem_type = self._problem.wanted.mapping[value.elem_type]
            if value.form == TENSOR and declared.type.HasField("tensor_type"):
                declared.type.tensor_type.elem_type = elem_type
            else:
                _retype(declared.type, elem_type)

    def _drop_idle(self, place: Place, body: Body) -> None:
        """Take out the casts that have nothing to change any more."""
        ends = _results(place)
        for index, op in enumerate(place.ops):
            if op != "Cast":
                continue
            node = place.nodes[index]
            value, made = place.find(node.input[0]), place.values.get(node.output[0])
            if value is None or made is None or value.form != made.form:
                continue
            moved = [self._problem.moves(each.elem_type) for each in (value, made)]
            if not any(moved) or (value.tensor is not None and moved[0]) or value.place is not place:
                continue
            if value.elem_type == made.elem_type and not (self.is_narrow(value) and self.is_narrow(made)):
                continue  # exporters write such a Cast: it goes only where its type changes anyway
            before = self._elem_type(value, narrow=True) if moved[0] and self.is_narrow(value) else value.elem_type
            after = self._elem_type(made, narrow=True) if moved[1] and self.is_narrow(made) else made.elem_type
            if before != after:
                continue
            own, other = moved[0] and self.is_narrow(value), moved[1] and self.is_narrow(made)
            read = any(at < 0 for _, at, _ in made.readers) or made.name in ends
            if read and place is self._problem.main:
                if not self._renames(value, own, made, other):
                    continue
            else:
                name = value.forms.get((own, 0.0), value.name)
                if read and (value.maker < 0 or name in ends):  # an output of its own has a name of its own
                    continue
                ends |= {name} if read else set()
                value.forms[own, 0.0] = name
                made.forms[other, 0.0] = name
            self._gone.add((id(place), index))
            self.written.dropped += 1

    def _renames(self, value: Value, own: bool, made: Value, other: bool) -> bool:
        """Let a value take the name of the output that it becomes; False where it cannot."""
        forms = value.forms
        if value.maker < 0 or value.name in self._ends or (own, 0.0) in forms:
            return False
        if made.forms.get((other, 0.0), made.name) != made.name:
            return False
        forms[own, 0.0] = made.name
        return True

    # --- functions ----------------------------------------------------------------------------------------------

    def _function(self, place: Place) -> str:
        """The name of the function that computes what a call needs, which is made where it is needed first."""
        function = place.body
        assert isinstance(function, FunctionProto), "calls are of functions"
        key = self._key(place)
        if key in self._copies:
            return self._copies[key].name
        held = self._functions.setdefault(id(function), [])
        copy = FunctionProto()
        copy.CopyFrom(function)
        if held:
            copy.name = self._names.fresh(f"{function.name}_{self._problem.wanted.label}")
            self.written.origins[copy.name] = function.name
        self._copies[key] = copy
        held.append((key, copy))
        self._place(place, copy)
        return copy.name

    def _key(self, place: Place) -> object:
        """What tells the copies of a function apart: the types of all that is in them."""
        kinds = tuple((name, value.elem_type) for name, value in place.values.items())
        flags = tuple(self.is_narrow(value) for value in place.values.values())
        reads = tuple(tuple(v > 0 and self._narrow[v] for v in held) for held in place.reads)
        ends = tuple(v > 0 and self._narrow[v] for v in place.output_reads)
        limits = tuple((i, a, m) for (p, i, a), m in self._limits.items() if p == id(place))
        inner = tuple(self._key(each) for each in (*place.inner.values(), *place.calls.values()))
        return id(place.body), kinds, flags, reads, ends, limits, inner


def _results(place: Place) -> set[str]:
    body = place.body
    return set(body.output) if isinstance(body, FunctionProto) else {value.name for value in body.output}


def _set(node: NodeProto, made: AttributeProto) -> None:
    kept = [attribute for attribute in node.attribute if attribute.name != made.name]
    held = [AttributeProto.FromString(attribute.SerializeToString()) for attribute in kept]
    del node.attribute[:]
    node.attribute.extend([*held, made])


def _retype(value_type: TypeProto, elem_type: int) -> None:
    """Put another element type into a type."""
    which = value_type.WhichOneof("value")
    if which in ("tensor_type", "sparse_tensor_type"):
        getattr(value_type, which).elem_type = elem_type
    elif which == "sequence_type":
        _retype(value_type.sequence_type.elem_type, elem_type)
    elif which == "optional_type":
        _retype(value_type.optional_type.elem_type, elem_type)


def _import_default(held: object, known: object) -> None:
    """Import the default domain, in which Cast is, where nothing else is of it."""
    imports = list(held)  # type: ignore[call-overload]
    if not any(not normalize_domain(entry.domain) for entry in imports):
        held.add(domain="", version=13)  # type: ignore[attr-defined]
