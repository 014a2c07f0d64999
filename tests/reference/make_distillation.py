#!/usr/bin/env python3
"""Prints distillation.json: terms of a student's loss and their gradients, by PyTorch.

    make_distillation.py > distillation.json

Values are torch.nn.functional's cross_entropy, kl_div and mse_loss; gradients are autograd's. Needs torch.
"""
import json

import torch
from torch.nn import functional

TEXTS, OUTPUTS, HEADS = 5, 3, 2
LENGTHS = [3, 4]


def numbers(tensor):
    return [float(f"{value:.9g}") for value in tensor.flatten().tolist()]


def term(student, loss):
    student = student.clone().requires_grad_()
    value = loss(student)
    value.backward()
    return {"value": value.item(), "gradient": numbers(student.grad)}


def divergence(student, teacher):
    """Mean over rows of KL(softmax(teacher) || softmax(student))."""
    return functional.kl_div(student.log_softmax(-1), teacher.log_softmax(-1), reduction="batchmean", log_target=True)


def split(scores, causal):
    """One matrix for each text and head; what is not seen is -inf, as in softmax, or None."""
    parts, first = [], 0
    for length in LENGTHS:
        for _ in range(HEADS):
            part = scores[first : first + length * length].view(length, length)
            first += length * length
            mask = torch.ones(length, length).tril().bool() if causal else torch.ones(length, length).bool()
            parts.append((part, mask))
    return parts


def attention(student, teacher, causal):
    total, rows = 0, 0
    for (s, mask), (t, _) in zip(split(student, causal), split(teacher, causal)):
        for i in range(len(s)):
            total = total + divergence(s[i][mask[i]][None], t[i][mask[i]][None])
            rows += 1
    return total / rows


def scores(student, teacher, causal):
    pairs = list(zip(split(student, causal), split(teacher, causal)))
    return functional.mse_loss(torch.cat([s[mask] for (s, mask), _ in pairs]), torch.cat([t[mask] for _, (t, mask) in pairs]))


def main():
    torch.manual_seed(3)
    student, teacher = 2 * torch.randn(TEXTS, OUTPUTS), 2 * torch.randn(TEXTS, OUTPUTS)
    labels = torch.tensor([2, 0, 1, 1, 0])
    values = torch.randn(TEXTS)
    count = HEADS * sum(length * length for length in LENGTHS)
    of_student, of_teacher = 3 * torch.randn(count), 3 * torch.randn(count)
    golden = {
        "student": numbers(student),
        "teacher": numbers(teacher),
        "labels": labels.tolist(),
        "values": numbers(values),
        "lengths": LENGTHS,
        "heads": HEADS,
        "student_scores": numbers(of_student),
        "teacher_scores": numbers(of_teacher),
        "label_loss": term(student, lambda s: functional.cross_entropy(s, labels)),
        "regression_loss": term(student[:, :1], lambda s: functional.mse_loss(s[:, 0], values)),
        "logit_loss": term(student, lambda s: divergence(s, teacher)),
        "squared_difference": term(student, lambda s: functional.mse_loss(s, teacher)),
    }
    for causal in [False, True]:
        name = "causal" if causal else "both"
        golden["attention_" + name] = term(of_student, lambda s: attention(s, of_teacher, causal))
        golden["scores_" + name] = term(of_student, lambda s: scores(s, of_teacher, causal))
    print(json.dumps(golden))


if __name__ == "__main__":
    main()
