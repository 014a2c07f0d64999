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
    speeds = read(results / "tuning_speed.jsonl")
    for stage, table in (("demo", demo_speeds), ("bqpo", block_speeds), ("e2e-oqp", model_speeds)):
        if own := [row for row in speeds if row["stage"] == stage]:
            found[f"tuning-speed/{stage}"] = table(own)
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


def demo_speeds(rows):
    """A row for each device and precision that trained the demo model: its perplexity, and the seconds of the command."""
    body = [[f"`{row['trained']}`", row["device"], row["precision"], f"{row['perplexity']:.2f}", f"{row['seconds']:.1f}"] for row in rows]
    return markdown(["`--stage`", "device", "products in", "evaluation", "seconds"], body)


def block_speeds(rows):
    """A row for each shape and program: a step of one block, and what that makes of all blocks, where it was measured."""
    def hours(row, epochs):
        return f"{row[f'hours_of_{epochs}_epochs']:.1f}" if f"hours_of_{epochs}_epochs" in row else ""

    body = [[row["shape"], row["program"], row["precision"], f"{1000 * row['seconds_per_step']:.1f}", f"{row['tokens_per_s']:,.0f}",
             f"{row['peak_gib']:.1f}", hours(row, 2), hours(row, 5)] for row in rows]
    return markdown(["shape", "program", "products in", "ms a step", "tokens/s", "peak GiB", "hours of all blocks, 2 epochs", "5 epochs"],
                    body)


def model_speeds(rows):
    """A row for each shape: steps of models of two and of four layers, and of all layers by the line through both."""
    body = [[row["shape"], row["precision"], *(f"{1000 * part['seconds_per_step']:.0f}" for part in (row, row["four_layers"])),
             *(f"{part['peak_gib']:.1f}" for part in (row, row["four_layers"])), f"{row['seconds_per_step_of_all']:.2f}",
             f"{row['peak_gib_of_all']:.0f}", f"{row['minutes_of_50_steps']:.1f}"] for row in rows]
    return markdown(["shape", "products in", "ms a step, 2 layers", "4 layers", "GiB, 2 layers", "4 layers", "s a step, all layers", "GiB",
                     "minutes of 50 steps"], body)
