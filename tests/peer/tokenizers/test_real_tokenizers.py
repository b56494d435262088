"""Real tokenizers: the same ids and the same texts as the tokenizers library."""

import pytest
from tokenizers import Tokenizer

import real_tokenizers
from comparison import compare

TEXTS = 10_000


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizers")
    v1 = real_tokenizers.mistral(folder, "tokenizer.model.v1")
    return {
        "llama3": real_tokenizers.llama3(folder),
        "qwen": real_tokenizers.qwen(folder),
        "mistral-v1": v1,
        "mistral-v3": real_tokenizers.mistral(folder, "mistral_instruct_tokenizer_240323.model.v3"),
        "llama2-style": real_tokenizers.llama2_style(folder, v1),
    }


@pytest.mark.parametrize("name", ["llama3", "qwen", "mistral-v1", "mistral-v3", "llama2-style"])
def test_ids_and_texts_are_those_of_the_library(driver, files, name):
    compare(driver, files[name], TEXTS, seed=sum(map(ord, name)), long_texts=True)


def test_known_ids_of_a_sentence(driver, files):
    sentence = "Hello, wörld! 12345 don't"
    driver.load(files["llama3"])
    assert driver.encode([sentence], False) == [[9906, 11, 289, 9603, 509, 0, 220, 4513, 1774, 1541, 956]]
    assert driver.encode([sentence], True)[0][0] == 128000
    driver.load(files["qwen"])
    assert driver.encode([sentence], False) == [[9707, 11, 289, 9416, 507, 0, 220, 16, 17, 18, 19, 20, 1513, 944]]


def test_pieces_and_their_ids_are_those_of_the_library(driver, files):
    for file in (files["llama3"], files["mistral-v3"]):
        library = Tokenizer.from_file(str(file))
        vocabulary = driver.load(file)
        assert vocabulary == library.get_vocab_size()
        ids = list(range(0, vocabulary, 7)) + [vocabulary - 1]
        answer = driver.ask(pieces=ids)
        assert answer["pieces"] == [library.id_to_token(id) for id in ids]
        special = {id for id, token in library.get_added_tokens_decoder().items() if token.special}
        assert answer["special"] == [id in special for id in ids]
        assert driver.ask(find=answer["pieces"] + ["no such piece"])["ids"] == ids + [None]


def test_streamed_text_never_ends_within_a_character(driver, files):
    text = "👨‍👩‍👧‍👦 naïve 漢字 🙂"
    for file in files.values():
        driver.load(file)
        ids = driver.encode([text], False)
        (whole,), (parts,) = driver.decode(ids, False)
        assert whole.strip() == text
        assert "".join(parts) == whole
        assert not any("\ufffd" in part for part in parts)
