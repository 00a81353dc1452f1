"""Names that nobody knows, and the known one that is spelled most like each."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def likely(name: object, known: Iterable[str]) -> str | None:
    """The known name that is spelled most like one, whatever its case; None where all are far from it."""
    if not isinstance(name, str):
        return None
    from difflib import get_close_matches  # only for who needs it: it takes a while to import

    folded: dict[str, str] = {}
    for each in known:
        folded.setdefault(each.casefold(), each)
    found = get_close_matches(name.casefold(), folded, 1)
    return folded[found[0]] if found else None


def hint(name: object, known: Iterable[str], spelled: Callable[[str], str] = str) -> str:
    """The end of an error about a name: `; did you mean Gelu?`, or nothing."""
    found = likely(name, known)
    return f"; did you mean {spelled(found)}?" if found is not None else ""


def texts(given: object, wanted: str) -> list[str]:
    """What a user gives as one text, as several, or not at all.

    Raises:
        ValueError: it is something else; the message says what is `wanted`.
    """
    if given is None or isinstance(given, str):
        return [] if given is None else [given]
    held = []
    for each in given if isinstance(given, Iterable) else (given,):
        if not isinstance(each, str):
            raise ValueError(f"{wanted}, not {each!r}")
        held.append(each)
    return held
