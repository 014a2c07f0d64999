"""Reads measurements from files of JSON lines, and lays out Markdown tables."""
import decimal
import json


def read(path):
    """The measurements of a file that may be missing. Numbers with a point keep all their digits."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line, parse_float=decimal.Decimal) for line in lines if line]


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def without_empty_columns(header, rows):
    """A column whose cells are all empty says nothing."""
    kept = [i for i in range(len(header)) if any(row[i] for row in rows)]
    return [header[i] for i in kept], [[row[i] for i in kept] for row in rows]
