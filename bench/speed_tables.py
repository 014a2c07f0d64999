"""Tables of speeds: one for each machine and topic of the files in bench/results/speed."""
from decimal import Decimal

from measurements import markdown, read, without_empty_columns

REQUIRED = ("machine", "topic", "case", "command", "unit")
LESS_IS_BETTER = {"s", "ms", "µs"}


def tables(results):
    found = {}
    for file in sorted((results / "speed").glob("*.jsonl")):
        for line, row in enumerate(read(file), 1):
            missing = [field for field in REQUIRED if not row.get(field)]
            if "value" not in row and "range" not in row:
                missing.append("value")
            if missing:
                raise ValueError(f"speed/{file.name}:{line}: no {', '.join(missing)}")
            found.setdefault(f"{row['machine']}/{row['topic']}", []).append(row)
    return {name: grid(rows) if "column" in rows[0] else listing(rows) for name, rows in found.items()}


# ---------------------------------------------------------------- cells

def number(value):
    return value if isinstance(value, str) else f"{value:,}"


def span(value):
    """A number, or the two ends of a range."""
    if not isinstance(value, list):
        return number(value)
    return " to ".join(number(end) for end in value)


def figure(row):
    """55.9 (55.6 to 57.8): the median, and the smallest and largest of all runs; or one of the two."""
    ends = span(row["range"]) if "range" in row else ""
    if "value" not in row:
        return ends
    return f"{number(row['value'])} ({ends})" if ends else number(row["value"])


def middle(row):
    if "value" in row:
        return Decimal(row["value"])
    low, high = row["range"]
    return (Decimal(low) + Decimal(high)) / 2


def share(row):
    """The share of the limit, in percent: as measured, or figure over limit (a time: limit over figure)."""
    if "share" in row:
        return f"{span(row['share'])} %"
    limit = row.get("limit")
    if limit is None or isinstance(limit, list):
        return ""
    quotient = limit / middle(row) if row["unit"] in LESS_IS_BETTER else middle(row) / limit
    return f"{100 * quotient:.0f} %"


def times_as_fast(row, peer):
    own, other = middle(row), middle(peer)
    ratio = other / own if row["unit"] in LESS_IS_BETTER else own / other
    return f"{ratio:.2f}" if ratio < 1 else f"{ratio:.1f}"


# ---------------------------------------------------------------- tables

def listing(rows):
    """A row for each measurement, with its peer beside it."""
    extra = list(dict.fromkeys(key for row in rows for key in row.get("also", {})))
    units = list(dict.fromkeys(row["unit"] for row in rows))
    unit = units[0] if len(units) == 1 else "figure"
    header = ["case", "recipe", unit, *extra, "limit", "share", "peer", f"its {unit}", "times as fast"]
    cells = []
    for row in rows:
        peer = row.get("peer")
        suffix = "" if len(units) == 1 else f" {row['unit']}"
        limit = span(row["limit"]) if "limit" in row else ""
        cells.append([row["case"], row.get("recipe", ""), figure(row) + suffix,
                      *(span(row.get("also", {}).get(key, "")) for key in extra), limit, share(row),
                      peer["name"] if peer else "", figure(peer) + suffix if peer else "",
                      times_as_fast(row, peer) if peer else ""])
    return markdown(*without_empty_columns(header, cells)) + commands(rows)


def grid(rows):
    """A row for each case, a column for each program or size; shares in brackets."""
    columns = list(dict.fromkeys(row["column"] for row in rows))
    cases = list(dict.fromkeys(row["case"] for row in rows))
    cells = {(row["case"], row["column"]): row for row in rows}

    def cell(case, column):
        row = cells.get((case, column))
        if row is None:
            return ""
        part = share(row)
        return figure(row) + (f" ({part})" if part else "")

    body = [[case, *(cell(case, column) for column in columns)] for case in cases]
    return markdown([f"{rows[0]['unit']}", *columns], body) + commands(rows)


def commands(rows):
    """The commands that the figures come from, once each, as a block of code."""
    every = [row["command"] for row in rows] + [row["peer"]["command"] for row in rows if "peer" in row]
    lines = [line for command in every for line in (command if isinstance(command, list) else [command])]
    return "\n\n" + "\n".join(f"    {line}" for line in dict.fromkeys(lines))
