"""Tables of accuracy, from the files accuracy.jsonl, compare.jsonl, granularity.jsonl, agreement.jsonl, tasks.jsonl and
few_bits.jsonl of bench/results."""
import math

from measurements import markdown, read

ORIGINAL = "original"
MIXED = "mixed"  # the calibration of the tables by preset
# What docs/accuracy.md shows of each model; the tables `presets/...` have all.
SHOWN = {"w8a8", "llm-int8", "smoothquant-w8a8", "any4g128", "nvfp4", "atom-rot-w4a4", "nf4g64", "best4", "trellis4", "q6_k",
         "q4_k-gptq-search", "iq4_nl-gptq-search", "q4_k", "gptq-w4g128", "awq-w4g128", "rtn-w4g128", "gptq-w3g128"}
IN_FULL_ONLY = {"demo-7m-twin"}


def tables(results):
    rows = read(results / "accuracy.jsonl")
    found = {}
    for model in originals(rows):
        found[f"presets/{model}"] = presets(rows, model)
        if model not in IN_FULL_ONLY:
            found[f"accuracy/{model}"] = presets([row for row in rows if row["recipe"] in SHOWN | {ORIGINAL}], model)
    if any(row["calibration"] != MIXED for row in rows):
        found["calibrations"] = calibrations(rows)
    compared = read(results / "compare.jsonl")
    if compared:
        found["compare"] = comparison(compared)
    granularities = read(results / "granularity.jsonl")
    if granularities:
        found["granularity"] = granularity(granularities)
    few = read(results / "few_bits.jsonl")
    for model in originals(few):
        of_model = [row for row in few if row["model"] == model and "refused" not in row]
        sparse = [row for row in of_model if row["recipe"].startswith("gqsa-")]
        found[f"few-bits/{model}"] = few_bits(row for row in of_model if row not in sparse)
        if sparse:
            found[f"few-bits/gqsa/{model}"] = few_bits(sparse)
    agreements = read(results / "agreement.jsonl")
    if agreements:
        found["agreement"] = agreement(agreements)
    scored = read(results / "tasks.jsonl")
    if scored:
        found["tasks"] = scores(scored)
    return found


# ---------------------------------------------------------------- presets of several models

def increase(perplexity, original):
    percent = 100 * (float(perplexity) / float(original) - 1)
    return "lost" if not math.isfinite(percent) or percent >= 1000 else f"{percent:+.2f}"


def originals(rows):
    return {row["model"]: row["perplexity"] for row in rows if row["recipe"] == ORIGINAL}


def by_size_and_divergence(row):
    return -row.get("bits", 0), row.get("as_run", {}).get("kl", 0)


def presets(rows, model):
    """A row for each recipe that was measured on a model with the mixed calibration text."""
    base = originals(rows)[model]
    first = next(iter(base))
    body = [[f"`{ORIGINAL}`", "16", *(f"{value:.4f}" for value in base.values()), "", "", ""]]
    for row in sorted(rows, key=by_size_and_divergence):
        if row["model"] != model or row["calibration"] != MIXED or row["recipe"] == ORIGINAL:
            continue
        name = f"`{row['recipe']}`"
        if "refused" in row:
            body.append([name, "refused", *[""] * (len(base) + 3)])
            continue
        as_run = row["as_run"]
        body.append([name, f"{row['bits']:.3f}", *(increase(row["perplexity"][text], base[text]) for text in base),
                     increase(as_run["perplexity"], base[first]), f"{as_run['kl']:.4f} ± {as_run['kl_error']:.4f}",
                     f"{100 * as_run['top1']:.1f}"])
    return markdown(["recipe", "bits/weight", *base, f"{first}, as run", "KL", "top-1 %"], body)


def calibrations(rows):
    """Recipes that were calibrated on other texts too: a row for each calibration, a column for each test text."""
    bases = originals(rows)
    several = {(row["model"], row["recipe"]) for row in rows if row["calibration"] != MIXED}
    body = []
    for row in sorted(rows, key=lambda row: (row["model"], row["recipe"], row["calibration"])):
        if (row["model"], row["recipe"]) in several and "perplexity" in row and row["recipe"] != ORIGINAL:
            base = bases[row["model"]]
            body.append([row["model"], f"`{row['recipe']}`", row["calibration"],
                         *(increase(row["perplexity"][text], base[text]) for text in base)])
    return markdown(["model", "recipe", "calibrated on", *next(iter(bases.values()))], body)


# ---------------------------------------------------------------- nibble compare

def comparison(rows):
    """All that `nibble compare` prints of accuracy and size."""
    body = [[f"`{row['recipe']}`", f"{row['perplexity']:.4f}", f"{row['increase']:+.2f} ± {row['increase_error']:.2f} %",
             f"{row['kl']:.5f} ± {row['kl_error']:.5f}", f"{row['top1']:.2f} ± {row['top1_error']:.2f} %",
             f"{row['bits']:.3f}", f"{row['megabytes']:.2f}"] for row in rows]
    return markdown(["recipe", "perplexity", "increase", "KL", "top-1", "bits/weight", "weights MB"], body)


def granularity(rows):
    """What shares a scale: the whole matrix, a row, or a group of a row."""
    body = [[f"`{row['scheme']}`", row["shares"], f"{row['bits']:.2f}", f"{row['squared_error']:.2e}", f"{row['perplexity']:.2f}",
             f"{row['increase']:+.2f} %", f"{row['kl']:.4f}"] for row in rows]
    return markdown(["scheme", "a scale for", "bits/weight", "squared error", "perplexity", "increase", "KL"], body)


# ---------------------------------------------------------------- nibble tasks

def scores(rows):
    """A row for each model and recipe, a column for each task: percent of the items, normalized where the task has that."""
    def cell(task):
        value = "acc_norm" if "acc_norm" in task else "acc"
        return f"{100 * task[value]:.1f} ± {100 * task[value + '_stderr']:.1f}"

    names = [task["task"] for task in rows[0]["tasks"]]
    body = [[row["model"], f"`{row['recipe']}`", *(cell(task) for task in row["tasks"])] for row in rows]
    return markdown(["model", "recipe", *(f"`{name}`" for name in names)], body)


# ---------------------------------------------------------------- fewer than four bits, pruned weights, fewer blocks

def bits_of_original(row):
    """Bits of all blocks for each weight of the original's."""
    left, all_blocks = row.get("blocks", [1, 1])
    return row["bits"] * left / all_blocks


def few_bits(rows):
    """A row for each recipe: bits, perplexities, and percent of the items of each task."""
    ordered = sorted(rows, key=lambda row: (-bits_of_original(row), row["perplexity"]["docs"]))
    body = [[f"`{row['recipe']}`", f"{bits_of_original(row):.3f}", *(f"{value:.2f}" for value in row["perplexity"].values()),
             *(f"{100 * share:.1f}" for share in row["tasks"].values())] for row in ordered]
    return markdown(["recipe", "bits/weight", *ordered[0]["perplexity"], *(f"`{task}`" for task in ordered[0]["tasks"])], body)


# ---------------------------------------------------------------- the float models

def agreement(rows):
    """Perplexities of original models, here and in transformers."""
    body = [[row["model"], row["family"], row["text"], f"{row['perplexity']:.4f}", f"{row['transformers']:.4f}"]
            for row in rows]
    return markdown(["model", "family", "text", "perplexity here", "transformers"], body)
