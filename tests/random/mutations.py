"""Changes of one thing in a call: a size, an axis, a value, a type, an attribute, what is left out. Engines tell
afterwards which of them are still calls of the operator."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx.helper
from onnx import AttributeProto
from onnx.defs import OpSchema

from tests.random.calls import ANY, Call, Corpus, Trait
from tests.random.values import drawn, is_whole, resized

EXTREMES = [-(1 << 63), -(1 << 63), (1 << 63) - 1, (1 << 63) - 1, -(1 << 31), 1 << 31]
HOW = (
    "order", "order", "turn", "turn", "negative", "one", "fewer", "more", "none", "extreme", "extreme", "zero", "unit", "unit",
    "unit",
)  # fmt: skip
FACTORS = [0.1, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0]
SHARES = {"ratio"}  # attributes that are numbers from 0 to 1
FLOATS = [0.0, -0.3, 0.5, 1.0, -1.0, 2.5, 1e-5]
Mutation = Callable[[random.Random, Call, Corpus], Call]


def size(rng: random.Random, call: Call, corpus: Corpus) -> Call:
    """One size becomes another, in all inputs at once, or only in those that are no parameters."""
    found = sorted({d for v in call.inputs if isinstance(v, np.ndarray) for d in v.shape})
    if not found:
        return call
    old, new, all_of_them = rng.choice(found), rng.choice([0, 0, 1, 1, 2, 3, 4]), rng.random() < 0.5

    def other(value: Any) -> Any:
        if not isinstance(value, np.ndarray) or (is_parameter(value) and not all_of_them):
            return value
        made = resized(value, [new if d == old else d for d in value.shape])
        return np.where(made == old, new, made).astype(made.dtype) if is_parameter(value) else made

    return _with_inputs(call, [other(v) for v in call.inputs])


def one_size(rng: random.Random, call: Call, corpus: Corpus) -> Call:
    """One size of one input becomes 0 or 1: what is broadcast, and what is empty."""
    at = _pick(rng, call, lambda v: v.ndim > 0)
    if at is None:
        return call
    shape = list(call.inputs[at].shape)
    shape[rng.randrange(len(shape))] = rng.choice([0, 1, 1, 2])
    return _with_input(call, at, resized(call.inputs[at], shape))


def rank(rng: random.Random, call: Call, corpus: Corpus) -> Call:
    """All inputs that are no parameters, or one of them, get a size of 1 in front, or lose their first; or one parameter
    of one element does."""
    more, only = rng.random() < 0.5, rng.choice([None, *range(len(call.inputs))])

    def other(at: int, value: Any) -> Any:
        if not isinstance(value, np.ndarray) or only not in (None, at):
            return value
        if is_parameter(value) and (only is None or value.size != 1):
            return value
        return value[None] if more else value[0] if value.ndim and value.shape[0] else value

    return _with_inputs(
        call, [np.asarray(other(at, v)) if isinstance(v, np.ndarray) else v for at, v in enumerate(call.inputs)]
    )


def values(rng: random.Random, call: Call, corpus: Corpus) -> Call:
    """Other values in one input, special ones among them."""
    at = _pick(rng, call, lambda v: not is_parameter(v))
    if at is None:
        return call
    held = call.inputs[at]
    return _with_input(call, at, drawn(rng, held.dtype, held.shape, special=rng.random() < 0.5))


def parameters(rng: random.Random, call: Call, corpus: Corpus) -> Call:
    """Axes, sizes and positions in another order, counted from the other end, fewer, more, or beyond all bounds."""
    at = _pick(rng, call, is_parameter)
    if at is None or call.op == "Loop":  # for ever, if its trips are many
        return call
    held = [int(v) for v in call.inputs[at].reshape(-1)]
    made = numbers(rng, held, call.inputs[at].dtype == np.int64)
    dtype = call.inputs[at].dtype
    with np.errstate(all="ignore"):
        written = np.array([min(max(n, EXTREMES[0]), EXTREMES[2]) for n in made], np.int64).astype(dtype)
    return _with_input(call, at, written if call.inputs[at].ndim else np.array(made[0] if made else 0).astype(dtype))


def axes(rng: random.Random, call: Call, corpus: Corpus) -> Call:
    """Some axes of the data in any order, from either end; sometimes their sizes become 1."""
    data = _pick(rng, call, lambda v: v.ndim > 0 and not is_parameter(v))
    at = _pick(rng, call, lambda v: v.ndim == 1 and is_parameter(v))
    attribute_name = next((a.name for a in call.attributes if a.name == "axes"), "")
    if data is None or (at is None and not attribute_name):
        return call
    rank = call.inputs[data].ndim
    chosen = rng.sample(range(rank), rng.randint(1, min(rank, 3)))
    if rng.random() < 0.6:
        shape = [1 if d in chosen else n for d, n in enumerate(call.inputs[data].shape)]
        call = _with_input(call, data, resized(call.inputs[data], shape))
    written = [a - rank if rng.random() < 0.3 else a for a in chosen]
    if at is not None:
        return _with_input(call, at, np.array(written).astype(call.inputs[at].dtype))
    others = [a for a in call.attributes if a.name != attribute_name]
    return replace(call, attributes=(*others, onnx.helper.make_attribute(attribute_name, written)))


def extreme(rng: random.Random, call: Call, corpus: Corpus) -> Call:
    """The last of what says how goes as far as a number can: the steps of Slice, the sizes of others."""
    found = [at for at, v in enumerate(call.inputs) if is_parameter(v) and v.dtype == np.int64 and v.size]
    if not found or call.op == "Loop":
        return call
    at = rng.choice([found[-1], rng.choice(found)])
    return _with_input(call, at, np.full_like(call.inputs[at], rng.choice(EXTREMES[:4])))


def factors(rng: random.Random, call: Call, corpus: Corpus) -> Call:
    """One of some factors becomes another: sizes that do not divide; sometimes of data of size 1, and nothing is left."""
    at, data = _pick(rng, call, _is_factors), call.inputs[0] if call.inputs else None
    if at is None:
        return call
    made = call.inputs[at].copy()
    axis = rng.randrange(made.size)
    made[axis] = rng.choice(FACTORS)
    if made[axis] < 1 and isinstance(data, np.ndarray) and data.ndim == made.size and rng.random() < 0.4:
        call = _with_input(call, 0, resized(data, [1 if d == axis else n for d, n in enumerate(data.shape)]))
    return _with_input(call, at, made)


def _is_factors(value: Any) -> bool:
    return bool(value.dtype == np.float32 and value.ndim == 1 and 2 <= value.size <= 6 and (value > 0).all())


def numbers(rng: random.Random, held: list[int], wide: bool) -> list[int]:
    """A list of whole numbers like `held`."""
    made = list(held)
    how = rng.choice(HOW)
    if how == "order":
        rng.shuffle(made)
    elif how == "turn":
        made.reverse()
    elif how == "negative":
        rank = max(max(map(abs, made), default=0) + 1, 2)
        made = [v - rank if v >= 0 and rng.random() < 0.5 else v for v in made]
    elif how == "fewer":
        made = made[: rng.randint(0, len(made))]
    elif how == "more":
        made.append(rng.choice([0, 1, 2, -1]))
    elif how == "none":
        made = []
    elif made:
        pool = {"one": [-3, -2, -1, 0, 1, 2, 3, 4], "zero": [0], "unit": [1], "extreme": EXTREMES if wide else [0]}[how]
        made[rng.randrange(len(made))] = rng.choice(pool)
    return made


def element_type(rng: random.Random, call: Call, corpus: Corpus) -> Call:
    """One of the schema's type variables becomes another type, in all inputs that have it."""
    formals = [_formal(call.schema, at) for at in range(len(call.inputs))]
    bound = sorted({f.type_str for f in formals if f is not None and "(" not in f.type_str})
    choices = {c.type_param_str: sorted(c.allowed_type_strs) for c in call.schema.type_constraints}
    if not bound or not choices.get(chosen := rng.choice(bound)):
        return call
    kind = rng.choice(choices[chosen])
    if not kind.startswith("tensor(") or "complex" in kind or "string" in kind:
        return call
    dtype = onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(kind[7:-1].upper()))
    made = list(call.inputs)
    for at, formal in enumerate(formals):
        held = made[at]
        if (
            formal is not None
            and formal.type_str == chosen
            and isinstance(held, np.ndarray)
            and held.dtype.kind not in "OSU"
        ):
            with np.errstate(all="ignore"):
                wide = (
                    held if held.dtype.isbuiltin == 1 else held.astype(np.float32)
                )  # short floats do not become each other
                made[at] = wide.astype(dtype)
    return _with_inputs(call, made)


