"""What a front of several models does with requests. Ray is not needed."""
import collections
import json
import subprocess
import sys
import unittest

from nibble import CancelledError, FileError, OutOfMemoryError, UsageError
from nibble._routes import (MOST_BYTES, RouteError, check_key, check_model, event_text, places_for, prefix_of,
                            read_body, route_error)

REPLICAS = [f"replica{i}" for i in range(5)]
KEYS = [prefix_of({"prompt": f"text {i}"}, 256) for i in range(1000)]


class PrefixTest(unittest.TestCase):
    def test_equal_first_characters_are_one_prefix(self):
        begin = "You are a helpful assistant. " * 20
        self.assertEqual(prefix_of({"prompt": begin + "a"}, 256), prefix_of({"prompt": begin + "b"}, 256))
        self.assertNotEqual(prefix_of({"prompt": "a" + begin}, 256), prefix_of({"prompt": "b" + begin}, 256))
        self.assertNotEqual(prefix_of({"prompt": begin}, 256), prefix_of({"prompt": begin, "cache_salt": "x"}, 256))
        system = {"role": "system", "content": begin}
        chats = [{"messages": [system, {"role": "user", "content": text}], "temperature": i}
                 for i, text in enumerate("ab")]
        self.assertEqual(prefix_of(chats[0], 256), prefix_of(chats[1], 256))
        self.assertNotEqual(prefix_of(chats[0], 2000), prefix_of(chats[1], 2000))
        tools = [{"type": "function", "function": {"name": "f"}}]
        self.assertNotEqual(prefix_of(chats[0], 256), prefix_of({**chats[0], "tools": tools}, 256))

    def test_replicas_have_equal_parts(self):
        first = collections.Counter(places_for(key, REPLICAS)[0] for key in KEYS)
        # 200 +- 5 standard deviations of a binomial distribution, 12.6 each.
        self.assertTrue(all(137 < first[name] < 263 for name in REPLICAS), first)
        self.assertEqual(places_for("x", REPLICAS), places_for("x", reversed(REPLICAS)))

    def test_a_replica_that_goes_moves_only_its_own(self):
        for key in KEYS:
            places = places_for(key, REPLICAS)
            left = places_for(key, REPLICAS[1:])
            self.assertEqual(left, [name for name in places if name != REPLICAS[0]])


class ErrorTest(unittest.TestCase):
    def test_errors_have_the_shape_and_status_of_the_server(self):
        cases = ((UsageError("'n' is 0"), 400, "invalid_request_error", None, "'n' is 0"),
                 (UsageError("this model's context holds 8 tokens, with room for"), 400, "invalid_request_error",
                  "context_length_exceeded", "context holds 8"),
                 (OutOfMemoryError("secret"), 503, "server_error", None, "out of memory"),
                 (CancelledError("x"), 503, "server_error", None, "cancelled"),
                 (FileError("secret"), 500, "server_error", None, "failed inside"),
                 (RuntimeError("secret"), 500, "server_error", None, "failed inside"))
        for error, status, kind, code, words in cases:
            answer = route_error(error)
            shown = answer.body()["error"]
            self.assertEqual((answer.status, shown["type"], shown["code"]), (status, kind, code))
            self.assertEqual(set(shown), {"message", "type", "param", "code"})
            self.assertIn(words, shown["message"])
            self.assertNotIn("secret", shown["message"])

    def refused(self, status, call, *arguments):
        with self.assertRaises(RouteError) as caught:
            call(*arguments)
        self.assertEqual(caught.exception.status, status)
        return caught.exception

    def test_bodies(self):
        self.assertEqual(read_body(b'{"n": 1}', "application/json; charset=utf-8"), {"n": 1})
        self.refused(415, read_body, b"{}", "text/plain")
        self.refused(400, read_body, b"{", "application/json")
        self.refused(400, read_body, b"[1]", "application/json")
        self.refused(400, read_body, b"\xff", "application/json")
        self.refused(400, read_body, b"[" * 100000, "application/json")
        self.refused(413, read_body, b" " * (MOST_BYTES + 1), "application/json")

    def test_models_and_keys(self):
        check_model({}, "demo")
        check_model({"model": "demo"}, "demo")
        self.assertEqual(self.refused(404, check_model, {"model": "gpt"}, "demo").code, "model_not_found")
        check_key("", None)
        check_key("Bearer k", "k")
        for given in ("", "Bearer", "Bearer K", "k", "Bearer \u00e9"):
            self.refused(401, check_key, given, "k")

    def test_events(self):
        text = event_text({"text": "a\n\nb"})
        self.assertTrue(text.startswith("data: ") and text.endswith("\n\n"))
        self.assertEqual(json.loads(text[len("data: "):]), {"text": "a\n\nb"})
        self.assertNotIn("\n", text[:-2])


class WithoutRayTest(unittest.TestCase):
    def test_what_needs_ray_says_so(self):
        for module, package in (("ray_serve", "ray[serve]"), ("ray_data", "ray[data]")):
            hidden = f"import sys; sys.modules['ray'] = None; import nibble.{module}"
            done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, timeout=60)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"pip install '{package}'", done.stderr)


if __name__ == "__main__":
    unittest.main()
