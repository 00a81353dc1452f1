"""Where samples lie in what is moved: in other shapes, joined, cut, picked or repeated."""

from __future__ import annotations

from collections.abc import Sequence

from opshift.passes.analysis.polynomial import Number, Poly
from opshift.passes.model.lazy_numpy import np
from opshift.passes.simplification import dimensions
from opshift.passes.specialization.batch_axes import ALONE, LARGEST, Batched, Mixes, Where

_SAMPLE_AND_ELEMENT = 2  # numbers by which GatherND names an element of a sample
COUNTING = "its indices count the elements of the whole batch"


def count_on(call: Batched) -> None:
    """Follow indices that go on counting from sample to sample: they are moved, or counted from others of their kind.

    PyTorch takes the index of the first element of each image from that of the largest.
    """
    held = call.samples.indices
    given = [held.get(name) for name in call.proto.input]
    if given == [None] * len(given) or (call.op == "Sub" and given[0] == given[1]) or call.op == "MaxUnpool":
        return
    if given[0] is None or any(given[1:]) or call.op not in ("Identity", "Slice"):
        raise Mixes(COUNTING)
    held[call.output] = given[0]


def transpose(call: Batched) -> Sequence[Where]:
    rank = len(call.dims())
    perm = list(call.attribute("perm") or range(rank)[::-1])
    return [perm.index(call.axis)]


def flatten(call: Batched) -> Sequence[Where]:
    axis, given = call.axis_of("axis", 1, more=1), call.dims()
    first, last = (0, axis) if call.axis < axis else (axis, len(given))
    before = dimensions.product([*given[first : call.axis], call.merged[0]])
    behind = dimensions.product([call.merged[1], *given[call.axis + 1 : last]])
    if before is None or behind is None:
        raise Mixes("it merges the batch axis with other axes")
    call.merging = before, behind
    return [0 if call.axis < axis else 1]


def squeeze(call: Batched) -> Sequence[Where]:
    axes, rank = call.named_axes(), len(call.dims())
    if axes is None:
        raise Mixes("it squeezes axes that depend on sizes")
    call.apart(*axes)
    return [call.axis - sum(axis % rank < call.axis for axis in axes)]


def unsqueeze(call: Batched) -> Sequence[Where]:
    axes = call.named_axes()
    if axes is None:
        raise Mixes("its axes are dynamic")
    rank = len(call.dims()) + len(axes)
    added = {axis % rank for axis in axes}
    return [[axis for axis in range(rank) if axis not in added][call.axis]]


def concatenate(call: Batched) -> Sequence[Where]:
    axis, axes = call.axis_of("axis", 1), set(call.lies) - {None}
    if len(axes) != 1:
        raise Mixes("its inputs have the batch on different axes")
    (where,) = axes
    if where is None or where == axis:
        raise Mixes("it concatenates along the batch axis")
    for index, lies in enumerate(call.lies):
        if lies is None:
            call.repeat(index, where)
    return [where]


def cut_slice(call: Batched) -> Sequence[Where]:
    """Find the batch axis behind a Slice, which must keep the whole batch."""
    if call.opset < 10:
        starts, ends, axes = call.attribute("starts"), call.attribute("ends"), call.attribute("axes")
        steps = None
    else:
        starts, ends, axes, steps = (call.ints(index) for index in range(1, 5))
        if call.input(3) and axes is None:
            raise Mixes("its axes are dynamic")
    count = call.dims(1)[0] if axes is None and call.opset >= 10 else len(starts or ())
    axes = list(range(count)) if axes is None and isinstance(count, int) else axes
    if axes is None:
        raise Mixes("its axes are dynamic")
    rank = len(call.dims())
    for place, axis in enumerate(axes):
        whole = starts and ends and starts[place] == 0 and ends[place] >= 2**31 - 1
        if axis % rank == call.axis and not (whole and (not call.input(4) or (steps and steps[place] == 1))):
            raise Mixes("it slices the batch axis")
    return [call.axis]


def pad(call: Batched) -> Sequence[Where]:
    pads, rank = call.attribute("pads") if call.opset < 11 else call.ints(1), len(call.dims())
    axes = call.ints(3) if call.input(3) else list(range(rank))
    if pads is None or axes is None:
        raise Mixes("its pads are dynamic")
    for place, axis in enumerate(axes):
        if axis % rank == call.axis and (pads[place] or pads[len(axes) + place]):
            raise Mixes("it pads the batch axis")
    return [call.axis]


def gather(call: Batched) -> Sequence[Where]:
    axis = call.axis_of("axis", 0)
    if call.lies[1] is None:
        if call.merged != ALONE and call.axis == axis:
            return gather_rows(call)
        where = call.apart(axis)
        return [where if where < axis else where - 1 + len(call.dims(1))]
    if call.lies[0] is not None:
        raise Mixes("each sample reads other samples")
    return [axis + call.lies[1]]


