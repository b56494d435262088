"""Small made-up preferences."""

import train_runs


def preferences(count, seed=1):
    """A question with two answers of different lengths."""
    asked, other = train_runs.pairs(count, seed), train_runs.pairs(count, seed + 100)
    return [{"prompt": one["prompt"], "chosen": one["completion"], "rejected": two["completion"] + " no"}
            for one, two in zip(asked, other, strict=True)]
