#!/usr/bin/env python3
"""Computes log-likelihoods of multiple choice tasks with transformers in float32, for the tests to compare with.

The rules are those of EleutherAI's lm-evaluation-harness (0.4.13: LM._encode_pair, LM.loglikelihood,
HFLM._loglikelihood_tokens, and the prompts in lm_eval/tasks), written down here a second time. Writes numbers
only to src/eval/goldens/tasks.json, of models/demo on
  own     all items of tests/data/tasks
  shared  the first items of each file of the folder given with --shared (of blimp, of its first file)

    python3 tests/reference/make_task_goldens.py --shared FOLDER [--check-with-lm-eval]

--check-with-lm-eval also asks the harness itself (pip install lm_eval) for every log-likelihood.
"""
import argparse
import json
import math
import pathlib
import re

import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODEL = ROOT / "models" / "demo"
OWN = ROOT / "tests" / "data" / "tasks"
GOLDEN = ROOT / "src" / "eval" / "goldens" / "tasks.json"
LIMIT = 5  # of the shared items, and of these tasks:
MANY = {"piqa": 20, "openbookqa": 20, "copa": 20, "winogrande": 20, "blimp": 20}
NORMALIZED = {"arc_easy", "arc_challenge", "piqa", "hellaswag", "openbookqa"}


def query_and_choices(row, context, delimiter=" "):
    return [(context, delimiter + choice) for choice in row["choices"]], row["choices"], row["gold"]


def question(row):  # "Question: ...\nAnswer:" of ARC and PIQA
    return query_and_choices(row, row["query"].rstrip("\n") + "\nAnswer:")


def openbook(row):
    return query_and_choices(row, row["query"])


def copa(row):  # premise without its last sign, connector; the choices begin with a space of their own
    premise, connector = row["query"].rsplit(" ", 1)
    assert premise.endswith(",") and connector in ("because", "therefore")
    return query_and_choices(row, premise[:-1] + " " + connector, "  ")


def boolq(row):
    passage, query = re.fullmatch(r"Passage: (.*)\nQuestion: (.*)", row["query"], re.S).groups()
    return query_and_choices(row, f"{passage}\nQuestion: {query}\nAnswer:")


def hellaswag(lines):  # ctx_b, behind the last end of a sentence, is capitalized
    head, tail = re.fullmatch(r"(.*[.?!] )?(.*)", lines[0]).groups()
    return query_and_choices({"choices": lines[2:], "gold": int(lines[1])}, (head or "") + (tail.capitalize() if head else tail))


def winogrande(row):
    requests = [(option, " " + row["continuation"]) for option in row["context_options"]]
    return requests, ["-"] * len(requests), row["gold"]


def lambada(row):
    return [(row["context"], " " + row["continuation"])], ["-"], 0


def blimp(row):
    return [("", " " + row["sentence_good"]), ("", " " + row["sentence_bad"])], ["-", "-"], 0


TASKS = {
    "arc_easy": ("arc_easy.jsonl", question),
    "arc_challenge": ("arc_challenge.jsonl", question),
    "piqa": ("piqa.jsonl", question),
    "hellaswag": ("hellaswag_val_1000.txt", hellaswag),
    "openbookqa": ("openbook_qa.jsonl", openbook),
    "copa": ("copa.jsonl", copa),
    "boolq": ("boolq.jsonl", boolq),
    "winogrande": ("winogrande.jsonl", winogrande),
    "lambada_openai": ("lambada_openai.jsonl", lambada),
    "blimp": ("blimp", blimp),
}


def read_rows(file: pathlib.Path) -> list:
    lines = file.read_text(encoding="utf-8").split("\n")[:-1]
    if file.suffix == ".txt":
        return [lines[i : i + 6] for i in range(0, len(lines), 6)]
    return [json.loads(line) for line in lines]


