"""How a model is to be tried in an installed backend, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from opshift.passes.inputs.wanted import NOTHING, Wanted
from opshift.probing.installed import Installed
from opshift.trying.search import AGREES, DIFFERS, Answer, Bound


@dataclass(frozen=True)
class Learnt:
    """One thing that was found: what a backend does not take, and what was done about it.

    Attributes:
        kind, what: what was done: `expand` and an operator, `opset` and a number, and so on.
        operator: what is at fault, `Name` or `domain::Name`; empty where nobody knows.
        call: how it is called, as `with 4-D input of symbolic sizes`.
        symbolic: whether sizes of its input are not known.
        status, why: what came of it, in the backend's words.
        nodes: how many there are of the operator.
        how: what was done, in words.
    """

    kind: str
    what: str
    operator: str
    call: str
    symbolic: bool
    status: str
    why: str
    nodes: int
    how: str

    def describe(self, backend: str) -> str:
        """In a sentence."""
        verb = {"differs": "computes otherwise", "died": "ends at", "hung": "does not come to an end at"}
        subject = self.operator or "the model"
        said = f"{backend} {verb.get(self.status, 'refuses')} {subject}"
        if self.call:
            said += f" {self.call}"
        return f"{said}: {self.how}"


@dataclass(frozen=True)
class Tried:
    """What came of trying a model in an installed backend.

    Attributes:
        backend: its name and release.
        status: `agrees`, or what came of the last attempt.
        why: the words of the backend, or what differs.
        learnt: what was found, and done about it.
        tries: how often something was run.
        as_it_is: whether what the target's file says was left aside.
        node, operator, nodes: where the smallest piece fails, and of how many nodes it is.
        repro: the folder that it was written to.
        bounded: whether the search ended before it was through.
        other: the release that the target's file is about, where it is another one.
        open: symbolic dimensions of the inputs: numbers for them may help.
        learn: the target file that keeps what was found.
        fixed: the sizes that had to be fixed, and those that were wanted.
        far: how far an output is off at most, as a part of its largest element; below 0 where nobody knows.
        before: what came of the model as it is, where that was tried.
        where: what runs models, and how, if that is no processor in the precision of the model.
    """

    backend: str
    status: str
    why: str = ""
    learnt: tuple[Learnt, ...] = ()
    tries: int = 0
    as_it_is: bool = False
    node: str = ""
    operator: str = ""
    nodes: int = 0
    repro: str = ""
    bounded: bool = False
    other: str = ""
    open: tuple[str, ...] = ()
    learn: str = ""
    fixed: Wanted = NOTHING
    far: float = -1.0
    before: Answer | None = None
    where: str = ""

    @property
    def agrees(self) -> bool:
        return self.status == AGREES

    @property
    def differs(self) -> bool:
        return self.status == DIFFERS

    @property
    def lines(self) -> list[str]:
        """What was found, line by line."""
        return [learnt.describe(self.backend) for learnt in self.learnt]


@dataclass(frozen=True)
class TrialManner:
    """How to try: in which backend, how often, how long, and where the smallest piece that fails goes.

    `learn` is the target file that keeps what is found, `file` the one that the target is of, if it is the user's own.
    """

    backend: Installed | str
    bound: Bound = field(default_factory=Bound)
    repro: str | None = None
    learn: str | None = None
    file: str = ""
