#!/usr/bin/env python3
"""Writes the small tokenizers of this folder and what Hugging Face's tokenizers and SentencePiece do
with them:

    tokenizers/NAME.json      trained on prose.txt, one for each shape that model families use
    sentencepiece/NAME.model  likewise
    cases.json                for each of them: texts and their ids, ids and their texts
    components.json           for single normalizers, pre-tokenizers and decoders: inputs and outputs

    python make_tokenizers.py          (in this folder)
"""
import json
import pathlib
import random
import tempfile

import sentencepiece
from spm_fields import charsmap
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

HERE = pathlib.Path(__file__).resolve().parent
PROSE = (HERE / "prose.txt").read_text(encoding="utf-8")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPACE = "\u2581"

TEXTS = [
    "", " ", "  ", "a", "Hello", " Hello", "  Hello", "Hello ", "Hello  world", "\n", "\n\n", " \n ", "\t\t x",
    "Hello, y'all! How're you? IT'S 12345678 o'clock.", "don't  DON'T\r\nwe'll", "the tokenizer cuts a text",
    "résumé naïve Ångström Straße e\u0301\u0323 ﬁ ＡＢＣ ① ½ İstanbul ΑΣ", "x\u0000y\u0001\u200b\u00ad\u200d\ufeffz\ufffd",
    "敏捷的狐狸,jumps 素早い狐 カタカナ 빠른 여우", "🙂🚀👩‍👩‍👧 👍🏽🇩🇪 ❤️ 🫠", "नमस्ते हैं। १२३ ١٢٣", "Б\u0306ыстрая ЛИСА",
    "<s>Hello</s> <unk> <|eot|>x <mask>  y [CLS] a [SEP]b[MASK]", " <s> ", "<s><s>", "yesterday Monday mondays aMONDAY  monday ",
    "    for (i = 0; i < n; ++i) {\n\t\tsum += x[i];\n    }\n", "a\u3000b\u00a0c\u2028d\u0085e\u180ef\u2003g", "1,000,000.50% $9.99 0x1F",
    "a▁b ▁ ▁▁c", "<0x41><0xE2> Ġa Ċ", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" * 3, "''quoted'' ``ticks`` … – —",
    "http://example.org/a_b?c=d&e#f mail@x.y C:\\temp", "\ue000 \U000e0001 \u0378 \uffff", "ab\u0301\u0302c\u20dd", "the\n\n\nend   ",
]


def special(*names, **flags):
    return [AddedToken(name, normalized=False, special=True, **flags) for name in names]


def train(model, trainer_class, pre=None, norm=None, size=320, specials=(), text=PROSE, **options):
    tokenizer = Tokenizer(model)
    if norm is not None:
        tokenizer.normalizer = norm
    if pre is not None:
        tokenizer.pre_tokenizer = pre
    trainer = trainer_class(vocab_size=size, special_tokens=list(specials), show_progress=False, **options)
    tokenizer.train_from_iterator(text.split("\n"), trainer)
    return tokenizer


def template(tokenizer, single, *names):
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=single + " $B:1", special_tokens=[(n, tokenizer.token_to_id(n)) for n in names])


def byte_level(pattern, specials, size=480, ignore_merges=False, norm=None, splits=None):
    splits = splits or [pre_tokenizers.Split(Regex(pattern), "isolated")]
    pre = pre_tokenizers.Sequence(splits + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer = train(models.BPE(), trainers.BpeTrainer, pre, norm, size,
                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special(*specials))
    if ignore_merges:
        content = json.loads(tokenizer.to_str())
        content["model"]["ignore_merges"] = True
        tokenizer = Tokenizer.from_str(json.dumps(content))
    return tokenizer


def llama2(prefix):
    """Llama 2: merges over whole texts with visible spaces, bytes for what is unknown."""
    bytes_ = [f"<0x{i:02X}>" for i in range(256)]
    trained = train(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True), trainers.BpeTrainer,
                    pre_tokenizers.Metaspace(prepend_scheme="always"), size=560,
                    specials=["<unk>", "<s>", "</s>"] + bytes_, limit_alphabet=70)
    content = json.loads(trained.to_str())
    content["added_tokens"] = [token for token in content["added_tokens"] if token["id"] < 3]
    tokenizer = Tokenizer.from_str(json.dumps(content))
    if prefix == "normalizer":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
        tokenizer.pre_tokenizer = None
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    template(tokenizer, "<s> $A", "<s>")
    return tokenizer


