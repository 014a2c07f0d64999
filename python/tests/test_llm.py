"""The package on the demo model and on tiny ones, against the values of transformers that the C++ tests use."""
import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

import nibble
from nibble import LLM, SamplingParams
from nibble._library import FUNCTIONS, STRUCTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "models/demo"
FAMILIES = ROOT / "tests/families"
GOLDEN = json.loads((ROOT / "tests/data/demo_golden.json").read_text())
TEXT = (DEMO / "texts/evaluation.txt").read_text()
TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"
SECONDS = 120  # that a process may take beside others
GREEDY = SamplingParams(temperature=0, max_tokens=16)


class LLMTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = LLM(DEMO, "cpu", threads=1, chat_template=TEMPLATE)

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()

    def test_facts(self):
        facts = self.llm.facts
        self.assertEqual((facts.kind, facts.family, facts.vocabulary, facts.context), ("decoder", "llama", 8192, 1024))
        self.assertEqual((facts.parameters, facts.recipe, facts.device, facts.labels), (6819072, "", "cpu", []))
        self.assertEqual((facts.eos, facts.chat_template), (0, TEMPLATE))

    def test_tokens_and_back(self):
        prompt = GOLDEN["prompt"]
        self.assertEqual(self.llm.tokenize(prompt["text"]), prompt["ids"])
        self.assertEqual(self.llm.detokenize(prompt["ids"]), prompt["text"])
        self.assertEqual(self.llm.detokenize(np.array(prompt["ids"])), prompt["text"])
        self.assertEqual(self.llm.detokenize([0]), "")
        self.assertEqual(self.llm.detokenize([0], skip_special=False), "<|endoftext|>")
        self.assertGreater(len(self.llm.tokenize("<|endoftext|>", parse_special=False)), 1)

    def test_greedy_text_is_that_of_transformers(self):
        prompt = GOLDEN["prompt"]
        params = SamplingParams(temperature=0, max_tokens=len(prompt["greedy_ids"]))
        completion = self.llm.generate(prompt["text"], params)
        self.assertEqual(completion.token_ids, prompt["greedy_ids"])
        self.assertEqual(completion.text, prompt["greedy_text"])
        self.assertEqual((completion.finish_reason, completion.prompt_tokens), ("length", len(prompt["ids"])))
        self.assertIsNone(completion.logprobs)

    def test_batches_and_ids(self):
        ids = self.llm.tokenize("The library")
        both = self.llm.generate(["The library", ids, "In the morning"], GREEDY)
        self.assertEqual(both[0], both[1])
        self.assertEqual(both[2], self.llm.generate("In the morning", GREEDY))
        self.assertEqual(self.llm.generate(ids, GREEDY), both[0])
        self.assertEqual(self.llm.generate([], GREEDY), [])

    def test_options_of_texts(self):
        whole = self.llm.generate("The library", SamplingParams(temperature=0, max_tokens=40)).text
        stop = whole[10:15]
        completion = self.llm.generate("The library", SamplingParams(temperature=0, max_tokens=40, stop=stop, logprobs=2))
        self.assertEqual(completion.text, whole[:whole.index(stop)])
        self.assertEqual(completion.finish_reason, "stop")
        self.assertEqual(len(completion.logprobs), len(completion.token_ids))
        self.assertEqual(len(completion.logprobs[0]["most_probable"]), 2)
        schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"],
                  "additionalProperties": False}
        made = json.loads(self.llm.generate("A number:", SamplingParams(temperature=0, json_schema=schema)).text)
        self.assertIn(made["n"], (1, 2))
        drawn = [self.llm.generate("The library", SamplingParams(seed=seed)).token_ids for seed in (1, 1, 2)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertNotEqual(drawn[0], drawn[2])

    def test_streams(self):
        whole = self.llm.generate("The library", GREEDY).text
        pieces = list(self.llm.generate("The library", GREEDY, stream=True))
        self.assertGreater(len(pieces), 3)
        self.assertEqual("".join(pieces), whole)
        texts = ["", ""]
        for index, piece in self.llm.generate(["The library", "In the morning"], GREEDY, stream=True):
            texts[index] += piece
        self.assertEqual(texts[0], whole)
        self.assertEqual(texts[1], self.llm.generate("In the morning", GREEDY).text)

    def test_a_stream_that_is_left_ends_the_call(self):
        pieces = self.llm.generate("The library", SamplingParams(max_tokens=1000, ignore_eos=True), stream=True)
        next(pieces)
        pieces.close()
        self.assertEqual(len(self.llm.generate("The library", GREEDY).token_ids), 16)  # nothing waits

    def test_errors_of_a_stream_are_raised(self):
        with self.assertRaises(nibble.UsageError):
            list(self.llm.generate("", GREEDY, stream=True))

    def test_chat(self):
        messages = [{"role": "user", "content": "Hello"}]
        prompt = self.llm.tokenize("user: Hello\nassistant:", add_special=False)
        self.assertEqual(self.llm.chat_prompt(messages), prompt)
        answer = self.llm.chat(messages, sampling_params=GREEDY)
        self.assertEqual(answer.text, self.llm.generate(prompt, GREEDY).text)
        self.assertEqual("".join(self.llm.chat(messages, sampling_params=GREEDY, stream=True)), answer.text)
        with self.assertRaisesRegex(nibble.UsageError, "tools"):
            self.llm.chat(messages, tools=[{"type": "function", "function": {"name": "f"}}])

    def test_openai_completions(self):
        request = {"prompt": "The library", "max_tokens": 16, "temperature": 0}
        answer = self.llm.create_completion(**request)
        self.assertEqual(answer["choices"][0]["text"], self.llm.generate("The library", GREEDY).text)
        self.assertEqual((answer["model"], answer["usage"]["completion_tokens"]), ("demo", 16))
        events = list(self.llm.create_completion(stream=True, **request))
        self.assertEqual("".join(event["choices"][0]["text"] for event in events), answer["choices"][0]["text"])
        with self.assertRaisesRegex(nibble.UsageError, "temperature"):
            self.llm.create_completion(prompt="x", temperature=-1)

    def test_openai_chats(self):
        request = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "temperature": 0}
        answer = self.llm.create_chat_completion(**request)
        self.assertEqual(answer["choices"][0]["message"]["role"], "assistant")
        events = list(self.llm.create_chat_completion(stream=True, **request))
        text = "".join(event["choices"][0]["delta"].get("content", "") for event in events)
        self.assertEqual(text, answer["choices"][0]["message"]["content"])

    def test_embeddings(self):
        values = self.llm.embed(["The library", "In the morning"])
        self.assertEqual((values.shape, values.dtype), ((2, 256), np.float32))
        np.testing.assert_allclose(np.linalg.norm(values, axis=1), 1, rtol=1e-5)
        np.testing.assert_array_equal(self.llm.embed("The library"), values[0])
        self.assertEqual(self.llm.embed([]).shape, (0, 0))

    def test_logits_and_scores_agree(self):
        ids, greedy = GOLDEN["prompt"]["ids"], GOLDEN["prompt"]["greedy_ids"][:3]
        logits = self.llm.forward(ids + greedy)
        self.assertEqual((logits.shape, logits.dtype), ((len(ids) + 3, 8192), np.float32))
        np.testing.assert_allclose(logits[len(ids) - 1, :16], GOLDEN["prompt"]["last_logits_first_16"], atol=0.05)
        rows = logits[len(ids) - 1:-1].astype(np.float64)
        expected = sum(row[token] - np.log(np.exp(row).sum()) for row, token in zip(rows, greedy))
        score = self.llm.score(ids, greedy)
        self.assertAlmostEqual(score.log_likelihood, expected, places=4)
        self.assertEqual((score.is_greedy, score.tokens), (True, 3))
        words, worse = self.llm.score([GOLDEN["prompt"]["text"]] * 2, [", the water", " zebra"])
        self.assertEqual(words.log_likelihood, score.log_likelihood)
        self.assertLess(worse.log_likelihood, words.log_likelihood)
        self.assertFalse(worse.is_greedy)

    def test_evaluate(self):
        told = []
        with LLM(DEMO, "cpu", threads=1, kv_type="f32") as llm:
            result = llm.evaluate(TEXT, seq_len=GOLDEN["text"]["seq_len"],
                                  progress=lambda job, done, total, note: told.append((done, total)))
            near = self.llm.evaluate(TEXT, seq_len=256, max_tokens=512, reference=llm)
        self.assertAlmostEqual(result["perplexity"], GOLDEN["text"]["perplexity"], places=3)
        self.assertEqual(told[-1][0], told[-1][1])
        self.assertGreater(near["top1_agreement"], 0.98)

    def test_what_progress_raises_is_raised(self):
        def refuse(*_):
            raise KeyError("enough")

        with self.assertRaisesRegex(KeyError, "enough"):
            self.llm.evaluate(TEXT, seq_len=256, progress=refuse)

    def test_wrong_calls(self):
        for call in (lambda: self.llm.generate(""), lambda: self.llm.generate("x", SamplingParams(max_tokens=0)),
                     lambda: self.llm.generate([9999]), lambda: self.llm.generate("x", SamplingParams(beams=3)),
                     lambda: self.llm.forward([]), lambda: self.llm.score(["a", "b"], ["c"]),
                     lambda: self.llm.classify("x"), lambda: LLM(DEMO, "abacus")):
            self.assertRaises(nibble.UsageError, call)
        self.assertRaises(TypeError, lambda: self.llm.forward([1.5]))
        self.assertRaises(ValueError, lambda: self.llm.forward([2**40]))
        self.assertRaises(nibble.FileError, lambda: LLM("/nonexistent/model"))
        self.assertRaises(OSError, lambda: LLM("/nonexistent/model"))
        self.assertRaises(nibble.InvalidModelError, lambda: LLM(DEMO / "README.md"))

    def test_a_closed_model_is_refused(self):
        with LLM(DEMO, "cpu", threads=1) as llm:
            pass
        self.assertRaises(nibble.UsageError, lambda: llm.generate("x"))
        llm.close()

    def test_closing_ends_what_runs(self):
        errors = []

        def write(llm):
            try:
                while True:
                    llm.generate("The library", SamplingParams(max_tokens=1000, ignore_eos=True))
            except nibble.NibbleError as error:
                errors.append(type(error))

        llm = LLM(DEMO, "cpu", threads=1)
        threads = [threading.Thread(target=write, args=(llm,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        llm.close()
        for thread in threads:
            thread.join()
        self.assertEqual(len(errors), 3)
        self.assertLessEqual(set(errors), {nibble.CancelledError, nibble.UsageError})

    def test_threads_share_a_model(self):
        expected = self.llm.generate("The library", GREEDY)
        results = []
        threads = [threading.Thread(target=lambda: results.append(self.llm.generate("The library", GREEDY)))
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [expected] * 4)

    # The call calls nothing back: that this thread runs meanwhile shows that it does not hold Python's lock.
    def test_cancel(self):
        errors = []

        def write():
            try:
                self.llm.generate("The library", SamplingParams(max_tokens=1000, ignore_eos=True))
            except nibble.NibbleError as error:
                errors.append(type(error))

        thread = threading.Thread(target=write)
        thread.start()
        while thread.is_alive():
            self.llm.cancel()
            thread.join(0.02)
        self.assertEqual(errors, [nibble.CancelledError])


class OtherKindsTest(unittest.TestCase):
    def test_encoders(self):
        with LLM(FAMILIES / "bert-texts", "cpu", threads=1) as llm:
            self.assertEqual((llm.facts.kind, len(llm.facts.labels)), ("encoder", 3))
            golden = json.loads((FAMILIES / "bert-texts/golden.json").read_text())["texts"][1]
            np.testing.assert_allclose(llm.forward(golden["ids"])[0], golden["numbers"][0], atol=1e-5)
            one = llm.classify("t5 t6")
            self.assertEqual(one["label"], llm.facts.labels[int(np.argmax(one["logits"]))])
            self.assertEqual(llm.classify(["t5 t6", "t7"])[0], one)
            self.assertNotEqual(llm.classify("t5 t6", "t7")["logits"], one["logits"])
            self.assertEqual(llm.embed("t5", normalize=True).shape, (36,))
            self.assertFalse(np.array_equal(llm.embed("t5 t6", pooling="max"), llm.embed("t5 t6", pooling="mean")))

    def test_an_encoder_decoder(self):
        golden = json.loads((FAMILIES / "bart/beams.json").read_text())
        with LLM(FAMILIES / "bart", "cpu", threads=1) as llm:
            self.assertEqual(llm.facts.kind, "encoder-decoder")
            written = llm.generate(golden["sources"], SamplingParams(max_tokens=19, beams=1))
            self.assertEqual([[2] + text.token_ids for text in written],  # 2 is forced_eos_token_id of config.json
                             [text["ids"][:-1] + [2] for text in golden["cases"][0]["texts"]])
            self.assertEqual(llm.forward([5, 6], target=[7, 8, 9]).shape, (3, 64))


    def test_remarks_go_to_the_logger(self):
        with self.assertLogs("nibble", "INFO") as logged:
            LLM(ROOT / "tests/exchange/bnb-nf4", "cpu").close()
        self.assertIn("scales were rounded", logged.output[0])

    def test_an_adapter(self):
        with LLM(FAMILIES / "gpt2", "cpu") as plain:
            with LLM(FAMILIES / "gpt2", "cpu", lora=FAMILIES / "gpt2/lora") as adapted:
                self.assertFalse(np.array_equal(plain.forward([5, 6]), adapted.forward([5, 6])))


class QuantizingTest(unittest.TestCase):
    def test_quantize_and_run(self):
        told = []
        with tempfile.TemporaryDirectory() as folder:
            result = nibble.quantize(DEMO, "rtn-w4g128", folder + "/w4", threads=1,
                                     progress=lambda job, done, total, note: told.append(job))
            self.assertEqual(result["recipe"], "rtn-w4g128")
            self.assertIn("quantize", told[0])
            with LLM(folder + "/w4", "cpu", threads=1) as llm:
                self.assertEqual(llm.facts.recipe, "rtn-w4g128")
                self.assertEqual(len(llm.generate("The library", GREEDY).token_ids), 16)

    def test_progress_ends_a_job(self):
        def refuse(*_):
            raise InterruptedError

        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(InterruptedError):
                nibble.quantize(DEMO, "rtn-w4g128", folder + "/w4", progress=refuse)
            self.assertFalse(os.path.exists(folder + "/w4"))
            self.assertRaises(nibble.UsageError, lambda: nibble.quantize(DEMO, "no-such", folder + "/w4"))

    def test_compare(self):
        rows = nibble.compare(DEMO, ["rtn-w4g128"], TEXT, seq_len=256, max_tokens=512, threads=1)
        self.assertEqual([row["recipe"] for row in rows], ["original", "rtn-w4g128"])
        self.assertGreater(rows[1]["perplexity"], rows[0]["perplexity"])

    def test_recipes(self):
        self.assertIn("gptq-w4g128", nibble.recipes())


class HeaderTest(unittest.TestCase):
    """The structs of this package are those of the header."""

    TYPES = {"size_t": ctypes.c_size_t, "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64,
             "uint64_t": ctypes.c_uint64, "double": ctypes.c_double, "const char*": ctypes.c_char_p,
             "void*": ctypes.c_void_p, "nibble_model*": ctypes.c_void_p}
    HEADER = re.sub(r"/\*.*?\*/", "", (ROOT / "include/nibble/nibble.h").read_text(), flags=re.S)

    def test_structs(self):
        structs = dict(re.findall(r"typedef struct (\w+) \{([^}]*)\}", self.HEADER))
        structs = {name: [line.split() for line in body.split(";") if line.strip()] for name, body in structs.items()}
        self.assertEqual(set(structs), set(STRUCTS))
        for name, lines in structs.items():
            fields = STRUCTS[name]._fields_
            self.assertEqual([line[-1] for line in lines], [field for field, _ in fields], name)
            for line, (field, kind) in zip(lines, fields):
                declared = " ".join(line[:-1])
                if declared in self.TYPES:
                    self.assertIs(kind, self.TYPES[declared], f"{name}.{field}")
                else:  # a pointer to pointers or numbers, or a callback
                    self.assertEqual(ctypes.sizeof(kind), ctypes.sizeof(ctypes.c_void_p), f"{name}.{field}")

    def test_functions(self):
        declared = re.findall(r"^NIBBLE_API[^;(]*?(\w+)\(([^)]*)\)", self.HEADER, flags=re.M)
        self.assertEqual({name for name, _ in declared}, set(FUNCTIONS))
        for name, arguments in declared:
            count = 0 if arguments.strip() == "void" else arguments.count(",") + 1
            self.assertEqual(count, len(FUNCTIONS[name][1]), name)


class ProcessTest(unittest.TestCase):
    """In processes of their own: what is printed, and Ctrl-C."""

    # A shell that starts this in the background has SIGINT ignored, and Python keeps to that.
    HEAD = ("import nibble, signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            f"llm = nibble.LLM({str(DEMO)!r}, 'cpu', threads=1)\n")

    def start(self, code):
        process = subprocess.Popen([sys.executable, "-c", self.HEAD + code], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return process

    def test_nothing_is_printed(self):
        process = self.start("llm.generate('The library')\nllm.embed('x')\nllm.score('a', ' b')\n")
        out, err = process.communicate(timeout=SECONDS)
        self.assertEqual((process.returncode, out, err), (0, "", ""))

    def test_a_stream_may_be_open_at_the_end(self):
        process = self.start("pieces = llm.generate('x', nibble.SamplingParams(max_tokens=1000, ignore_eos=True), "
                             "stream=True)\nprint(len(next(pieces)) > 0)\n")
        out, err = process.communicate(timeout=SECONDS)
        self.assertEqual((process.returncode, out, err), (0, "True\n", ""))

    # The thread of the stream still runs when the model is closed, and what is left of it when Python ends must not be
    # waited for. The function has globals of its own: with those of the program it would keep the stream alive.
    def test_the_end_waits_for_a_late_thread(self):
        late = ("import time; from nibble._handle import Handle; call = Handle.__call__\n"
                "def late(*arguments):\n  status = call(*arguments); time.sleep(0.3); return status\n"
                "Handle.__call__ = late\n")
        process = self.start(f"exec({late!r}, {{}})\n"
                             "pieces = llm.generate('x', nibble.SamplingParams(max_tokens=1000, ignore_eos=True), "
                             "stream=True)\nprint(len(next(pieces)) > 0)\n")
        out, err = process.communicate(timeout=SECONDS)
        self.assertEqual((process.returncode, out, err), (0, "True\n", ""))

    def interrupted(self, call):
        process = self.start("print('ready', flush=True)\n"
                             f"try:\n  {call}\nexcept KeyboardInterrupt:\n  print('interrupted')\n"
                             "print(len(llm.generate('The library', nibble.SamplingParams(max_tokens=4)).token_ids))\n")
        self.assertEqual(process.stdout.readline(), "ready\n")
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
        self.assertEqual((process.returncode, err), (0, ""))
        return out

    def test_ctrl_c_ends_a_call(self):
        endless = "nibble.SamplingParams(max_tokens=1000, ignore_eos=True)"
        self.assertEqual(self.interrupted(f"\n  while True: llm.generate(['The library'] * 16, {endless})"),
                         "interrupted\n4\n")
        self.assertEqual(self.interrupted(
            f"\n  while True:\n   for piece in llm.generate('The library', {endless}, stream=True): pass"),
            "interrupted\n4\n")


if __name__ == "__main__":
    unittest.main()
