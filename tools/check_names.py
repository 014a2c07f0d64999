#!/usr/bin/env python3
"""Checks the names of files, folders and namespaces in src/.

  * files and folders are snake_case; no folder is called common, util or helpers;
  * a header begins with #pragma once;
  * code of src/<folder> lives in the namespace nibble::<folder>.

    tools/check_names.py [ROOT]
"""
import pathlib
import re
import sys

import checker

SNAKE = re.compile(r"^[a-z][a-z0-9]*(?:_[a-z0-9]+)*$")
HOMELESS = {"common", "util", "utils", "helper", "helpers", "misc"}
NAMESPACE = re.compile(r"^(?:inline )?namespace\s+([\w:]+)", re.M)


def faults_of(root: pathlib.Path, file: pathlib.Path) -> list[str]:
    where = file.relative_to(root)
    faults = []
    for part in [*where.parts[:-1], file.stem]:
        if not SNAKE.match(part):
            faults.append(f"{where}: '{part}' is not snake_case")
        if part in HOMELESS:
            faults.append(f"{where}: '{part}' says nothing; name what it holds")
    text = file.read_text()
    if file.suffix == ".h" and "#pragma once" not in text:
        faults.append(f"{where}: a header without #pragma once")
    expected = f"nibble::{where.parts[1]}"
    spaces = [space for space in NAMESPACE.findall(text) if space != "std"]
    if file.suffix == ".h" and spaces and not any(s == expected or s.startswith(expected + "::") for s in spaces):
        faults.append(f"{where}: declares {', '.join(sorted(set(spaces)))}, not {expected}")
    return faults


def check(root: pathlib.Path) -> tuple[list[str], int]:
    faults, count = [], 0
    for file in sorted(root.glob("src/*/**/*")):
        if file.suffix in {".h", ".cpp", ".cu", ".cuh"}:
            count += 1
            faults += faults_of(root, file)
    return faults, count


if __name__ == "__main__":
    sys.exit(checker.run(check, "names: {} files follow the rules"))
