"""What a test does without something that it needs."""
import os
import sys

SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt


def missing(what):
    """Ends the test as skipped. With CI=true as failed: there everything is installed, and what is not hides a test."""
    print(f"{what} (tools/install_dependencies.sh --checks installs it)")
    sys.exit(1 if os.environ.get("CI") == "true" else SKIPPED)
