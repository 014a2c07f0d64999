"""Tables of training, from the files tuning.jsonl and students.jsonl of bench/results."""
from measurements import markdown, read


def tables(results):
    found = {}
    rows = read(results / "tuning.jsonl")
    if rows:
        found["tuning"] = decoders(rows)
    students = read(results / "students.jsonl")
    for task in {row["task"] for row in students}:
        found[f"students/{task}"] = encoders([row for row in students if row["task"] == task])
    return found


def decoders(rows):
    """A row for each stage of a compressed decoder: its perplexity on each text, and what the stage cost."""
    texts = list(rows[0]["perplexity"])
    body = [[row["model"], f"`{row['recipe']}`", row["stage"], f"{row['bits']:.3f}",
             *(f"{row['perplexity'][text]:.2f}" for text in texts), str(row["seconds"]) if "seconds" in row else "",
             str(row["megabytes"]) if "megabytes" in row else ""] for row in rows]
    return markdown(["model", "recipe", "training", "bits/weight", *texts, "seconds", "peak MB"], body)


def encoders(rows):
    """A row for each way to make an encoder of a task: its measure on the dev set, behind the last epoch and in the best."""
    body = [[row["training"], f"`{row['recipe']}`", f"`{row['kd']}`" if "kd" in row else "", f"{row['value']:.4f}",
             f"{row['best']:.4f}" if "best" in row else "", str(row.get("seconds", ""))] for row in rows]
    return markdown(["training", "recipe", "`--kd`", rows[0]["measure"], "best epoch", "seconds"], body)