def omission(rng: random.Random, call: Call, corpus: Corpus) -> Call:
    """An optional input is left out, wherever it stands; sometimes its place stays at the end."""
    option = OpSchema.FormalParameterOption.Optional
    formals = [_formal(call.schema, at) for at in range(len(call.inputs))]
    found = [at for at, f in enumerate(formals) if f is not None and f.option == option and call.inputs[at] is not None]
    if not found:
        return call
    made = _with_input(call, rng.choice(found), None)
    return made if rng.random() < 0.3 else trimmed(made)


def trimmed(call: Call) -> Call:
    """Without what is left out at the end."""
    count = max((at + 1 for at, v in enumerate(call.inputs) if v is not None), default=0)
    return replace(call, inputs=call.inputs[:count], types=call.types[:count])


def default(rng: random.Random, call: Call, corpus: Corpus) -> Call:
    """An attribute that need not be there is not there."""
    schema = call.schema.attributes
    found = [a.name for a in call.attributes if a.name not in schema or not schema[a.name].required]
    if not found:
        return call
    gone = rng.choice(found)
    return replace(call, attributes=tuple(a for a in call.attributes if a.name != gone))


def attribute(rng: random.Random, call: Call, corpus: Corpus) -> Call:
    """An attribute that the schema knows gets another value."""
    schema = call.schema.attributes
    found = sorted(schema)
    if not found:
        return call
    return with_trait(rng, call, corpus, Trait(rng.choice(found)))


