#!/usr/bin/env python3
"""The page of `nibble serve` in a headless Chromium: typed at by keyboard alone, on a desk and on a phone, in the light and
in the dark.

    tests/page_test.py NIBBLE MODEL [FOLDER-FOR-SCREENSHOTS]

Exits with 77 (skipped) where the package playwright or a Chromium is missing.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    print("the Python package playwright is not installed")
    sys.exit(77)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    print("no Chromium is installed")
    sys.exit(77)

PROGRAM, MODEL = sys.argv[1:3]
SCREENSHOTS = sys.argv[3] if len(sys.argv) > 3 else None
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
DAMAGE = {
    "rows": [
        {"recipe": "f16", "perplexity": 20.5, "increase": 0.0, "bits_per_weight": 16.0, "decode_tokens_per_s": 100.0},
        {"recipe": "best4 <b>", "perplexity": 20.9, "increase": 0.0195, "bits_per_weight": 4.25, "decode_tokens_per_s": 301.5},
    ]
}
KEY = "the-key"


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
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"timed out: {what}"
        time.sleep(0.05)


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        cls.folder = tempfile.TemporaryDirectory()
        cls.template = os.path.join(cls.folder.name, "chat.jinja")
        cls.damage = os.path.join(cls.folder.name, "damage.json")
        with open(cls.template, "w") as file:
            file.write(TEMPLATE)
        with open(cls.damage, "w") as file:
            json.dump(DAMAGE, file)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()
        cls.folder.cleanup()

    def open(self, server, width=1200, height=800, scheme="light"):
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        self.addCleanup(context.close)
        page = context.new_page()
        self.complaints = []
        self.elsewhere = []
        page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith((server.url, "data:")) else self.elsewhere.append(r.url))
        page.goto(server.url + "/")
        return page

    def serve(self, *words, key=""):
        server = Server(*words, key=key)
        self.addCleanup(server.stop)
        return server

    def say(self, page, text, answers):
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        wait_until(lambda: page.locator(".assistant").count() == answers, "an answer begins")
        wait_until(lambda: page.locator("#send").is_visible(), "the answer ends")
        return page.locator(".assistant").nth(answers - 1).inner_text()

    def check_quiet(self):
        self.assertEqual(self.complaints, [])
        self.assertEqual(self.elsewhere, [])

    def shoot(self, page, name):
        if SCREENSHOTS:
            page.screenshot(path=os.path.join(SCREENSHOTS, name + ".png"))

    def test_conversation(self):
        server = self.serve("--template", self.template, "--damage", self.damage)
        for name, width, height, scheme in [("desk", 1200, 800, "light"), ("phone", 390, 844, "dark")]:
            with self.subTest(name):
                page = self.open(server, width, height, scheme)
                page.locator("#facts dt").first.wait_for()
                page.locator("#max-tokens").fill("24")
                page.locator("#text").focus()
                first = self.say(page, "What is a bus?", 1)
                self.assertGreater(len(first.strip()), 10)
                self.say(page, "And then?", 2)
                self.assertEqual(page.locator(".user").all_inner_texts(), ["What is a bus?", "And then?"])
                wait_until(lambda: page.locator("#speed").inner_text()[0].isdigit(), "the speed is shown")
                damage = page.locator("#damage").inner_text()
                self.assertIn("best4 <b>", damage)
                self.assertIn("1.95 %", damage)
                self.assertFalse(page.evaluate("document.documentElement.scrollWidth > innerWidth"), "it is too wide")
                ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
                dark = sum(int(part) for part in ground[4:-1].split(",")[:3]) < 384
                self.assertEqual(dark, scheme == "dark")
                self.shoot(page, name)
                self.check_quiet()

    def test_stop_by_keyboard(self):
        server = self.serve("--template", self.template)
        page = self.open(server)
        page.locator("#facts dt").first.wait_for()
        page.locator("#text").focus()
        page.locator("#max-tokens").fill("900")
        page.locator("#text").focus()
        page.keyboard.type("Tell me a long story")
        page.keyboard.press("Enter")
        wait_until(lambda: len(page.locator(".assistant").all_inner_texts()) == 1, "the answer begins")
        wait_until(lambda: page.locator(".assistant").inner_text() != "", "text comes")
        page.keyboard.press("Escape")
        page.locator(".note").wait_for()
        self.assertEqual(page.evaluate("document.activeElement.id"), "text")
        self.check_quiet()

    def test_key_is_asked_for(self):
        server = self.serve("--template", self.template, key=KEY)
        page = self.open(server)
        page.locator("#key").wait_for()
        page.keyboard.type("wrong")
        page.keyboard.press("Enter")
        page.wait_for_timeout(300)
        page.locator("#key").fill("")
        page.keyboard.type(KEY)
        page.keyboard.press("Enter")
        page.locator("#facts dt").first.wait_for()
        page.locator("#max-tokens").fill("8")
        page.locator("#text").focus()
        self.assertNotEqual(self.say(page, "Hello", 1), "")

    def test_texts_without_a_template(self):
        server = self.serve()
        page = self.open(server)
        page.locator("#facts dt").first.wait_for()
        self.assertIn("no chat template", page.locator("#model").inner_text())
        page.locator("#max-tokens").fill("8")
        page.locator("#text").focus()
        self.assertNotEqual(self.say(page, "The memory bus", 1), "")
        self.check_quiet()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
