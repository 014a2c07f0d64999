#!/usr/bin/env python3
"""How the page of `nibble serve` turns markdown into elements: what it knows, what it refuses, and that its work grows
with the length of the text only.

    tests/page_markdown_test.py NIBBLE MODEL

Skipped where the package playwright or a Chromium is missing (tests/required.py).
"""
from browser import BrowserTest, main

RENDER = """async (texts) => {
  const { MarkdownView } = await import('/markdown.js');
  const place = document.createElement('div');
  const view = new MarkdownView(place);
  for (const text of texts) view.show(text);
  return place.innerHTML;
}"""
KEPT = """async () => {
  const { MarkdownView } = await import('/markdown.js');
  const place = document.createElement('div');
  const view = new MarkdownView(place);
  view.show('one\\n\\ntwo');
  const [one, two] = place.children;
  view.show('one\\n\\ntwo *and*\\n\\nthree');
  return [place.children[0] === one, place.children[1] === two, place.children.length];
}"""

# Elements, attributes and addresses of a rendered text that are not on the lists.
STRANGE = """async ([text, elements, attributes]) => {
  const { MarkdownView } = await import('/markdown.js');
  const place = document.createElement('div');
  new MarkdownView(place).show(text);
  const strange = [];
  for (const element of place.querySelectorAll('*')) {
    if (!elements.includes(element.localName)) strange.push(element.localName);
    for (const { name, value } of element.attributes) {
      if (!attributes.includes(name) || (name === 'href' && !/^(https?:|mailto:)/.test(value))) strange.push(`${name}=${value}`);
    }
  }
  return strange;
}"""
ELEMENTS = "p h1 h2 h3 h4 h5 h6 em strong del code pre ul ol li blockquote hr div table thead tbody tr th td a".split()
ATTRIBUTES = "href target rel class start data-language".split()
DEPTH = """async (text) => {
  const { MarkdownView } = await import('/markdown.js');
  const place = document.createElement('div');
  new MarkdownView(place).show(text);
  const depth = (node) => 1 + Math.max(0, ...Array.from(node.children, depth));
  return depth(place);
}"""

KNOWN = [
    ("plain\nlines", "<p>plain\nlines</p>"),
    ("# One\n###### Six ##\n#no", "<h1>One</h1><h6>Six</h6><p>#no</p>"),
    ("*a* **b** ***c*** _d_ __e__ ~~f~~", "<p><em>a</em> <strong>b</strong> <strong><em>c</em></strong> <em>d</em> "
                                         "<strong>e</strong> <del>f</del></p>"),
    ("**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"),
    ("snake_case_name 2 * 3 * 4 a ** b", "<p>snake_case_name 2 * 3 * 4 a ** b</p>"),
    ("*open **also", "<p>*open **also</p>"),
    (r"\*no\* \\", "<p>*no* \\</p>"),
    ("`a*b*` ``c ` d`` `open", "<p><code>a*b*</code> <code>c ` d</code> `open</p>"),
    ("```py\na < b\n\n  c\n```\nafter", '<pre data-language="py"><code>a &lt; b\n\n  c</code></pre><p>after</p>'),
    ("~~~\nopen", "<pre><code>open</code></pre>"),
    ("- a\n- b\n  - c\n\n  d\n- e", "<ul><li><p>a</p></li><li><p>b</p><ul><li><p>c</p></li></ul><p>d</p></li>"
                                   "<li><p>e</p></li></ul>"),
    ("3. a\n4. b\n   * c\n\nafter", '<ol start="3"><li><p>a</p></li><li><p>b</p><ul><li><p>c</p></li></ul></li></ol>'
                                   "<p>after</p>"),
    ("> a\n> > b\n\nc", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote><p>c</p>"),
    ("a\n\n---\n* * *", "<p>a</p><hr><hr>"),
    ("| a | b |\n|---|--:|\n| 1 | `x|y` |\n| *2* |", '<div class="wide"><table><thead><tr><th class="left">a</th>'
     '<th class="right">b</th></tr></thead><tbody><tr><td class="left">1</td><td class="right"><code>x|y</code></td></tr>'
     '<tr><td class="left"><em>2</em></td><td class="right"></td></tr></tbody></table></div>'),
]
LINK = 'target="_blank" rel="noopener noreferrer nofollow"'
LINKS = [
    ("[a *b*](https://x.y/z_(w) \"t\")", f'<p><a href="https://x.y/z_(w)" {LINK}>a <em>b</em></a></p>'),
    ("![a](http://x.y/z.png)", f'<p><a href="http://x.y/z.png" {LINK}>a</a></p>'),
    ("See http://x.y/a_b_c.", f'<p>See <a href="http://x.y/a_b_c" {LINK}>http://x.y/a_b_c</a>.</p>'),
    ("<mailto:a@b.c> [m](mailto:a@b.c)", f'<p>&lt;mailto:a@b.c&gt; <a href="mailto:a@b.c" {LINK}>m</a></p>'),
]
HOSTILE = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "**<b onclick=x>**", "`<i>`", "```<b>\n<script>\n```",
    "[a](javascript:alert(1))", "[a](JaVaScRiPt:alert(1))", "[a](data:text/html,<script>)", "[a](/metrics)", "[a](page.js)",
    "[a](vbscript:x)", "[a](file:///etc/passwd)", "![a](//x.y/z.png)", "| <b> | b |\n|-|-|\n| <script> | c |",
    "[a](https://x.y/\"onclick=\"x)", "&lt;b&gt; &#60;",
]
UNITS = ["*a ", "_a* ", "*_", "**_", "a*", "~~a ", "[", "![", "](", "[a](", "](h ", "[a](http://", "http://.", "`a ``b ", "\\",
         "- a\n", "  - a\n", "1. x\n", "> a\n- b\n", "> ", "``` \n", "a|b\n-|-\n", "|", "# a\n", "a\n\n", "-", "- ", "* "]