def with_trait(rng: random.Random, call: Call, corpus: Corpus, trait: Trait) -> Call:
    """The call with a value for an attribute: that word, or as some other call has it, or another one of its kind."""
    schema, name = call.schema.attributes, trait.attribute
    if name not in schema or (trait.word and trait.of(call)):
        return call
    held = {a.name: a for a in call.attributes}
    written = corpus.written.get((call.op, name))
    made = onnx.helper.make_attribute(name, trait.word) if trait.word else None
    made = made or (rng.choice(written) if written and rng.random() < 0.4 else None)
    made = made or _another(rng, call, schema[name], held.get(name), corpus)
    if made is None:
        return call
    return replace(call, attributes=(*(a for a in call.attributes if a.name != name), made))


def _another(
    rng: random.Random, call: Call, formal: Any, held: AttributeProto | None, corpus: Corpus
) -> AttributeProto | None:
    kinds = OpSchema.AttrType
    if formal.type == kinds.INT:
        flag = corpus.numbers.get((call.op, formal.name), {0, 1}) <= {0, 1}
        return onnx.helper.make_attribute(formal.name, rng.choice([0, 1] if flag else [0, 1, 0, 1, -1, -2, 2, 3]))
    if formal.type == kinds.FLOAT:
        pool = [0.0, 0.25, 0.5] if formal.name in SHARES else FLOATS
        return onnx.helper.make_attribute(formal.name, rng.choice(pool))
    if formal.type == kinds.STRING:
        words = corpus.words.get((call.op, formal.name))
        return onnx.helper.make_attribute(formal.name, rng.choice(words)) if words else None
    if formal.type == kinds.INTS:
        start = list(held.ints) if held is not None else _plausible(rng, call)
        made = numbers(rng, start, False) if held is not None else start
        return onnx.helper.make_attribute(formal.name, made) if made else None
    if formal.type == kinds.FLOATS and held is not None and held.floats:
        made_floats = [rng.choice(FLOATS) for _ in held.floats]
        return onnx.helper.make_attribute(formal.name, made_floats)
    return None


