#!/usr/bin/env python3
"""Tests of the checkers: each must accept a clean tree and see every planted fault."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent

CLEAN = {
    "src/core/CMakeLists.txt": "nibble_add_module(core FLOOR 0 SOURCES a.cpp)\n",
    "src/core/a.h": "#pragma once\nnamespace nibble::core {\n/// Says a thing.\nint answer();\n}\n",
    "src/core/a.cpp": '#include "core/a.h"\nnamespace nibble::core {\nint answer() { return 42; }\n}\n',
    "src/ops/CMakeLists.txt": "nibble_add_module(ops FLOOR 3\n  SOURCES cpu/b.cpp\n  LINKS core)\n",
    "src/ops/cpu/b.h": '#pragma once\n#include "core/a.h"\nnamespace nibble::ops::cpu {\nint twice();\n}\n',
    "src/models/CMakeLists.txt": "nibble_add_module(models FLOOR 4 SOURCES c.cpp LINKS core ops)\n",
    "src/models/c.cpp": '#include <vector>\n#include "core/a.h"\n// printf("a comment may say it");\nconst char* s = "exit(1)";\n',
    "src/cli/CMakeLists.txt": "nibble_add_module(cli FLOOR 7 SOURCES d.cpp LINKS core models)\n",
    "src/cli/d.cpp": '#include "models/e.h"\nvoid f() { std::cout << 1; }\n',
    "tests/support.h": "#pragma once\n",
    "src/models/c_test.cpp": '#include "support.h"\nconst char* p = "/../shared/models";\n',
    "docs/tour.md": "1. `core/a.cpp` `answer` starts; see [the header](../src/core/a.h) and `src/core/a.h`.\n",
}

# checker -> planted file -> text that must be refused
FAULTS = {
    "check_floors.py": [
        ("src/core/a.cpp", '#include "models/c.h"\n', "core (floor 0) includes models/c.h (floor 4)"),
        ("src/core/a_test.cpp", '#include "ops/cpu/b.h"\n', "includes ops/cpu/b.h"),
        ("src/models/c.cpp", '  #  include "ops/cpu/b.h"\n', "belongs to one device"),
        ("src/models/c.cpp", '#include "b.h"\n', "is not a path from src/"),
        ("src/ops/CMakeLists.txt", "nibble_add_module(ops FLOOR 3 SOURCES b.cpp LINKS core models)\n", "links models"),
        ("src/ops/CMakeLists.txt", "nibble_add_module(ops FLOOR 4 LINKS core)\n", "links ops (floor 4)"),
        ("src/ops/CMakeLists.txt", "nibble_add_module(ops FLOOR 3 LINKS kore)\n", "no folder of src/"),
        ("src/extra/x.cpp", "int x;\n", "src/extra: no nibble_add_module"),
    ],
    "check_words.py": [
        ("src/core/a.cpp", 'void f() { std::cout << 1; }\n', "std::cout"),
        ("src/core/a.cpp", 'void f() { std::fprintf(stderr, "x"); }\n', "fprintf"),
        ("src/core/a.cpp", "void f() { abort(); }\n", "abort"),
        ("src/core/a.cpp", "void f() { std::exit(1); }\n", "exit"),
        ("src/core/a.cpp", "// the old way was slower\n", "history"),
        ("src/core/a.cpp", "// TO" "DO: check\n", "open end"),
        ("docs/tour.md", "see issue #12\n", "ticket"),
        ("src/core/a.cpp", '// see /home/someone/notes\n', "path of one machine"),
        ("src/core/a.cpp", 'const char* p = "../shared/models";\n', "outside of the repository"),
        ("src/core/a.cpp", "\n" * 501, "more than 500"),
    ],
    "check_names.py": [
        ("src/core/BadName.cpp", "", "not snake_case"),
        ("src/core/util/x.cpp", "", "says nothing"),
        ("src/core/b.h", "namespace nibble::core {}\n", "#pragma once"),
        ("src/core/b.h", "#pragma once\nnamespace nibble::models {}\n", "not nibble::core"),
    ],
    "check_tour.py": [
        ("docs/tour.md", "`core/a.cpp` `question`\n", "holds no 'question'"),
        ("docs/tour.md", "`core/z.cpp` `answer`\n", "does not exist"),
        ("docs/tour.md", "`core/a.cpp` `answer` and `src/core/gone.h`\n", "does not exist"),
        ("docs/tour.md", "`core/a.cpp` `answer` [x](gone.md)\n", "leads nowhere"),
        ("docs/tour.md", "nothing\n", "no stop found"),
    ],
}


def plant(root: pathlib.Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def run(checker: str, root: pathlib.Path) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, TOOLS / checker, root], capture_output=True, text=True, check=False)


class Checkers(unittest.TestCase):
    def test_a_clean_tree_passes(self):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in CLEAN.items():
                plant(pathlib.Path(folder), path, text)
            for checker in FAULTS:
                result = run(checker, pathlib.Path(folder))
                self.assertEqual(result.returncode, 0, f"{checker}: {result.stdout}{result.stderr}")

    def test_every_planted_fault_is_seen(self):
        for checker, faults in FAULTS.items():
            for path, text, message in faults:
                with self.subTest(checker=checker, fault=message), tempfile.TemporaryDirectory() as folder:
                    for clean_path, clean_text in CLEAN.items():
                        plant(pathlib.Path(folder), clean_path, clean_text)
                    plant(pathlib.Path(folder), path, text)
                    result = run(checker, pathlib.Path(folder))
                    self.assertEqual(result.returncode, 1, result.stdout)
                    self.assertIn(message, result.stdout)


if __name__ == "__main__":
    unittest.main()
