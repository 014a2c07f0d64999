#!/usr/bin/env python3
"""nibble.ray_data on two local Ray nodes: results are those of one process. Not part of the quick tests.

    pip install 'ray[serve,data]'
    NIBBLE_LIBRARY=build/release/lib/libnibble.so tests/fleet/ray_data_test.py
"""
import unittest

from cluster import DEMO, ROOT, two_nodes

import numpy as np

import nibble
from nibble import LLM, ray_data
import ray

BERT = str(ROOT / "tests/families/bert")
TEXT = (ROOT / "models/demo/texts/evaluation.txt").read_text()
WORDS = TEXT.split()
RECIPES = ["rtn-w4g128", "nf4g64", "gptq-w4g128"]
#: What compare measures, not what it timed.
MEASURED = ("recipe", "perplexity", "kl_divergence", "bits_per_weight")


class RayDataTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.enterClassContext(two_nodes(2))
        ray.data.DataContext.get_current().enable_progress_bars = False

    def test_embeddings(self):
        texts = [" ".join(WORDS[i:i + 3 + i % 20]) for i in range(200)]
        dataset = ray.data.from_items([{"id": i, "text": text} for i, text in enumerate(texts)],
                                      override_num_blocks=8)
        rows = ray_data.embed(dataset, BERT, actors=2, batch_size=16, device="cpu").take_all()
        with LLM(BERT, "cpu", threads=1) as llm:
            alone = llm.embed(texts)
        self.assertEqual(sorted(row["id"] for row in rows), list(range(200)))
        for row in rows:
            self.assertEqual(row["text"], texts[row["id"]])
            np.testing.assert_array_equal(row["embedding"], alone[row["id"]])

    def test_likelihoods(self):
        pairs = [(" ".join(WORDS[i:i + 12]), " " + WORDS[i + 12]) for i in range(100)]
        dataset = ray.data.from_items([{"context": one, "continuation": two} for one, two in pairs],
                                      override_num_blocks=4)
        rows = ray_data.score(dataset, DEMO, actors=2, batch_size=8, device="cpu").take_all()
        with LLM(DEMO, "cpu", threads=1) as llm:
            alone = dict(zip(pairs, llm.score([one for one, _ in pairs], [two for _, two in pairs])))
        self.assertEqual(len(rows), 100)
        for row in rows:
            score = alone[row["context"], row["continuation"]]
            self.assertEqual((row["log_likelihood"], row["is_greedy"], row["tokens"]),
                             (score.log_likelihood, score.is_greedy, score.tokens))

    def test_a_recipe_a_task(self):
        options = {"max_tokens": 1024, "seq_len": 256, "samples": 4, "calibration_seq_len": 64,
                   "calibration": [str(ROOT / "models/demo/texts/calibration.txt")]}
        rows = ray_data.compare(DEMO, RECIPES, TEXT, **options)
        alone = nibble.compare(DEMO, RECIPES, TEXT, threads=1, **options)
        self.assertLessEqual(set(MEASURED), set(rows[1]))
        self.assertEqual(len(rows), 1 + len(RECIPES))
        self.assertEqual([{name: row.get(name) for name in MEASURED} for row in rows],
                         [{name: row.get(name) for name in MEASURED} for row in alone])
        self.assertEqual(len({row["perplexity"] for row in rows}), len(rows))

    def test_a_column_that_is_missing(self):
        dataset = ray.data.from_items([{"words": "a"}])
        with self.assertRaisesRegex(Exception, "no column 'text'; it has words"):
            ray_data.embed(dataset, BERT, device="cpu").take_all()


if __name__ == "__main__":
    unittest.main(verbosity=2)
