"""What a term is, as a key that equal terms have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

Key = tuple[Any, ...]

NUMBER, ONES, TENSOR, VECTOR = "number", "ones", "tensor", "vector"
LEAF, VARIABLE, OP, PRODUCT, SUM = "leaf", "variable", "op", "*", "+"
"""Kinds of terms. ONES is a number of some rank with dimensions of 1 alone; VECTOR holds the elements of a shape."""


class Term(Protocol):
    """One of the tuples below: its kind says which of this it has."""

    kind: str
    value: float
    rank: int
    type: int | bool
    dims: tuple[int, ...]
    values: tuple[Any, ...]
    elements: tuple[int, ...]
    owner: object
    name: str
    number: int
    parameters: Key
    parameter: Any
    operands: tuple[int, ...]
    coefficient: float
    powers: tuple[tuple[int, float], ...]
    constant: float
    members: tuple[tuple[int, float], ...]


class Number(NamedTuple):
    kind: str
    value: float


class Ones(NamedTuple):
    kind: str
    value: float
    rank: int


class Tensor(NamedTuple):
    """The elements of a small constant; of a float, its `type` is not told."""

    kind: str
    type: int | bool
    dims: tuple[int, ...]
    values: tuple[float, ...]


class Vector(NamedTuple):
    kind: str
    elements: tuple[int, ...]


class Leaf(NamedTuple):
    kind: str
    owner: object
    name: str = ""


class Variable(NamedTuple):
    kind: str
    number: int


class Operator(NamedTuple):
    """An operator that the normal form does not take apart: its parameters are (name, value) pairs."""

    kind: str
    name: str
    parameters: Key
    operands: tuple[int, ...]

    @property
    def parameter(self) -> Any:
        """The value of the first one."""
        return self.parameters[0][1]


class Product(NamedTuple):
    kind: str
    coefficient: float
    powers: tuple[tuple[int, float], ...]


class Sum(NamedTuple):
    kind: str
    constant: float
    members: tuple[tuple[int, float], ...]


FORMS: dict[str, Callable[..., Any]] = {
    NUMBER: Number,
    ONES: Ones,
    TENSOR: Tensor,
    VECTOR: Vector,
    LEAF: Leaf,
    VARIABLE: Variable,
    OP: Operator,
    PRODUCT: Product,
    SUM: Sum,
}
"""The tuple of each kind of term."""
