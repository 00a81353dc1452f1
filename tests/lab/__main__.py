"""`python -m tests.lab`: list what can be run; `python -m tests.lab NAME ...` runs one."""

import sys

from tests.lab import frames, types
from tests.lab.proof import command as proof

LABS = {
    "frames": (frames.main, "Print the functions between main and the first step that a command takes"),
    "proof": (proof.main, "Give opshift's proof pairs of models, and count how many it judges rightly"),
    "types": (types.main, "Convert small models to half precision, and say what is wrong with each result"),
}


def main(arguments: list[str]) -> int:
    if arguments and arguments[0] in LABS:
        run, _ = LABS[arguments[0]]
        return run(arguments[1:])
    for name, (_, what) in LABS.items():
        print(f"python -m tests.lab {name}   # {what}")
    return 0 if not arguments else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