def roberta():
    pre = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer = train(models.BPE(), trainers.BpeTrainer, pre, size=400, specials=["<s>", "</s>", "<unk>"],
                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.add_special_tokens(special("<mask>", lstrip=True))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    return tokenizer


def bert():
    tokenizer = train(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=50), trainers.WordPieceTrainer,
                      pre_tokenizers.BertPreTokenizer(), normalizers.BertNormalizer(), 300,
                      ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], limit_alphabet=80)
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokenizer


def t5(charsmap):
    tokenizer = train(models.Unigram(), trainers.UnigramTrainer, pre_tokenizers.Metaspace(prepend_scheme="always"),
                      normalizers.Sequence([normalizers.Precompiled(charsmap), normalizers.Strip(left=False),
                                            normalizers.Replace(Regex(" {2,}"), " ")]),
                      300, ["<pad>", "</s>", "<unk>"], "\n".join(PROSE.split("\n")[:26]), unk_token="<unk>")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    template(tokenizer, "$A </s>", "</s>")
    return tokenizer


def unigram_bytes():
    vocab = [("<unk>", 0.0)] + [(f"<0x{i:02X}>", -20.0) for i in range(256)]
    vocab += [(SPACE, -3.0), (SPACE + "the", -2.5), ("tok", -4.0), ("en", -3.5), ("token", -7.0), ("iz", -4.5),
              ("er", -3.25), ("s", -3.0), ("t", -4.0), ("e", -3.0), ("a", -3.0), (SPACE + "a", -3.5), ("o", -3.1), ("n", -3.3)]
    tokenizer = Tokenizer(models.Unigram(vocab, unk_id=0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="never")])
    return tokenizer


def word_level():
    norm = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    return train(models.WordLevel(unk_token="[UNK]"), trainers.WordLevelTrainer, pre_tokenizers.Whitespace(), norm,
                 250, ["[UNK]"])


def clip_like():
    """Merges over characters, the last of a word marked; no decoder."""
    pre = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("merged_with_previous"),
                                   pre_tokenizers.Digits(individual_digits=True)])
    return train(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=False), trainers.BpeTrainer, pre,
                 normalizers.NFKC(), 300, ["<unk>"], end_of_word_suffix="</w>", limit_alphabet=60)


def continuing_prefix():
    vocab = {"<unk>": 0, "a": 1, "b": 2, "##a": 3, "##b": 4, "ab": 5, "##ab": 6, "abab": 7, "##c": 8}
    merges = [("##a", "##b"), ("a", "##b"), ("ab", "##ab")]
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, continuing_subword_prefix="##"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    return tokenizer


def added_zoo():
    tokenizer = byte_level(QWEN2, ["<s>", "</s>"], 300, norm=normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()]))
    tokenizer.add_tokens([
        AddedToken("Monday", normalized=True, single_word=True), AddedToken("yester", normalized=True),
        AddedToken("yesterday", normalized=False, lstrip=True), AddedToken("  ", normalized=False),
        AddedToken("<mask>", normalized=False, lstrip=True, rstrip=True), AddedToken("day", normalized=True, rstrip=True),
        AddedToken("<|eot|>", normalized=False, single_word=True)])
    return tokenizer


