"""What a user asks of the inputs and outputs of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opshift.passes.inputs import matching
from opshift.passes.records import dataclass

Names = str | Mapping[str, str] | Iterable[str]
"""Old and new names: a mapping, `old=new`, or several of the latter."""

RENAME = "give a new name as old=new"
OUTPUTS = "give outputs by name"


@dataclass(frozen=True)
class Ends:
    """What is asked of inputs and outputs, by names of the source or patterns of these.

    Attributes:
        added: values between that become outputs.
        dropped: outputs that go, with what only they need.
        renamed: old and new names of inputs, outputs and symbolic dimensions.
    """

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.dropped or self.renamed)


AS_IT_IS = Ends()


def ends_of(
    rename: Names | None = None,
    add_output: str | Iterable[str] | None = None,
    drop_output: str | Iterable[str] | None = None,
) -> Ends:
    """The same from what was typed, or given in Python; raises `ValueError` for what has no meaning."""
    renamed = matching.pairs(rename, RENAME)
    for old, new in renamed:
        matching.check(old, new)
    return Ends(matching.names(add_output, OUTPUTS), matching.names(drop_output, OUTPUTS), renamed)
