#!/usr/bin/env python3
"""The page of `nibble serve` in a headless Chromium: typed at by keyboard alone, on a desk and on a phone, in the light and
in the dark.

    tests/page_test.py NIBBLE MODEL [FOLDER-FOR-SCREENSHOTS]

Skipped where the package playwright or a Chromium is missing (tests/required.py).
"""
import json
import os
import re
import tempfile

from browser import BrowserTest, main, wait_until

TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
DAMAGE = {
    "rows": [
        {"recipe": "f16", "perplexity": 20.5, "increase": 0.0, "bits_per_weight": 16.0, "decode_tokens_per_s": 100.0},
        {"recipe": "best4 <b>", "perplexity": 20.9, "increase": 0.0195, "bits_per_weight": 4.25, "decode_tokens_per_s": 301.5},
        {"recipe": "/srv/recipes/smoothquant-quarot-gptq-int4-asym-g128-a8-with-a-long-name.json", "perplexity": 123456.789,
         "increase": 6021.19, "bits_per_weight": 4.125, "decode_tokens_per_s": 12345.6},
        {"recipe": "w8a8", "perplexity": 20.5, "increase": -0.00001, "bits_per_weight": 8.1, "decode_tokens_per_s": 200},
    ]
}
KEY = "the-key"
LONG_TEXT = "# A list\n\n* one **bold** <b>word</b>\n* two\n\n```py\nprint('x')\n```\n"