def deepseek():
    split = lambda pattern: pre_tokenizers.Split(Regex(pattern), "isolated")
    return byte_level(None, ["<s>", "</s>"], 400, splits=[
        split(r"[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split("[一-龥ࠀ-一가-퟿]+"),
        pre_tokenizers.Digits(individual_digits=True)])


def make_sentencepiece(folder):
    """Two models with rules of our own (so that their table is small), and one that keeps all spaces."""
    rules = [("ﬁ", "fi"), ("①", "1"), ("½", "1/2"), ("Ａ", "A"), ("Ｂ", "B"), ("\u3000", " "), ("\t", " "), ("\n", " "),
             ("\u00a0", " "), ("é", "e"), ("e\u0301", "e"), ("…", "..."), ("\u200b", ""), ("\u00ad", "")]
    lines = ["%s\t%s" % (" ".join("%X" % ord(c) for c in a), " ".join("%X" % ord(c) for c in b)) for a, b in rules]
    with tempfile.TemporaryDirectory() as temporary:
        tsv = pathlib.Path(temporary) / "rules.tsv"
        tsv.write_text("\n".join(lines) + "\n")
        common = dict(input=str(HERE / "prose.txt"), minloglevel=2, num_threads=1)
        sentencepiece.SentencePieceTrainer.train(
            model_prefix=str(folder / "unigram"), model_type="unigram", vocab_size=330, normalization_rule_tsv=str(tsv),
            user_defined_symbols=["<sep>", "ﬁ①"], control_symbols=["<ctl>"], character_coverage=0.98, **common)
        sentencepiece.SentencePieceTrainer.train(
            model_prefix=str(folder / "bpe"), model_type="bpe", vocab_size=700, byte_fallback=True,
            normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=0.98,
            user_defined_symbols=["<sep>"], **common)
        sentencepiece.SentencePieceTrainer.train(
            model_prefix=str(folder / "gemma"), model_type="bpe", vocab_size=700, byte_fallback=True,
            normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=0.98,
            add_dummy_prefix=False, split_digits=True, allow_whitespace_only_pieces=True,
            user_defined_symbols=["\u2581\u2581", "\u2581\u2581\u2581\u2581", "\n\n"], pad_id=3, **common)
    for name in ("unigram", "bpe", "gemma"):
        (folder / f"{name}.vocab").unlink()


def id_lists(size: int):
    generator = random.Random(1)
    return [[generator.randrange(size + 3) for _ in range(generator.randrange(1, 24))] for _ in range(24)]


def tokenizer_cases(tokenizer):
    cases = {"encode": [], "decode": []}
    for text in TEXTS:
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        around = tokenizer.encode(text, add_special_tokens=True).ids
        tokenizer.encode_special_tokens = True
        unparsed = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        cases["encode"].append({"ids": plain, "special": around, "unparsed": unparsed})
    lists = [case["ids"] for case in cases["encode"]] + id_lists(tokenizer.get_vocab_size())
    for ids in lists:
        cases["decode"].append({"ids": ids, "all": tokenizer.decode(ids, skip_special_tokens=False),
                                "text": tokenizer.decode(ids, skip_special_tokens=True)})
    return cases


def sentencepiece_cases(path):
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [model.encode(text) for text in TEXTS]


def decoded(decoder, stream):
    """None where the decoder panics (Strip on a token that is shorter than what it may cut)."""
    try:
        return decoder.decode(stream)
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return None


def component_cases():
    texts = TEXTS[1:12] + TEXTS[13:22] + TEXTS[25:31] + TEXTS[32:]
    norms = [normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD(), normalizers.Lowercase(),
             normalizers.StripAccents(), normalizers.Strip(), normalizers.Strip(left=False, right=True),
             normalizers.Nmt(), normalizers.Replace(" ", SPACE), normalizers.Replace(Regex(r"\s+"), "_"),
             normalizers.Replace(Regex("x*"), "-"), normalizers.Prepend("ab"), normalizers.BertNormalizer(),
             normalizers.BertNormalizer(lowercase=False), normalizers.BertNormalizer(strip_accents=False, clean_text=False),
             normalizers.BertNormalizer(handle_chinese_chars=False, strip_accents=True, lowercase=False), normalizers.ByteLevel(),
             normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])]
    behaviors = ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")
    pres = [pre_tokenizers.Split(" ", b, invert=i) for b in behaviors for i in (False, True)]
    pres += [pre_tokenizers.Split(Regex(r"\p{L}+|\d"), b, invert=i) for b in behaviors for i in (False, True)]
    pres += [pre_tokenizers.Split(Regex(p), "isolated") for p in (
        LLAMA3, QWEN2, GPT4O, r"\s+$", r"^\w", r"\w+\b", r"[^\W\d]+", r"[\S]+", r"\h+", r"(?=\w)", r"\p{N}{1,3}+", "a{,2}l{2}?",
        r"\p{Han}+|\p{^L}+", r"(?m:.+)", r"[[:alpha:]]+|[[:space:]]", r"\u0041|\x41|\x{42}", r"(?<q>['\"`])\k<q>", r"(?i)the|A",
        r"[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+", r"(?<=e)l|(?<!e)o(?>x|y)?",
        r" ?[^(\s|.,!?…。，、।۔،)]+", r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+", "")]
    pres += [pre_tokenizers.ByteLevel(add_prefix_space=p, use_regex=r) for p in (True, False) for r in (True, False)]
    pres += [pre_tokenizers.Metaspace(prepend_scheme=s, split=c) for s in ("first", "never", "always") for c in (True, False)]
    pres += [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Whitespace(), pre_tokenizers.WhitespaceSplit(),
             pre_tokenizers.Digits(True), pre_tokenizers.Digits(False), pre_tokenizers.Punctuation(),
             pre_tokenizers.Punctuation("removed"),
             pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="first")]),
             pre_tokenizers.Sequence([pre_tokenizers.Split("H", "removed"), pre_tokenizers.Metaspace(prepend_scheme="first")])]
    decs = [decoders.ByteLevel(), decoders.Metaspace(), decoders.Metaspace(prepend_scheme="never"), decoders.WordPiece(),
            decoders.WordPiece(prefix="", cleanup=False), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip("a", 2, 1),
            decoders.Replace(SPACE, " "), decoders.Replace(Regex("[ab]+"), "<>"),
            decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]),
            decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 2, 2)]),
            decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])]
    streams = [["Hello"], [SPACE + "Hello", SPACE, "wor", "##ld", " .", "ba", "aab", "aaaa"], ["<0xE2>", "<0x82>", "<0xAC>", "x"],
               ["<0xE2>", "<0x82>", "x", "<0x41>"], ["<0x20>", "  a  ", " b", "aa", " "], ["Ġthe", "ĠâĤ", "¬", "Ã", "x", "Ã"],
               ["ð", "Ł", "Ļ", "Ĥ"], ["ð", "ŁĻ"], ["<0xc3>", "<0xA9>", "<0xFF>"], ["you", "do", "n't", "'m", " do not", "!"],
               [" ", " ", "x", " ", " "], ["敏", SPACE + "捷" + SPACE, "▁▁"], ["ï", "¿", "½", "ĊĊ", "é"]]
    to_json = lambda part: json.loads(part.__getstate__())
    return {
        "texts": texts, "streams": streams,
        "normalizers": [{"json": to_json(n), "out": [n.normalize_str(t) for t in texts]} for n in norms],
        "pre_tokenizers": [{"json": to_json(p), "out": [[w for w, _ in p.pre_tokenize_str(t)] for t in texts]} for p in pres],
        "decoders": [{"json": to_json(d), "out": [decoded(d, s) for s in streams]} for d in decs]}


