#!/usr/bin/env python3
"""Writes random LoRA adapters for tests/families/llama and gpt2, and what PEFT computes with them.

    python3 make_lora.py            (needs torch, transformers, peft)

Each folder tests/families/<family>/lora gets adapter_config.json and adapter_model.safetensors as PEFT saves them; values
are exact in F16, so that an adapter that runs in 16 bits is the same adapter. lora.json holds, by family, token ids and the
float32 logits of every position, with the adapter beside the weights, and with it merged into them.
"""
import json
import pathlib

import peft
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
FAMILIES = HERE.parent / "families"

# Rank-stabilised scaling in one, Conv1D and F16 files in the other.
CASES = {
    "llama": dict(config=dict(r=3, lora_alpha=5.0, use_rslora=True,
                              target_modules=["q_proj", "v_proj", "o_proj", "down_proj"]), dtype=torch.float32),
    "gpt2": dict(config=dict(r=4, lora_alpha=6.0, fan_in_fan_out=True,
                             target_modules=["c_attn", "c_fc", "mlp.c_proj"]), dtype=torch.float16),
}


def logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].float()


def make(family, case):
    torch.manual_seed(len(family))
    model = transformers.AutoModelForCausalLM.from_pretrained(FAMILIES / family, torch_dtype=torch.float32,
                                                              attn_implementation="eager").eval()
    ids = json.loads((FAMILIES / family / "golden.json").read_text())["ids"]
    plain = logits(model, ids)
    adapted = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **case["config"])).eval()
    for name, value in adapted.named_parameters():
        if "lora_" in name:
            value.data = (0.3 * torch.randn_like(value)).half().float()
    beside = logits(adapted, ids)
    assert (beside - plain).abs().max() > 0.1, "the adapter must change the logits"
    for name, value in adapted.named_parameters():
        if "lora_" in name:
            value.data = value.data.to(case["dtype"])
    folder = FAMILIES / family / "lora"
    adapted.save_pretrained(folder, safe_serialization=True)
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = family  # not a path of the machine
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    merged = logits(adapted.float().merge_and_unload(), ids)

    def rows(values):
        return [[round(value, 6) for value in row] for row in values.tolist()]

    return {"ids": ids, "plain": rows(plain)[-1:], "beside": rows(beside), "merged": rows(merged)}


def main():
    goldens = {family: make(family, case) for family, case in CASES.items()}
    (HERE / "lora.json").write_text(json.dumps(goldens) + "\n")


if __name__ == "__main__":
    main()
