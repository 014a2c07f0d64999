"""A headless Chromium and a `nibble serve` for tests of pages."""
import os
import shutil
import subprocess
import sys
import time
import unittest

from required import missing

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    missing("the Python package playwright is not installed")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    missing("no Chromium is installed")
# Root has no sandbox, and a container's /dev/shm may be too small.
CHROMIUM_ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage"]

PROGRAM, MODEL = sys.argv[1:3]
SCREENSHOTS = sys.argv[3] if len(sys.argv) > 3 else None


class Server:
    def __init__(self, *words, key=""):
        command = [PROGRAM, "serve", MODEL, "--port", "0", "--threads", "1", "-q", *words]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "NIBBLE_API_KEY": key}
        )
        line = self.process.stdout.readline()
        assert line.startswith("Listening on http://"), line
        self.url = line.split()[-1]

    def stop(self):
        self.process.terminate()
        assert self.process.wait(30) == 0
        self.process.stdout.close()


def wait_until(true, what, seconds=30):
    """`what`: a text, or what makes one when it is too late."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"timed out: {what() if callable(what) else what}"
        time.sleep(0.05)


class BrowserTest(unittest.TestCase):
    """Keeps what a page complains of, and what it asks of others than its server."""

    @classmethod
    def setUpClass(cls):
        cls.playwright = sync_playwright().start()
        cls.addClassCleanup(cls.playwright.stop)
        cls.browser = cls.playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_ARGUMENTS)
        cls.addClassCleanup(cls.browser.close)

    def open(self, url, width=1200, height=800, scheme="light", script=""):
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.addCleanup(context.close)
        page = context.new_page()
        self.complaints = []
        self.elsewhere = []
        page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith((url, "data:")) else self.elsewhere.append(r.url))
        if script:
            page.add_init_script(script)
        page.goto(url)
        return page

    def serve(self, *words, key=""):
        server = Server(*words, key=key)
        self.addCleanup(server.stop)
        return server

    def check_quiet(self):
        self.assertEqual(self.complaints, [])
        self.assertEqual(self.elsewhere, [])

    def check_width(self, page):
        width = page.evaluate("document.documentElement.scrollWidth")
        self.assertLessEqual(width, page.viewport_size["width"], "the page is too wide")

    def shoot(self, page, name):
        if SCREENSHOTS:
            page.screenshot(path=os.path.join(SCREENSHOTS, name + ".png"), full_page=True)


def main():
    unittest.main(argv=sys.argv[:1], verbosity=2)
