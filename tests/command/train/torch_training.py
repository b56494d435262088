"""The same training in PyTorch: transformers' model, autograd, torch.optim. What muster is held against."""

import dataclasses

import torch
import transformers


@dataclasses.dataclass
class Lesson:
    tokens: torch.Tensor  # [sequences, longest], filled up behind
    trained: torch.Tensor  # the same shape: 1 where a token is trained on


def lesson(samples):
    longest = max(len(sample["tokens"]) for sample in samples)
    filled = lambda name: torch.tensor([sample[name] + [0] * (longest - len(sample[name])) for sample in samples])
    return Lesson(filled("tokens"), filled("mask"))


def lessons_of(prepared):
    """One for each step."""
    numbers = [[number for unit in step for number in unit] for step in prepared["batches"]]
    return [lesson([prepared["samples"][number] for number in step]) for step in numbers]


def summed_loss(model, lesson):
    """Tokens behind a sequence's end are seen by no token before them, and not trained on."""
    logits = model(lesson.tokens[:, :-1]).logits
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), lesson.tokens[:, 1:].flatten(), reduction="none")
    return (losses * lesson.trained[:, 1:].flatten()).sum()


def trained_tokens(lesson):
    return int(lesson.trained[:, 1:].sum())


def train(model, lessons, optimizer, schedule=None, most_norm=1.0):
    """Losses and norms of all steps."""
    losses, norms = [], []
    for step in lessons:
        optimizer.zero_grad(set_to_none=True)
        loss = summed_loss(model, step) / trained_tokens(step)
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), most_norm).item())
        optimizer.step()
        if schedule is not None:
            schedule.step()
        losses.append(loss.item())
    return losses, norms


def cosine(optimizer, warmup, steps):
    return transformers.get_cosine_schedule_with_warmup(optimizer, warmup, steps)
