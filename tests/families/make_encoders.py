#!/usr/bin/env python3
"""Writes tiny random encoders of every family and head, and encoder-decoders, and what transformers computes with them.

    python3 make_encoders.py           (needs transformers 4 with Flax, safetensors; no torch)

Files are those of make_goldens.py; golden.json holds for each of three texts its token ids, token types and the
float32 numbers that the head gives: logits of the text, of each token, or the states of each token. For
encoder-decoders "written" are the decoder's tokens, and the numbers the logits behind each of them.
"""
import json
import pathlib
import sys

import numpy as np
import transformers as t
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).resolve().parent
VOCABULARY = 64
LENGTHS = (13, 1, 24)
BERT = dict(vocab_size=VOCABULARY, hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=50,
            max_position_embeddings=40)
DISTIL = dict(vocab_size=VOCABULARY, dim=36, n_layers=2, n_heads=3, hidden_dim=50, max_position_embeddings=40)
BART = dict(vocab_size=VOCABULARY, d_model=36, encoder_layers=2, decoder_layers=3, encoder_attention_heads=3,
            decoder_attention_heads=2, encoder_ffn_dim=50, decoder_ffn_dim=44, max_position_embeddings=40,
            bos_token_id=0, pad_token_id=1, eos_token_id=2, decoder_start_token_id=2)
SIZES = {"distilbert": DISTIL, "bart": BART, "mbart": BART}
LABELS = {0: "none", 1: "some", 2: "all"}
LABELLED = dict(id2label=LABELS, label2id={label: i for i, label in LABELS.items()})

# folder: family, architecture, options of the configuration
CASES = {
    "bert": ("bert", "BertModel", {}),
    "bert-texts": ("bert", "BertForSequenceClassification", dict(LABELLED, hidden_act="gelu_new")),
    "bert-tokens": ("bert", "BertForTokenClassification", LABELLED),
    "bert-masked": ("bert", "BertForMaskedLM", dict(hidden_act="relu")),
    "roberta-texts": ("roberta", "RobertaForSequenceClassification", dict(type_vocab_size=1, pad_token_id=1)),
    "roberta-masked": ("roberta", "RobertaForMaskedLM", dict(type_vocab_size=1, pad_token_id=3)),
    "xlm-roberta-tokens": ("xlm-roberta", "XLMRobertaForTokenClassification", dict(LABELLED, type_vocab_size=1)),
    "distilbert-texts": ("distilbert", "DistilBertForSequenceClassification", dict(LABELLED)),
    "distilbert-masked": ("distilbert", "DistilBertForMaskedLM", {}),
    "bart": ("bart", "BartForConditionalGeneration", {}),
    "mbart": ("mbart", "MBartForConditionalGeneration", dict(scale_embedding=True)),
}


def layer(shapes, name, outputs, inputs):
    shapes[name + ".weight"] = (outputs, inputs)
    shapes[name + ".bias"] = (outputs,)


def norm(shapes, name, width):
    shapes[name + ".weight"] = shapes[name + ".bias"] = (width,)


def encoder_shapes(family, config):
    """Names and shapes of a checkpoint without its head, as the models' documentation gives them."""
    shapes = {}
    distil = family == "distilbert"
    root = {"bert": "bert.", "roberta": "roberta.", "xlm-roberta": "roberta.", "distilbert": "distilbert."}[family]
    width, middle, layers = ((config.dim, config.hidden_dim, config.n_layers) if distil else
                             (config.hidden_size, config.intermediate_size, config.num_hidden_layers))
    tables = root + "embeddings."
    shapes[tables + "word_embeddings.weight"] = (VOCABULARY, width)
    shapes[tables + "position_embeddings.weight"] = (config.max_position_embeddings, width)
    if not distil:
        shapes[tables + "token_type_embeddings.weight"] = (config.type_vocab_size, width)
    norm(shapes, tables + "LayerNorm", width)
    for i in range(layers):
        if distil:
            block = f"{root}transformer.layer.{i}."
            for name in ("q_lin", "k_lin", "v_lin", "out_lin"):
                layer(shapes, block + "attention." + name, width, width)
            layer(shapes, block + "ffn.lin1", middle, width)
            layer(shapes, block + "ffn.lin2", width, middle)
            norm(shapes, block + "sa_layer_norm", width)
            norm(shapes, block + "output_layer_norm", width)
        else:
            block = f"{root}encoder.layer.{i}."
            for name in ("self.query", "self.key", "self.value", "output.dense"):
                layer(shapes, block + "attention." + name, width, width)
            layer(shapes, block + "intermediate.dense", middle, width)
            layer(shapes, block + "output.dense", width, middle)
            norm(shapes, block + "attention.output.LayerNorm", width)
            norm(shapes, block + "output.LayerNorm", width)
    return shapes, root, width


