"""What prompt and answers become, against what TRL's trainer makes of the same rows."""

import datasets
import model_cases
import preference_rows
import pytest
import torch
import transformers
import trl_preferences

TEMPLATE = ("{{ bos_token }}{% for m in messages %}{{ '<' + m.role + '>' + m.content }}{% if m.role == 'assistant' %}{{ eos_token }}"
            "{% endif %}{{ '\n' }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}")


def said(role, content):
    return {"role": role, "content": content}


def in_messages(row):
    return {"prompt": [said("system", "Be brief."), said("user", row["prompt"])],
            "chosen": [said("assistant", row["chosen"])], "rejected": [said("assistant", row["rejected"])]}


def without_prompt(row):
    return {"chosen": row["prompt"] + row["chosen"], "rejected": row["prompt"] + row["rejected"]}


def messages_without_prompt(row):
    row = in_messages(row)
    return {"chosen": row["prompt"] + row["chosen"], "rejected": row["prompt"] + row["rejected"]}


FORMS = {"texts": dict, "messages": in_messages, "texts without a prompt": without_prompt, "messages without a prompt": messages_without_prompt}


@pytest.fixture(scope="module")
def chat_model(classroom):
    folder = classroom.folder / "models/llama-pairs"
    model = classroom.model("llama")
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = TEMPLATE
    model_cases.load(model, torch.float32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("form", FORMS)
def test_samples_are_those_of_trl(classroom, chat_model, tmp_path, form):
    trl = pytest.importorskip("trl")
    rows = [FORMS[form](row) for row in preference_rows.preferences(12)]
    trainer = trl.DPOTrainer(model=model_cases.load(chat_model, torch.float32),
                             args=trl.DPOConfig(output_dir=str(tmp_path), max_length=None, **trl_preferences.USUAL),
                             train_dataset=datasets.Dataset.from_list(rows), processing_class=trl_preferences.tokenizer_of(chat_model))
    expected = []
    for row in trainer.train_dataset:
        for answer in (row["chosen_ids"], row["rejected_ids"]):
            expected.append({"tokens": row["prompt_ids"] + answer, "mask": [0] * len(row["prompt_ids"]) + [1] * len(answer)})
    ours = classroom.samples(chat_model, classroom.data(rows), form="preferences")["samples"]
    assert ours == expected
