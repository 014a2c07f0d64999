"""Requests that take turns with one model: their answers are those that each gets alone."""
import pathlib
import queue
import threading
import unittest

from nibble import LLM, UsageError
from nibble._plain_request import PlainRequest
from nibble._turns import Turns

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"
SECONDS = 120  # that a request may take beside others
PROMPTS = ["Once upon a time", "The capital of France", "<|endoftext|>A fish", "In the beginning there was"]
COMPLETIONS = [("completions", {"prompt": prompt, "max_tokens": 12, "temperature": 0}) for prompt in PROMPTS]
CHATS = [("chat/completions", {"messages": [{"role": "user", "content": prompt}], "max_completion_tokens": 9,
                               "temperature": 0, "stop": "the"}) for prompt in PROMPTS]


class Asked:
    """A request, and what comes of it."""

    def __init__(self, turns, route, body):
        self._items = queue.SimpleQueue()
        self.request = turns.submit(route, body, self._items.put)

    def items(self):
        taken = []
        while (item := self._items.get(timeout=SECONDS)) is not None:
            taken.append(item)
            if isinstance(item, BaseException):
                break
        return taken

    def next(self):
        return self._items.get(timeout=SECONDS)


def without_names(answer):
    """What does not differ from one time to the next."""
    rest = {name: value for name, value in answer.items() if name not in ("id", "created")}
    if rest.get("usage"):
        rest["usage"] = {name: rest["usage"][name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    return rest


class TurnsTest(unittest.TestCase):
    def setUp(self):
        self.llm = LLM(ROOT / "models/demo", "cpu", threads=1, chat_template=TEMPLATE)
        self.sizes = []  # of the calls that several requests shared
        generate = self.llm._generate

        def counted(prompts, params, on_piece):
            self.sizes.append(len(prompts))
            return generate(prompts, params, on_piece)

        self.llm._generate = counted
        self.turns = Turns(self.llm, "demo", most_together=3)
        self.addCleanup(self.turns.close)

    def held(self):
        """A request that runs until it is left: others wait meanwhile."""
        first = Asked(self.turns, "completions", {"prompt": "Once", "max_tokens": 1000, "ignore_eos": True,
                                                  "stream": True})
        first.next()
        return first

    def together(self, requests):
        """The answers to requests that wait at the same time."""
        first = self.held()
        asked = [Asked(self.turns, route, body) for route, body in requests]
        self.turns.leave(first.request)
        return [each.items() for each in asked]

    def alone(self, route, body):
        return Asked(self.turns, route, body).items()

    def test_answers_together_are_those_of_each_alone(self):
        for requests in (COMPLETIONS, CHATS):
            alone = [self.alone(*request) for request in requests]
            self.sizes.clear()
            together = self.together(requests)
            self.assertEqual(self.sizes, [3])  # the fourth comes next, alone
            self.assertEqual([[without_names(part) for part in parts] for parts in together],
                             [[without_names(part) for part in parts] for parts in alone])
            self.assertEqual(len({parts[0]["id"] for parts in together}), len(requests))

    def test_streams_together_are_those_of_each_alone(self):
        for requests in (COMPLETIONS[:3], CHATS[:3]):
            streams = [(route, {**body, "stream": True}) for route, body in requests]
            alone = [self.alone(*request) for request in streams]
            self.sizes.clear()
            together = self.together(streams)
            self.assertEqual(self.sizes, [3])
            self.assertEqual([[without_names(part) for part in parts] for parts in together],
                             [[without_names(part) for part in parts] for parts in alone])

    def test_the_whole_context_is_for_a_chat_that_does_not_say(self):
        chats = [("chat/completions", {"messages": body["messages"], "temperature": 0}) for _, body in CHATS[:2]]
        alone = [self.alone(*chat) for chat in chats]
        together = self.together(chats)
        self.assertEqual(self.sizes, [2])
        self.assertEqual([without_names(parts[0]) for parts in together], [without_names(parts[0]) for parts in alone])

    def test_requests_that_differ_are_answered_alone_in_their_order(self):
        others = [("completions", {"prompt": "A", "max_tokens": 3, "temperature": 0}),
                  ("completions", {"prompt": "A", "max_tokens": 4, "temperature": 0}),
                  ("completions", {"prompt": "A", "max_tokens": 4, "temperature": 0, "logprobs": 1}),
                  ("completions", {"prompt": ["A", "The"], "max_tokens": 4, "temperature": 0})]
        answers = self.together(others)
        self.assertEqual(self.sizes, [])
        self.assertEqual([parts[0]["usage"]["completion_tokens"] for parts in answers], [3, 4, 4, 8])
        self.assertEqual(len(answers[2][0]["choices"][0]["logprobs"]["tokens"]), 4)

    def test_one_that_cannot_be_served_fails_alone(self):
        too_long = ("completions", {**COMPLETIONS[0][1], "prompt": "a " * 5000})
        half_a_pair = ("completions", {**COMPLETIONS[0][1], "prompt": "\ud800"})
        for wrong, words in ((too_long, "context holds 1024 tokens"), (half_a_pair, "string")):
            good, bad = self.together([COMPLETIONS[0], wrong])
            self.assertEqual(without_names(good[0]), without_names(self.alone(*COMPLETIONS[0])[0]))
            self.assertIsInstance(bad[0], UsageError)
            self.assertIn(words, str(bad[0]))

    def test_what_is_wrong_is_said_as_the_library_says_it(self):
        for body, word in (({"prompt": 3}, "prompt"), ({"prompt": "a", "max_tokens": -1}, "max_tokens"),
                           ({"prompt": "a", "self": 1, "suffix": "b"}, "suffix"),
                           ({"prompt": "a", "temperature": "hot"}, "temperature")):
            both = self.together([("completions", body)] * 2)
            for (error,) in both:
                self.assertIsInstance(error, UsageError)
                self.assertIn(word, str(error))

    def test_one_that_is_left_ends_only_itself(self):
        first = self.held()
        waits = Asked(self.turns, "completions", {**COMPLETIONS[0][1], "max_tokens": 5})
        stays = Asked(self.turns, *COMPLETIONS[1])
        self.turns.leave(waits.request)  # it had not begun
        self.turns.leave(first.request)
        self.assertEqual(stays.items()[0]["usage"]["completion_tokens"], 12)
        self.assertTrue(self.turns.works)
        with self.assertRaises(queue.Empty):
            waits._items.get(timeout=0.1)

    def test_a_call_ends_when_all_have_left_it(self):
        left = threading.Event()
        cancel, self.llm.cancel = self.llm.cancel, lambda: (left.set(), cancel())
        first = self.held()
        endless = {"prompt": "Once", "max_tokens": 1000, "temperature": 0, "stream": True}
        asked = [Asked(self.turns, "completions", {**endless, "prompt": prompt}) for prompt in PROMPTS[:2]]
        self.turns.leave(first.request)
        for each in asked:
            each.next()
        left.clear()
        self.turns.leave(asked[0].request)
        self.assertFalse(left.is_set())  # the other still waits for it
        asked[1].next()
        self.turns.leave(asked[1].request)
        self.assertTrue(left.is_set())
        self.assertEqual(self.alone(*COMPLETIONS[0])[0]["usage"]["completion_tokens"], 12)

    def test_a_client_that_cannot_be_told_harms_nobody(self):
        def refuse(_item):
            raise RuntimeError("its loop is closed")

        first = self.held()
        self.turns.submit(*COMPLETIONS[0], refuse)
        stays = Asked(self.turns, *COMPLETIONS[1])
        with self.assertLogs("nibble"):  # opened before the two can begin
            self.turns.leave(first.request)
            self.assertEqual(stays.items()[0]["usage"]["completion_tokens"], 12)

    def test_closing_ends_what_runs(self):
        self.held()
        waits = Asked(self.turns, *COMPLETIONS[0])
        self.turns.close()
        self.assertFalse(self.turns.works)
        self.assertIsInstance(waits.items()[0], UsageError)
        with self.assertRaises(UsageError):
            Asked(self.turns, *COMPLETIONS[0])


class PlainRequestTest(unittest.TestCase):
    def test_only_what_generate_can_do_is_shared(self):
        plain = {"prompt": "a", "temperature": 0.5, "max_tokens": 3}

        def likeness(**fields):
            return PlainRequest("completions", {**plain, **fields}).likeness()

        self.assertIsNotNone(likeness())
        self.assertEqual(likeness(), likeness(prompt="b", stream=True, user="me"))
        self.assertNotEqual(likeness(), likeness(temperature=0.6))
        self.assertNotEqual(likeness(), likeness(stop="x"))
        for fields in ({"seed": 1}, {"n": 2}, {"logprobs": 1}, {"max_tokens": 0}, {"max_tokens": True}, {"max_tokens": 2**32},
                       {"max_tokens": 2.5}, {"temperature": 101}, {"temperature": "1"}, {"stop": [1]}, {"stop": ["", "x"]}, {"stop": ""},
                       {"prompt": ["a"]}, {"messages": []}, {"stream": 1}, {"new_field": 1}, {"model": 3}):
            with self.subTest(fields=fields):
                self.assertIsNone(likeness(**fields))


if __name__ == "__main__":
    unittest.main()
