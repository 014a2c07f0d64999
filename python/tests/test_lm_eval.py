"""The model class for lm-evaluation-harness, with stand-ins for the two names that it takes from there."""
import pathlib
import sys
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
registered = {}


class StandInLM:
    pass


def register_model(name):
    def decorate(cls):
        registered[name] = cls
        return cls

    return decorate


for module, names in {"lm_eval": {}, "lm_eval.api": {}, "lm_eval.api.model": {"LM": StandInLM},
                      "lm_eval.api.registry": {"register_model": register_model}}.items():
    sys.modules[module] = types.ModuleType(module)
    vars(sys.modules[module]).update(names)

from nibble.lm_eval import NibbleLM, rolling_windows  # noqa: E402


class Request:
    def __init__(self, *args):
        self.args = args


class LmEvalTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.lm = NibbleLM(str(ROOT / "models/demo"), device="cpu", threads=1, batch_size=4)

    def test_it_is_registered(self):
        self.assertIs(registered["nibble"], NibbleLM)

    # The example in the documentation of LM.loglikelihood_rolling.
    def test_windows_are_those_of_the_harness(self):
        self.assertEqual(rolling_windows(range(10), [99], 4),
                         [([99], [0, 1, 2, 3]), ([3], [4, 5, 6, 7]), ([5, 6, 7], [8, 9])])
        self.assertEqual(rolling_windows([], [99], 4), [])

    def test_loglikelihood(self):
        near, far, first = self.lm.loglikelihood([Request("When the water in the lock", ", the water"),
                                                  Request("When the water in the lock", " zebra"),
                                                  Request("", "The library")])
        self.assertTrue(near[1])
        self.assertFalse(far[1])
        self.assertLess(far[0], near[0])
        self.assertAlmostEqual(first[0], self.lm.llm.score([[0]], [self.lm.llm.tokenize("The library")])[0]
                               .log_likelihood, places=6)

    def test_rolling(self):
        text = (ROOT / "models/demo/texts/evaluation.txt").read_text()[:8000]
        ids = self.lm.llm.tokenize(text, add_special=False)
        self.assertGreater(len(ids), 1024)
        whole, short = self.lm.loglikelihood_rolling([Request(text), Request("The library")])
        begin = self.lm.llm.score([[0]], [ids[:1024]])[0]
        rest = self.lm.llm.score([ids[len(ids) - 1025:1024]], [ids[1024:]])[0]
        self.assertAlmostEqual(whole, begin.log_likelihood + rest.log_likelihood, places=3)
        self.assertAlmostEqual(short, self.lm.loglikelihood([Request("", "The library")])[0][0], places=6)

    def test_generate_until(self):
        asked = [Request("When the water in the lock", {"until": [" the same"], "max_gen_toks": 32}),
                 Request("The library", {"until": ["\n"], "max_gen_toks": 8}),
                 Request("When the water in the lock", {"until": "position", "max_gen_toks": 32})]
        texts = self.lm.generate_until(asked)
        self.assertEqual(texts[0], ", the water is not in")
        self.assertEqual(texts[2], ", the water is not in the same ")
        self.assertLessEqual(len(self.lm.llm.tokenize(texts[1])), 8)
        with self.assertRaisesRegex(ValueError, "typical_p"):
            self.lm.generate_until([Request("x", {"until": [], "typical_p": 1})])

    def test_long_contexts_are_cut_from_the_left(self):
        long = "zebra " * 2000 + "When the water in the lock"
        self.assertEqual(len(self.lm.generate_until([Request(long, {"until": [], "max_gen_toks": 4})])), 1)


if __name__ == "__main__":
    unittest.main()
