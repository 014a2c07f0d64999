#!/usr/bin/env python3
"""Computes what transformers says about models/demo in float32, for the tests to compare with.

Writes tests/data/demo_golden.json: the perplexity of the evaluation text, and ids, logits and greedy
tokens of a prompt. Needs torch and transformers:

    python3 tools/make_demo_golden.py [--check]     --check compares with the stored file instead

Protocol: the whole text is tokenized once without special tokens and cut into full windows of SEQ_LEN
tokens that do not overlap (the rest is dropped); each window predicts its tokens 2..SEQ_LEN;
perplexity = exp(sum of negative log-likelihoods / number of predictions).
"""
import json
import math
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models" / "demo"
TEXT = MODEL / "texts" / "evaluation.txt"
GOLDEN = ROOT / "tests" / "data" / "demo_golden.json"
SEQ_LEN = 512
PROMPT = "When the water in the lock"
GREEDY_TOKENS = 32


def score(model, ids: list[int]) -> dict:
    """Negative log-likelihoods by the protocol, summed in float64."""
    windows = [ids[i : i + SEQ_LEN] for i in range(0, len(ids) - SEQ_LEN + 1, SEQ_LEN)]
    total = 0.0
    for window in windows:
        tokens = torch.tensor([window])
        logits = model(tokens).logits[0, :-1].double()
        total += torch.nn.functional.cross_entropy(logits, tokens[0, 1:], reduction="sum").item()
    predictions = len(windows) * (SEQ_LEN - 1)
    return {
        "file": TEXT.relative_to(ROOT).as_posix(),
        "seq_len": SEQ_LEN,
        "tokens": len(ids),
        "windows": len(windows),
        "predictions": predictions,
        "nll": total / predictions,
        "perplexity": math.exp(total / predictions),
        "first_ids": ids[:32],
    }


def prompt_golden(model, tokenizer) -> dict:
    ids = tokenizer.encode(PROMPT, add_special_tokens=False)
    greedy = list(ids)
    for _ in range(GREEDY_TOKENS):
        greedy.append(int(model(torch.tensor([greedy])).logits[0, -1].argmax()))
    logits = model(torch.tensor([ids])).logits[0, -1]
    return {
        "text": PROMPT,
        "ids": ids,
        "last_logits_first_16": logits[:16].tolist(),
        "last_logits_argmax": int(logits.argmax()),
        "last_logits_logsumexp": float(logits.double().logsumexp(0)),
        "greedy_ids": greedy[len(ids) :],
        "greedy_text": tokenizer.decode(greedy[len(ids) :]),
    }


def compute() -> dict:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(MODEL)
    model = AutoModelForCausalLM.from_pretrained(MODEL).float().eval()
    with torch.no_grad():
        text = tokenizer.encode(TEXT.read_text(), add_special_tokens=False)
        return {"model": "models/demo", "dtype": "float32", "text": score(model, text), "prompt": prompt_golden(model, tokenizer)}


def main() -> int:
    golden = compute()
    if "--check" not in sys.argv[1:]:
        GOLDEN.parent.mkdir(parents=True, exist_ok=True)
        GOLDEN.write_text(json.dumps(golden, indent=1) + "\n")
        print(f"{GOLDEN.relative_to(ROOT)}: perplexity {golden['text']['perplexity']:.4f}")
        return 0
    stored = json.loads(GOLDEN.read_text())
    same = stored["prompt"]["greedy_ids"] == golden["prompt"]["greedy_ids"] and math.isclose(
        stored["text"]["perplexity"], golden["text"]["perplexity"], rel_tol=1e-5
    )
    print("the stored values hold" if same else "the stored values differ")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
