#!/usr/bin/env python3
"""Writes what `generate` of transformers makes with encoder-decoders: greedy and by beam search.

    python3 make_beams.py [SHARED]     (needs transformers 5, torch, safetensors)

beams.json beside the models of make_encoders.py: sources, and for each case the options (as generation_config.json
names them) and for each source the ids, and the score of a beam search. With SHARED (../../../shared) also
src/engine/goldens/misaki_bart.json, of a trained model that lies there.
"""
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import torch
import transformers as t

HERE = pathlib.Path(__file__).resolve().parent
LENGTHS = (13, 1, 24, 7)

# Random models repeat themselves and end seldom: most cases have several end tokens.
CASES = {
    "greedy": dict(num_beams=1, max_length=20),
    "greedy, no pair twice": dict(num_beams=1, max_length=30, no_repeat_ngram_size=2),
    "greedy, no token twice": dict(num_beams=1, max_length=30, no_repeat_ngram_size=1),
    "greedy, forced": dict(num_beams=1, max_length=12, forced_bos_token_id=7, forced_eos_token_id=9),
    "greedy, some ends, not before 8": dict(num_beams=1, max_length=25, min_length=8, eos_token_id="many"),
    "beams": dict(num_beams=4, max_length=20),
    "beams, some ends": dict(num_beams=4, max_length=25, eos_token_id="many"),
    "beams, at once": dict(num_beams=4, max_length=25, eos_token_id="many", early_stopping=True),
    "beams, never": dict(num_beams=4, max_length=25, eos_token_id="many", early_stopping="never"),
    "beams, long": dict(num_beams=3, max_length=25, eos_token_id="many", length_penalty=2.5),
    "beams, long, never": dict(num_beams=3, max_length=25, eos_token_id="many", length_penalty=2.5,
                               early_stopping="never"),
    "beams, short": dict(num_beams=3, max_length=25, eos_token_id="many", length_penalty=-1.5),
    "beams, short, never": dict(num_beams=3, max_length=25, eos_token_id="many", length_penalty=-1.5,
                                early_stopping="never"),
    "beams, no penalty": dict(num_beams=5, max_length=25, eos_token_id="many", length_penalty=0.0),
    "beams, no pair twice": dict(num_beams=4, max_length=40, eos_token_id="many", no_repeat_ngram_size=2),
    "beams, no run of 3 twice": dict(num_beams=2, max_length=40, no_repeat_ngram_size=3),
    "beams, not before 9": dict(num_beams=4, max_length=25, eos_token_id="many", min_length=9),
    "beams, forced": dict(num_beams=4, max_length=18, eos_token_id="many", forced_bos_token_id=7,
                          forced_eos_token_id=9, no_repeat_ngram_size=2),
    "beams, 5 written": dict(num_beams=4, max_new_tokens=5),
    "beams, other start": dict(num_beams=4, max_length=20, eos_token_id="many", decoder_start_token_id=5),
    "many beams": dict(num_beams=12, max_length=40, eos_token_id="many", no_repeat_ngram_size=2),
}
ENDS = [2, 11, 17, 23, 31, 40, 55]


def generate(model, source, options):
    out = model.generate(torch.tensor([source]), return_dict_in_generate=True, output_scores=True, do_sample=False,
                         **options)
    text = {"ids": out.sequences[0].tolist()}
    if options["num_beams"] > 1:
        text["score"] = float(f"{out.sequences_scores[0].item():.7g}")
    return text


def family(name):
    model = getattr(t, {"bart": "Bart", "mbart": "MBart"}[name] + "ForConditionalGeneration").from_pretrained(
        HERE / name, dtype=torch.float32, attn_implementation="eager").eval()
    random = np.random.default_rng(3)
    sources = [random.integers(4, 64, length).tolist() for length in LENGTHS]
    cases = []
    for case, options in CASES.items():
        options = {key: ENDS if value == "many" else value for key, value in options.items()}
        model.generation_config = t.GenerationConfig(bos_token_id=0, pad_token_id=1, eos_token_id=2,
                                                     decoder_start_token_id=2, forced_eos_token_id=None)
        cases.append({"name": case, "options": options,
                      "texts": [generate(model, source, options) for source in sources]})
        print(name, case, [len(text["ids"]) for text in cases[-1]["texts"]])
    (HERE / name / "beams.json").write_text(json.dumps({"sources": sources, "cases": cases}) + "\n")


def misaki(shared):
    """Spells words of the dictionary; its configuration says which letter has which id."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        shutil.copy(shared / "models/misaki-bart-g2p/us_bart_config.json", folder / "config.json")
        shutil.copy(shared / "models/misaki-bart-g2p/us_bart.safetensors", folder / "model.safetensors")
        model = t.BartForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    letters = json.loads((shared / "models/misaki-bart-g2p/us_bart_config.json").read_text())["grapheme_chars"]
    lines = (shared / "data/g2p_dictionary/us_test.tsv").read_text().splitlines()
    words = [line.split("\t")[0] for line in lines]
    words = [word for word in words if all(letter in letters for letter in word)][:60]
    texts = []
    for word in words:
        source = [1] + [letters.index(letter) for letter in word] + [2]
        texts.append({"word": word, "source": source, "greedy": generate(model, source, dict(num_beams=1, max_length=64)),
                      "beams": generate(model, source, dict(num_beams=4, max_length=64))})
    out = HERE.parent.parent / "src/engine/goldens/misaki_bart.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"texts": texts}) + "\n")


def main():
    for name in ("bart", "mbart"):
        family(name)
    if len(sys.argv) > 1:
        misaki(pathlib.Path(sys.argv[1]))


if __name__ == "__main__":
    main()
