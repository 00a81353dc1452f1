"""Runs two models on the same inputs and compares what comes out."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from opshift.files import external
from opshift.passes import progress
from opshift.passes.errors import InvalidModel
from opshift.passes.model import imports, tensor_data
from opshift.passes.model.messages import ModelProto
from opshift.passes.records import replace
from opshift.verification import adapters, interfaces, isolation, random_operators
from opshift.verification.compare import Difference, compare
from opshift.verification.engines import ABSENT, ENGINES, EngineError, OnnxRuntime, Reference
from opshift.verification.feeding import inputs as feeding
from opshift.verification.feeding import responding
from opshift.verification.feeding.asked import DRAWN, Asked
from opshift.verification.judgement import SHAPE, Judgement, Verification
from opshift.verification.places.hidden import Hidden
from opshift.verification.side import Side
from opshift.verification.turns import Turns

if TYPE_CHECKING:
    from opshift.verification.judge import Pair
    from opshift.verification.places.rounds import Tried

# onnxruntime for both forms if it loads them. If it loads only one, the other runs in onnx.reference: two engines that
# agree say as much as one. The reference alone comes last, because it is blind to some version differences.
PAIRS: tuple[tuple[type[OnnxRuntime | Reference], type[OnnxRuntime | Reference]], ...] = (
    (OnnxRuntime, OnnxRuntime),
    (OnnxRuntime, Reference),
    (Reference, OnnxRuntime),
    (Reference, Reference),
)


_DISAGREE = "the engines disagree on one and the same model"


def verify_sides(
    before: Side,
    after: Side,
    *,
    grade: str = "exact",
    wanted: Asked = DRAWN,
    plain: bool = True,
    sought: bool = False,
) -> Verification:
    """Run both models on the same inputs; `grade` sets the tolerance (see `opshift.verification.compare`).

    Special numbers and sizes decide where the grade is exact and `plain` says that nothing was folded or optimized.
    Inputs are `sought` in other processes where some are known to end the one that runs them.
    """
    mismatch = _interface(before.model, after.model, wanted)
    if mismatch:
        return Verification("different", why=mismatch)
    reasons: list[str] = []
    network = before.network is not None or after.network is not None
    named = [tuple(adapters.JUDGES[name] for name in wanted.engines)] if wanted.engines else PAIRS
    for first, second in dict.fromkeys((before.in_place_of(a), after.in_place_of(b)) for a, b in named):
        one, other = replace(before, engine=first), replace(after, engine=second)
        same = first is second and first in ENGINES  # others compute something else than what is written
        try:
            decides = plain and grade == "exact"
            found = _run(one, other, grade if same else "close", wanted, decides=decides, sought=sought)
        except EngineError as error:
            reasons.append(str(error))
            continue
        if any(ABSENT in why for why in reasons):
            found = replace(found, engine=f"{found.engine}, as {ABSENT}")
        if found.status != "different" or first is second or network:
            return found
        if wanted.engines:  # whoever names two asks where they part
            alike = not {first, second} <= {*ENGINES} or _agree(one, other, wanted)
            return found if alike else replace(found, remarks=(*found.remarks, _DISAGREE))
        if _blind(one, other):
            why = "onnx.reference runs some older operators as they are now"
            return Verification("unverified", found.engine, why=why)
        if _agree(one, other, wanted):
            return found
        return Verification("unverified", found.engine, why=_DISAGREE)
    return Verification("unverified", why=_lacking(before, after) or "; ".join(dict.fromkeys(reasons)))


def _lacking(*sides: Side) -> str:
    """Which file of weights is not there, so that nothing can run the model; empty where that is not the reason."""
    for side in sides:
        for location in external.locations(side.model) if side.folder is not None else ():
            with suppress(InvalidModel):  # of what is no file
                if not os.path.exists(tensor_data.path(side.folder or "", location)):
                    return f"external data {location!r} are not there; that file belongs beside the model"
    return ""


def verify_apart(
    before: Side, after: Side, *, grade: str = "exact", wanted: Asked = DRAWN, plain: bool = True
) -> Verification:
    """`verify_sides` in a process of its own: a model that ends it on all inputs that are found is unverified."""
    try:
        try:
            return isolation.call(verify_sides, before, after, grade=grade, wanted=wanted, plain=plain)
        except isolation.Ended as ended:
            if ended.late or ended.full or wanted.sets or not isolation.forks():
                raise
            return isolation.call(verify_sides, before, after, grade=grade, wanted=wanted, plain=plain, sought=True)
    except isolation.Ended as ended:
        return Verification("unverified", why=str(ended))


def _blind(before: Side, after: Side) -> bool:
    """Whether onnx.reference, which does not know of all old versions of operators, ran the older of two models."""
    old, new = (imports.opsets(side.model).get("", 0) for side in (before, after))
    return before.engine is Reference and old < new


def _agree(one: Side, other: Side, wanted: Asked) -> bool:
    """Whether two engines yield the same for one of the models, so that what differs is the models' doing."""
    for side, engine in ((one, other.engine), (other, one.engine)):
        try:
            return _run(side, replace(side, engine=engine), "close", wanted).equal
        except EngineError:
            continue
    return False