def events_of(text, tokens, pieces=1):
    """What the server sends for an answer, here all at once."""
    pieces = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
        *[{"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}] * pieces,
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": tokens, "total_tokens": 3 + tokens}},
    ]
    return "".join(f"data: {json.dumps(piece)}\n\n" for piece in pieces) + "data: [DONE]\n\n"


class PageTest(BrowserTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.template = os.path.join(folder.name, "chat.jinja")
        cls.damage = os.path.join(folder.name, "damage.json")
        with open(cls.template, "w") as file:
            file.write(TEMPLATE)
        with open(cls.damage, "w") as file:
            json.dump(DAMAGE, file)

    def open_chat(self, server, tokens, **options):
        page = self.open(server.url + "/", **options)
        page.locator("#facts dt").first.wait_for()
        page.locator("#max-tokens").fill(str(tokens))
        page.locator("#text").focus()
        return page

    def slow_down(self, page):
        """From here on an answer of hundreds of tokens takes many seconds to arrive."""
        page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", {
            "offline": False, "latency": 0, "downloadThroughput": 10_000, "uploadThroughput": 1_000_000})

    def finish_answer(self, page, answers):
        page.locator(".assistant .foot").nth(answers - 1).wait_for()
        wait_until(lambda: page.locator("#send").is_visible(), "the answer ends")
        return page.locator(".assistant .text").nth(answers - 1).inner_text()

    def say(self, page, text, answers):
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        return self.finish_answer(page, answers)

    def test_conversation(self):
        server = self.serve("--template", self.template, "--damage", self.damage)
        for name, width, height, scheme in [("desk", 1200, 800, "light"), ("phone", 390, 844, "dark")]:
            with self.subTest(name):
                page = self.open_chat(server, 24, width=width, height=height, scheme=scheme)
                first = self.say(page, "What is a bus?", 1)
                self.assertGreater(len(first.strip()), 10)
                self.say(page, "And then?", 2)
                self.assertEqual(page.locator(".user").all_inner_texts(), ["What is a bus?", "And then?"])
                wait_until(lambda: page.locator("#speed").inner_text()[0].isdigit(), "the speed is shown")
                damage = page.locator("#damage").inner_text()
                self.assertIn("best4 <b>", damage)
                self.assertIn("1.95 %", damage)
                self.assertNotIn("-0.00", damage)
                self.check_width(page)
                widths = page.evaluate("['scrollWidth', 'clientWidth'].map((field) => document.querySelector('#damage')[field])")
                self.assertLessEqual(widths[0], widths[1], "the damage table does not fit the panel")
                ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
                dark = sum(int(part) for part in ground[4:-1].split(",")[:3]) < 384
                self.assertEqual(dark, scheme == "dark")
                self.shoot(page, name)
                self.check_quiet()

    def test_an_answer_says_how_fast_it_was_and_why_it_ended(self):
        server = self.serve("--template", self.template)
        page = self.open_chat(server, 24)
        page.locator("#temperature").fill("0")  # a drawn answer may end at once
        page.locator("#text").focus()
        self.say(page, "What is a bus?", 1)
        self.assertRegex(
            page.locator(".facts").inner_text(),
            r"^24 tokens · \d+\.\d tokens/s · first after \d+\.\d\d s · cut off: no tokens left$")
        page.route("**/v1/chat/completions", lambda route: route.fulfill(
            content_type="text/event-stream", body=events_of("Short.", 3)))
        self.say(page, "And then?", 2)
        self.assertRegex(page.locator(".facts").nth(1).inner_text(), r"^3 tokens · .* · ended by itself$")
        page.unroute("**/v1/chat/completions")
        page.route("**/v1/chat/completions", lambda route: route.fulfill(
            content_type="text/event-stream", body=events_of("All at once. ", 20000, pieces=20000)))
        self.say(page, "Quick", 3)
        facts = re.search(r"^20000 tokens · (.*) tokens/s · first after (.*) s ", page.locator(".facts").nth(2).inner_text())
        self.assertLess(float(facts[1]), 20000 / (float(facts[2]) - 0.01), "faster than the answer came")
        page.unroute("**/v1/chat/completions")
        page.locator("#temperature").fill("-1")
        page.locator("#text").focus()
        self.say(page, "Again", 4)
        self.assertIn("temperature", page.locator(".facts.error").inner_text())

    def test_stop_by_keyboard_and_by_button(self):
        server = self.serve("--template", self.template)
        for stop in ("keyboard", "button"):
            with self.subTest(stop):
                page = self.open_chat(server, 900)
                self.slow_down(page)
                page.keyboard.type("Tell me a long story")
                page.keyboard.press("Enter")
                wait_until(lambda: page.locator(".assistant .text").all_inner_texts() not in ([], [""]), "text comes")
                if stop == "keyboard":
                    page.keyboard.press("Escape")
                else:
                    page.locator("#stop").click()
                self.finish_answer(page, 1)
                self.assertRegex(page.locator(".facts").inner_text(), r"^about \d+ tokens? .*· stopped$")
                self.assertEqual(page.evaluate("document.activeElement.id"), "text")
                self.check_quiet()

    def test_regenerate_asks_for_the_last_answer_again(self):
        server = self.serve("--template", self.template)
        page = self.open_chat(server, 8)
        asked = []

        def answer(route):
            asked.append(route.request.post_data_json["messages"])
            route.fulfill(content_type="text/event-stream", body=events_of(f"Answer {len(asked)}.", 3))

        page.route("**/v1/chat/completions", answer)
        self.say(page, "One", 1)
        self.say(page, "Two", 2)
        self.assertEqual(page.locator(".again").count(), 1)
        page.locator(".again").click()
        # Requests are answered while the page is asked for something: a wait for `asked` alone would see none.
        text = page.locator(".assistant .text").nth(1)
        wait_until(
            lambda: text.inner_text().strip() == "Answer 3.",
            lambda: f"the answer comes again; there is {text.inner_text()!r}, asked for were {len(asked)}",
        )
        self.finish_answer(page, 2)
        self.assertEqual(asked[2], asked[1])
        self.assertEqual(page.locator(".message").count(), 4)
        # What it gave is what the conversation goes on with.
        self.assertEqual(page.locator(".assistant .text").nth(1).inner_text().strip(), "Answer 3.")
        self.say(page, "Three", 3)
        self.assertEqual([message["role"] for message in asked[3]], ["user", "assistant"] * 2 + ["user"])
        self.assertEqual(asked[3][3]["content"], "Answer 3.")
        self.check_quiet()

    def test_copy(self):
        server = self.serve("--template", self.template)
        no_clipboard = "Object.defineProperty(navigator, 'clipboard', { value: undefined })"  # a page of http elsewhere
        for script in ("", no_clipboard):
            with self.subTest(script=script):
                page = self.open_chat(server, 8, script=script)
                page.route("**/v1/chat/completions", lambda route: route.fulfill(
                    content_type="text/event-stream", body=events_of(LONG_TEXT, 20)))
                self.say(page, "A list", 1)
                page.locator(".copy").click()
                wait_until(lambda: page.locator(".copy").inner_text() == "Copied", "it says that it copied")
                page.locator("#text").focus()
                page.keyboard.press("Control+V")
                self.assertEqual(page.locator("#text").input_value(), LONG_TEXT)
                self.check_quiet()

    def test_a_new_conversation_forgets_the_answer_that_is_written(self):
        server = self.serve("--template", self.template)
        page = self.open_chat(server, 900)
        asked = []
        page.on("request", lambda r: asked.append(r.post_data_json["messages"]) if r.url.endswith("completions") else None)
        page.keyboard.type("Tell me a long story")
        page.keyboard.press("Enter")
        wait_until(lambda: page.locator(".assistant .text").all_inner_texts() not in ([], [""]), "text comes")
        page.locator("#new").click()
        page.locator("#max-tokens").fill("8")
        page.locator("#text").focus()
        self.say(page, "Hello", 1)
        self.assertEqual(asked[1], [{"role": "user", "content": "Hello"}])
        self.assertEqual(page.locator(".message").count(), 2)
        self.check_quiet()

    def test_markdown_of_an_answer(self):
        server = self.serve("--template", self.template)
        page = self.open_chat(server, 8)
        page.route("**/v1/chat/completions", lambda route: route.fulfill(
            content_type="text/event-stream", body=events_of(LONG_TEXT, 20)))
        self.say(page, "*A* list", 1)
        self.assertEqual(page.locator(".user").inner_text(), "*A* list")
        self.assertEqual(
            page.locator(".assistant .text").inner_html(),
            "<h1>A list</h1><ul><li><p>one <strong>bold</strong> &lt;b&gt;word&lt;/b&gt;</p></li><li><p>two</p></li></ul>"
            '<pre data-language="py"><code>print(\'x\')</code></pre>')
        self.shoot(page, "markdown")
        self.check_quiet()

    def test_key_is_asked_for(self):
        server = self.serve("--template", self.template, key=KEY)
        page = self.open(server.url + "/")
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
        page = self.open_chat(server, 8)
        self.assertIn("no chat template", page.locator("#model").inner_text())
        self.assertNotEqual(self.say(page, "The memory bus", 1), "")
        self.check_quiet()


if __name__ == "__main__":
    main()
