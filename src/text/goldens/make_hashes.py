#!/usr/bin/env python3
"""Writes hashes.json: what Hugging Face's tokenizers and SentencePiece make of whole texts.

For each tokenizer and text: the number of ids and a 64-bit FNV-1a hash over the ids as little-endian
32-bit numbers, and for decoding the hash over the bytes of the decoded text.

    python make_hashes.py SHARED hashes.json

SHARED is the folder with `models/` and `data/`.
"""
import array
import json
import pathlib
import sys

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers)
from spm_fields import charsmap


def fnv1a(data: bytes) -> str:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def hash_ids(ids) -> str:
    return fnv1a(array.array("I", ids).tobytes())


def row(encode, decode, text: str) -> dict:
    ids = encode(text)
    return {"count": len(ids), "ids": hash_ids(ids), "text": fnv1a(decode(ids).encode())}


def huggingface(tokenizer: Tokenizer):
    return (lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
            lambda ids: tokenizer.decode(ids, skip_special_tokens=False))


def gpt2(folder: pathlib.Path) -> Tokenizer:
    vocab = json.loads((folder / "encoder.json").read_text())
    lines = (folder / "vocab.bpe").read_text().split("\n")
    merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=False)])
    return tokenizer


def bert(path: pathlib.Path) -> Tokenizer:
    vocab = {line.rstrip("\n"): i for i, line in enumerate(path.open(encoding="utf-8"))}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    tokenizer.add_special_tokens(["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"])
    return tokenizer


def unigram(path: pathlib.Path) -> Tokenizer:
    """A SentencePiece unigram model as transformers converts it to a tokenizer.json."""
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    vocab = [(model.id_to_piece(i), model.get_score(i)) for i in range(model.get_piece_size())]
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=model.unk_id()))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Precompiled(charsmap(path.read_bytes())),
        normalizers.Strip(left=False, right=True),
        normalizers.Replace(Regex(" {2,}"), "\u2581")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    return tokenizer


def main() -> None:
    shared = pathlib.Path(sys.argv[1])
    texts = {path.name: path.read_bytes().decode()
             for path in sorted((shared / "data/text").iterdir()) if path.suffix in (".txt", ".raw")}
    botchan = (shared / "data/tokenizers/sentencepiece/botchan.txt").read_bytes().decode()
    texts["botchan.txt"] = botchan
    named = {name: Tokenizer.from_file(str(shared / "models" / name / "tokenizer.json"))
             for name in ("demo-7m", "lm-26m", "lm-gpt2-17m", "bert-7m-sst2")}
    named["gpt2"] = gpt2(shared / "data/tokenizers/gpt2")
    named["bert-base-uncased"] = bert(shared / "data/tokenizers/bert-base-uncased/vocab.txt")
    result = {}
    for name, tokenizer in named.items():
        result[name] = {text: row(*huggingface(tokenizer), content) for text, content in texts.items()}
    for name in ("test_model", "test_ja_model"):
        path = shared / f"data/tokenizers/sentencepiece/{name}.model"
        result[f"unigram {name}"] = {"botchan.txt": row(*huggingface(unigram(path)), botchan)}
    pathlib.Path(sys.argv[2]).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
