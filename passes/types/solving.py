"""Which variables become narrow: all that has no reason to stay, less what would cost more casts than it saves."""

from __future__ import annotations

from collections.abc import Callable, Container

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


def solve(problem: Problem, size: Sizes, pulling: Container[tuple[int, int]] = ()) -> list[bool]:
    """Whether each variable becomes narrow. `size` tells how many bytes a value has, by which casts are weighed.

    Nodes that are `pulling` become narrow for their own sake, as `HEAVY` ones do: by the identity of their body, and
    their index.
    """
    root = _roots(problem)
    count = len(problem.elem_types)
    wide, heavy = [False] * count, [False] * count
    wide[root[0]] = True
    for variable in range(count):
        if problem.reasons[variable]:
            wide[root[variable]] = True
        owner = problem.owners[variable]
        if owner is None:
            continue
        if owner.node < 0:  # inputs and outputs of the model that are to change, and those of functions, which may
            heavy[root[variable]] |= owner.place is problem.main
            continue
        op = owner.place.ops[owner.node].rpartition("::")[2]
        if op in HEAVY or (id(owner.place), owner.node) in pulling:
            heavy[root[variable]] = True
    made, links = _links(problem, root)
    narrow = [not wide[root[variable]] for variable in range(count)]
    for part in _parts(links, wide, heavy, count, root):
        for variable in _find_kept(part, made, links, wide, heavy, problem, size):
            narrow[variable] = False
    return [narrow[root[variable]] for variable in range(count)]


def _roots(problem: Problem) -> list[int]:
    """One variable of all that are tied together, for each."""
    root = list(range(len(problem.elem_types)))

    def find(variable: int) -> int:
        while root[variable] != variable:
            root[variable] = root[root[variable]]
            variable = root[variable]
        return variable

    for one, other in problem.ties:
        first, second = sorted((find(one), find(other)))
        root[second] = first
    return [find(variable) for variable in range(len(root))]


Link = tuple[Value, int, tuple[int, ...]]
"""A value, its variable, and those of its readers that are others."""


def _links(problem: Problem, root: list[int]) -> tuple[dict[int, list[Value]], list[Link]]:
    """The values that each variable makes, and where a cast may stand."""
    made: dict[int, list[Value]] = {}
    links: list[Link] = []
    for value in problem.values():
        if value.variable == FREE or not problem.moves(value.elem_type):
            continue
        own = root[value.variable]
        made.setdefault(own, []).append(value)
        readers: set[int] = set()
        for place, index, at in value.readers:
            variable = place.reads[index][at] if index >= 0 else place.output_reads[at]
            if variable != FREE:
                readers.add(root[variable])
        readers.discard(own)
        if readers:
            links.append((value, own, tuple(sorted(readers))))
    return made, links


def _parts(
    links: list[Link], wide: list[bool], heavy: list[bool], count: int, root: list[int]
) -> list[tuple[set[int], list[int]]]:
    """The variables that may be either, in parts that hang together and touch something wide, with their links."""
    near: dict[int, list[int]] = {}
    for at, (_, own, readers) in enumerate(links):
        for variable in (own, *readers):
            near.setdefault(variable, []).append(at)
    seen = [False] * count
    parts: list[tuple[set[int], list[int]]] = []
    for start in near:
        if wide[start] or heavy[start] or seen[start]:
            continue
        part, touched, pending, touches = {start}, dict[int, None](), [start], False
        seen[start] = True
        while pending:
            for at in near[pending.pop()]:
                if at in touched:
                    continue
                touched[at] = None
                for other in (links[at][1], *links[at][2]):
                    if wide[other]:
                        touches = True
                    elif not heavy[other] and not seen[other]:
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
