#!/usr/bin/env python3
"""Holds together what is installed, what is required and what is written about it.

  * The tables of docs/dependencies.md name the packages of tools/install_dependencies.sh, of
    tests/requirements.txt and of tools/aarch64_sysroot.sh: all of them, and no others.
  * What cmake/dependencies.cmake requires is used by a CMakeLists.txt; what it requires without the tests
    is used without the tests.

    tools/check_dependencies.py [ROOT]
"""
import pathlib
import re
import sys

PAGE = "docs/dependencies.md"
REQUIRED = "cmake/dependencies.cmake"
# Heading of the page -> file and name of the list in it ("": a line each).
LISTS = {
    "To build": ("tools/install_dependencies.sh", "build_packages"),
    "To test": ("tools/install_dependencies.sh", "test_packages"),
    "To check": ("tools/install_dependencies.sh", "check_packages"),
    "To check, from PyPI": ("tests/requirements.txt", ""),
    "To test for 64-bit ARM": ("tools/aarch64_sysroot.sh", "tools"),
}
FIND = re.compile(r"(find_package|pkg_check_modules)\((\w+)")
TESTS_ONLY = re.compile(r"^if\(NIBBLE_BUILD_TESTS\)\n(.*?)^endif\(\)", re.M | re.S)
OF_TESTS = re.compile(r"nibble_add_test\([^)]*\)|target_link_libraries\(\w+_test\b[^)]*\)")


def listed(root: pathlib.Path, file: str, name: str) -> set[str]:
    text = (root / file).read_text()
    if not name:
        return {line.split("==")[0] for line in text.split()}
    found = re.search(rf"^{name}=\(([^)]*)\)", text, re.M)
    return set(found.group(1).split()) if found else set()


def written(page: str) -> dict[str, set[str]]:
    """Heading -> the names in backticks in the second column of the tables below it."""
    packages: dict[str, set[str]] = {}
    heading = ""
    for line in page.splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif line.startswith("|") and line.count("|") > 2:
            packages.setdefault(heading, set()).update(re.findall(r"`([^`]+)`", line.split("|")[2]))
    return packages


def page_faults(root: pathlib.Path) -> list[str]:
    packages = written((root / PAGE).read_text())
    faults = [f"{PAGE}: the packages below '{heading}' stand in no list"
              for heading in packages if packages[heading] and heading not in LISTS]
    for heading, (file, name) in LISTS.items():
        there, here = listed(root, file, name), packages.get(heading, set())
        if not there:
            faults.append(f"{file}: no list {name}")
        faults += [f"{PAGE}: '{heading}' does not name {package} of {file}" for package in sorted(there - here)]
        faults += [f"{PAGE}: '{heading}' names {package}, which {file} does not have" for package in sorted(here - there)]
    return faults


def uses(text: str, function: str, name: str) -> bool:
    """Whether a target or a variable of a package stands in a text."""
    if name == "PkgConfig":
        return True  # pkg_check_modules needs it
    target = rf"PkgConfig::{name}\b" if function == "pkg_check_modules" else rf"\b{name}::"
    return re.search(rf"{target}|\$\{{{name}_", text) is not None


def unused_faults(root: pathlib.Path) -> list[str]:
    required = (root / REQUIRED).read_text()
    patterns = ("src/**/CMakeLists.txt", "tests/CMakeLists.txt", "bench/CMakeLists.txt", "cmake/*.cmake")
    files = [file for pattern in patterns for file in root.glob(pattern) if file != root / REQUIRED]
    text = "\n".join(file.read_text() for file in files)
    for_tests = "\n".join(TESTS_ONLY.findall(required))
    faults = [f"{REQUIRED}: nothing uses {name}" for function, name in FIND.findall(for_tests) if not uses(text, function, name)]
    without_tests = OF_TESTS.sub("", text)
    for function, name in FIND.findall(TESTS_ONLY.sub("", required)):
        if not uses(without_tests, function, name):
            faults.append(f"{REQUIRED}: nothing but tests uses {name}, which is required without them too"
                          if uses(text, function, name) else f"{REQUIRED}: nothing uses {name}")
    return faults


def main() -> int:
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
    faults = page_faults(root) + unused_faults(root)
    print("\n".join(faults) or "dependencies: the lists, the build and the page agree")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