class MarkdownTest(BrowserTest):
    def setUp(self):
        self.page = self.open(self.serve().url + "/")

    def test_what_is_known(self):
        for text, html in KNOWN + LINKS:
            with self.subTest(text):
                self.assertEqual(self.page.evaluate(RENDER, [text]), html)
        self.check_quiet()

    def test_a_text_that_grows_gives_what_the_whole_gives(self):
        whole = "\n\n".join(text for text, _ in KNOWN + LINKS)
        steps = [whole[:end] for end in range(len(whole) + 1)]
        self.assertEqual(self.page.evaluate(RENDER, steps), self.page.evaluate(RENDER, [whole]))
        self.assertEqual(self.page.evaluate(KEPT), [True, False, 3])

    def test_no_html_comes_through(self):
        for text in HOSTILE + ["\n".join(HOSTILE), "\n\n".join(HOSTILE)]:
            with self.subTest(text):
                self.assertEqual(self.page.evaluate(STRANGE, [text, ELEMENTS, ATTRIBUTES]), [])
        self.check_quiet()

    def test_the_browser_would_refuse_html_of_a_script(self):
        with self.assertRaisesRegex(Exception, "TrustedHTML"):
            self.page.evaluate("document.body.innerHTML = '<b>x</b>'")

    def test_deep_texts_stay_shallow(self):
        for text in ("> " * 5000 + "a", "- " * 5000 + "a", "*_" * 5000 + "a" + "_*" * 5000,
                     "[" * 5000 + "](http://a.b)" * 5000):
            with self.subTest(text[:4]):
                self.assertLess(self.page.evaluate(DEPTH, text), 60)

    def steps_of(self, text):
        """How often the blocks of the renderer's code ran for a text."""
        self.page.evaluate(RENDER, [text])
        scripts = self.session.send("Profiler.takePreciseCoverage")["result"]
        return sum(block["count"] for script in scripts if "/markdown" in script["url"]
                   for function in script["functions"] for block in function["ranges"])

    def test_the_work_grows_with_the_length(self):
        self.session = self.page.context.new_cdp_session(self.page)
        self.session.send("Profiler.enable")
        self.session.send("Profiler.startPreciseCoverage", {"callCount": True, "detailed": True})
        self.page.reload()
        self.assertGreater(self.steps_of("plain " * 1000), 6000, "nothing is counted")
        for unit in UNITS:
            with self.subTest(unit):
                text = unit * (4000 // len(unit))
                once, twice = self.steps_of(text), self.steps_of(text + text)
                self.assertLess(twice, 2.5 * once + 100)


if __name__ == "__main__":
    main()