def _plausible(rng: random.Random, call: Call) -> list[int]:
    """As many ones or twos as the data has sizes behind the first two, or axes."""
    ranks = [v.ndim for v in call.inputs if isinstance(v, np.ndarray)]
    rank = max(ranks, default=0)
    if rng.random() < 0.4 and rank:
        return rng.sample(range(rank), rng.randint(1, rank))
    return [rng.choice([1, 1, 2, 0]) for _ in range(rng.choice([max(rank - 2, 1), rank, 2 * max(rank - 2, 1)]))]


def outputs(rng: random.Random, call: Call, corpus: Corpus) -> Call:
    """Outputs are named that nobody reads, or not named that need not be."""
    option = OpSchema.FormalParameterOption
    formals = list(call.schema.outputs)
    if not formals or formals[-1].option == option.Variadic:
        return call
    named = rng.randint(max(call.schema.min_output, 1), max(len(formals), 1))
    made = [f.option != option.Optional or rng.random() < 0.7 for f in formals[:named]]
    while made and not made[-1]:
        made.pop()
    return replace(call, outputs=tuple(made)) if made and any(made) else call


MUTATIONS: tuple[Mutation, ...] = (
    size, size, one_size, rank, values, values, parameters, parameters, element_type, omission, omission, omission, omission, default,
    attribute, attribute, outputs,
)  # fmt: skip
STEERING: tuple[Mutation, ...] = (parameters, parameters, axes, extreme, factors, factors)


def mutated(rng: random.Random, call: Call, corpus: Corpus, trait: Trait = ANY) -> Call:
    """The call as it is, or with a few things changed; with a trait where that is asked for."""
    if trait.attribute:
        call = with_trait(rng, call, corpus, trait)
    steering = [is_parameter(v) or _is_factors(v) for v in call.inputs if isinstance(v, np.ndarray)]
    steered = any(steering) or any(a.name == "axes" for a in call.attributes)
    for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 3, 4])):
        call = rng.choice(STEERING if steered and rng.random() < 0.4 else MUTATIONS)(rng, call, corpus)
    return call


def is_parameter(value: Any) -> bool:
    """Whether an input rather says how than what: axes, sizes, positions, a factor for each axis."""
    return isinstance(value, np.ndarray) and value.ndim <= 1 and is_whole(value.dtype) and value.size <= 16


def _formal(schema: OpSchema, at: int) -> Any:
    """The formal input of an actual one; the last where it is variadic."""
    if at < len(schema.inputs):
        return schema.inputs[at]
    last = schema.inputs[-1] if schema.inputs else None
    return last if last is not None and last.option == OpSchema.FormalParameterOption.Variadic else None


def _pick(rng: random.Random, call: Call, wanted: Callable[[Any], bool]) -> int | None:
    found = [at for at, v in enumerate(call.inputs) if isinstance(v, np.ndarray) and wanted(v)]
    return rng.choice(found) if found else None


def _with_input(call: Call, at: int, value: Any) -> Call:
    return _with_inputs(call, [value if at == i else v for i, v in enumerate(call.inputs)])


def _with_inputs(call: Call, inputs: list[Any]) -> Call:
    return replace(call, inputs=tuple(inputs))