def _interface(before: ModelProto, after: ModelProto, wanted: Asked) -> str:
    a, b = [v.name for v in before.graph.output], [v.name for v in after.graph.output]
    if a != b:
        return f"the outputs are {b} instead of {a}"
    held = {t.name for t in (*before.graph.initializer, *after.graph.initializer)}
    a, b = ([v.name for v in m.graph.input if v.name not in held] for m in (before, after))
    a = [name for name in a if name in b or name not in wanted.values]
    return f"the inputs are {b} instead of {a}" if a != b else ""


def _run(
    before: Side, after: Side, grade: str, wanted: Asked, *, decides: bool | None = None, sought: bool = False
) -> Verification:
    """Both on the same inputs, and then in special rounds, if it is said whether these decide."""
    from opshift.verification.judge import Pair
    from opshift.verification.places.rounds import tried

    hidden = Hidden(before, after, wanted)
    turns = Turns(before, after, hidden.shown, hidden.watched, hidden.more)
    turns.open()
    pair = Pair(before, after, grade, wanted.tolerances)
    total = Verification("equal", " and ".join(dict.fromkeys([before.named, after.named])), cast=tuple(pair.cast))
    started = perf_counter()
    progress.tell("run the first form, on inputs that fit")
    fits = list(
        feeding.running(before, lambda given: turns.first(interfaces.rounded(given, pair.cast)), wanted, sought=sought)
    )
    made, failure = _second(turns, [interfaces.rounded(fed.given, pair.cast) for fed in fits], pair)
    turns.rest()
    for fed, actual in zip(fits, made, strict=False):
        progress.tell("compare", total.runs + 1, len(made))
        given, expected = interfaces.rounded(fed.given, pair.cast), fed.outputs
        if "openvino" in (before.named, after.named):
            expected, actual = ([_as_computed(value) for value in values] for values in (expected, actual))
        total = replace(total, inputs=(*total.inputs, fed.shapes), runs=total.runs + 1)
        total = _judged(total, pair, given, expected, actual, wanted.repro)
        if not total.equal:
            return total
    if failure:
        total = replace(total, inputs=(*total.inputs, fits[len(made)].shapes))
        if after.engine is Reference:  # which does not run all that it loads
            raise EngineError(f"{after.named}: {failure}")
        if before.engine is Reference:  # which runs what is not valid, too
            return replace(total, status="unverified", why=f"{after.named}: {failure}")
        return replace(total, status="different", runs=total.runs + 1, why=failure)
    total = replace(total, remarks=responding.remarks(before.model, [fed.outputs for fed in fits]))
    total = hidden.run(total, pair, fits, turns, _judged)
    if not total.equal:
        return total
    if decides is None or wanted.sets or pair.cast or before.engine is not after.engine or before.engine not in ENGINES:
        return total
    problem = feeding.problem_of(before.model, wanted)
    progress.tell("try special numbers and sizes")
    special = tried(turns, pair, problem, fits[0], perf_counter() - started)
    return _decided(total, special, decides)


