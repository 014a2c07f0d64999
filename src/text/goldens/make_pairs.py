#!/usr/bin/env python3
"""Writes pairs.json: what Hugging Face's tokenizers make of texts and pairs of texts with the tokenizers of this
folder, whole and cut to fewer tokens: ids and token types.

    python make_pairs.py          (in this folder)
"""
import json
import pathlib

from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
INPUTS = [["the tokenizer cuts a text"], ["the tokenizer cuts a text", "Hello, y'all!"], ["a", "the tokenizer cuts a text in two"],
          ["Hello  world of pairs", "the same words here, and more of them"], ["", "the"], ["the", ""], ["", ""], [""],
          ["Monday [SEP] the </s> <s> end", " résumé naïve 敏捷 "], ["the the the the", "the the the the"]]
LIMITS = {"right": [None, 5, 7, 8, 12], "left": [7, 8]}
TYPED = {"type": "TemplateProcessing",
         "single": [{"Sequence": {"id": "A", "type_id": 3}}, {"SpecialToken": {"id": "[SEP]", "type_id": 4}},
                    {"SpecialToken": {"id": "[CLS]", "type_id": 2}}],
         "pair": [{"Sequence": {"id": "A", "type_id": 5}}, {"SpecialToken": {"id": "two", "type_id": 6}},
                  {"Sequence": {"id": "B", "type_id": 7}}, {"SpecialToken": {"id": "[CLS]", "type_id": 2}}],
         "special_tokens": {"[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]},
                            "[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                            "two": {"id": "two", "ids": [3, 4], "tokens": ["[SEP]", "[MASK]"]}}}
NO_TOKENS = {"type": "Sequence", "processors": [
    {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}],
     "pair": [{"Sequence": {"id": "A", "type_id": 2}}, {"Sequence": {"id": "B", "type_id": 0}}], "special_tokens": {}},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]}
# Names of tokenizers, and post-processors in place of their own.
CASES = [("bert", None), ("roberta", None), ("llama2", None), ("llama3", None), ("t5", None), ("qwen2", None),
         ("bert", TYPED), ("bert", NO_TOKENS)]


def rows(content, side):
    for limit in LIMITS[side]:
        tokenizer = Tokenizer.from_str(json.dumps(content))
        for words in INPUTS:
            for special in (True, False):
                if limit is not None:
                    tokenizer.enable_truncation(limit, strategy="longest_first", direction=side)
                encoding = tokenizer.encode(*words, add_special_tokens=special)
                yield {"texts": words, "most": limit or 0, "special": special, "left": side == "left",
                       "ids": encoding.ids, "types": encoding.type_ids, "framing": encoding.special_tokens_mask,
                       "truncated": bool(encoding.overflowing)}


def main() -> None:
    cases = []
    for name, processor in CASES:
        content = json.loads((HERE / f"tokenizers/{name}.json").read_text(encoding="utf-8"))
        if processor:
            content["post_processor"] = processor
        cases.append({"tokenizer": name, "post_processor": content["post_processor"],
                      "rows": [row for side in LIMITS for row in rows(content, side)]})
    (HERE / "pairs.json").write_text("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
