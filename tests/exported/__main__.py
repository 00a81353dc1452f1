"""`python -m tests.lab exported`: every export converted and refined, of which the tests take one of each series."""

import sys

from tests.exported import store, test_exported, test_refined


def main() -> int:
    code = 0
    for framework in store.frameworks():
        exports = store.read(framework)
        for line in (*test_exported.complaints(exports), *test_refined.complaints(exports)):
            code = 1
            print(line, flush=True)
        print(f"{framework}: {len(exports)} exports", flush=True)
    for line in test_refined.unverified():
        code = 1
        print(line, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
