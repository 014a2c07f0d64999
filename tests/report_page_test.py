#!/usr/bin/env python3
"""The pages that `nibble compare`, `nibble inspect` and `nibble analyze` write with `--html`, as a reader sees them in Chromium:
nothing is wider than the page, no texts of a drawing collide, and error bars are whole.

    tests/report_page_test.py NIBBLE MODEL [FOLDER-FOR-SCREENSHOTS]

Skipped where the package playwright or a Chromium is missing (tests/required.py).
"""
import os
import pathlib
import subprocess
import tempfile

from browser import MODEL, PROGRAM, BrowserTest, main

RECIPES = "f16,w8a8,rtn-w8g128,rtn-w4g128,rtn-w4g64,rtn-w3g128,nf4g64,mxfp4"
WIDTHS = [1920, 1280, 1000, 768, 390]

# Pairs of texts of a drawing whose boxes meet, and texts and lines that leave their drawing.
COLLISIONS = """() => {
  const faults = [];
  for (const svg of document.querySelectorAll('svg')) {
    if (!svg.checkVisibility()) continue;
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')].map((text) => ({ text, box: text.getBoundingClientRect() }));
    texts.forEach(({ text, box }, i) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) {
        faults.push(`${text.textContent} leaves its drawing`);
      }
      for (const other of texts.slice(0, i)) {
        const wide = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
        const high = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
        if (wide > 0.5 && high > 3) faults.push(`${text.textContent} meets ${other.text.textContent}`);
      }
    });
    for (const line of svg.querySelectorAll('.error, .spread')) {
      const box = line.getBoundingClientRect();
      if (box.top < frame.top || box.bottom > frame.bottom) faults.push('an error bar leaves its drawing');
    }
  }
  return faults;
}"""


class ReportPageTest(BrowserTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    def write(self, *words):
        page = self.folder / "page.html"
        subprocess.run([PROGRAM, *words, "--html", page], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        return page.as_uri()

    def check(self, url, name):
        for width in WIDTHS:
            with self.subTest(width=width):
                page = self.open(url, width=width, height=1000, scheme="dark" if width == 768 else "light")
                self.check_width(page)
                self.assertEqual(page.evaluate(COLLISIONS), [])
                self.assertNotRegex(page.inner_text("body"), r"-0\.0*(?![0-9])")
                self.shoot(page, f"{name}-{width}")
                self.check_quiet()
        return page

    def test_compare(self):
        text = os.path.join(MODEL, "texts", "evaluation.txt")
        url = self.write("compare", MODEL, "--recipes", RECIPES, "--text", text, "--max-tokens", "2048", "--seq-len", "256",
                         "--pp", "16", "--tg", "4", "--layers", "2", "--samples", "2", "-q")
        page = self.check(url, "compare")
        for recipe in RECIPES.split(","):
            self.assertGreaterEqual(page.locator("svg").filter(has_text=recipe).count(), 1, recipe)

    def test_inspect(self):
        packed = self.folder / "packed"
        subprocess.run([PROGRAM, "quantize", MODEL, "-o", packed, "--recipe", "nf4g64", "-q"], check=True,
                       stdout=subprocess.DEVNULL)
        self.check(self.write("inspect", packed), "inspect")
        layer = "model.layers.0.mlp.down_proj"
        text = os.path.join(MODEL, "texts", "evaluation.txt")
        self.check(self.write("inspect", packed, "--layer", layer, "--text", text, "--seq-len", "256"), "layer")

    def test_analyze(self):
        packed = self.folder / "rounded"
        subprocess.run([PROGRAM, "quantize", MODEL, "-o", packed, "--recipe", "rtn-w4g128-a4", "-q"], check=True,
                       stdout=subprocess.DEVNULL)
        text = os.path.join(MODEL, "texts", "evaluation.txt")
        page = self.check(self.write("analyze", MODEL, packed, "--text", text, "--seq-len", "256", "-q"), "analyze")
        self.assertGreaterEqual(page.locator("svg").filter(has_text="all quantized").count(), 1)


if __name__ == "__main__":
    main()