def gather_rows(call: Batched) -> Sequence[Where]:
    """Constant indices that name sample after sample, and the same rows in each, where their axis is merged.

    TorchScript reads the mask of an attention so.
    """
    call.check_first()
    held, (before, rows), rest = call.array(1, LARGEST), call.merged, call.dims()[1:]
    numbers = [number for number in (rows, *rest) if isinstance(number, int)]
    named = held is not None and held.ndim > 0 and held.shape[0] == call.samples.held
    if not named or before != 1 or len(numbers) != 1 + len(rest):
        raise Mixes("its indices may read other samples")
    firsts = np.arange(len(held)).reshape(-1, *[1] * (held.ndim - 1)) * rows
    inside = np.where(held < 0, held + len(held) * rows, held) - firsts
    if (inside != inside[:1]).any() or (inside < 0).any() or (inside >= rows).any():
        raise Mixes("its indices may read other samples")
    call.picks, call.merging = numbers, ALONE
    call.shared[1] = inside[0].astype(held.dtype)
    return [0]


def gather_by_number(call: Batched) -> Sequence[Where]:
    """Constant indices that name sample after sample, and the same element in each: a Gather does not name samples.

    PyTorch reads the mask of an attention so.
    """
    call.check_first()
    held = call.array(1, LARGEST)
    named = (
        held is not None
        and held.ndim > 1
        and held.shape[-1] == _SAMPLE_AND_ELEMENT
        and not call.attribute("batch_dims", 0)
    )
    if not named or held.shape[0] != call.samples.held:
        raise Mixes("its indices may read other samples")
    numbers = np.arange(len(held)).reshape(-1, *[1] * (held.ndim - 2))
    if (held[..., 0] != numbers).any() or (held[..., 1] != held[:1, ..., 1]).any():
        raise Mixes("its indices may read other samples")
    call.picks = []
    call.shared[1] = held[0, ..., 1]
    return [0]


def one_hot(call: Batched) -> Sequence[Where]:
    axis = call.axis_of("axis", -1, more=1)
    return [call.axis if call.axis < axis else call.axis + 1]


def resize(call: Batched) -> Sequence[Where]:
    """Only what is not resized along the first axis; sizes are stated anew."""
    call.check_first()
    scales = call.attribute("scales") if call.op == "Upsample" and call.opset < 9 else None
    at = 1 if call.op == "Upsample" or call.opset < 11 else 2
    if scales is None and call.input(at) and (held := call.array(at)) is not None and held.size:
        scales = list(held)
    if (axes := call.attribute("axes")) is not None and all(axis % len(call.dims()) for axis in axes):
        return [0]
    if scales is not None and len(scales) == len(call.dims()) and scales[0] == 1:
        return [0]
    sizes = call.known_numbers(3)
    if scales is None and sizes is not None and sizes.values[0] == call.samples.size:
        return [0]
    if scales is None and sizes is not None and sizes.values[0] == call.samples.held and axes is None:
        state_sizes(call, 3, sizes.values)
        return [0]
    raise Mixes("it may resize the batch axis")


def reshape(call: Batched) -> Sequence[Where]:
    given, known = call.dims(), call.known_numbers(1)
    if known is None or (call.attribute("allowzero", 0) and 0 in known.values):
        raise Mixes("its shape input is unknown")
    stated = [given[at] if number == 0 and at < len(given) else number for at, number in enumerate(known.values)]
    found = {place: merging for place in range(len(stated)) if (merging := _merging(call, stated, given, place))}
    place = next((place for place, merging in found.items() if merging == ALONE), next(iter(found), None))
    if place is None:
        shape = [n if isinstance(n, int) else "?" for n in known.values]
        raise Mixes(f"the shape {shape} has no place for the samples")
    call.merging = found[place]
    number = stated[place]
    if isinstance(number, int) and number != -1:
        _state(call, stated, given, place)
    return [place]


