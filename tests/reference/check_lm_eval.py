#!/usr/bin/env python3
"""Runs lm_eval.simple_evaluate with nibble.lm_eval, and compares its figures with those of `nibble tasks`.

    NIBBLE_LIBRARY=build/release/lib/libnibble.so PYTHONPATH=python \\
      python3 tests/reference/check_lm_eval.py NIBBLE MODEL DATA [LIMIT]

DATA is the folder that `nibble tasks --data` takes. The tasks read its files with prompts of the harness's own YAML files, which are
written down here because those files fetch their data from the network. Ends with 1 where an accuracy differs, or a
perplexity by more than 0.1 %. Needs lm_eval (0.4.13).
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
import lm_eval
from lm_eval.tasks import TaskManager

from nibble.lm_eval import NibbleLM

CHOICES = """task: local_{name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{prompt}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: gold
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
"""
LAMBADA = """task: local_lambada_openai
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: loglikelihood
doc_to_text: "{{{{context}}}}"
doc_to_target: "{{{{continuation if continuation.startswith(' ') else ' ' + continuation}}}}"
metric_list: [{{metric: perplexity, aggregation: perplexity}}, {{metric: acc}}]
"""
ANSWER = r"{{query.rstrip('\\n')}}\nAnswer:"
TASKS = {"arc_easy": ("arc_easy.jsonl", ANSWER), "arc_challenge": ("arc_challenge.jsonl", ANSWER),
         "piqa": ("piqa.jsonl", ANSWER), "openbookqa": ("openbook_qa.jsonl", "{{query}}"),
         "lambada_openai": ("lambada_openai.jsonl", None)}


def main():
    program, model, data = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
    limit = int(sys.argv[4]) if len(sys.argv) > 4 else None
    words = [program, "tasks", model, "--task", ",".join(TASKS), "--data", str(data), "--json", "-q"]
    ours = json.loads(subprocess.run(words + (["--limit", str(limit)] if limit else []), check=True, capture_output=True,
                                     text=True).stdout)
    ours = {row["task"]: row for row in ours["tasks"]}
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for name, (file, prompt) in TASKS.items():
            text = LAMBADA.format(file=data / file) if prompt is None else CHOICES.format(name=name, file=data / file,
                                                                                          prompt=prompt)
            pathlib.Path(folder, f"{name}.yaml").write_text(text)
        results = lm_eval.simple_evaluate(
            model=NibbleLM(model, device="cpu"), tasks=[f"local_{name}" for name in TASKS], limit=limit,
            bootstrap_iters=0, task_manager=TaskManager(include_path=folder, include_defaults=False))["results"]
    for name in TASKS:
        theirs = results[f"local_{name}"]
        for measure in ("acc", "acc_norm", "perplexity"):
            mine, value = ours[name].get(measure), theirs.get(f"{measure},none")
            if mine is None or value is None:
                continue
            same = abs(mine - value) <= (1e-3 * value if measure == "perplexity" else 1e-9)
            failed = failed or not same
            print(f"{name} ({ours[name]['n']} items) {measure}: nibble tasks {mine:.6g}, lm_eval {value:.6g}{'' if same else '  DIFFERS'}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
