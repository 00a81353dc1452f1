"""Values of types that a runtime lacks, carried in wider types: the same numbers, with roundings written out.

What only hands numbers on, or chooses among them, takes the wider type as it is. What computes them is rounded to the
narrow type after it. Casts become roundings, quantization its formula, and packed weights are unpacked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opshift.passes.analysis.scope import Context, Scope
from opshift.passes.changes import Change, Ledger
from opshift.passes.errors import CannotConvert, Refusal
from opshift.passes.model import tensor_data, tensors
from opshift.passes.model.formats import FORMATS, Floats, Integers
from opshift.passes.model.imports import opsets
from opshift.passes.model.messages import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    copy_model,
    normalize_domain,
)
from opshift.passes.model.named_types import TYPE_ATTRIBUTES, tensor_types
from opshift.passes.model.traversal import Body, bodies, subgraphs
from opshift.passes.model.types import element_name, tensor_text
from opshift.passes.rewrite import registry
from opshift.passes.rewrite.builder import Builder
from opshift.passes.rewrite.node import Node
from opshift.passes.rewrite.replace import take_over
from opshift.passes.rewrite.retyping import keep_low_bits, retype_constants
from opshift.passes.types.carriers import Carriers
from opshift.passes.types.narrow_floats import round_floats, round_to_power

T = TensorProto
LARGEST = 2**31 - 1  # bytes: what a file without external data can hold
CHOOSING = frozenset(
    (
        *("Identity", "If", "Loop", "Scan", "Constant", "ConstantOfShape", "EyeLike", "OneHot"),
        *("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "DepthToSpace", "SpaceToDepth", "ReverseSequence"),
        *("Concat", "Split", "Slice", "Pad", "CenterCropPad", "Expand", "Tile", "Trilu", "Compress", "Where"),
        *("Gather", "GatherElements", "GatherND", "TensorScatter", "TopK", "Unique"),
        *("Max", "Min", "Clip", "Relu", "Abs", "Neg", "Sign", "Ceil", "Floor", "Round", "Hardmax"),
        *("MaxPool", "GlobalMaxPool", "MaxRoiPool", "MaxUnpool", "ReduceMax", "ReduceMin"),
        *(
            "SequenceAt",
            "SequenceConstruct",
            "SequenceErase",
            "SequenceInsert",
            "SplitToSequence",
            "Optional",
            "OptionalGetElement",
        ),
    )
)
"""Operators whose results are numbers of their inputs, or such as every type of floats has."""
CHOOSING_WITHOUT_REDUCTION = frozenset(("ScatterElements", "ScatterND"))
CORRECTLY_ROUNDED = frozenset(("Add", "Div", "Mul", "Reciprocal", "Sqrt", "Sub"))
"""What float32 rounds to the nearest number, which rounded again to bfloat16 is the nearest number there."""

_EXPANDED = ("QuantizeLinear", "DequantizeLinear", "BitCast")
_BYTES = (T.INT8, T.UINT8)


def carry_types(source: ModelProto, carriers: Carriers, ledger: Ledger, folder: str | None) -> ModelProto:
    """Make a copy of the model in which values of the types in `carriers` have the types that carry them.

    What is done, and what cannot be, goes to `ledger`.
    """
    model = _expand(source, carriers, ledger, folder)
    return source if ledger.refusals else _Retyping(model, carriers, ledger, folder).model


# --- operators that become formulas first, while their types are what they were -------------------------------------


def _expand(source: ModelProto, carriers: Carriers, ledger: Ledger, folder: str | None) -> ModelProto:
    """Write operators that quantize to floats, and the like, as formulas; the model itself where there are none."""
    ops = {node.op_type for body in bodies(source) for node in body.node}
    if ops.isdisjoint(_EXPANDED):
        return source
    model = copy_model(source)
    context = Context(model, source, folder)

    def expand(body: Body, scope: Scope) -> None:
        held: list[NodeProto] = []
        for index, proto in enumerate(list(body.node)):
            for attribute, k, graph in subgraphs(proto):
                expand(graph, scope.nested_scope(graph, index, attribute, k))
            node = Node(proto, scope, scope.opset, Builder(scope, scope.opset, proto))
            try:
                step = _formula(node, carriers)
                if step is None:
                    held.append(proto)
                    continue
                result = step(node)
                assert result is not None, "a definition returns what takes the place of a node"
                made = take_over(node, result)
            except CannotConvert as refused:
                ledger.refusals.append(Refusal(node.name, proto.op_type, "", 0, False, refused.why, scope.function))
                continue
            held += made
            how = f"Replaced {proto.op_type} by its formula, with rounded results"
            ledger.changes.append(
                Change(node.name, proto.op_type, "", scope.opset, scope.opset, how, node.grade, "; ".join(node.remarks))
            )
        del body.node[:]
        body.node.extend(held)

    expand(model.graph, Scope(model.graph, context, opsets(source).get("", 1), path=()))
    for function in model.functions:
        expand(function, Scope(function, context, opsets(function).get("", 1)))
    return model


def _formula(node: Node, carriers: Carriers) -> registry.Step | None:
    """What writes a call in other operators; None for one that takes the carrying types, or has none to carry."""
    proto = node.proto
    if normalize_domain(proto.domain) or proto.op_type not in _EXPANDED:
        return None
    named = [a.i for a in proto.attribute if a.name in TYPE_ATTRIBUTES]
    elem_types = {*named, *(node.scope.elem_type(name) for name in proto.input if name)}
    elem_types |= {node.scope.elem_type(name) for name in proto.output if name}
    carried = elem_types & carriers.keys()
    if not carried or (proto.op_type != "BitCast" and all(carriers[elem_type] in _BYTES for elem_type in carried)):
        return None
    if proto.op_type != "BitCast":
        definition = registry.definition("", proto.op_type)
        return None if definition is None else definition.step
    forms = [FORMATS.get(elem_type) for elem_type in (node.elem_type(), node.attributes["to"])]
    if all(isinstance(form, Integers) for form in forms):
        return None
    if isinstance(forms[0], Floats):
        why = f"the bits of {element_name(node.elem_type())} cannot be read in the type that stores it"
        raise CannotConvert(node, why)
    pair = registry.step("", "BitCast", 26)
    return None if pair is None else pair.down


# --- then all values are of other types -----------------------------------------------------------------------------


class _Retyping:
    """One pass that retypes `model`, a copy; `source` answers questions about types."""

    def __init__(self, source: ModelProto, carriers: Carriers, ledger: Ledger, folder: str | None):
        self.model = copy_model(source)
        self.carriers = carriers
        self._ledger = ledger
        self._folder = folder
        self._asked, self._made = Context(source, source, folder), Context(self.model, source, folder)
        self._local = {(normalize_domain(f.domain), f.name) for f in source.functions}
        self._opset = opsets(source).get("", 1)
        self._read = 0
        self._body(self.model.graph, Scope(source.graph, self._asked, self._opset, path=()), None)
        for old, new in zip(source.functions, self.model.functions, strict=True):
            self._opset = opsets(old).get("", 1)
            self._body(new, Scope(old, self._asked, self._opset), None)

    def _body(self, body: Body, asked: Scope, outer: Scope | None) -> None:
        scope = Scope(body, self._made, self._opset, outer, asked.path)
        held: list[NodeProto] = []
        for index, proto in enumerate(list(body.node)):
            held += self._node(proto, index, asked, scope)
        del body.node[:]
        body.node.extend(held)
        for value in body.value_info:
            self._retype(value.type)
        if isinstance(body, GraphProto):
            for value in (*body.input, *body.output):
                kinds = {kind.elem_type for kind in tensor_types(value.type)} & self.carriers.keys()
                if self._retype(value.type) and body is self.model.graph:
                    self._note(value.name, "value", f"It is {self._spell(kinds)}")
            for tensor in (*body.initializer, *(sparse.values for sparse in body.sparse_initializer)):
                elem_type = tensor.data_type
                if self.retype_tensor(tensor, tensor.name):
                    self._note(tensor.name, "value", f"Its values are {self._spell({elem_type})}")

    def _node(self, proto: NodeProto, index: int, asked: Scope, scope: Scope) -> list[NodeProto]:
        old = asked.body.node[index]
        for (attribute, k, graph), (_, _, twin) in zip(subgraphs(proto), subgraphs(old), strict=True):
            self._body(graph, asked.nested_scope(twin, index, attribute, k), scope)
        question = Node(old, asked, self._opset, Builder(asked, self._opset))
        node = Node(proto, scope, self._opset, Builder(scope, self._opset, proto))
        try:
            return self._rewrite(node, question)
        except CannotConvert as refused:
            domain = normalize_domain(proto.domain)
            self._ledger.refusals.append(
                Refusal(node.name, proto.op_type, domain, 0, False, refused.why, scope.function)
            )
        return [proto]

    def _rewrite(self, node: Node, question: Node) -> list[NodeProto]:
        proto, domain = node.proto, normalize_domain(node.domain)
        if (domain, proto.op_type) in self._local:
            return [proto]
        if not domain and proto.op_type in _MAKERS:
            result = _MAKERS[proto.op_type](node, question, self)
            if result is None and not node.touched:
                return [proto]
            self._note(node.name, node.op_type, node.remarks.pop() if node.remarks else "")
            return [proto] if result is None else take_over(node, result)
        made = [question.scope.elem_type(name) if name else 0 for name in proto.output]
        read = [question.scope.elem_type(name) if name else 0 for name in proto.input]
        named = any(a.name in TYPE_ATTRIBUTES and a.i in self.carriers for a in proto.attribute)
        if not named and not any(elem_type in self.carriers for elem_type in (*made, *read)):
            self._check_known(question, made)
            return [proto]
        self._check_taken(question, read, made)
        for attribute in proto.attribute:
            if attribute.name in TYPE_ATTRIBUTES and attribute.i in self.carriers:
                attribute.i = self.carriers[attribute.i]
        if self._chooses(question):
            return [proto]
        forms = [FORMATS[elem_type] if elem_type in self.carriers else None for elem_type in made]
        if not any(isinstance(form, Floats) for form in forms):
            return [proto]
        return self._round_results(node, forms, made)

    def _round_results(self, node: Node, forms: list[Floats | Integers | None], made: list[int]) -> list[NodeProto]:
        results = node.build.again(node.proto, node.inputs)
        results = [results] if isinstance(results, str) else list(results)
        for index, form in enumerate(forms):
            if isinstance(form, Floats) and results[index]:
                results[index] = self.round(node.build, results[index], form, self.carriers[made[index]])
        names = " and ".join(dict.fromkeys(form.name for form in forms if form is not None))
        exact = node.op_type in CORRECTLY_ROUNDED and not node.domain
        remark = "" if exact else f"computes in a wider type, and rounds to {names}"
        how = f"Rounded results to {names}, stored in a wider type"
        change = Change(node.name, node.op_type, normalize_domain(node.domain), self._opset, self._opset, how)
        self._ledger.changes.append(change if exact else change._replace(grade="close", remark=remark))
        return take_over(node, results)

    def round(self, build: Builder, x: str, form: Floats, work: int) -> str:
        """Values of a carrying type, rounded; in float32 at least, where quanta and logarithms are exact enough."""
        if work in (T.FLOAT, T.DOUBLE):
            return round_floats(build, x, form, work)
        return str(build.Cast(round_floats(build, str(build.Cast(x, to=T.FLOAT)), form, T.FLOAT), to=work))

    def _chooses(self, question: Node) -> bool:
        if question.domain:
            return False
        if question.op_type in CHOOSING_WITHOUT_REDUCTION:
            return question.attributes.get("reduction", "none") in ("none", "max", "min")
        return question.op_type in CHOOSING

    def _check_known(self, question: Node, made: list[int]) -> None:
        """Raise `CannotConvert` where a result may be of a type that is carried, and nothing tells."""
        schema = question.schema
        if schema is None or all(made):
            return
        for index, (name, elem_type) in enumerate(zip(question.outputs, made, strict=True)):
            formal = schema.output(index)
            if name and not elem_type and formal is not None and len(formal.types) > 1:
                held = question.scope.type(name)
                if held is None and any(tensor_text(carried) in formal.types for carried in self.carriers):
                    raise question.unknown("type", name)

    def _check_taken(self, question: Node, read: list[int], made: list[int]) -> None:
        """Raise `CannotConvert` where the operator does not take the type that carries a value."""
        schema = question.schema
        if schema is None:
            elem_type = next(elem_type for elem_type in (*read, *made) if elem_type in self.carriers)
            raise CannotConvert(
                question,
                f"the node uses {element_name(elem_type)}, and opshift does not know what the node computes with it",
            )
        for find, elem_types in ((schema.input, read), (schema.output, made)):
            for index, elem_type in enumerate(elem_types):
                formal = find(index)
                if elem_type in self.carriers and formal and tensor_text(self.carriers[elem_type]) not in formal.types:
                    wide = element_name(self.carriers[elem_type])
                    raise CannotConvert(
                        question, f"the operator does not accept {wide}, the type that stores {element_name(elem_type)}"
                    )

    def _retype(self, value_type: TypeProto) -> bool:
        """Write the carrying type into a type; False if there was nothing to do."""
        found = [each for each in tensor_types(value_type) if each.elem_type in self.carriers]
        for each in found:
            each.elem_type = self.carriers[each.elem_type]
        return bool(found)

    def retype_tensor(self, tensor: TensorProto, name: str) -> bool:
        """Store a tensor in the wider type; returns False if it needs no change."""
        carrier = self.carriers.get(tensor.data_type)
        if carrier is None:
            return False
        self._read += tensors.size(tensor)
        held = tensor_data.load(tensor, self._folder) if self._read <= LARGEST else None
        values = None if held is None else tensors.array(held)
        if values is None:
            why = f"its values of {element_name(tensor.data_type)} cannot be read, or do not fit the file when unpacked"
            self._ledger.refusals.append(Refusal(name, "value", "", 0, False, why))
            return False
        carried = tensors.tensor(values.astype("float32") if carrier in _FLOATS else values.astype("int64"), carrier)
        carried.dims[:] = tensor.dims
        carried.name, carried.doc_string = tensor.name, tensor.doc_string
        tensor.CopyFrom(carried)
        return True

    def _spell(self, elem_types: set[int]) -> str:
        pairs = (
            f"{element_name(self.carriers[elem_type])} with the values of {element_name(elem_type)}"
            for elem_type in elem_types
        )
        return " and ".join(sorted(pairs))

    def _note(self, name: str, op: str, how: str = "") -> None:
        how = how or "Stored a type in a wider one, with explicit rounding"
        self._ledger.changes.append(Change(name, op, "", self._opset, self._opset, how))


_FLOATS = (T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16, T.FLOAT8E4M3FN, T.FLOAT8E4M3FNUZ, T.FLOAT8E5M2, T.FLOAT8E5M2FNUZ)


# --- what makes a value of a carried type: node is written anew, question asks about the source ---------------------


def _quantize(node: Node, question: Node, model: _Retyping) -> str | None:
    """To integers in bytes: cut off at the ends of the byte first, then at those of the narrow type, inside of them."""
    kind = question.attributes.get("output_dtype", 0)
    if question.input(2):
        kind = question.elem_type(2)
    carrier, form = model.carriers.get(kind), FORMATS.get(kind)
    if carrier is None or not isinstance(form, Integers):
        return None
    build = node.build
    dtype = carrier if "output_dtype" in node.attributes else None
    wide = build.again(node.proto, node.inputs, output_dtype=dtype)
    node.remarks.append(f"Clipped the result to the range of {form.name}, stored in {element_name(carrier)}")
    return str(build.Clip(wide, *(build.constant(end, carrier) for end in (form.lowest, form.highest))))


def _cast(node: Node, question: Node, model: _Retyping) -> str | None:
    return _cast_to(node, question, model, question.attributes["to"])


def _cast_like(node: Node, question: Node, model: _Retyping) -> str | None:
    elem_type = question.scope.elem_type(question.input(1))
    if not elem_type:
        raise question.unknown("type", question.input(1))
    return _cast_to(node, question, model, elem_type)


def _cast_to(node: Node, question: Node, model: _Retyping, to: int) -> str | None:
    """Cast to the carrying type, and round unless all numbers of the other type are numbers of this one."""
    carrier = model.carriers.get(to)
    if carrier is None:
        return None
    build, x, elem_type, form = node.build, node.input(0), question.elem_type(0), FORMATS[to]
    source = FORMATS.get(elem_type)
    actual = model.carriers.get(elem_type, elem_type)
    node.remarks.append(f"Stored {element_name(to)} in {element_name(carrier)}, with explicit rounding")
    if elem_type == T.BOOL or elem_type == to or (source is not None and form.holds(source)):
        return str(build.Cast(x, to=carrier))
    if isinstance(form, Integers):
        return _low_bits(build, x, form, carrier, isinstance(source, Integers))
    work = T.DOUBLE if T.DOUBLE in (actual, carrier) else T.FLOAT
    if elem_type == T.STRING:
        work = T.DOUBLE
    value = x if actual == work else build.Cast(x, to=work)
    saturate = bool(question.attributes.get("saturate", 1))
    if form.powers:
        mode = question.attributes.get("round_mode", "up")
        value = round_to_power(build, value, form, work, saturate=saturate, mode=mode)
    else:
        value = round_floats(build, value, form, work, saturate=saturate)
    return value if carrier == work else str(build.Cast(value, to=carrier))


def _low_bits(build: Builder, x: str, form: Integers, carrier: int, whole: bool) -> str:
    """(x + offset) mod size - offset: of a number that does not fit, the low bits are kept, of a fraction nothing."""
    work = carrier if isinstance(FORMATS[carrier], Integers) else T.INT32
    wide = build.Cast(x if whole else build.Cast(x, to=T.INT32), to=work)
    low = keep_low_bits(build, str(wide), form.lowest, form.highest, work)
    return low if work == carrier else str(build.Cast(low, to=carrier))


def _bits_cast(node: Node, question: Node, model: _Retyping) -> str | None:
    """Reinterpret integers of equal width by their low bits."""
    source, to = question.elem_type(0), question.attributes["to"]
    if not {source, to} & model.carriers.keys():
        return None
    carrier, form = model.carriers.get(to, to), FORMATS[to]
    assert isinstance(form, Integers), "floats are expanded before"
    if source == to:
        return str(node.build.Identity(node.input(0)))
    return _low_bits(node.build, node.input(0), form, carrier, True)


_MAKERS: Mapping[str, Callable[[Node, Node, _Retyping], str | None]] = {
    "BitCast": _bits_cast,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Constant": retype_constants,
    "ConstantOfShape": retype_constants,
    "QuantizeLinear": _quantize,
}
