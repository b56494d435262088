"""Reward models made and read by transformers."""

import torch
import transformers
import trl_preferences


def make(causal, folder, seed=1, labels=1):
    """A classifier over the weights of a causal model, with a head that spreads scores; and its tokenizer."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(causal, num_labels=labels, dtype=torch.float32)
    with torch.no_grad():
        model.score.weight.copy_(torch.randn_like(model.score.weight) * 0.3)
    tokenizer = trl_preferences.tokenizer_of(causal)
    model.config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def load(folder):
    return transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def scores(folder, texts):
    """Of lists of tokens, all at once: the shorter ones are padded."""
    model = load(folder)
    longest = max(map(len, texts))
    padded = [text + [model.config.pad_token_id] * (longest - len(text)) for text in texts]
    mask = [[1] * len(text) + [0] * (longest - len(text)) for text in texts]
    with torch.no_grad():
        return model(input_ids=torch.tensor(padded), attention_mask=torch.tensor(mask)).logits[:, 0].tolist()
