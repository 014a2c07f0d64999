#!/usr/bin/env python3
"""Tests of the checkers: each must accept a clean tree and see every planted fault."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent

DEPENDENCIES = """## To build
| what | package |
| --- | --- |
| the compiler, {fmt} | `g++`, `libfmt-dev` |
## To test
| GoogleTest | `libgtest-dev` |
## To check
| Python | `python3` |
## To check, from PyPI
| a client | `openai` |
## To test for 64-bit ARM
| qemu | `qemu-user` |
"""

MEASURED = '{"machine": "abacus", "topic": "sums", "case": "adds", "command": "abacus", "unit": "sums/s", "value": 4}'
ROUNDED = '{"model": "m", "tool": "t", "version": "1", "setting": "s", "calibration": "none", "bits": 4, "increase": 2.5}'


def tuned(steps, held_out, perplexity):
    row = {"model": "abacus", "recipe": steps.split()[0], "steps": ["abacus", *steps.split()], "bits": 2, "windows": 9, "seconds": 1,
           "megabytes": 7, "held_out": held_out, "perplexity": {"docs": perplexity}}
    return json.dumps(row) + "\n"


# Of two runs the table shows the one with the lower perplexity of the held-out text, whatever that of docs is.
WORSE = tuned("w2 bqpo,lr=1 e2e-oqp,lr=2", 22, 13)
TUNED = tuned("original", 10, 10) + tuned("w2", 40, 30) + tuned("w2 bqpo,lr=1", 24, 18) + tuned("w2 bqpo,lr=1 e2e-oqp,lr=1", 21, 14) + WORSE
TUNED_PAGE = """
<!-- table: tuning/abacus -->
| recipe | bits/weight | docs, one shot | `bqpo` | then `e2e-oqp` | adds |
| --- | --- | --- | --- | --- | --- |
| `original` | 2.000 | 10.00 |  |  |  |
| `w2` | 2.000 | 30.00 | 18.00 | 14.00 | +40.0 % |
<!-- end of table -->
<!-- table: tuning/one-shot/abacus -->
| recipe | bits/weight | docs | adds |
| --- | --- | --- | --- |
| `original` | 2.000 | 10.00 |  |
| `w2` | 2.000 | 30.00 | +200.0 % |
<!-- end of table -->
<!-- table: tuning/tried/abacus -->
| recipe | stages | windows | held out | seconds | peak MB |
| --- | --- | --- | --- | --- | --- |
| `w2` | `bqpo --lr 1` | 9 | 24.00 | 1 | 7 |
| `w2` | `bqpo --lr 1`, then `e2e-oqp --lr 1` | 9 | 21.00 | 1 | 7 |
| `w2` | `bqpo --lr 1`, then `e2e-oqp --lr 2` | 9 | 22.00 | 1 | 7 |
<!-- end of table -->
"""

CLEAN = {
    "src/core/CMakeLists.txt": "nibble_add_module(core FLOOR 0 SOURCES a.cpp)\n",
    "src/core/a.h": "#pragma once\nnamespace nibble::core {\n/// Says a thing.\nint answer();\n}\n",
    "src/core/a.cpp": '#include "core/a.h"\nnamespace nibble::core {\nint answer() { return 42; }\n}\n',
    "src/ops/CMakeLists.txt": "nibble_add_module(ops FLOOR 3\n  SOURCES shared.cpp\n  LINKS core)\n",
    "src/ops/shared.cpp": '#include "core/a.h"\n',
    "src/ops/cpu/CMakeLists.txt": "nibble_add_module(ops_cpu FLOOR 4\n  SOURCES b.cpp\n  LINKS core ops)\n",
    "src/ops/cuda/CMakeLists.txt": "nibble_add_module(ops_cuda FLOOR 4\n  SOURCES c.cpp\n  LINKS core ops)\n",
    "src/ops/cuda/c.cpp": '#include "core/a.h"\n',
    "src/ops/cuda/c_test.cpp": '#include "ops/cpu/b.h"\n',
    "src/ops/cpu/b.h": '#pragma once\n#include "core/a.h"\nnamespace nibble::ops::cpu {\nint twice();\n}\n',
    "src/models/CMakeLists.txt": "nibble_add_module(models FLOOR 4 SOURCES c.cpp LINKS core ops)\n",
    "src/models/c.cpp": '#include <vector>\n#include "core/a.h"\n// printf("a comment may say it");\nconst char* s = "exit(1)";\n',
    "src/compress/CMakeLists.txt": "nibble_add_module(compress FLOOR 5 LINKS core models)\n",
    "src/compress/recipe/all.cpp": '#include "compress/gptq/gptq_pass.h"\n',
    "src/compress/gptq/gptq_pass.cpp": '#include "compress/awq/awq.h"\n#include "compress/recipe/pass.h"\n',
    "src/cli/CMakeLists.txt": "nibble_add_module(cli FLOOR 7 SOURCES d.cpp LINKS core models)\n",
    "src/cli/d.cpp": '#include "models/e.h"\nvoid f() { std::_Exit(1); }\n',
    "src/cli/output.cpp": "void g() { ::write(STDOUT_FILENO, nullptr, 0); }\n",
    "tests/support.h": "#pragma once\n",
    "src/models/c_test.cpp": '#include "support.h"\nconst char* p = "/../shared/models";\n',
    "bench/results/speed/abacus.jsonl": MEASURED + "\n",
    "bench/results/tuning.jsonl": TUNED,
    "docs/training.md": TUNED_PAGE,
    "docs/speed.md": "# Speed\n<!-- table: abacus/sums -->\n| case | sums/s |\n| --- | --- |\n| adds | 4 |\n\n"
                     "    abacus\n<!-- end of table -->\n",
    "docs/tour.md": "1. `core/a.cpp` `answer` starts; see [the header](../src/core/a.h) and `src/core/a.h`.\n"
                    "## Its end: (`a.h`)\n[Speed](speed.md#speed), [end](#its-end-ah)\n",
    "cmake/dependencies.cmake": "find_package(fmt REQUIRED)\nif(NIBBLE_BUILD_TESTS)\n  find_package(GTest REQUIRED)\nendif()\n",
    "cmake/targets.cmake": "target_link_libraries(core fmt::fmt)\nnibble_add_test(core_test LINKS GTest::gtest)\n",
    "tools/install_dependencies.sh": "build_packages=(\n  g++ libfmt-dev\n)\ntest_packages=(libgtest-dev)\ncheck_packages=(python3)\n",
    "tools/aarch64_sysroot.sh": "tools=(qemu-user)\n",
    "tests/requirements.txt": "openai==3.0\n",
    "docs/dependencies.md": DEPENDENCIES,
}

# checker -> planted file -> text that must be refused
FAULTS = {
    "check_floors.py": [
        ("src/core/a.cpp", '#include "models/c.h"\n', "core (floor 0) includes models/c.h (floor 4)"),
        ("src/core/a_test.cpp", '#include "ops/cpu/b.h"\n', "includes ops/cpu/b.h"),
        ("src/models/c.cpp", '  #  include "ops/cpu/b.h"\n', "models (floor 4) includes ops/cpu/b.h (floor 4)"),
        ("src/ops/cuda/c.cpp", '#include "ops/cpu/b.h"\n', "ops_cuda (floor 4) includes ops/cpu/b.h (floor 4)"),
        ("src/ops/shared.cpp", '#include "ops/cpu/b.h"\n', "ops (floor 3) includes ops/cpu/b.h (floor 4)"),
        ("src/ops/cuda/CMakeLists.txt", "nibble_add_module(ops_cuda FLOOR 4 LINKS ops_cpu)\n", "links ops_cpu (floor 4)"),
        ("src/models/c.cpp", '#include "b.h"\n', "is not a path from src/"),
        ("src/ops/CMakeLists.txt", "nibble_add_module(ops FLOOR 3 SOURCES b.cpp LINKS core models)\n", "links models"),
        ("src/ops/CMakeLists.txt", "nibble_add_module(ops FLOOR 4 LINKS core)\n", "links ops (floor 4)"),
        ("src/ops/CMakeLists.txt", "nibble_add_module(ops FLOOR 3 LINKS kore)\n", "no folder of src/"),
        ("src/compress/recipe/pass.h", '#pragma once\n#include "compress/gptq/gptq.h"\n', "includes compress/gptq/gptq.h, which stands above"),
        ("src/compress/gptq/a.cpp", '#include "compress/pipeline/a.h"\n', "includes compress/pipeline/a.h, which stands above"),
        ("src/extra/x.cpp", "int x;\n", "src/extra: no nibble_add_module"),
    ],
    "check_words.py": [
        ("src/core/a.cpp", 'void f() { std::cout << 1; }\n', "std::cout"),
        ("src/cli/d.cpp", 'void f() { fmt::print(stderr, "x"); }\n', "fmt::print beside cli/output.h"),
        ("src/cli/d.cpp", "void f() { ::write(STDERR_FILENO, nullptr, 0); }\n", "write(STDERR_FILENO beside"),
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
    "check_dependencies.py": [
        ("tests/requirements.txt", "openai==3.0\nselenium==4.0\n", "does not name selenium of tests/requirements.txt"),
        ("docs/dependencies.md", DEPENDENCIES.replace("`libfmt-dev`", "`libfmt-dev`, `libspdlog-dev`"), "names libspdlog-dev"),
        ("docs/dependencies.md", DEPENDENCIES + "## To play\n| | `chess` |\n", "'To play' stand in no list"),
        ("tools/aarch64_sysroot.sh", "", "no list tools"),
        ("cmake/dependencies.cmake", "find_package(fmt)\nfind_package(spdlog)\n", "nothing uses spdlog"),
        ("cmake/dependencies.cmake", "find_package(fmt)\nfind_package(GTest)\n", "nothing but tests uses GTest"),
        ("cmake/dependencies.cmake", "if(NIBBLE_BUILD_TESTS)\n  find_package(benchmark)\nendif()\nfind_package(fmt)\n",
         "nothing uses benchmark"),
        ("cmake/dependencies.cmake", "pkg_check_modules(fmt REQUIRED)\n", "nothing uses fmt"),
    ],
    "check_tables.py": [
        ("bench/results/speed/abacus.jsonl", MEASURED.replace("4", "5"), "docs/speed.md: a table differs"),
        ("bench/results/speed/abacus.jsonl", MEASURED.replace('"command": "abacus", ', ""), "abacus.jsonl:1: no command"),
        ("bench/results/speed/abacus.jsonl", MEASURED[:-1], "not JSON"),
        ("bench/results/peers.jsonl", ROUNDED, "no page shows the table peers"),
        ("bench/results/peers.jsonl", ROUNDED.replace('"bits": 4, ', ""), "lacks 'bits'"),
        ("bench/results/tuning.jsonl", TUNED.replace(WORSE, tuned("w2 bqpo,lr=1 e2e-oqp,lr=2", 20, 13)), "docs/training.md: a table differs"),
        ("docs/speed.md", "<!-- table: abacus/products -->\n<!-- end of table -->\n", "belongs to the table abacus/products"),
        ("docs/speed.md", "<!-- table: abacus/sums -->\n", "no '<!-- end of table -->'"),
        ("docs/speed.md", "# Speed\n", "no page shows the table abacus/sums"),
    ],
    "check_tour.py": [
        ("docs/tour.md", "`core/a.cpp` `question`\n", "holds no 'question'"),
        ("docs/tour.md", "`core/z.cpp` `answer`\n", "does not exist"),
        ("docs/tour.md", "`core/a.cpp` `answer` and `src/core/gone.h`\n", "does not exist"),
        ("docs/tour.md", "`core/a.cpp` `answer` [x](gone.md)\n", "leads nowhere"),
        ("docs/tour.md", "`core/a.cpp` `answer` [x](speed.md#slow)\n", "has no heading for the link to speed.md#slow"),
        ("docs/tour.md", "# A tour\n`core/a.cpp` `answer` [x](#the-tour)\n", "has no heading for the link to #the-tour"),
        ("docs/tour.md", "nothing\n", "no stop found"),
    ],
}


# A stand-in for the probe of check_scaling.py. Of each case: the growth for twice the input, first and when asked again,
# and that of the doubling before, if it is another.
FAKE_PROBE = """#!{python}
import sys
CASES = {cases}
def row(name, growth, before):
    print(name, 4096, 0.01 / before, 0.01, 0.01 * growth, sep="\\t")
