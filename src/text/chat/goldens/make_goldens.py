#!/usr/bin/env python3
"""Writes the golden files of the chat template tests: what Jinja2 itself renders.

Needs the Python package jinja2 (3.1). Run from anywhere: python3 make_goldens.py
Each golden file is one JSON object:
  variables   what every template of the file sees
  cases       [{"template": ..., "variables": {...}, "output": ... | "raised": ... | "error": ...}]
"raised" is the text given to raise_exception; "error" is Jinja's complaint, for the reader only.
"""

import datetime
import json
import pathlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

import conversations
import expressions

HERE = pathlib.Path(__file__).parent
NOW = 1721997296  # 2024-07-26 12:34:56 UTC


class Raised(Exception):
    """What raise_exception gives."""


class Generation(jinja2.ext.Extension):
    """{% generation %}...{% endgeneration %}, which renders as its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("render_body"), [], [], body).set_lineno(line)

    def render_body(self, caller):
        return caller()


def raise_exception(message):
    raise Raised(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def strftime_now(format):
    return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).replace(tzinfo=None).strftime(format)


def make_environment():
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = to_json
    environment.globals.update(raise_exception=raise_exception, strftime_now=strftime_now)
    return environment


def render(template, variables):
    try:
        return {"output": make_environment().from_string(template).render(**variables)}
    except Raised as raised:
        return {"raised": str(raised)}
    except Exception as error:  # whatever Jinja or Python complains about
        return {"error": f"{type(error).__name__}: {error}"}


def expression_cases():
    for template, note in expressions.templates():
        result = render(template, expressions.VARIABLES)
        if note == "ours":
            result = {"error": "refused here, though Jinja accepts it"}
        yield {"template": template, **result}


def conversation_cases():
    for template, variables in conversations.cases():
        yield {"template": template, "variables": variables, **render(template, variables)}


def write(name, variables, cases):
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    header = json.dumps({"now": NOW, "variables": variables}, ensure_ascii=False)[:-1]
    (HERE / name).write_text(f'{header}, "cases": [\n{lines}\n]}}\n', encoding="utf-8")


def main():
    write("expressions.json", expressions.VARIABLES, list(expression_cases()))
    write("conversations.json", {}, list(conversation_cases()))


if __name__ == "__main__":
    main()