class Scorer:
    def __init__(self):
        config = json.loads((MODEL / "tokenizer_config.json").read_text())
        names = {key: config[key] for key in ("bos_token", "eos_token") if config.get(key)}
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(MODEL / "tokenizer.json"), **names)
        self.model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval()

    def encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        if context == "":
            prefix = self.tokenizer.bos_token_id
            prefix = self.tokenizer.eos_token_id if prefix is None else prefix
            return [prefix], self.tokenizer.encode(continuation, add_special_tokens=False)
        kept = context.rstrip()
        whole = self.tokenizer.encode(context + continuation)
        context_ids = self.tokenizer.encode(kept)
        return context_ids, whole[len(context_ids) :]

    @torch.no_grad()
    def score(self, context: str, continuation: str) -> tuple[float, bool, int]:
        before, after = self.encode_pair(context, continuation)
        most = self.model.config.max_position_embeddings
        inputs = (before + after)[-(most + 1) :][:-1]
        logits = self.model(torch.tensor([inputs])).logits[0, -len(after) :].double()
        target = torch.tensor(after)
        chosen = logits.log_softmax(-1).gather(1, target[:, None])
        return chosen.sum().item(), bool((logits.argmax(-1) == target).all()), len(after)


def mean_and_error(values: list[float]) -> list[float]:
    mean = sum(values) / len(values)
    return [mean, math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))]


def largest(values: list[float]) -> int:
    return max(range(len(values)), key=lambda i: values[i])


def measure(scorer: Scorer, name: str, file: pathlib.Path, limit: int | None, asked: list) -> dict:
    items, right, right_normalized = [], [], []
    for row in read_rows(file)[:limit]:
        requests, choices, gold = TASKS[name][1](row)
        scores = [scorer.score(*request) for request in requests]
        asked += [(request, *score[:2]) for request, score in zip(requests, scores)]
        sums = [score[0] for score in scores]
        items.append({"ll": [round(s, 6) for s in sums], "greedy": [int(s[1]) for s in scores], "tokens": [s[2] for s in scores]})
        right.append(float(scores[0][1] if name == "lambada_openai" else largest(sums) == gold))
        right_normalized.append(float(largest([s / len(c) for s, c in zip(sums, choices)]) == gold))
    result = {"acc": mean_and_error(right), "items": items}
    if name in NORMALIZED:
        result["acc_norm"] = mean_and_error(right_normalized)
    if name == "lambada_openai":
        result["perplexity"] = math.exp(-sum(item["ll"][0] for item in items) / len(items))
    return result


def measure_folder(scorer: Scorer, folder: pathlib.Path, everything: bool, asked: list) -> dict:
    results = {}
    for name, (file, _) in TASKS.items():
        path = folder / file
        parts = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
        limit = None if everything else MANY.get(name, LIMIT)
        for part in parts if everything else parts[:1]:
            key = f"{name}_{part.stem}" if path.is_dir() else name
            results[key] = {"task": name, "file": part.relative_to(folder).as_posix(), **measure(scorer, name, part, limit, asked)}
            print(key, len(results[key]["items"]), results[key]["acc"], results[key].get("acc_norm"))
    return results


def check_with_lm_eval(scorer: Scorer, asked: list) -> None:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    harness = HFLM(pretrained=scorer.model, tokenizer=scorer.tokenizer, device="cpu", batch_size=1)
    instances = [Instance(request_type="loglikelihood", doc={}, arguments=request, idx=0) for request, _, _ in asked]
    answers = harness.loglikelihood(instances, disable_tqdm=True)
    worst = max(abs(answer[0] - ours) for answer, (_, ours, _) in zip(answers, asked))
    greedy = sum(bool(answer[1]) != ours for answer, (_, _, ours) in zip(answers, asked))
    print(f"lm_eval: {len(answers)} requests, largest difference {worst:.2e} nats, {greedy} greedy flags differ")


def dump(golden: dict) -> str:
    text = json.dumps(golden, indent=1)
    return re.sub(r"\[[^\[\]{}]*\]", lambda m: re.sub(r"\s+", " ", m.group()).replace("[ ", "[").replace(" ]", "]"), text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shared", type=pathlib.Path, required=True)
    parser.add_argument("--check-with-lm-eval", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    scorer = Scorer()
    asked: list = []
    golden = {"own": measure_folder(scorer, OWN, True, asked),
              "shared": measure_folder(scorer, options.shared, False, asked)}
    if options.check_with_lm_eval:
        check_with_lm_eval(scorer, asked)
    GOLDEN.write_text(dump(golden))


if __name__ == "__main__":
    main()
