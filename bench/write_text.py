#!/usr/bin/env python3
"""Lets a float decoder go on with pieces of a text, for training that wants more text than there is (LLM-QAT, arXiv 2305.17888).

    bench/write_text.py MODEL TEXT OUTPUT [--windows 2048] [--seq-len 512] [--prompt 32] [--batch 512] [--seed 0]

Each piece is `--prompt` tokens from a random place of TEXT; the model draws the rest of a window from its own distribution, by
transformers on a GPU. OUTPUT gets all windows, each behind a line break.
"""
import argparse
import pathlib

import torch
import transformers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    for name, value in (("windows", 2048), ("seq-len", 512), ("prompt", 32), ("batch", 512), ("seed", 0)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(options.model / "tokenizer.json"))
    model = transformers.AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32).to(options.device).eval()
    tokens = torch.tensor(tokenizer(options.text.read_text(encoding="utf-8"), add_special_tokens=False)["input_ids"])
    written = []
    while len(written) < options.windows:
        count = min(options.batch, options.windows - len(written))
        places = torch.randint(len(tokens) - options.prompt, (count, 1)) + torch.arange(options.prompt)
        prompts = tokens[places].to(options.device)
        with torch.no_grad():
            found = model.generate(prompts, attention_mask=torch.ones_like(prompts), do_sample=True, top_k=0, top_p=1.0, temperature=1.0,
                                   min_new_tokens=options.seq_len - options.prompt, max_new_tokens=options.seq_len - options.prompt)
        written += tokenizer.batch_decode(found, skip_special_tokens=True)
    options.output.write_text("\n".join(written) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
