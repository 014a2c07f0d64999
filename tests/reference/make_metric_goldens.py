#!/usr/bin/env python3
"""Computes what other packages say about the measures of src/eval/metrics, for the tests to compare with.

Writes src/eval/goldens/metrics.json from the sentences and numbers below:
  accuracy, F1, Matthews correlation    scikit-learn
  Pearson, Spearman                     scipy
  ROUGE-1, -2, -L, -Lsum, and stems     rouge-score 0.1.2 with NLTK's Porter stemmer
  edit distance                         the recursive definition, below

    python3 tests/reference/make_metric_goldens.py
"""
import functools
import json
import pathlib

import numpy as np
from nltk.stem.porter import PorterStemmer
from rouge_score import rouge_scorer
from scipy import stats
from sklearn import metrics

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "src" / "eval" / "goldens" / "metrics.json"

CLASSES = [  # predicted, gold
    ([1, 0, 1, 1, 0, 0, 1, 0], [1, 0, 0, 1, 0, 1, 1, 0]),
    ([0, 1, 2, 2, 1, 0, 2, 1, 1], [0, 1, 1, 2, 1, 0, 0, 2, 1]),
    ([1, 1, 1, 1], [1, 0, 1, 0]),
    ([0, 0, 0], [0, 0, 0]),
    ([0, 1, 0, 1, 1], [1, 0, 1, 0, 0]),
    ([3], [3]),
]

NUMBERS = [
    ([1.0, 2.0, 3.0, 4.0, 5.0], [1.2, 1.9, 3.5, 3.4, 6.0]),
    ([0.1, 0.1, 0.4, 0.4, 0.4, 2.0], [5.0, 3.0, 3.0, 1.0, 1.0, 1.0]),
    ([1e6 + 1, 1e6 + 2, 1e6 + 4, 1e6 + 3], [-1.0, -2.5, -2.5, -9.0]),
    ([1.0, 2.0], [8.0, 3.0]),
]

SUMMARIES = [  # target, prediction
    ("The lock keeper opened the lower gates at dawn.", "At dawn the keeper opened the gates."),
    ("The boats waited in line.\nThe keeper counted them twice.\nThen the water began to rise.",
     "The water began to rise.\nThe keeper twice counted the waiting boats."),
    ("the the the cat", "the cat the cat the"),
    ("Weights are rounded, scales are stored; nothing else remains.", "Nothing else remains: scales stored, weights rounded."),
    ("It cost 3.5 bits per weight in 2024-05.", "it COST 35 bits, per-weight, in 2024 05"),
    ("", "something"),
    ("something", ""),
    ("...", "!!!"),
    ("one", "one"),
    ("one two", "two one"),
    ("Müller's façade at 300 \u212a and \u0130zmir", "m ller s fa ade at 300 K and izmir"),
    ("a b c d e f g\nh i j k\n\na c e g i k", "g f e d c b a\na b d c\nh j i k\na c e"),
    ("running runners ran easily\nflying flies flew", "the runner runs easy\nhe flies and is flying"),
    ("The committee's organizational decisions were hopefully rational.",
     "Committees organize; the decision was a hopeful rationalization."),
    ("alpha beta gamma\ngamma beta alpha", "beta gamma alpha beta"),
    ("x y x y x y x", "y x y x x"),
]

ROOTS = ["relat", "condition", "hop", "hopp", "fail", "agre", "fe", "troubl", "siz", "conflat", "happ", "enjo", "sk", "fl",
         "radic", "form", "electr", "good", "probat", "ceas", "roll", "controll", "ado", "communis", "geo", "theo", "archaeo",
         "s", "t", "ag", "us", "by", "yy", "syzyg", "to", "abl", "vietnam", "digit", "2nd", "x1"]
