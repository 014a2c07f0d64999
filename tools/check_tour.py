#!/usr/bin/env python3
"""Checks that the documentation points at things that exist.

  * every stop of docs/tour.md, written `folder/file.cpp` `function`, names a file of src/ in which that
    function (or type) stands;
  * every path in backticks in the pages (`src/...`, `tools/...`, `docs/...`) exists, unless it holds a
    placeholder such as <name>;
  * every relative link leads to a file.

    tools/check_tour.py [ROOT]
"""
import pathlib
import re
import sys

STOP = re.compile(r"`([\w/]+\.(?:h|cpp|inc|cu|cuh))`\s*`([\w:~]+)`")
PATH = re.compile(r"`((?:src|tools|docs|models/demo|cmake|tests|bench|\.ci)/[\w./-]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


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


def check_page(root: pathlib.Path, page: pathlib.Path) -> list[str]:
    text, where = page.read_text(), page.relative_to(root)
    faults = []
    for path in PATH.findall(text):
        if not (root / path).exists():
            faults.append(f"{where}: `{path}` does not exist")
    for link in LINK.findall(text):
        if "://" not in link and not link.startswith("mailto:") and not (page.parent / link).exists():
            faults.append(f"{where}: the link to {link} leads nowhere")
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