def _second(turns: Turns, feeds: Sequence[Any], pair: Pair) -> tuple[list[list[Any]], str]:
    """What the second form makes of the same inputs, up to those that it fails on, and how."""
    made: list[list[Any]] = []
    turns.session(1)
    for number, given in enumerate(feeds):
        progress.tell("run the second form", number + 1, len(feeds))
        try:
            made.append(turns.second(interfaces.as_second(given, pair.cast)))
        except EngineError as error:
            return made, f"the second model fails: {error}"
    return made, ""


def _decided(total: Verification, found: Tried, decides: bool) -> Verification:
    """The verification with what came of the special rounds."""
    total = replace(total, rounds=found.rounds)
    if found.partings and decides:
        first = found.partings[0]
        return replace(total, status="different", tensor=first.tensor, why=f"with {first.round}, {first.why}")
    blamed = (f"{parting}; no other engine is known to do so" for parting in found.excused)
    return replace(total, remarks=(*total.remarks, *map(str, found.partings), *blamed))


def _judged(
    total: Verification, pair: Pair, given: Any, expected: Sequence[Any], actual: Sequence[Any], repro: str | None
) -> Verification:
    """The verification with one more run."""
    verdict = pair.judge(given, expected, actual)
    if pair.grade == "close" and any(found.why for found in verdict.outputs):
        from opshift.verification.places import steps

        verdict = steps.judged(pair, given) or verdict
    outputs, drawn = {found.output: found for found in verdict.outputs}, list[str]()
    for name, a, b in zip(outputs, expected, actual, strict=True):
        if not outputs[name].why:
            total = _worse(total, compare(a, b))
        elif random_operators.is_random(pair.before, given, name, a, b, pair.grade):
            drawn.append(name)
        else:
            total = replace(_worse(total, compare(a, b)), status="different", tensor=name, why=outputs[name].why)
            total = replace(total, outputs=verdict.outputs, float64=pair.told())
            return _located(total, pair, given, repro, plainly=bool(pair.parted(a, b, name)))
    fed = Verification("equal", float64=pair.told())
    if drawn:
        behind = _behind(pair.before, pair.after, given, pair.grade, drawn)
        alone = tuple(Judgement(name, SHAPE) for name in drawn)
        fed = replace(fed, drawn=tuple(drawn), outputs=alone) if behind is None else behind
        if not fed.equal:
            return replace(total, status="different", tensor=fed.tensor, why=fed.why)
        outputs |= {found.output: found for found in fed.outputs if found.output in drawn}
    before = {found.output: found for found in total.outputs}
    merged = tuple(before[name].worse(found) if name in before else found for name, found in outputs.items())
    ties = dict(Counter(total.ties) + Counter(verdict.ties))
    names = tuple(dict.fromkeys([*total.drawn, *fed.drawn]))
    total = replace(total, remarks=tuple(dict.fromkeys([*total.remarks, *fed.remarks])))
    return replace(_worse(total, fed), outputs=merged, ties=ties, drawn=names, float64=fed.float64 or total.float64)


def _located(found: Verification, pair: Pair, given: Any, repro: str | None, *, plainly: bool) -> Verification:
    """The verification with the place where the models part, and with what is written of it.

    Where the outputs do not differ `plainly`, only their twins tell the first value that does.
    """
    from opshift.verification.places import locate
    from opshift.verification.places import repro as writing

    progress.tell("look for the first value that differs")
    try:
        if pair.cast or not plainly:
            raise EngineError("values of the two are not compared with each other")
        place = locate.locate(pair.before, pair.after, given, found.tensor, pair.parted)
    except EngineError:
        tensor, why = pair.locate(given) or (found.tensor, found.why)
        return replace(found, tensor=tensor, why=why)
    parts = tuple(name for name, _ in place.before)
    found = replace(found, tensor=place.tensor, why=place.why, node=place.node, op=place.op, parts=parts)
    found = replace(found, weights=place.weights)
    asked = pair.tolerance(place.tensor)
    if repro is not None and writing.write(Path(repro), pair.before, pair.after, given, place, pair.parted, asked):
        found = replace(found, repro=repro)
    return found


