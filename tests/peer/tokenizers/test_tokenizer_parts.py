"""Every normaliser, pre-tokenizer, post-processor and decoder that is built, in combinations, on vocabularies trained here: the
same ids and texts as the tokenizers library."""

import json

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from comparison import compare, compare_ids, compare_texts
from sample_texts import Texts

TEXTS = 1_700
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+")
GPT4 = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
KIMI = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lo}\p{M}&&[^\p{Han}]]+|\p{N}{1,3}|\s+|[^\s\p{L}\p{N}]+"

N, P, D = normalizers, pre_tokenizers, decoders


def byte_level(**options):
    return P.ByteLevel(**{"add_prefix_space": False, **options})


def split(pattern, behavior="isolated", invert=False):
    return P.Split(pattern if isinstance(pattern, str) else Regex(pattern[0]), behavior, invert=invert)


LLAMA_DECODER = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])

# Name: normaliser, pre-tokenizer, decoder, options of the model.
PARTS = {
    "gpt2": (None, byte_level(), D.ByteLevel(), {}),
    "gpt2, prefix space": (None, byte_level(add_prefix_space=True), D.ByteLevel(), {}),
    "gpt2, whole words": (None, byte_level(), D.ByteLevel(), {"ignore_merges": True}),
    "smollm": (None, P.Sequence([P.Digits(individual_digits=True), byte_level()]), D.ByteLevel(), {}),
    "digits in runs": (N.NFKC(), P.Sequence([P.Digits(individual_digits=False), byte_level()]), D.ByteLevel(), {}),
    "o200k": (N.NFC(), P.Sequence([split([O200K]), byte_level(use_regex=False)]), D.ByteLevel(), {}),
    "deepseek": (None, P.Sequence([split([r"\p{N}{1,3}"]), split([r"[一-龥぀-ゟ゠-ヿ]+"]), split([DEEPSEEK]),
                                   byte_level(use_regex=False)]), D.ByteLevel(), {}),
    "gpt4": (None, P.Sequence([split([GPT4], "removed", True), byte_level(use_regex=False)]), D.ByteLevel(), {}),
    "kimi": (None, P.Sequence([split([KIMI]), byte_level(use_regex=False)]), D.ByteLevel(), {"ignore_merges": True}),
    "bytes, then split": (None, P.Sequence([byte_level(use_regex=False), split([r"Ġ+|\p{L}+"])]), D.ByteLevel(), {}),
    "lower case": (N.Sequence([N.NFD(), N.Lowercase(), N.Strip()]), byte_level(), D.ByteLevel(), {}),
    "no pre-tokenizer": (N.NFKD(), None, None, {"unk_token": "<unk>"}),
    "metaspace": (None, P.Metaspace(), D.Metaspace(), {"unk_token": "<unk>"}),
    "metaspace, first": (None, P.Metaspace(prepend_scheme="first", split=False), D.Metaspace(prepend_scheme="first"),
                         {"unk_token": "<unk>", "fuse_unk": True}),
    "metaspace, never": (N.NFKC(), P.Metaspace(prepend_scheme="never"), D.Metaspace(prepend_scheme="never"),
                         {"unk_token": "<unk>"}),
    "metaspace, first, behind others": (N.Sequence([N.Strip(), N.Lowercase()]),
                                        P.Sequence([split(" ", "merged_with_next"), P.Metaspace(prepend_scheme="first")]),
                                        LLAMA_DECODER, {"unk_token": "<unk>"}),
    "metaspace, first, behind normalisers": (N.Sequence([N.NFKC(), N.Prepend("x "), N.Replace(Regex(r"\s+"), " ")]),
                                             P.Sequence([split([r"\p{L}+"]), P.Metaspace(prepend_scheme="first")]),
                                             D.Fuse(), {"unk_token": "<unk>"}),
    "byte fallback": (N.Replace(" ", "▁"), split(" ", "merged_with_previous"), LLAMA_DECODER,
                      {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}),
    "byte fallback without all bytes": (None, P.Metaspace(), LLAMA_DECODER,
                                        {"unk_token": "<unk>", "byte_fallback": True, "some_bytes": True}),
    "unknown dropped": (None, P.Metaspace(), D.Sequence([D.Metaspace(), D.Fuse()]), {}),
    "unknown fused": (None, split([r"\w+|[^\w\s]+"], "contiguous"), D.Fuse(), {"unk_token": "<unk>", "fuse_unk": True}),
    "removed": (None, split([r"\s+"], "removed"), None, {"unk_token": "<unk>"}),
    "merged with previous": (N.Strip(left=True, right=False), split([r"[,.\s]"], "merged_with_previous"), D.Strip("a", 1, 0),
                             {"unk_token": "<unk>"}),
    "merged with next": (N.Strip(left=False, right=True), split([r"[[:punct:]]|\d"], "merged_with_next"),
                         D.Sequence([D.Fuse(), D.Strip(" ", 2, 0), D.Replace("e", "E")]), {"unk_token": "<unk>"}),
    "contiguous, inverted": (N.Replace(Regex(r"(?i:é|the)|\bof\b"), "[]"), split([r"[a-z&&[^aeiou]]"], "contiguous", True),
                             D.Sequence([D.Replace(Regex(r"[aeiou]+"), "-"), D.Fuse()]), {"unk_token": "<unk>"}),
    "empty matches": (None, split([r"a*"]), D.Fuse(), {"unk_token": "<unk>"}),
    "empty text": (None, split(""), D.Fuse(), {"unk_token": "<unk>"}),
    "look-around": (None, split([r"(?<=[a-z])(?=[A-Z])|(?<!\d)\.|^x|y$|\R|\b\p{Lu}"], "isolated"), D.Fuse(), {"unk_token": "<unk>"}),
}
ADDED = [AddedToken("[A]", special=True, normalized=False), AddedToken("<|x|>", lstrip=True, normalized=False),
         AddedToken("<|x|>>", rstrip=True, normalized=False), AddedToken("word", single_word=True, normalized=False),
         AddedToken("Grüße", normalized=True), AddedToken("the end", normalized=True, lstrip=True, rstrip=True),
         AddedToken("é", normalized=True, special=True)]


