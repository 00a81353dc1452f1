"""`python -m opshift`."""

import sys

if vars(sys.modules["__main__"]) is globals():
    import _signal  # type: ignore[import-not-found]  # `signal` imports enum, in which an interrupt is not quiet

    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    from opshift.cli import start

    start.command()
else:  # for another program, which goes on
    from opshift.cli import start

    sys.exit(start.main())
