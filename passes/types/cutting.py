"""A minimum cut of a graph: the cheapest set of edges without which nothing flows from its source to its sink."""

from __future__ import annotations

from collections import deque

INFINITE = 1 << 60


class Network:
    """A directed graph with capacities. The source is 0, the sink 1."""

    SOURCE, SINK = 0, 1

    def __init__(self) -> None:
        self._edges: list[list[int]] = [[], []]
        self._to: list[int] = []
        self._left: list[int] = []

    def add(self) -> int:
        """A new vertex."""
        self._edges.append([])
        return len(self._edges) - 1

    def connect(self, one: int, other: int, capacity: int, back: int = 0) -> None:
        """An edge, and one back."""
        self._edges[one].append(len(self._to))
        self._edges[other].append(len(self._to) + 1)
        self._to += [other, one]
        self._left += [capacity, back]

    def source_side(self) -> set[int]:
        """The vertices that still can be reached from the source once a minimum cut is made (by Dinic's algorithm)."""
        while True:
            level = self._levels()
            if level[self.SINK] < 0:
                return {vertex for vertex, at in enumerate(level) if at >= 0}
            tried = [0] * len(self._edges)
            while self._augment(level, tried):
                pass

    def _levels(self) -> list[int]:
        level = [-1] * len(self._edges)
        level[self.SOURCE] = 0
        pending = deque([self.SOURCE])
        while pending:
            vertex = pending.popleft()
            for edge in self._edges[vertex]:
                other = self._to[edge]
                if self._left[edge] > 0 and level[other] < 0:
                    level[other] = level[vertex] + 1
                    pending.append(other)
        return level

    def _augment(self, level: list[int], tried: list[int]) -> bool:
        """Send as much as one more path takes."""
        path: list[int] = []
        vertex = self.SOURCE
        while vertex != self.SINK:
            edges = self._edges[vertex]
            while tried[vertex] < len(edges):
                edge = edges[tried[vertex]]
                if self._left[edge] > 0 and level[self._to[edge]] == level[vertex] + 1:
                    break
                tried[vertex] += 1
            else:
                if not path:
                    return False
                vertex = self._to[path.pop() ^ 1]
                tried[vertex] += 1
                continue
            path.append(edge)
            vertex = self._to[edge]
        flow = min(self._left[edge] for edge in path)
        for edge in path:
            self._left[edge] -= flow
            self._left[edge ^ 1] += flow
        return True
