#!/usr/bin/env python3
"""Checks that the tables of the documentation are those of the measurements in bench/results.

  * every table is what bench/result_tables.py writes;
  * every measurement has the fields of its kind, and every table of measurements stands on some page.

    tools/check_tables.py [ROOT]
"""
import json
import pathlib
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "bench"))

import result_tables  # noqa: E402  (found by the line above)


def faults_of(root: pathlib.Path) -> tuple[list[str], int]:
    try:
        known = result_tables.tables(root)
    except (KeyError, ValueError) as error:
        kind = "not JSON: " if isinstance(error, json.JSONDecodeError) else "lacks " if isinstance(error, KeyError) else ""
        return [f"{result_tables.RESULTS}: {kind}{error}"], 0
    faults, shown = [], set()
    for page in result_tables.pages(root):
        where = page.relative_to(root)
        text = page.read_text(encoding="utf-8")
        result, names, page_faults = result_tables.filled(text, known)
        shown.update(names)
        faults += [f"{where}: {fault}" for fault in page_faults]
        if result != text:
            faults.append(f"{where}: a table differs from {result_tables.RESULTS}; run bench/result_tables.py")
    faults += [f"{result_tables.RESULTS}: no page shows the table {name}" for name in known if name not in shown]
    return faults, len(shown)


def main() -> int:
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else REPOSITORY
    faults, count = faults_of(root)
    print("\n".join(faults) or f"tables: {count} tables are those of {result_tables.RESULTS}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
