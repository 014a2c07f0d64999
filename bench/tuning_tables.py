"""Tables of training, from the files tuning.jsonl, students.jsonl, writers.jsonl, writer_losses.jsonl and tuning_speed.jsonl of
bench/results."""
from measurements import markdown, read


def tables(results):
    found = {}
    rows = read(results / "tuning.jsonl")
    for model in {row["model"] for row in rows}:
        found[f"tuning/{model}"] = decoders([row for row in rows if row["model"] == model])
    students = read(results / "students.jsonl")
    for task in {row["task"] for row in students}:
        found[f"students/{task}"] = encoders([row for row in students if row["task"] == task])
    written = read(results / "writers.jsonl")
    for model in {row["model"] for row in written}:
        found[f"writers/{model}"] = writers([row for row in written if row["model"] == model])
    losses = read(results / "writer_losses.jsonl")
    for model in {row["model"] for row in losses}:
        found[f"losses/{model}"] = writer_losses([row for row in losses if row["model"] == model])
    return found


def decoders(rows):
    """A row for each stage of a compressed decoder: its perplexity on each text, and what the stage cost."""
    texts = list(rows[0]["perplexity"])
    costs = {name: title for name, title in (("seconds", "seconds"), ("megabytes", "peak MB")) if any(name in row for row in rows)}
    body = [[f"`{row['recipe']}`", row["stage"], f"{row['bits']:.3f}",
             *(f"{row['perplexity'][text]:.2f}" for text in texts), *(str(row.get(name, "")) for name in costs)] for row in rows]
    return markdown(["recipe", "training", "bits/weight", *texts, *costs.values()], body)


def encoders(rows):
    """A row for each way to make an encoder of a task: its measure on the dev set, behind the last epoch and in the best."""
    body = [[row["training"], f"`{row['recipe']}`", f"`{row['kd']}`" if "kd" in row else "", f"{row['value']:.4f}",
             f"{row['best']:.4f}" if "best" in row else "", str(row.get("seconds", ""))] for row in rows]
    return markdown(["training", "recipe", "`--kd`", rows[0]["measure"], "best epoch", "seconds"], body)


def writers(rows):
    """A row for each form of an encoder-decoder: what it writes as it is cut and rounded, and behind training."""
    def percent(share):
        return f"{100 * float(share):.1f}"

    order = [*dict.fromkeys(row["layers"] for row in sorted(rows, key=lambda row: -sum(map(int, row["layers"].split("-")))))]
    body = []
    for row in sorted(rows, key=lambda row: (order.index(row["layers"]), "pairs" in row)):
        trained = "pairs" in row
        before = row["before"] if trained else row
        body.append([row["layers"], f"`{row['recipe']}`", percent(before["word_accuracy"]), percent(before["per"]),
                     *([percent(row["word_accuracy"]), percent(row["per"]), f"{row['pairs']:,}", f"{row['steps']:,}", row["lr"],
                        f"{row['seconds']} × {row['threads']}"] if trained else [""] * 6)])
    return markdown(["layers", "recipe", "words right, %", "phoneme errors, %", "trained: words right, %", "phoneme errors, %", "pairs",
                     "steps", "`--lr`", "seconds × threads"], body)


def writer_losses(rows):
    """A row for each loss that an encoder-decoder of all layers learned from, and each rate."""
    body = [[f"`{row['kd']}`", row["lr"], f"{100 * row['word_accuracy']:.1f}", f"{100 * row['per']:.1f}", str(row["seconds"])]
            for row in rows]
    return markdown(["`--kd`", "`--lr`", "words right, %", "phoneme errors, %", "seconds"], body)
