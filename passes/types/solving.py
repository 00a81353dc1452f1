"""Which variables become narrow: all that has no reason to stay, less what would cost more casts than it saves."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache

from opshift.passes.types.cutting import INFINITE, Network
from opshift.passes.types.masks import HEAVY, MOVING
from opshift.passes.types.problem import FREE, Problem, Value

_LARGEST = 50_000
"""Edges of a part of which a minimum cut is made; a larger part becomes narrow as a whole."""
_CAST, _NODE = 4, 9
"""The weights of a byte that is cast and of one that a narrow node computes: two casts are worth a node between them,
and not worth one that only moves numbers."""

_LAUNCH = 1024
"""What a cast costs, or a node, whatever its size is, in elements."""

Sizes = Callable[[Value], int]


def solve(problem: Problem, size: Sizes, pulling: Collection[tuple[int, int]] = ()) -> list[bool]:
    """Whether each variable becomes narrow. `size` tells how many bytes a value has, by which casts are weighed.

    Nodes that are `pulling` become narrow for their own sake, as `HEAVY` ones do: by the identity of their body, and
    their index.
    """
    root = _roots(problem)
    count = len(problem.elem_types)
    wide, heavy = [False] * count, [False] * count
    wide[root[0]] = True
    for variable, (owner, reason) in enumerate(zip(problem.owners, problem.reasons, strict=True)):
        if reason:
            wide[root[variable]] = True
        if owner is None:
            continue
        place, node = owner
        if node < 0:  # inputs and outputs of the model that are to change, and those of functions, which may
            heavy[root[variable]] |= place is problem.main
        elif is_heavy(place.ops[node]) or (pulling and (id(place), node) in pulling):
            heavy[root[variable]] = True
    free = [not (fixed or pulled) for fixed, pulled in zip(wide, heavy, strict=True)]
    made, links = _links(problem, root, free)
    narrow = [not wide[root[variable]] for variable in range(count)]
    for part in _parts(links, wide, heavy, free):
        for variable in _find_kept(part, made, links, wide, heavy, problem, size):
            narrow[variable] = False
    return [narrow[root[variable]] for variable in range(count)]


@cache
def is_heavy(op: str) -> bool:
    """Whether nodes of an operator, as users write it, become narrow for their own sake."""
    return op.rpartition("::")[2] in HEAVY


def _roots(problem: Problem) -> list[int]:
    """One variable of all that are tied together, for each; and `FREE` for `FREE`, which comes last."""
    root = [*range(len(problem.elem_types)), FREE]

    def find(variable: int) -> int:
        while root[variable] != variable:
            root[variable] = root[root[variable]]
            variable = root[variable]
        return variable

    for one, other in problem.ties:
        first, second = sorted((find(one), find(other)))
        root[second] = first
    return [own if root[own] == own else find(own) for own in root]


Link = tuple[Value, int, tuple[int, ...]]
"""A value, its variable, and those of its readers that are others."""


def _links(problem: Problem, root: list[int], free: list[bool]) -> tuple[dict[int, list[Value]], list[Link]]:
    """The values that each free variable makes, and where a cast may stand."""
    made: dict[int, list[Value]] = {}
    links: list[Link] = []
    for value in problem.values():
        if value.variable == FREE or not value.target:
            continue
        own = root[value.variable]
        if free[own]:
            made.setdefault(own, []).append(value)
        readers = {
            root[place.reads[index][at] if index >= 0 else place.output_reads[at]] for place, index, at in value.readers
        }
        readers -= {own, FREE}
        if readers:
            links.append((value, own, tuple(sorted(readers))))
    return made, links


def _parts(
    links: list[Link], wide: list[bool], heavy: list[bool], free: list[bool]
) -> list[tuple[set[int], list[int]]]:
    """The variables that may be either, in parts that hang together and touch something wide, with their links."""
    near: dict[int, list[int]] = {}
    starts: list[int] = []
    for at, (_, own, readers) in enumerate(links):
        for variable in (own, *readers):
            if free[variable]:
                near.setdefault(variable, []).append(at)
            elif wide[variable]:
                starts += [own, *readers]
    seen = [not each for each in free]
    parts: list[tuple[set[int], list[int]]] = []
    for start in starts:
        if seen[start]:
            continue
        part, touched, pending, touches = {start}, dict[int, None](), [start], False
        seen[start] = True
        while pending:
            for at in near[pending.pop()]:
                if at in touched:
                    continue
                touched[at] = None
                _, own, readers = links[at]
                casts = heavy if wide[own] else wide if heavy[own] else ()
                is_cast = bool(casts) and any(casts[each] for each in readers)  # whatever becomes of the part
                for other in (own, *readers):
                    if wide[other]:
                        touches |= not is_cast
                    elif not seen[other]:
                        seen[other] = True
                        part.add(other)
                        pending.append(other)
        if touches and len(touched) <= _LARGEST:
            parts.append((part, list(touched)))
    return parts


def _find_kept(
    part: tuple[set[int], list[int]],
    made: dict[int, list[Value]],
    links: list[Link],
    wide: list[bool],
    heavy: list[bool],
    problem: Problem,
    size: Sizes,
) -> set[int]:
    """The variables of a part that stay as they are, for they would cost more casts than they save."""
    variables, touched = part
    network = Network()
    vertices: dict[int, int] = {}

    def vertex(variable: int) -> int:
        if variable not in vertices:
            own = vertices[variable] = network.add()
            if wide[variable]:
                network.connect(network.SOURCE, own, INFINITE)
            elif heavy[variable]:
                network.connect(own, network.SINK, INFINITE)
            else:
                network.connect(own, network.SINK, _save(problem, variable, made.get(variable, []), size))
        return vertices[variable]

    for at in touched:
        value, own, readers = links[at]
        cost = _CAST * (size(value) + _LAUNCH)
        if len(readers) == 1:
            network.connect(vertex(own), vertex(readers[0]), cost, cost)
            continue
        down, up = network.add(), network.add()  # one cast is for all readers
        network.connect(vertex(own), down, cost)
        network.connect(up, vertex(own), cost)
        for reader in readers:
            network.connect(down, vertex(reader), INFINITE)
            network.connect(vertex(reader), up, INFINITE)
    reached = network.source_side()
    return {variable for variable in variables if variable in vertices and vertices[variable] in reached}


def _save(problem: Problem, variable: int, made: list[Value], size: Sizes) -> int:
    """What is saved where a variable becomes narrow: the bytes that are computed, and hardly those that are moved."""
    owner = problem.owners[variable]
    if owner is None or owner.node < 0:
        return 1
    op = owner.place.ops[owner.node]
    if op in MOVING or op == "Cast":
        return 1
    return _NODE * (sum(map(size, made)) + _LAUNCH) + 1
