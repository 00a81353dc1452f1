"""`dataclass` for what every command imports: the standard one, without compiling what it adds to a class.

That compiles six methods of each class from text, which was a quarter of the time that a short command takes, and
imports what reads source code. To type checkers, and to `dataclasses` when it is asked, these are classes of its own.
"""

from __future__ import annotations

from operator import attrgetter

TYPE_CHECKING = False  # as in `opshift`: an import of typing takes longer than all of this

if TYPE_CHECKING:
    from dataclasses import asdict as asdict
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True):
        """Make a class a record of what it annotates."""
        return _record(cls, frozen, eq) if cls is not None else lambda given: _record(given, frozen, eq)

    class field:  # noqa: N801 - it stands for the function of that name
        """What is made anew for each instance."""

        def __init__(self, *, default_factory):
            self.made = default_factory

    def asdict(record, /):
        """What it holds, and the records in that, as dictionaries."""
        from dataclasses import asdict

        return asdict(record)

    def replace(record, /, **changes):
        """The same with other values."""
        return type(record)(**{**{name: getattr(record, name) for name in record.__match_args__}, **changes})

    def _record(cls, frozen, eq):
        names = tuple(cls.__annotations__)
        defaults = {name: vars(cls)[name] for name in names if name in vars(cls)}
        for name, value in defaults.items():
            if isinstance(value, field):
                delattr(cls, name)
        held = attrgetter(*names) if names else type
        added = {"__init__": _init(cls, names, defaults), "__repr__": _repr}
        if eq:
            added |= {"__eq__": _eq(held), "__hash__": (lambda self: hash(held(self))) if frozen else None}
        if frozen:
            added |= {"__setattr__": _forbid_change, "__delattr__": _forbid_change}
        for name, value in added.items():
            if name not in vars(cls):
                setattr(cls, name, value)
        cls.__match_args__ = names
        for name in ("__dataclass_fields__", "__dataclass_params__", "__signature__"):
            setattr(cls, name, _Asked(name, cls, defaults, frozen))
        return cls

    def _init(cls, names, defaults):
        known, count, then = frozenset(names), len(names), getattr(cls, "__post_init__", None)
        factories = [(name, held.made) for name, held in defaults.items() if isinstance(held, field)]
        constants = {name: held for name, held in defaults.items() if not isinstance(held, field)}

        def arrange(given, named):
            held = dict(zip(names, given, strict=False))
            if not held.keys().isdisjoint(named):
                raise TypeError(f"{cls.__name__}: given twice: {', '.join(held.keys() & named.keys())}")
            held = {**constants, **held, **named}
            for name, make in factories:
                if name not in held:
                    held[name] = make()
            if held.keys() != known or len(given) > count:
                raise TypeError(f"{cls.__name__} takes {', '.join(names)}, not {', '.join(held)}")
            return held

        def init(self, *given, **named):
            fits = len(given) == count and not named
            self.__dict__.update(zip(names, given) if fits else arrange(given, named))  # noqa: B905 - they fit
            if then is not None:
                then(self)

        return init

    def _repr(self):
        return f"{type(self).__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in self.__match_args__)})"

    def _eq(held):
        def eq(self, other):
            return held(self) == held(other) if other.__class__ is self.__class__ else NotImplemented

        return eq

    def _forbid_change(self, name, *_):
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot change field {name!r}")

    class _Asked:
        """What `dataclasses` or `inspect` wants to know of a class, found out when they ask."""

        def __init__(self, what, record, defaults, frozen):
            self._what, self._record, self._defaults, self._frozen = what, record, defaults, frozen

        def __get__(self, instance, owner):
            import dataclasses
            import inspect

            def standard(name):
                held = self._defaults.get(name, dataclasses.MISSING)
                made = isinstance(held, field)
                given = dataclasses.field(default_factory=held.made) if made else dataclasses.field(default=held)
                return name, self._record.__annotations__[name], given

            if self._what == "__signature__" and owner is not self._record:
                raise AttributeError(self._what)  # a class that is made of this one has its own
            names = self._record.__match_args__
            twin = dataclasses.make_dataclass(self._record.__name__, map(standard, names), frozen=self._frozen)
            if self._what == "__signature__":
                return inspect.signature(twin)
            setattr(self._record, self._what, getattr(twin, self._what))  # a twin for each question would hold itself
            return getattr(twin, self._what)
