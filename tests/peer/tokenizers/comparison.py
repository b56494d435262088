"""Holds muster's ids and texts against those of the tokenizers library."""

from tokenizers import Tokenizer

from sample_texts import Texts


def first_difference(kind, inputs, ours, theirs):
    for given, mine, their in zip(inputs, ours, theirs, strict=True):
        assert mine == their, f"{kind} of {given!r}: muster {mine!r}, the library {their!r}"


def compare_texts(driver, library: Tokenizer, texts: list[str]) -> None:
    """Ids with and without what the post-processor adds, text with and without special tokens, whole and in parts."""
    for special in (False, True):
        expected = [encoding.ids for encoding in library.encode_batch(texts, add_special_tokens=special)]
        first_difference("ids", texts, driver.encode(texts, special), expected)
    compare_ids(driver, library, expected)


def compare_ids(driver, library: Tokenizer, lists: list[list[int]]) -> None:
    for skip in (False, True):
        expected = library.decode_batch(lists, skip_special_tokens=skip)
        texts, streamed = driver.decode(lists, skip)
        first_difference("text", lists, texts, expected)
        first_difference("text in parts", lists, ["".join(parts) for parts in streamed], expected)


def compare(driver, file, count: int, seed: int, long_texts: bool = False) -> None:
    library = Tokenizer.from_file(str(file))
    vocabulary = driver.load(file)
    added = [token.content for token in library.get_added_tokens_decoder().values()]
    texts = Texts(seed, added[:12] + added[-2:])
    compare_texts(driver, library, texts.texts(count) + (texts.long_texts() if long_texts else []))
    compare_ids(driver, library, texts.id_lists(count // 4, vocabulary))
