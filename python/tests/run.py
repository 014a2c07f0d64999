#!/usr/bin/env python3
"""Runs tests of the package as it lies in the repository, with the library that NIBBLE_LIBRARY names.

    python/tests/run.py test_llm

Skipped where NumPy is missing (tests/required.py).
"""
import faulthandler
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "tests")]
os.environ["PYTHONPATH"] = str(HERE.parent)  # of the processes that tests start

from required import missing  # noqa: E402

try:
    import numpy  # noqa: F401
except ImportError:
    missing("NumPy is not installed")

faulthandler.dump_traceback_later(280, exit=True)  # before the test's time is over, so that it says where it waits
unittest.main(module=None, argv=["run.py", *sys.argv[1:]])