def main() -> None:
    for folder in ("tokenizers", "sentencepiece"):
        (HERE / folder).mkdir(exist_ok=True)
    make_sentencepiece(HERE / "sentencepiece")
    table = charsmap((HERE / "sentencepiece/unigram.model").read_bytes())
    llama3 = byte_level(LLAMA3, ["<s>", "<|eot|>"], ignore_merges=True)
    llama3.post_processor = processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", llama3.token_to_id("<s>"))])])
    tokenizers = {
        "llama2": llama2("normalizer"), "llama2_metaspace": llama2("metaspace"), "llama3": llama3,
        "qwen2": byte_level(QWEN2, ["<s>", "<|eot|>"], norm=normalizers.NFC()),
        "gpt4o": byte_level(GPT4O, ["<s>"]), "deepseek": deepseek(), "roberta": roberta(), "bert": bert(),
        "t5": t5(table), "unigram_bytes": unigram_bytes(), "word_level": word_level(),
        "clip_like": clip_like(), "continuing_prefix": continuing_prefix(), "added_zoo": added_zoo()}
    cases = {"texts": TEXTS, "tokenizers": {}, "sentencepiece": {}}
    for name, tokenizer in tokenizers.items():
        content = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
        (HERE / f"tokenizers/{name}.json").write_text(content + "\n", encoding="utf-8")
        cases["tokenizers"][name] = tokenizer_cases(Tokenizer.from_str(content))
    for path in sorted((HERE / "sentencepiece").glob("*.model")):
        cases["sentencepiece"][path.stem] = sentencepiece_cases(path)
    dump = lambda value: json.dumps(value, separators=(",", ":")) + "\n"
    (HERE / "cases.json").write_text(dump(cases))
    (HERE / "components.json").write_text(dump(component_cases()))


if __name__ == "__main__":
    main()