def encoder_decoder_shapes(family, config):
    width = config.d_model
    shapes = {"model.shared.weight": (VOCABULARY, width), "final_logits_bias": (1, VOCABULARY)}
    for stack, layers, middle in (("encoder", config.encoder_layers, config.encoder_ffn_dim),
                                  ("decoder", config.decoder_layers, config.decoder_ffn_dim)):
        root = f"model.{stack}."
        shapes[root + "embed_positions.weight"] = (config.max_position_embeddings + 2, width)
        norm(shapes, root + "layernorm_embedding", width)
        if family == "mbart":
            norm(shapes, root + "layer_norm", width)
        for i in range(layers):
            block = f"{root}layers.{i}."
            for attention in ("self_attn",) if stack == "encoder" else ("self_attn", "encoder_attn"):
                for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    layer(shapes, f"{block}{attention}.{name}", width, width)
                norm(shapes, f"{block}{attention}_layer_norm", width)
            layer(shapes, block + "fc1", middle, width)
            layer(shapes, block + "fc2", width, middle)
            norm(shapes, block + "final_layer_norm", width)
    return shapes


def head_shapes(family, architecture, shapes, root, width, labels):
    if architecture.endswith("Model"):
        layer(shapes, root + "pooler.dense", width, width)  # which nothing reads
    elif architecture.endswith("ForTokenClassification"):
        layer(shapes, "classifier", labels, width)
    elif architecture.endswith("ForMaskedLM"):
        dense, middle, bias = {"bert": ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
                                        "cls.predictions.bias"),
                               "distilbert": ("vocab_transform", "vocab_layer_norm", "vocab_projector.bias")}.get(
                                   family, ("lm_head.dense", "lm_head.layer_norm", "lm_head.bias"))
        layer(shapes, dense, width, width)
        norm(shapes, middle, width)
        shapes[bias] = (VOCABULARY,)
    else:
        dense, out = {"bert": (root + "pooler.dense", "classifier"), "distilbert": ("pre_classifier", "classifier")}.get(
            family, ("classifier.dense", "classifier.out_proj"))
        layer(shapes, dense, width, width)
        layer(shapes, out, labels, width)


def random_weights(shapes, random):
    weights = {}
    for name, shape in shapes.items():
        values = random.standard_normal(shape)
        if len(shape) == 2:
            values *= 1.5 / shape[1] ** 0.5
        else:
            values = 0.2 * values + (1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0)
        weights[name] = values.astype(np.float32)
    return weights


def numbers(model, ids, types, written):
    """The head's numbers for a text: rows of logits or states."""
    inputs = dict(input_ids=np.array([ids]), attention_mask=np.ones((1, len(ids)), dtype="i4"))
    if types is not None:
        inputs["token_type_ids"] = np.array([types])
    if written:
        inputs["decoder_input_ids"] = np.array([written])
    outputs = model(**inputs)
    rows = np.asarray(outputs[0], dtype=np.float64)
    rows = rows[0] if rows.ndim == 3 else rows
    return [[float(f"{x:.7g}") for x in row] for row in rows.tolist()]


def main():
    for name in sys.argv[1:] or CASES:
        family, architecture, options = CASES[name]
        random = np.random.default_rng(len(name))
        config = t.AutoConfig.for_model(family, **{**SIZES.get(family, BERT), **options})
        config.architectures = [architecture]
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        config.save_pretrained(folder)
        writes = config.is_encoder_decoder
        if writes:
            shapes = encoder_decoder_shapes(family, config)
        else:
            shapes, root, width = encoder_shapes(family, config)
            head_shapes(family, architecture, shapes, root, width, config.num_labels)
        save_file(random_weights(shapes, random), folder / "model.safetensors", metadata={"format": "pt"})
        model = getattr(t, "Flax" + architecture).from_pretrained(folder)
        texts = []
        for length in LENGTHS:
            ids = random.integers(4, VOCABULARY, length).tolist()
            types = random.integers(0, 2, length).tolist() if family == "bert" else None
            written = [2] + random.integers(4, VOCABULARY, 10).tolist() if writes else []
            text = {"ids": ids, "types": types or [], "numbers": numbers(model, ids, types, written)}
            texts.append(text | {"written": written} if writes else text)
        (folder / "tokenizer.json").write_text((HERE / "opt" / "tokenizer.json").read_text())
        (folder / "golden.json").write_text(json.dumps({"texts": texts}) + "\n")
        print(name, sum(f.stat().st_size for f in folder.iterdir()), "bytes")


if __name__ == "__main__":
    main()