ENDINGS = ["", "e", "s", "es", "ies", "ied", "ed", "eed", "ing", "y", "ally", "alli", "ational", "tional", "enci", "anci",
           "izer", "bli", "abli", "entli", "eli", "ousli", "ization", "ation", "ator", "alism", "iveness", "fulness",
           "ousness", "aliti", "iviti", "biliti", "fulli", "logi", "logy", "icate", "ative", "alize", "iciti", "ical", "ful",
           "ness", "al", "ance", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "sion", "tion", "ion", "ou", "ism",
           "ate", "iti", "ous", "ive", "ize", "ll", "lle", "sses", "ss"]
WHOLE = ["sky", "skies", "dying", "lying", "tying", "news", "innings", "inning", "outings", "outing", "cannings", "canning",
         "howe", "proceed", "exceed", "succeed", "dies", "died", "spied", "ties", "fizzing", "hissed", "falling", "aging",
         "box", "boxing", "snowed", "aaaa", "yyyy", "zzzz", "is", "be", "a"]

WORD_LISTS = [  # predicted, gold
    ("the cat sat on the mat", "the cat sat on a mat"),
    ("", "three words here"),
    ("three words here", "three"),
    ("b c d e f", "a b c d e"),
    ("same words", "same words"),
    ("kitten  sitting\tat\nhome", "sitting kitten at home alone"),
    ("a b a b a b", "b a b a b a c"),
]


def numbers_of(score) -> list[float]:
    return [score.precision, score.recall, score.fmeasure]


def edit_distance(a: list[str], b: list[str]) -> int:
    @functools.cache
    def distance(i: int, j: int) -> int:  # of the first i and the first j words
        if i == 0 or j == 0:
            return i + j
        return min(distance(i - 1, j) + 1, distance(i, j - 1) + 1, distance(i - 1, j - 1) + (a[i - 1] != b[j - 1]))

    return distance(len(a), len(b))


def class_rows() -> list[dict]:
    return [{"predicted": predicted, "gold": gold,
             "accuracy": float(metrics.accuracy_score(gold, predicted)),
             "f1": float(metrics.f1_score(gold, predicted, labels=[1], average="macro", zero_division=0)),
             "matthews": float(metrics.matthews_corrcoef(gold, predicted))} for predicted, gold in CLASSES]


def rouge_rows() -> list[dict]:
    kinds = ["rouge1", "rouge2", "rouge3", "rougeL", "rougeLsum"]
    scorers = {stem: rouge_scorer.RougeScorer(kinds, use_stemmer=stem) for stem in (False, True)}
    rows = []
    for target, prediction in SUMMARIES:
        row = {"target": target, "prediction": prediction}
        for stem, scorer in scorers.items():
            scores = scorer.score(target, prediction)
            row["stemmed" if stem else "plain"] = {kind: numbers_of(scores[kind]) for kind in kinds}
        rows.append(row)
    return rows


def stems() -> list[list[str]]:
    """Every root with every ending would be many; each root takes every fifth ending, in turn."""
    words = WHOLE + [root + end for i, root in enumerate(ROOTS) for j, end in enumerate(ENDINGS) if (i + j) % 5 == 0]
    stemmer = PorterStemmer()
    return [[word, stemmer.stem(word)] for word in words]


def main() -> None:
    golden = {
        "classes": class_rows(),
        "numbers": [{"x": x, "y": y, "pearson": float(stats.pearsonr(x, y).statistic),
                     "spearman": float(stats.spearmanr(np.array(x), np.array(y)).statistic)} for x, y in NUMBERS],
        "rouge": rouge_rows(),
        "stems": stems(),
        "edits": [{"predicted": p, "gold": g, "edits": edit_distance(p.split(), g.split()), "words": len(g.split())}
                  for p, g in WORD_LISTS],
    }
    GOLDEN.parent.mkdir(parents=True, exist_ok=True)
    lines = [f' "{key}": [\n' + ",\n".join("  " + json.dumps(row) for row in rows) + "\n ]"
             for key, rows in golden.items() if key != "stems"]
    pairs = [json.dumps(pair) for pair in golden["stems"]]
    rows = [", ".join(pairs[i : i + 6]) for i in range(0, len(pairs), 6)]
    lines.append(' "stems": [\n' + ",\n".join("  " + row for row in rows) + "\n ]")
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
