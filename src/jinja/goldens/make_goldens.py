#!/usr/bin/env python3
"""Writes the golden files of the template tests: what Jinja2 itself renders.

Needs the Python package jinja2 (3.1). Run from anywhere: python3 make_goldens.py
  expressions.json    small templates and what each gives for one set of variables
  conversations.json, more_families.json
                      whole templates; "results" has one entry for each conversation and variant
A result is {"output": text}, {"raised": what was given to raise_exception}, or {"error": Jinja's
complaint, for the reader only}.
"""

import datetime
import json
import pathlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

import conversations
import expressions
import more_families

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


def template_results(family):
    """One file of whole templates: the conversations and variants, and what each template makes of each pair."""
    def results(template):
        return [render(template, {"messages": messages, **variant})
                for messages in conversations.CONVERSATIONS for variant in family.VARIANTS]

    return {
        "conversations": conversations.CONVERSATIONS,
        "variants": family.VARIANTS,
        "templates": [{"name": name, "template": template, "results": results(template)}
                      for name, template in family.TEMPLATES.items()],
    }


def one_per_line(items):
    lines = ",\n".join(json.dumps(item, ensure_ascii=False) for item in items)
    return f"[\n{lines}\n]"


def write(name, header, lists):
    """One JSON object: the header's fields, then lists with one item per line."""
    fields = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in header.items()]
    fields += [f"{json.dumps(key)}: {one_per_line(items)}" for key, items in lists.items()]
    (HERE / name).write_text("{\n" + ",\n".join(fields) + "\n}\n", encoding="utf-8")


def main():
    write("expressions.json", {"now": NOW, "variables": expressions.VARIABLES},
          {"cases": expression_cases()})
    write("conversations.json", {"now": NOW}, template_results(conversations))
    write("more_families.json", {"now": NOW}, template_results(more_families))


if __name__ == "__main__":
    main()
