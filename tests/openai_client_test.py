#!/usr/bin/env python3
"""The official Python client of OpenAI against `nibble serve`.

    tests/openai_client_test.py NIBBLE MODEL

Skipped where the package openai is missing (tests/required.py).
"""
import os
import subprocess
import sys
import tempfile
import typing
import unittest

from required import missing

try:
    import openai
    import pydantic
except ImportError:
    missing("the Python package openai is not installed")

TEMPLATE = (
    "{% if tools %}<|bos|>system: {{ tools | tojson }} are called as <tool_call>JSON</tool_call>\n{% endif %}"
    "{% for m in messages %}<|bos|>{{ m['role'] }}: {{ m['content'] }}"
    "{% for c in m.tool_calls or [] %}{{ c.function.name }}({{ c.function.arguments | tojson }}){% endfor %}\n{% endfor %}"
    "{% if add_generation_prompt %}<|bos|>assistant:{% endif %}"
)
KEY = "the-key"
PROGRAM, MODEL = sys.argv[1:3]


class ClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.template = tempfile.NamedTemporaryFile("w", suffix=".jinja")
        cls.template.write(TEMPLATE)
        cls.template.flush()
        words = [PROGRAM, "serve", MODEL, "--port", "0", "--threads", "1", "-q", "--template", cls.template.name]
        words += ["--served-model-name", "demo", "--max-queue", "4", "--max-batch", "2"]
        cls.server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, "NIBBLE_API_KEY": KEY})
        line = cls.server.stdout.readline()
        assert line.startswith("Listening on http://"), line
        cls.url = line.split()[-1] + "/v1"
        cls.client = openai.OpenAI(base_url=cls.url, api_key=KEY, max_retries=0, timeout=60)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.terminate()
        assert cls.server.wait(30) == 0
        cls.server.stdout.close()
        cls.template.close()

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["demo"])
        self.assertEqual(self.client.models.retrieve("demo").object, "model")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.models.retrieve("gpt")
        self.assertEqual(caught.exception.code, "model_not_found")

    def test_completion(self):
        asked = dict(model="demo", prompt="Once upon a time", max_tokens=12, temperature=0)
        whole = self.client.completions.create(**asked)
        self.assertEqual(whole.usage.completion_tokens, 12)
        self.assertEqual(whole.choices[0].finish_reason, "length")
        parts = list(self.client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
        text = "".join(part.choices[0].text for part in parts if part.choices)
        self.assertEqual(text, whole.choices[0].text)
        self.assertEqual(parts[-1].usage, whole.usage.model_copy(update={
            "prompt_tokens_details": parts[-1].usage.prompt_tokens_details}))
        self.assertEqual(parts[-1].choices, [])

    def test_log_probabilities(self):
        answer = self.client.completions.create(
            model="demo", prompt="The memory bus", max_tokens=2, temperature=0, logprobs=3, echo=True)
        logs = answer.choices[0].logprobs
        self.assertEqual("".join(logs.tokens), answer.choices[0].text)
        self.assertIsNone(logs.token_logprobs[0])
        self.assertEqual(len(logs.top_logprobs[-1]), 3)

    def test_chat(self):
        asked = dict(model="demo", messages=[{"role": "user", "content": "Hello"}], max_completion_tokens=8, temperature=0)
        whole = self.client.chat.completions.create(**asked, logprobs=True, top_logprobs=2)
        content = whole.choices[0].message.content
        self.assertEqual(whole.choices[0].message.role, "assistant")
        self.assertEqual("".join(entry.token for entry in whole.choices[0].logprobs.content), content)
        stream = self.client.chat.completions.create(**asked, stream=True)
        deltas = [part.choices[0].delta for part in stream]
        self.assertEqual(deltas[0].role, "assistant")
        self.assertEqual("".join(delta.content or "" for delta in deltas), content)

    def test_chat_stream_helper(self):
        with self.client.chat.completions.stream(
                model="demo", messages=[{"role": "user", "content": "Hello"}],
                extra_body={"guided_regex": "yes|no"}) as stream:
            for _ in stream:
                pass
            final = stream.get_final_completion()
        self.assertEqual(final.choices[0].finish_reason, "stop")
        self.assertIn(final.choices[0].message.content, ("yes", "no"))

    def test_schema(self):
        schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
        answer = self.client.chat.completions.create(
            model="demo", messages=[{"role": "user", "content": "Is it?"}], max_tokens=40,
            response_format={"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}})
        self.assertRegex(answer.choices[0].message.content, r'^\s*\{\s*"ok"\s*:\s*(true|false)\s*\}\s*$')

    def test_tools(self):
        class Weather(pydantic.BaseModel):
            city: typing.Literal["Oslo", "Rome"]
            warm: bool

        tool = openai.pydantic_function_tool(Weather, name="weather", description="Sets the weather.")
        named = {"type": "function", "function": {"name": "weather"}}
        asked = dict(model="demo", messages=[{"role": "user", "content": "Set it"}], tools=[tool], seed=3, temperature=1)
        whole = self.client.chat.completions.create(**asked, tool_choice=named).choices[0]
        self.assertEqual(whole.finish_reason, "tool_calls")
        self.assertIsNone(whole.message.content)
        call = whole.message.tool_calls[0]
        self.assertEqual((call.type, call.function.name), ("function", "weather"))
        Weather.model_validate_json(call.function.arguments, strict=True)
        with self.client.chat.completions.stream(**asked, tool_choice=named) as stream:
            done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
            final = stream.get_final_completion().choices[0]
        self.assertEqual([event.arguments for event in done], [call.function.arguments])
        self.assertEqual(final.finish_reason, "tool_calls")
        self.assertIsInstance(final.message.tool_calls[0].function.parsed_arguments, Weather)
        parsed = self.client.chat.completions.parse(**asked, tool_choice="required", parallel_tool_calls=False)
        self.assertIsInstance(parsed.choices[0].message.tool_calls[0].function.parsed_arguments, Weather)
        # The call and its result go back to the model.
        asked["messages"] += [whole.message, {"role": "tool", "tool_call_id": call.id, "content": "done"}]
        answer = self.client.chat.completions.create(**asked, max_tokens=4, extra_body={"ignore_eos": True})
        self.assertEqual(answer.usage.completion_tokens, 4)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(
                **asked, tool_choice={"type": "function", "function": {"name": "clock"}})
        self.assertEqual(caught.exception.param, "tool_choice")

    def test_embeddings(self):
        coded = self.client.embeddings.create(model="demo", input=["one", "two words"])
        floats = self.client.embeddings.create(model="demo", input=["one", "two words"], encoding_format="float")
        self.assertEqual([len(entry.embedding) for entry in coded.data], [256, 256])
        for a, b in zip(coded.data[1].embedding, floats.data[1].embedding):
            self.assertAlmostEqual(a, b, places=6)

    def test_errors(self):
        chat = self.client.chat.completions
        with self.assertRaises(openai.BadRequestError) as caught:
            chat.create(model="demo", messages=[{"role": "user", "content": "x"}], temperature=-1)
        self.assertEqual(caught.exception.param, "temperature")
        self.assertTrue(caught.exception.request_id.startswith("req-"))
        with self.assertRaises(openai.BadRequestError) as caught:
            chat.create(model="demo", messages=[{"role": "user", "content": "x " * 3000}])
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        with openai.OpenAI(base_url=self.url, api_key="another", max_retries=0) as stranger:
            with self.assertRaises(openai.AuthenticationError):
                stranger.models.list()
        with self.assertRaises(openai.BadRequestError):
            self.client.completions.create(model="demo", prompt="x", n=1000)

    def test_cancelled_stream(self):
        with self.client.completions.create(
                model="demo", prompt="Once", max_tokens=900, stream=True, extra_body={"ignore_eos": True}) as stream:
            next(iter(stream))
        answer = self.client.completions.create(
            model="demo", prompt="a", max_tokens=1, extra_body={"ignore_eos": True})
        self.assertEqual(answer.usage.completion_tokens, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
