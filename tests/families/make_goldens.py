#!/usr/bin/env python3
"""Writes tiny random models of every family and what transformers computes with them.

    python3 make_goldens.py            (needs torch, transformers, safetensors)

Each folder gets config.json, model.safetensors, tokenizer.json and golden.json: token ids and the
float32 logits of every position. The weights are random; the models are made to be wrong in
as many ways as a mistake could go: odd head sizes, windows shorter than the text, scaled rotary
frequencies, biases, tied and untied outputs.
"""
import json
import pathlib
import sys

import torch
import transformers as t

HERE = pathlib.Path(__file__).resolve().parent
VOCABULARY = 64
TOKENS = 40
GREEDY = 12  # tokens that are written behind the text

small = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=VOCABULARY, max_position_embeddings=128)

sparse = dict(small, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, head_dim=16)

# Layers with a window and layers without turn by frequencies of their own.
gemma3 = dict(small, num_hidden_layers=4, head_dim=16, query_pre_attn_scalar=20, sliding_window=9,
              layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
              rope_parameters=dict(sliding_attention=dict(rope_type="default", rope_theta=100.0),
                                   full_attention=dict(rope_type="linear", factor=4.0, rope_theta=5000.0)))


def long_rope(pairs, original):
    return dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=original,
                short_factor=[1.0 + 0.2 * i for i in range(pairs)], long_factor=[1.5 + 0.7 * i for i in range(pairs)])


CASES = {
    "llama": (t.LlamaConfig, t.LlamaForCausalLM, dict(small, rms_norm_eps=1e-5)),
    "llama-bias-tied": (t.LlamaConfig, t.LlamaForCausalLM,
                        dict(small, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, head_dim=12)),
    "llama3-rope": (t.LlamaConfig, t.LlamaForCausalLM,
                    dict(small, rope_theta=500000.0,
                         rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                           original_max_position_embeddings=32))),
    "llama-linear-rope": (t.LlamaConfig, t.LlamaForCausalLM,
                          dict(small, rope_scaling=dict(rope_type="linear", factor=4.0))),
    "llama-yarn-rope": (t.LlamaConfig, t.LlamaForCausalLM,
                        dict(small, rope_scaling=dict(rope_type="yarn", factor=4.0,
                                                      original_max_position_embeddings=32))),
    "mistral": (t.MistralConfig, t.MistralForCausalLM, dict(small, sliding_window=9)),
    "qwen2": (t.Qwen2Config, t.Qwen2ForCausalLM, dict(small, tie_word_embeddings=True)),
    "qwen2-window": (t.Qwen2Config, t.Qwen2ForCausalLM,
                     dict(small, use_sliding_window=True, sliding_window=7, max_window_layers=1)),
    "qwen3": (t.Qwen3Config, t.Qwen3ForCausalLM, dict(small, head_dim=16)),
    "mixtral": (t.MixtralConfig, t.MixtralForCausalLM, dict(small, num_local_experts=4, num_experts_per_tok=2)),
    "qwen3-moe": (t.Qwen3MoeConfig, t.Qwen3MoeForCausalLM,
                  dict(sparse, num_hidden_layers=3, norm_topk_prob=True, mlp_only_layers=[1])),
    "qwen3-moe-shares": (t.Qwen3MoeConfig, t.Qwen3MoeForCausalLM,
                         dict(sparse, norm_topk_prob=False, decoder_sparse_step=2)),
    "phi3": (t.Phi3Config, t.Phi3ForCausalLM, dict(small, sliding_window=9, num_key_value_heads=4)),
    "phi3-long-rope": (t.Phi3Config, t.Phi3ForCausalLM,
                       dict(small, original_max_position_embeddings=24, rope_parameters=long_rope(4, 24))),
    "phi4-short-rope": (t.Phi3Config, t.Phi3ForCausalLM,
                        dict(small, hidden_size=64, original_max_position_embeddings=64, tie_word_embeddings=True,
                             rope_parameters=dict(long_rope(6, 64), partial_rotary_factor=0.75))),
    "gemma": (t.GemmaConfig, t.GemmaForCausalLM, dict(small, head_dim=12)),
    "gemma2": (t.Gemma2Config, t.Gemma2ForCausalLM,
               dict(small, num_hidden_layers=4, head_dim=12, query_pre_attn_scalar=20, sliding_window=9,
                    attn_logit_softcapping=1.5, final_logit_softcapping=3.0)),
    "gemma3-text": (t.Gemma3TextConfig, t.Gemma3ForCausalLM, gemma3),
    "gemma3": (t.Gemma3Config, t.Gemma3ForConditionalGeneration,
               dict(text_config=gemma3,
                    vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                                       image_size=28, patch_size=14),
                    mm_tokens_per_image=4, boi_token_index=61, eoi_token_index=62, image_token_index=63)),
    "gpt2": (t.GPT2Config, t.GPT2LMHeadModel,
             dict(n_embd=32, n_layer=2, n_head=4, n_inner=48, n_positions=128, vocab_size=VOCABULARY)),
    "opt": (t.OPTConfig, t.OPTForCausalLM,
            dict(hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4, vocab_size=VOCABULARY,
                 max_position_embeddings=128, word_embed_proj_dim=32)),
}


def randomise(model):
    """Default initialisation leaves norms at 1 and biases at 0, which would hide mistakes."""
    for name, value in model.named_parameters():
        if value.dim() == 1:
            value.data = value.data + 0.2 * torch.randn_like(value)
        else:
            value.data = torch.randn_like(value) * (1.5 / value.shape[-1] ** 0.5)


def tokenizer():
    vocabulary = {f"t{i}": i for i in range(VOCABULARY)}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
            "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "t0"}}


def main():
    wanted = sys.argv[1:] or CASES
    for name in wanted:
        config_class, model_class, options = CASES[name]
        torch.manual_seed(len(name))
        common = dict(bos_token_id=1, eos_token_id=2, pad_token_id=None, attn_implementation="eager")
        model = model_class(config_class(**options, **common)).float().eval()
        randomise(model)
        model.tie_weights()
        folder = HERE / name
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        ids = torch.randint(0, getattr(model.config, "boi_token_index", VOCABULARY), (1, TOKENS))
        with torch.no_grad():
            logits = model(ids).logits[0]
            greedy = model.generate(ids, max_new_tokens=GREEDY, min_new_tokens=GREEDY, do_sample=False,
                                    eos_token_id=VOCABULARY)[0, TOKENS:]
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer()) + "\n")
        golden = {"ids": ids[0].tolist(), "logits": [[float(f"{x:.7g}") for x in row] for row in logits.tolist()],
                  "greedy": greedy.tolist()}
        (folder / "golden.json").write_text(json.dumps(golden) + "\n")
        print(name, sum(f.stat().st_size for f in folder.iterdir()), "bytes")


if __name__ == "__main__":
    main()