if len(sys.argv) == 3:
    row(sys.argv[1], CASES[sys.argv[1]][1], CASES[sys.argv[1]][-1])
else:
    for name in list(CASES)[int(sys.argv[1])::int(sys.argv[2])]:
        row(name, CASES[name][0], (CASES[name] * 2)[2])
"""
PLANTED = {"planted: quadratic": (4.0, 4.0)}
LINEAR = {"GBNF: rules": (2.0, 2.0), "JSON file: keys": (2.2, 2.2)}


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


class Scaling(unittest.TestCase):
    def check(self, cases: dict) -> subprocess.CompletedProcess:
        with tempfile.TemporaryDirectory() as folder:
            probe = pathlib.Path(folder) / "probe"
            probe.write_text(FAKE_PROBE.format(python=sys.executable, cases=cases))
            probe.chmod(0o755)
            return subprocess.run([sys.executable, TOOLS / "check_scaling.py", probe], capture_output=True, text=True,
                                  check=False)

    def test_paths_that_grow_with_their_input_pass(self):
        result = self.check(LINEAR | PLANTED)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn("2 of 2", result.stdout)

    def test_a_quadratic_path_is_named(self):
        result = self.check(LINEAR | PLANTED | {"normalizer NFC: marks": (4.0, 3.9)})
        self.assertEqual(result.returncode, 1)
        self.assertIn("normalizer NFC: marks: 3.90 times the work", result.stdout)
        self.assertIn("2 of 3", result.stdout)

    def test_what_looks_slow_once_is_measured_again(self):
        self.assertEqual(self.check(LINEAR | PLANTED | {"BPE: letters": (3.5, 2.1)}).returncode, 0)

    def test_one_step_of_a_cache_passes_and_growth_that_has_just_begun_does_not(self):
        self.assertEqual(self.check(LINEAR | PLANTED | {"JSON file: hashes": (2.8, 2.8, 2.1)}).returncode, 0)
        self.assertEqual(self.check(LINEAR | PLANTED | {"JSON file: hashes": (3.4, 3.4, 2.1)}).returncode, 1)

    def test_a_check_that_sees_nothing_fails(self):
        self.assertEqual(self.check(LINEAR).returncode, 1)
        self.assertEqual(self.check(LINEAR | {"planted: quadratic": (2.0, 2.0)}).returncode, 1)

    def test_a_probe_that_fails_is_no_success(self):
        result = subprocess.run([sys.executable, TOOLS / "check_scaling.py", "/bin/false"], capture_output=True,
                                text=True, check=False)
        self.assertEqual(result.returncode, 1)


if __name__ == "__main__":
    unittest.main()