def trained(name: str, folder) -> str:
    normalizer, pre_tokenizer, decoder, options = PARTS[name]
    options = dict(options)
    some_bytes = options.pop("some_bytes", False)
    tokenizer = Tokenizer(models.BPE(**options))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if pre_tokenizer is not None:
        tokenizer.pre_tokenizer = pre_tokenizer
    special = ["<unk>"] if "unk_token" in options else []
    if options.get("byte_fallback"):
        special += [f"<0x{byte:02X}>" for byte in range(256) if not some_bytes or byte % 3]
    alphabet = P.ByteLevel.alphabet() if "ByteLevel" in str(pre_tokenizer) and name != "gpt4" else list("▁Ġabcdefg hij字🙂")
    trainer = trainers.BpeTrainer(vocab_size=700 + len(special), special_tokens=special, initial_alphabet=alphabet,
                                  limit_alphabet=350, show_progress=False)
    texts = [text[:300] for text in Texts(99).texts(1_200)]
    tokenizer.train_from_iterator(texts, trainer)
    if decoder is not None:
        tokenizer.decoder = decoder
    file = folder / "tokenizer.json"
    tokenizer.save(str(file))
    content = json.loads(file.read_text())
    content["added_tokens"] = content["added_tokens"][:1]  # the bytes are no special tokens
    file.write_text(json.dumps(content))
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.add_tokens(ADDED)
    tokenizer.save(str(file))
    return str(file)


@pytest.mark.parametrize("name", PARTS)
def test_ids_and_texts_are_those_of_the_library(driver, tmp_path, name):
    compare(driver, trained(name, tmp_path), TEXTS, seed=sum(map(ord, name)))


@pytest.mark.parametrize("name", ["bert", "roberta", "template", "sequence"])
def test_what_goes_around_a_text_is_that_of_the_library(driver, tmp_path, name):
    file = trained("gpt2", tmp_path)
    tokenizer = Tokenizer.from_file(file)
    end, begin = ("[A]", tokenizer.token_to_id("[A]")), ("é", tokenizer.token_to_id("é"))
    template = processors.TemplateProcessing(single="é é $A:1 [A]", pair="$A $B", special_tokens=[end, begin])
    tokenizer.post_processor = {
        "bert": processors.BertProcessing(end, begin),
        "roberta": processors.RobertaProcessing(end, begin),
        "template": template,
        "sequence": processors.Sequence([processors.ByteLevel(), template]),
    }[name]
    tokenizer.save(file)
    assert len(tokenizer.encode("", add_special_tokens=True).ids) >= 2
    compare(driver, file, 200, seed=5)


def test_merges_of_a_vocabulary_are_applied_in_the_order_of_their_ranks(driver, tmp_path):
    """Words of few letters, so that many merges compete; long ones too, which are merged in another way."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = P.Split(" ", "removed")
    letters = Texts(3).random
    words = ["".join(letters.choice("abc") for _ in range(letters.randint(1, 30))) for _ in range(3_000)]
    trainer = trainers.BpeTrainer(vocab_size=400, show_progress=False)
    tokenizer.train_from_iterator([" ".join(words)], trainer)
    file = tmp_path / "tokenizer.json"
    tokenizer.save(str(file))
    driver.load(file)
    texts = ["".join(letters.choice("abc ") for _ in range(letters.randint(1, 80))) for _ in range(3_000)]
    texts += ["".join(letters.choice("abc") for _ in range(length)) for length in range(90, 1_000, 7)]
    compare_texts(driver, tokenizer, texts)
    compare_ids(driver, tokenizer, [[], [0], [tokenizer.get_vocab_size()]])
