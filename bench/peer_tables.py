"""Tables of accuracy beside other tools, from peers.jsonl and accuracy.jsonl of bench/results."""
from accuracy_tables import MIXED, originals
from measurements import markdown, read

TEXT = "docs"
OURS = "Nibble"
# The recipes that stand beside the other tools: those that round weights alone, or store a format that others have too.
RECIPES = {"best4", "trellis4", "gptq-w4g128", "awq-w4g128", "awq-gptq-w4g128", "rtn-w4g128", "nf4g64", "mxfp4", "nvfp4", "any4g128",
           "any4g128-gptq-refine", "rtn-w3g128", "gptq-w3g128", "any3g128-gptq-refine"}
CALIBRATED = {name for name in RECIPES if not name.startswith(("rtn-", "nf4", "mxfp4", "nvfp4"))}
# The table in short: of each tool what loses least, at about 4 and 3 bits.
SHORT = {(OURS, "best4"), (OURS, "trellis4"), (OURS, "q4_k-gptq-search"), (OURS, "any3g128-gptq-refine"),
         ("bitsandbytes", "NF4, blocks of 64, double quantization"),
         ("hqq", "4 bits, groups of 64"), ("mlx-lm", "affine, 4 bits, groups of 64"), ("llama.cpp", "IQ4_XS, imatrix"),
         ("llama.cpp", "Q4_K_S, imatrix"), ("llama.cpp", "Q3_K_S, imatrix")}


def tables(results):
    rows = read(results / "peers.jsonl")
    if not rows:
        return {}
    found = marked([peer(row) for row in rows] + ours(read(results / "accuracy.jsonl"), {row["model"] for row in rows}))
    short = [row for row in found if (row["tool"], row["setting"]) in SHORT]
    return {"peers": brief(short), "peers/all": full(found)}


def peer(row):
    return {**{field: row[field] for field in ("tool", "setting", "calibration", "version")}, "bits": float(row["bits"]),
            "increase": float(row["increase"])}


def ours(rows, models):
    """Our recipes on the models that the other tools quantized."""
    bases = originals(rows)
    return [{"tool": OURS, "setting": row["recipe"], "bits": float(row["bits"]), "version": "",
             "calibration": f"{row['samples']} windows" if row["recipe"] in CALIBRATED else "none",
             "increase": 100 * (float(row["perplexity"][TEXT]) / float(bases[row["model"]][TEXT]) - 1)}
            for row in rows if row["model"] in models and row["calibration"] == MIXED and row["recipe"] in RECIPES]


def marked(rows):
    """The rows by bits; `best` are those beside which nothing loses less with as few bits."""
    rows = sorted(rows, key=lambda row: (round(row["bits"], 3), row["increase"]))
    least = float("inf")
    for row in rows:
        row["best"] = row["increase"] < least
        least = min(least, row["increase"])
    return rows


def cells(row):
    name = f"**{OURS}** `{row['setting']}`" if row["tool"] == OURS else f"{row['tool']}: {row['setting']}"
    return [name, f"{row['bits']:.3f}", f"{row['increase']:+.2f} %"]


def brief(rows):
    return markdown(["tool and setting", "bits/weight", "increase of perplexity"], [cells(row) for row in rows])


def full(rows):
    """All rows; the loss is bold beside which nothing loses less with as few bits."""
    body = [[*cells(row), row["calibration"], row["version"]] for row in rows]
    for row, line in zip(rows, body):
        line[2] = f"**{line[2]}**" if row["best"] else line[2]
    return markdown(["tool and setting", "bits/weight", "increase of perplexity", "calibration", "version"], body)