def _merging(
    call: Batched, stated: Sequence[Number], given: Sequence[Number], place: int
) -> tuple[Number, Number] | None:
    """What an axis of a shape holds besides the samples, if they lie along it (see `Samples.merged`), else None.

    As many elements stand before each sample as before the Reshape, and as many in it.
    """
    axis, number, held = call.axis, stated[place], call.samples.held
    earlier, each = dimensions.product([*given[:axis], call.merged[0]]), dimensions.product(stated[:place])
    before = None if earlier is None or each is None or -1 in stated[:place] else dimensions.quotient_of(earlier, each)
    if before is None:
        return None
    behind: Number | None = None
    if number == -1:
        of_sample = dimensions.product([call.merged[1], *given[axis + 1 :]])
        rest = dimensions.product(stated[place + 1 :])
        behind = None if of_sample is None or rest is None else dimensions.quotient_of(of_sample, rest)
    elif isinstance(number, Poly):
        rows = dimensions.product([call.samples.size, before])
        behind = None if rows is None else dimensions.quotient_of(number, rows)
    elif held and number > 0 and isinstance(before, int) and number % (held * before) == 0:
        behind = number // (held * before)
    if behind is None:
        return None
    size = dimensions.product([call.samples.size, before, behind])
    holds = size is not None and _holds([*stated[:place], size, *stated[place + 1 :]], given)
    return (before, behind) if holds else None


def _holds(meant: Sequence[Number], given: Sequence[Number]) -> bool:
    """Whether a shape, which may leave one size to what is left, is that of as many elements."""
    rest = dimensions.product([number for number in meant if number != -1])
    total = dimensions.product(given)
    if rest is None or total is None:
        return False
    return rest == total if -1 not in meant else dimensions.quotient_of(total, rest) is not None


def _state(call: Batched, stated: Sequence[Number], given: Sequence[Number], place: int) -> None:
    """State a shape with another number of samples: sizes that are open are kept where they are, or follow."""

    def with_samples(shape: Sequence[Number], at: int, size: Number, merging: tuple[Number, Number]) -> list[Number]:
        rows = dimensions.product([size, *merging])
        if rows is None:
            raise Mixes("its shape input is dynamic")
        return [*shape[:at], rows, *shape[at + 1 :]]

    meant = with_samples(stated, place, call.samples.size, call.merging)
    if -1 in meant:
        total = dimensions.product(given)
        rest = dimensions.product([number for number in meant if number != -1])
        left = None if total is None or rest is None else dimensions.quotient_of(total, rest)
        if left is None:
            raise Mixes("its shape input is dynamic")
        meant[meant.index(-1)] = left
    size: Number = call.samples.size if call.samples.target is None else call.samples.target
    meant = with_samples(meant, place, size, call.merging)
    numbers = dimensions.reshape_target(meant, with_samples(given, call.axis, size, call.merged))
    if numbers is None:
        raise Mixes("its shape input is dynamic")
    call.wanted[1] = numbers
    call.set("allowzero", None)


def expand(call: Batched) -> Sequence[Where]:
    given, known = call.dims(), call.known_numbers(1)
    if known is None:
        raise Mixes("its shape input is unknown")
    rank, wanted, size = max(len(given), len(known.values)), list(known.values), call.samples.size
    if call.lies[0] is None:
        return [place_of(wanted, size) + rank - len(wanted)]
    place = call.lies[0] - len(given) + len(wanted)
    if place >= 0 and wanted[place] not in (1, given[call.lies[0]]):
        if wanted[place] != call.samples.held or call.merged != ALONE:
            raise Mixes("it repeats the batch")
        call.wanted[1] = numbers_of(wanted, place, call.samples.target or 1)
    return [place + rank - len(wanted)]


def state_sizes(call: Batched, index: int, sizes: Sequence[Number]) -> None:
    """State the size of a batch that is the first of these sizes, whatever it will be."""
    if call.samples.target is None:
        call.counted[index] = numbers_of(sizes, 0, 0)
    else:
        call.wanted[index] = numbers_of(sizes, 0, call.samples.target)


def numbers_of(wanted: Sequence[Number], place: int, size: int) -> list[int]:
    """A shape that is constant, with another size at one place."""
    found = [number for number in wanted if isinstance(number, int)]
    if len(found) != len(wanted):
        raise Mixes("its shape input is dynamic")
    found[place] = size
    return found


def fill(call: Batched) -> Sequence[Where]:
    known = call.known_numbers(0)
    if known is None:
        raise Mixes("its shape input is unknown")
    return [place_of(known.values, call.samples.size)]


def place_of(wanted: Sequence[Number], size: Number) -> int:
    """Where a shape names the number of samples, and nothing else that hangs on it."""
    places = [at for at, number in enumerate(wanted) if number == size]
    if len(places) != 1 or any(_hangs(number, size) for at, number in enumerate(wanted) if at != places[0]):
        raise Mixes("its shape merges the batch axis with other axes")
    return places[0]


def _hangs(number: Number, size: Number) -> bool:
    name = size.symbol if isinstance(size, Poly) else None
    return isinstance(number, Poly) and any(name in names for names, _ in number.terms)


def tile(call: Batched) -> Sequence[Where]:
    repeats = call.ints(1)
    if repeats is None or repeats[call.axis] != 1:
        raise Mixes("it repeats the batch")
    return [call.axis]
