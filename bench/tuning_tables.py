"""Tables of training, from the file tuning.jsonl of bench/results."""
from measurements import markdown, read


def tables(results):
    rows = read(results / "tuning.jsonl")
    return {"tuning": decoders(rows)} if rows else {}


def decoders(rows):
    """A row for each stage of a compressed decoder: its perplexity on each text, and what the stage cost."""
    texts = list(rows[0]["perplexity"])
    body = [[row["model"], f"`{row['recipe']}`", row["stage"], f"{row['bits']:.3f}",
             *(f"{row['perplexity'][text]:.2f}" for text in texts), str(row["seconds"]) if "seconds" in row else "",
             str(row["megabytes"]) if "megabytes" in row else ""] for row in rows]
    return markdown(["model", "recipe", "training", "bits/weight", *texts, "seconds", "peak MB"], body)