def _as_computed(value: Any) -> Any:
    """A value as exact as OpenVINO knows it, which computes double as float."""
    return value.astype("float32") if getattr(value, "dtype", None) == "float64" else value


def _worse(total: Verification, found: Difference | Verification) -> Verification:
    return replace(total, absolute=max(total.absolute, found.absolute), relative=max(total.relative, found.relative))


def _behind(before: Side, after: Side, given: Any, grade: str, drawn: Sequence[str]) -> Verification | None:
    """Both forms run on the numbers that generators of the first drew; None where that cannot be done.

    What the generators take is compared, too. What is left of `drawn` could not be.
    """
    from opshift.verification.judge import Pair

    if not {before.engine, after.engine} <= {OnnxRuntime, Reference}:  # others run files, not what is made of them
        return None
    yielded, taken = random_operators.shared(before.model, after.model)
    count = len(before.model.graph.output)
    try:
        loose = replace(before, model=random_operators.unseeded(before.model)).open(yielded)
        first, second = (loose.run(given)[count:] for _ in range(2))
        del loose
        values = {n: a for n, a, b in zip(yielded, first, second, strict=True) if not compare(a, b).equal}
        if not values:
            return None
        theirs = dict(zip(yielded, after.open(yielded).run(given)[count:], strict=True))
        alike = _alike(before, after, given, values, theirs)
        if not alike:
            return alike
        cut = (random_operators.cut(s.model, values, taken, m) for s, m in ((before, "before"), (after, "after")))
        sides = [replace(side, model=model) for side, model in zip((before, after), cut, strict=True)]
        given = {**given, **values}
        results = [side.open().run(given) for side in sides]
        total = Verification("equal", drawn=tuple(name for name in drawn if name in values), remarks=alike.remarks)
        pair = Pair(sides[0], sides[1], grade)
        verdict = pair.judge(given, results[0], results[1])
        for judged, a, b in zip(verdict.outputs, *results, strict=True):
            name = judged.output
            if not judged.why:
                total = _worse(total, compare(a, b)) if name in drawn else total
            elif not random_operators.is_random(sides[0], given, name, a, b, grade):
                tensor, why = pair.locate(given) or (name, judged.why)
                return replace(total, status="different", tensor=tensor, why=why)
            elif name in drawn:
                total = replace(total, drawn=(*total.drawn, name))
        alone = tuple(Judgement(name, SHAPE) for name in total.drawn)
        total = replace(total, outputs=(*verdict.outputs, *alone), float64=pair.told())
    except EngineError:
        return None
    return total


def _alike(before: Side, after: Side, given: Any, values: Mapping[str, Any], theirs: Mapping[str, Any]) -> Verification:
    """What is found of the numbers that are drawn: another type, shape or distribution, or too few to tell."""
    for name, value in values.items():
        if (value.shape, value.dtype) != (theirs[name].shape, theirs[name].dtype):
            return Verification("different", tensor=name, why="another type or shape is drawn")
    numbers, remarks = [name for name, value in values.items() if value.dtype.kind in "biuf"], []
    free = (replace(side, model=random_operators.unseeded(side.model)).open(numbers) for side in (before, after))
    samples = [random_operators.sampled(of, given, len(before.model.graph.output)) for of in free]
    for name, one, other in zip(numbers, *samples, strict=True):
        if why := random_operators.unlike(one, other):
            return Verification("different", tensor=name, why=why)
        if not random_operators.tells(one, other):
            remarks.append(f'"{name}" drew {one.size} numbers: too few to tell how they are drawn')
    return Verification("equal", remarks=tuple(remarks))
