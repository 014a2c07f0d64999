#!/usr/bin/env python3
"""Fails when a folder of src/ includes or links something that does not stand below it.

The floors are read from the nibble_add_module(<name> FLOOR <n> ...) lines of CMakeLists.txt under src/.
A module is a folder: ops_cpu is src/ops/cpu. Folders of one floor do not see each other. Tests keep to
the floors of their folder, but may also include from tests/, and those of one device's operators
compare with another's. The folders of compress/ have an order of their own.

    tools/check_floors.py [ROOT]
"""
import pathlib
import re
import sys
from typing import NamedTuple

MODULE = re.compile(r"nibble_add_module\(\s*(\w+)\s+FLOOR\s+(\d+)([^)]*)\)")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
# A folder of compress/ includes those before it. METHOD stands for all others, which may build on one another; LIST names them.
METHOD = "a method"
COMPRESS = ["backend", "coding", "calibration", "block", "recipe", METHOD, "pipeline", "export"]
LIST = "src/compress/recipe/all.cpp"
KEYWORDS = {"SOURCES", "LINKS", "PUBLIC", "PRIVATE"}
SOURCES = {".h", ".cpp", ".inc", ".cu", ".cuh"}


class Module(NamedTuple):
    floor: int
    links: list[str]
    file: str  # the CMakeLists.txt that has it, from the root


def links_of(arguments: str) -> list[str]:
    """The names after LINKS in the arguments of nibble_add_module."""
    names, inside = [], False
    for word in arguments.split():
        if word in KEYWORDS:
            inside = word == "LINKS"
        elif inside:
            names.append(word)
    return names


def read_modules(root: pathlib.Path) -> dict[str, Module]:
    modules = {}
    for file in sorted(root.glob("src/**/CMakeLists.txt")):
        for name, floor, arguments in MODULE.findall(file.read_text()):
            modules[name] = Module(int(floor), links_of(arguments), str(file.relative_to(root)))
    return modules


def module_of(path: str, modules: dict[str, Module]) -> str:
    """The module of a path from src/: of its longest folder that is one; else its first folder."""
    folders = path.split("/")[:-1]
    for count in range(len(folders), 1, -1):
        name = "_".join(folders[:count])
        if name in modules:
            return name
    return path.split("/")[0]


def link_faults(modules: dict[str, Module]) -> list[str]:
    faults = []
    for name, (floor, links, where) in modules.items():
        for link in links:
            if link not in modules:
                faults.append(f"{where}: links {link}, which is no folder of src/")
            elif modules[link].floor >= floor:
                faults.append(f"{where}: {name} (floor {floor}) links {link} (floor {modules[link].floor})")
    return faults


def include_faults(root: pathlib.Path, file: pathlib.Path, modules: dict[str, Module]) -> list[str]:
    where = file.relative_to(root)
    here = module_of("/".join(where.parts[1:]), modules)
    is_test = file.stem.endswith(("_test", "_for_tests"))
    faults = []
    for include in INCLUDE.findall(file.read_text()):
        there = module_of(include, modules)
        if there == here or (is_test and here.startswith("ops_") and there.startswith("ops_")):
            continue
        if there not in modules:
            if not (is_test and (root / "tests" / include).is_file()):
                faults.append(f'{where}: "{include}" is not a path from src/')
        elif modules[there].floor >= modules[here].floor:
            faults.append(f"{where}: {here} (floor {modules[here].floor}) includes {include} (floor {modules[there].floor})")
    return faults


def place_in_compress(path: str) -> int:
    folder = path.split("/")[1]
    return COMPRESS.index(folder if folder in COMPRESS else METHOD)


def compress_faults(root: pathlib.Path, file: pathlib.Path) -> list[str]:
    where = str(file.relative_to(root))
    here = where.removeprefix("src/")
    if file.stem.endswith(("_test", "_for_tests")) or where == LIST or here.count("/") < 2:
        return []
    return [
        f"{where}: includes {include}, which stands above it in compress ({', '.join(COMPRESS)})"
        for include in INCLUDE.findall(file.read_text())
        if include.startswith("compress/") and place_in_compress(include) > place_in_compress(here)
    ]


def check(root: pathlib.Path) -> list[str]:
    modules = read_modules(root)
    if not modules:
        return [f"no nibble_add_module line under {root}/src"]
    faults = link_faults(modules)
    homeless = set()
    for file in sorted(root.glob("src/*/**/*")):
        if file.suffix not in SOURCES:
            continue
        here = module_of("/".join(file.relative_to(root).parts[1:]), modules)
        if here in modules:
            faults += include_faults(root, file, modules)
            faults += compress_faults(root, file) if here == "compress" else []
        else:
            homeless.add(here)
    return faults + [f"src/{name}: no nibble_add_module line gives its floor" for name in sorted(homeless)]


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    root = root if root.is_dir() else root.parent.parent
    faults = check(root)
    print("\n".join(faults) or f"floors: {len(read_modules(root))} folders, nothing looks up")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
