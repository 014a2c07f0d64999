#!/usr/bin/env python3
"""Checks that the documentation points at things that exist.

  * every stop of docs/tour.md, written `folder/file.cpp` `function`, names a file of src/ in which that
    function (or type) stands;
  * every path in backticks in the pages (`src/...`, `tools/...`, `docs/...`) exists, unless it holds a
    placeholder such as <name>;
  * every relative link leads to a file, and its #part to a heading there.

    tools/check_tour.py [ROOT]
"""
import pathlib
import re
import sys

STOP = re.compile(r"`([\w/]+\.(?:h|cpp|inc|cu|cuh))`\s*`([\w:~]+)`")
PATH = re.compile(r"`((?:src|tools|docs|models/demo|cmake|tests|bench|\.ci)/[\w./-]+)`")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.M)


def pages(root: pathlib.Path) -> list[pathlib.Path]:
    return [*sorted(root.glob("*.md")), *sorted(root.glob("docs/**/*.md")), *sorted(root.glob("models/*/README.md"))]


def check_stops(root: pathlib.Path) -> tuple[list[str], int]:
    tour = root / "docs" / "tour.md"
    if not tour.is_file():
        return ["docs/tour.md: missing"], 0
    faults, count = [], 0
    for path, name in STOP.findall(tour.read_text()):
        count += 1
        file = root / "src" / path
        if not file.is_file():
            faults.append(f"docs/tour.md: src/{path} does not exist")
        elif not re.search(rf"\b{re.escape(name.split('::')[-1])}\b", file.read_text()):
            faults.append(f"docs/tour.md: src/{path} holds no '{name}'")
    if count == 0:
        faults.append("docs/tour.md: no stop found (`folder/file.cpp` `function`)")
    return faults, count


def anchors(page: pathlib.Path) -> set[str]:
    """What leads to the headings of a page: small letters, hyphens for blanks, no other signs."""
    found: set[str] = set()
    for heading in HEADING.findall(page.read_text()):
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = 0
        while (numbered := f"{anchor}-{number}" if number else anchor) in found:
            number += 1
        found.add(numbered)
    return found


def check_link(page: pathlib.Path, link: str, anchor: str) -> str:
    """What is wrong with a relative link, or nothing."""
    target = page.parent / link if link else page
    if not target.exists():
        return f"the link to {link} leads nowhere"
    if anchor and target.suffix == ".md" and anchor not in anchors(target):
        return f"{target.name} has no heading for the link to {link}#{anchor}"
    return ""


def check_page(root: pathlib.Path, page: pathlib.Path) -> list[str]:
    text, where = page.read_text(), page.relative_to(root)
    faults = []
    for path in PATH.findall(text):
        if not (root / path).exists():
            faults.append(f"{where}: `{path}` does not exist")
    for link, anchor in LINK.findall(text):
        if "://" not in link and not link.startswith("mailto:") and (fault := check_link(page, link, anchor)):
            faults.append(f"{where}: {fault}")
    return faults


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    root = root if root.is_dir() else root.parent.parent
    faults, count = check_stops(root)
    for page in pages(root):
        faults += check_page(root, page)
    print("\n".join(faults) or f"tour: {count} stops and all links of {len(pages(root))} pages are true")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
