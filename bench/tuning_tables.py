"""Tables of training, from the files tuning.jsonl, decoder_students.jsonl, students.jsonl, writers.jsonl, writer_losses.jsonl and
tuning_speed.jsonl of bench/results."""
from measurements import markdown, read


def tables(results):
    found = {}
    rows = read(results / "tuning.jsonl")
    for model in {row["model"] for row in rows}:
        own = [row for row in rows if row["model"] == model]
        if all("steps" in row for row in own):
            for name, table in (("", stages), ("one-shot/", one_shot), ("tried/", tried)):
                found[f"tuning/{name}{model}"] = table(own)
        else:
            found[f"tuning/{model}"] = decoders(own)
    if rounded := read(results / "decoder_students.jsonl"):
        found["decoder-students"] = decoder_students(rounded)
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


def chosen(runs):
    """Of the runs of one recipe, by their steps, the longest; of several, the one with the lowest perplexity of the held-out text."""
    longest = max(map(len, runs))
    return min((steps for steps in runs if len(steps) == longest), key=lambda steps: runs[steps]["held_out"])


def by_bits(rows):
    """The rows of each recipe, the largest first."""
    recipes = {}
    for row in sorted(rows, key=lambda row: (-row["bits"], row["recipe"])):
        recipes.setdefault(row["recipe"], []).append(row)
    return recipes


def added(row, original, text):
    return f"+{100 * (row['perplexity'][text] / original['perplexity'][text] - 1):.1f} %" if row is not original else ""


def stages(rows):
    """A row for each recipe that bench/measure_tuning.py trained: perplexity on each text in one shot and behind each stage of the run
    that was chosen, and what the last adds to that of the original. Groups of floats have one stage."""
    texts, known = list(rows[0]["perplexity"]), {tuple(row["steps"]): row for row in rows}
    original = next(row for row in rows if row["recipe"] == "original")
    body = [["`original`", f"{original['bits']:.3f}", *(cell for text in texts for cell in (f"{original['perplexity'][text]:.2f}", "", "", ""))]]
    for recipe, own in by_bits(rows).items():
        last = chosen({tuple(row["steps"]): row for row in own})
        run = [known[last[:count]] for count in range(2, len(last) + 1)]
        if len(run) > 1:
            without = [""] * (3 - len(run))
            body.append([f"`{recipe}`", f"{run[0]['bits']:.3f}",
                         *(cell for text in texts for cell in (*(f"{row['perplexity'][text]:.2f}" for row in run), *without,
                                                               added(run[-1], original, text)))])
    names = ["`bqpo`", "then `e2e-oqp`", "adds"]
    return markdown(["recipe", "bits/weight", *(name for text in texts for name in (f"{text}, one shot", *names))], body)


def one_shot(rows):
    """A row for each recipe before training: perplexity on each text, and what it adds to that of the original."""
    texts = list(rows[0]["perplexity"])
    original = next(row for row in rows if row["recipe"] == "original")
    body = [[f"`{row['recipe']}`", f"{row['bits']:.3f}",
             *(cell for text in texts for cell in (f"{row['perplexity'][text]:.2f}", added(row, original, text)))]
            for own in by_bits(rows).values() for row in own if len(row["steps"]) == 2]
    return markdown(["recipe", "bits/weight", *(name for text in texts for name in (text, "adds"))], body)


def decoder_students(rows):
    """A row for each way to round weights and activations of a decoder: perplexity of the text to choose by and of the others."""
    texts, originals = list(rows[0]["perplexity"]), {row["model"]: row for row in rows if row["steps"] == [row["model"], "original"]}
    body = [[row["model"], stage_options(row["steps"][2]) if len(row["steps"]) > 2 else f"`{row['recipe']}`", str(row.get("windows", "")),
             f"{row['held_out']:.2f}", *(cell for text in texts for cell in (f"{row['perplexity'][text]:.2f}",
                                                                            added(row, originals[row["model"]], text))),
             f"{row['seconds']:.0f}" if len(row["steps"]) > 2 else ""] for row in rows]
    return markdown(["model", "training", "windows", "held out", *(name for text in texts for name in (text, "adds")), "seconds"], body)


def tried(rows):
    """A row for each stage of each run of bench/measure_tuning.py: its options, what the held-out text says, and what it cost."""
    body = []
    for row in sorted((row for row in rows if len(row["steps"]) > 2), key=lambda row: (-row["bits"], row["recipe"], row["steps"])):
        *before, last = map(stage_options, row["steps"][2:])
        body.append([f"`{row['recipe']}`", "".join(f"{stage}, then " for stage in before) + last, str(row["windows"]),
                     f"{row['held_out']:.2f}", f"{row['seconds']:.0f}", str(row["megabytes"])])
    return markdown(["recipe", "stages", "windows", "held out", "seconds", "peak MB"], body)


def stage_options(step):
    """ "bqpo,lr=1e-3,text=written+mixed" as a page has it."""
    stage, *options = step.split(",")
    texts = [option.removeprefix("text=").replace("+", " and ") + " text" for option in options if option.startswith("text=")]
    words = [stage, *(f"--{option.replace('=', ' ', 1).replace('+', ',')}" for option in options if not option.startswith("text="))]
    return ", ".join([f"`{' '.join(words)}`", *texts])


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
