#!/usr/bin/env python3
"""Fails on words that do not belong into the sources.

  * nothing prints but src/cli/output.h, which survives closed and full streams; a library never aborts
    or exits: only src/cli and tests may;
  * comments tell what is, not what was: history stands in git and in CHANGELOG.md;
  * no open ends (to-do marks), no numbers of tickets, no paths that leave the repository or name
    folders of one person's machine (tests may look for optional data beside the repository);
  * no file is longer than 500 lines.

    tools/check_words.py [ROOT]
"""
import os
import pathlib
import re
import sys

import checker

MAX_LINES = 500
CODE = {".h", ".cpp", ".inc", ".cu", ".cuh"}
TEXT = CODE | {".md", ".py", ".sh", ".cmake", ".txt", ".yml", ".yaml", ""}
SKIPPED_FOLDERS = {".git", ".github", ".cache", "build", "out", "goldens", "data", "texts", "__pycache__"}
SKIPPED_FILES = {"LICENSE", ".git"}
THEMSELVES = {"tools/check_words.py", "tools/checks_test.py"}

STRINGS_AND_COMMENTS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
PRINTS = re.compile(
    r"\bstd::(?:cout|cerr|clog)\b|\bfmt::print\b|\bspdlog::"
    r"|(?<![\w.>])(?:std::)?(?:v?f?printf|f?puts|fwrite|putchar|perror)\s*\("
    r"|\bwrite\s*\(\s*(?:STD(?:OUT|ERR)_FILENO|[12])\b"
)
PRINTER = "src/cli/output.cpp"
ENDS = re.compile(
    r"\bstd::(?:terminate|quick_exit)\b|(?<![\w.>])(?:std::)?(?:abort|_?exit|_Exit)\s*\("
)
COMMENT = re.compile(r"(?://|#)([^\n]*)")
HISTORY = re.compile(
    r"\bpreviously\b|\bformerly\b|\blegacy\b"
    r"|\b(?:was|were|has been|have been) (?:moved|renamed|replaced|changed|rewritten|refactored)\b"
    r"|\b(?:old|new|previous) (?:code|version|way|implementation|behaviou?r)\b",
    re.I,
)
EVERYWHERE = [
    (re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XXX|HACK)\b"), "an open end"),
    (re.compile(r"\b(?:issue|ticket|pull request|session) ?#?\d+\b", re.I), "a ticket's number"),
    (re.compile(r"(?<![\w./$}])/(?:home|root|Users|mnt|work|workspace)/\w"), "a path of one machine"),
]
OUTSIDE = re.compile(r"\.\./shared\b|\bshared/(?:data|models|goldens)\b")


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def without_strings_and_comments(text: str) -> str:
    return STRINGS_AND_COMMENTS.sub(lambda found: "\n" * found.group().count("\n"), text)


def files_under(root: pathlib.Path):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith("build"))
        for name in sorted(names):
            file = pathlib.Path(folder) / name
            if file.suffix in TEXT and name not in SKIPPED_FILES:
                yield file


def serves_tests(where: str) -> bool:
    """tests/..., x_test.cpp, test_data.h, writer_for_tests.h"""
    return where.startswith("tests/") or re.search(r"(?:^|_)tests?(?:_|$)", pathlib.Path(where).stem) is not None


def is_product(where: str) -> bool:
    return where.startswith("src/") and not serves_tests(where)


def faults_of(where: str, text: str) -> list[str]:
    faults = []
    is_code = pathlib.Path(where).suffix in CODE
    if is_code and text.count("\n") > MAX_LINES:
        faults.append(f"{where}: {text.count(chr(10))} lines, more than {MAX_LINES}")
    if is_code and is_product(where):
        code = without_strings_and_comments(text)
        for found in PRINTS.finditer(code) if where != PRINTER else ():
            faults.append(f"{where}:{line_of(code, found.start())}: {found.group().strip('(')} beside cli/output.h")
        for found in ENDS.finditer(code) if not where.startswith("src/cli/") else ():
            faults.append(f"{where}:{line_of(code, found.start())}: a library does not call {found.group().strip('(')}")
    if is_code:
        for comment in COMMENT.finditer(text):
            for found in HISTORY.finditer(comment.group(1)):
                faults.append(f"{where}:{line_of(text, comment.start())}: history in a comment: '{found.group()}'")
    for pattern, what in EVERYWHERE:
        for found in pattern.finditer(text):
            faults.append(f"{where}:{line_of(text, found.start())}: {what}: '{found.group()}'")
    if not serves_tests(where):
        for found in OUTSIDE.finditer(text):
            faults.append(f"{where}:{line_of(text, found.start())}: a path outside of the repository: '{found.group()}'")
    return faults


def check(root: pathlib.Path) -> tuple[list[str], int]:
    faults, count = [], 0
    for file in files_under(root):
        where = file.relative_to(root).as_posix()
        if where in THEMSELVES:
            continue
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue
        count += 1
        faults += faults_of(where, text)
    return faults, count


if __name__ == "__main__":
    sys.exit(checker.run(check, "words: {} files, nothing to object to"))
