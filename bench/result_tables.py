#!/usr/bin/env python3
"""Writes the tables of the documentation from the measurements in bench/results.

    bench/result_tables.py [ROOT]

A page marks the place of a table:

    <!-- table: NAME -->
    <!-- end of table -->

What stands between the marks is replaced. tools/check_tables.py fails where it is not what this script writes.
bench/results/README.md says which tables there are and what a measurement holds.
"""
import re
import sys
from pathlib import Path

import accuracy_tables
import peer_tables
import speed_tables
import tuning_tables

RESULTS = "bench/results"
PLACE = re.compile(r"(<!-- table: (\S+) -->\n)(.*?)(<!-- end of table -->)", re.DOTALL)
BEGIN = re.compile(r"<!-- table: ")


def pages(root):
    return [*sorted(root.glob("*.md")), *sorted(root.glob("docs/**/*.md"))]


def tables(root):
    """Every table that the measurements give, by name. Throws ValueError for a measurement that lacks a field."""
    results = root / RESULTS
    return {**speed_tables.tables(results), **accuracy_tables.tables(results), **peer_tables.tables(results),
            **tuning_tables.tables(results)}


def filled(text, known):
    """The text of a page with its tables, the names of those, and what is wrong with its marks."""
    names, faults = [], []

    def replace(match):
        name = match[2]
        names.append(name)
        if name not in known:
            faults.append(f"no measurement in {RESULTS} belongs to the table {name}")
            return match[0]
        return f"{match[1]}{known[name]}\n{match[4]}"

    result = PLACE.sub(replace, text)
    if len(names) != len(BEGIN.findall(text)):
        faults.append("a table has no '<!-- end of table -->'")
    return result, names, faults


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    known, failed = tables(root), False
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        result, _, faults = filled(text, known)
        for fault in faults:
            print(f"{page.relative_to(root)}: {fault}", file=sys.stderr)
        failed = failed or bool(faults)
        if result != text:
            page.write_text(result, encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
