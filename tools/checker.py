"""What checkers share: the root that they are told of or stand in, the list of faults, the exit status."""
import pathlib
import sys
from collections.abc import Callable


def run(check: Callable[[pathlib.Path], tuple[list[str], int]], summary: str) -> int:
    """Prints the faults that `check` finds below ROOT (the first argument), or else `summary` with the number
    of files that it read in place of {}. Returns the exit status."""
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    faults, count = check(root)
    print("\n".join(faults) or summary.format(count))
    return 1 if faults else 0
