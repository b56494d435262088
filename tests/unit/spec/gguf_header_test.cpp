#include "spec/model/gguf_header.hpp"

#include <gtest/gtest.h>

#include "checkpoint_bytes.hpp"
#include "testing/contains.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::spec {
namespace {

using muster::testing::contains;
using muster::testing::ScratchFolder;
using testing::GgufBytes;
using testing::little_endian;

Result<GgufHeader> parse(const std::string& file) { return parse_gguf_header(file, file.size(), "x.gguf"); }

std::string refused(const std::string& file) {
  const auto header = parse(file);
  EXPECT_FALSE(header) << "it was accepted";
  return header ? "" : to_string(header.error());
}

TEST(GgufHeader, TellsMetadataAndTensors) {
  GgufBytes bytes;
  bytes.word("general.name", "tiny")
      .number("n", 7)
      .value("f", 6, little_endian(0.5f))
      .value("b", 7, std::string(1, '\1'));
  bytes.value("i8", 1, std::string(1, '\xff')).value("u64", 10, little_endian<std::uint64_t>(1ull << 40));
  bytes.value("f64", 12, little_endian(0.25)).words("list", {"a", "bc"});
  bytes.value(
      "floats", 9,
      little_endian<std::uint32_t>(6) + little_endian<std::uint64_t>(2) + little_endian(1.0f) + little_endian(2.0f));
  bytes.tensor("w", {64, 3}, 8, 6 * 34).tensor("k", {256}, 12, 144).tensor("plain", {5}, 30, 10);
  const auto header = parse(bytes.file());
  ASSERT_TRUE(header) << to_string(header.error());
  EXPECT_EQ(std::get<std::string>(header->metadata.at("general.name")), "tiny");
  EXPECT_EQ(std::get<std::int64_t>(header->metadata.at("n")), 7);
  EXPECT_EQ(std::get<double>(header->metadata.at("f")), 0.5);
  EXPECT_EQ(std::get<double>(header->metadata.at("f64")), 0.25);
  EXPECT_TRUE(std::get<bool>(header->metadata.at("b")));
  EXPECT_EQ(std::get<std::int64_t>(header->metadata.at("i8")), -1);
  EXPECT_EQ(std::get<std::int64_t>(header->metadata.at("u64")), std::int64_t{1} << 40);
  EXPECT_EQ(std::get<GgufArray>(header->metadata.at("list")).texts, (std::vector<std::string>{"a", "bc"}));
  EXPECT_EQ(std::get<GgufArray>(header->metadata.at("floats")).numbers, (std::vector<double>{1, 2}));
  ASSERT_EQ(header->tensors.size(), 3u);
  const GgufTensor& first = header->tensors[0];
  EXPECT_EQ(first.type, GgufType::q8_0);
  EXPECT_EQ(first.dimensions.sizes[0], 3) << "torch's order";
  EXPECT_EQ(first.dimensions.sizes[1], 64);
  EXPECT_EQ(first.end - first.begin, 6u * 34);
  EXPECT_EQ(first.begin % 32, 0u);
  EXPECT_EQ(header->tensors[1].end - header->tensors[1].begin, 144u);
  EXPECT_EQ(name(header->tensors[2].type), "BF16");
}

TEST(GgufHeader, RefusesOtherFilesAndVersions) {
  EXPECT_TRUE(contains(refused(""), "does not begin with GGUF"));
  EXPECT_TRUE(contains(refused("GGML1234"), "does not begin with GGUF"));
  EXPECT_TRUE(contains(refused("GGUF"), "cut off"));
  EXPECT_TRUE(contains(refused(GgufBytes(1).file()), "version 1"));
  EXPECT_TRUE(contains(refused(GgufBytes(4).file()), "version 4"));
  EXPECT_TRUE(contains(refused(GgufBytes(0).file()), "version 0"));
  EXPECT_TRUE(contains(refused(GgufBytes(0x03000000).file()), "big-endian"));
  EXPECT_TRUE(parse(GgufBytes(2).file()));
}

TEST(GgufHeader, RefusesEveryPlaceWhereAFileCanBeCutOff) {
  GgufBytes bytes;
  bytes.word("general.architecture", "llama").words("list", {"a", "b"}).tensor("w", {32}, 2, 18);
  const std::string file = bytes.file();
  const std::size_t needed = (bytes.header().size() + 31) / 32 * 32 + 18;
  for (std::size_t length = 0; length < needed; ++length) EXPECT_FALSE(parse(file.substr(0, length))) << length;
  EXPECT_TRUE(parse(file.substr(0, needed))) << "padding after the last tensor is not needed";
}

TEST(GgufHeader, RefusesClaimsBeyondTheFile) {
  const std::uint64_t huge = ~0ull;
  EXPECT_TRUE(contains(refused(GgufBytes().value("k", 8, little_endian(huge)).file()), "18446744073709551615 bytes"));
  const std::string list = little_endian<std::uint32_t>(10) + little_endian(huge);
  EXPECT_TRUE(contains(refused(GgufBytes().value("k", 9, list).file()), "a list of 18446744073709551615 entries"));
  const std::string texts = little_endian<std::uint32_t>(8) + little_endian<std::uint64_t>(1u << 30);
  EXPECT_TRUE(contains(refused(GgufBytes().value("k", 9, texts).file()), "a list of 1073741824 entries"));
  EXPECT_TRUE(contains(refused("GGUF" + little_endian<std::uint32_t>(3) + little_endian(huge) + little_endian(huge)),
                       "cut off"));
}

TEST(GgufHeader, RefusesValuesThatCannotBe) {
  EXPECT_TRUE(contains(refused(GgufBytes().value("k", 13, "").file()), "13", "not a type of value"));
  EXPECT_TRUE(contains(refused(GgufBytes().value("k", 7, "\2").file()), "not a boolean"));
  EXPECT_TRUE(contains(refused(GgufBytes().value("k", 10, little_endian(~0ull)).file()), "beyond 63 bits"));
  EXPECT_TRUE(contains(refused(GgufBytes().word("k", "\xff").file()), "not UTF-8"));
  EXPECT_TRUE(contains(refused(GgufBytes().word("\xc3", "v").file()), "not UTF-8"));
  EXPECT_TRUE(contains(refused(GgufBytes().number("k", 1).number("k", 2).file()), "\"k\" is there twice"));
  const std::string nested = little_endian<std::uint32_t>(9) + little_endian<std::uint64_t>(1) + std::string(12, '\0');
  EXPECT_TRUE(contains(refused(GgufBytes().value("k", 9, nested).file()), "a list of lists"));
  EXPECT_TRUE(contains(refused(GgufBytes().number("general.alignment", 24).file()), "general.alignment is 24"));
  EXPECT_TRUE(contains(refused(GgufBytes().word("general.alignment", "x").file()), "general.alignment is not a number"));
  EXPECT_TRUE(contains(refused(GgufBytes().number("general.alignment", 0).file()), "general.alignment is 0"));
}

TEST(GgufHeader, RefusesTensorsThatCannotBe) {
  EXPECT_TRUE(contains(refused(GgufBytes().tensor("w", {32}, 99, 18).file()), "\"w\"", "type number 99"));
  EXPECT_TRUE(contains(refused(GgufBytes().tensor("w", {33}, 2, 18).file()), "rows of 33", "Q4_0", "blocks of 32"));
  EXPECT_TRUE(contains(refused(GgufBytes().tensor("w", {1, 1, 1, 1, 1}, 0, 4).file()), "5 dimensions"));
  EXPECT_TRUE(contains(refused(GgufBytes().tensor("w", {1ull << 63}, 0, 4).file()), "a size of"));
  EXPECT_TRUE(contains(refused(GgufBytes().tensor("w", {1ull << 40, 1ull << 40}, 0, 4).file()), "more elements"));
  EXPECT_TRUE(contains(refused(GgufBytes().tensor("w", {1ull << 62}, 0, 4).file()), "more bytes"));
  EXPECT_TRUE(
      contains(refused(GgufBytes().tensor("w", {1}, 0, 4).tensor("w", {1}, 0, 4).file()), "\"w\" is there twice"));
}

TEST(GgufHeader, RefusesPlacesThatOverlapOrLieOutside) {
  const auto two = [](std::uint64_t first, std::uint64_t second) {
    return GgufBytes().tensor("space", {64}, 0, 256).place("a", {8}, 0, first).place("b", {16}, 0, second).file();
  };
  EXPECT_TRUE(contains(refused(two(0, 64)), "overlap"));
  EXPECT_TRUE(contains(
      refused(GgufBytes().place("a", {16}, 0, 0).place("b", {8}, 0, 32).tensor("c", {8}, 0, 128).file()), "overlap"));
  EXPECT_TRUE(contains(refused(GgufBytes().place("a", {8}, 0, 3).tensor("b", {8}, 0, 64).file()), "\"a\" lies at 3"));
  EXPECT_TRUE(contains(refused(GgufBytes().place("a", {8}, 0, 1ull << 40).file()), "cut off", "\"a\""));
  EXPECT_TRUE(contains(refused(GgufBytes().place("a", {8}, 0, ~0ull - 31).file()), "cut off", "\"a\""));
}

TEST(GgufHeader, IsReadWholeHoweverLongItIs) {
  const ScratchFolder folder;
  std::vector<std::string> tokens;
  for (int i = 0; i < 400'000; ++i) tokens.push_back("token " + std::to_string(i));
  const auto path =
      folder.write("long.gguf", GgufBytes().words("tokenizer.ggml.tokens", tokens).tensor("w", {8}, 0, 32).file());
  const auto header = read_gguf_header(path);
  ASSERT_TRUE(header) << to_string(header.error());
  EXPECT_EQ(std::get<GgufArray>(header->metadata.at("tokenizer.ggml.tokens")).texts.size(), tokens.size());
  EXPECT_EQ(header->tensors.size(), 1u);
}

// A file with what a small model of an architecture has.
GgufBytes model(const std::string& architecture) {
  GgufBytes bytes;
  bytes.word("general.architecture", architecture);
  const auto number = [&](const std::string& key, std::uint32_t value) {
    bytes.number(architecture + "." + key, value);
  };
  number("block_count", 1);
  number("embedding_length", 64);
  number("feed_forward_length", 128);
  number("context_length", 512);
  number("attention.head_count", 4);
  if (architecture != "gpt2") number("attention.head_count_kv", 2);
  bytes.words("tokenizer.ggml.tokens", {"a", "b", "c"});
  return bytes;
}

TEST(GgufModelConfig, ReadsWhatTheMetadataSays) {
  GgufBytes bytes = model("llama");
  bytes.tensor("token_embd.weight", {64, 3}, 0, 64 * 3 * 4).tensor("output.weight", {64, 3}, 0, 64 * 3 * 4);
  const auto config = gguf_model_config(parse(bytes.file()).value(), "x.gguf");
  ASSERT_TRUE(config) << to_string(config.error());
  EXPECT_EQ(config->family, Family::llama);
  EXPECT_EQ(config->vocabulary, 3);
  EXPECT_EQ(config->head_size, 16);
  EXPECT_EQ(config->kv_heads, 2);
  EXPECT_EQ(config->positions, 512);
  EXPECT_FALSE(config->tied);
  EXPECT_FALSE(config->qkv_bias);
}

TEST(GgufModelConfig, TellsTiesAndBiasesByTheTensors) {
  GgufBytes bytes = model("qwen2");
  bytes.number("qwen2.attention.key_length", 32)
      .number("qwen2.vocab_size", 9)
      .tensor("blk.0.attn_q.bias", {64}, 0, 256);
  const auto config = gguf_model_config(parse(bytes.file()).value(), "x.gguf");
  ASSERT_TRUE(config) << to_string(config.error());
  EXPECT_TRUE(config->tied);
  EXPECT_TRUE(config->qkv_bias);
  EXPECT_FALSE(config->output_bias);
  EXPECT_EQ(config->head_size, 32);
  EXPECT_EQ(config->vocabulary, 9);
}

TEST(GgufModelConfig, TakesNoneForZeroWhereAModelMayLackSomething) {
  GgufBytes bytes = model("llama");
  bytes.number("llama.expert_count", 0).number("llama.attention.sliding_window", 0);
  const auto config = gguf_model_config(parse(bytes.file()).value(), "x.gguf");
  ASSERT_TRUE(config) << to_string(config.error());
  EXPECT_FALSE(config->sliding_window);
}

TEST(GgufModelConfig, RefusesOtherArchitecturesAndMissingKeysByName) {
  const auto refusal = [](const GgufBytes& bytes) {
    const auto config = gguf_model_config(parse(bytes.file()).value(), "x.gguf");
    EXPECT_FALSE(config);
    return config ? "" : to_string(config.error());
  };
  EXPECT_TRUE(contains(refusal(model("mamba")), "\"mamba\" is not known", "llama, qwen2, qwen3, gpt2"));
  EXPECT_TRUE(contains(refusal(GgufBytes()), "general.architecture is missing"));
  EXPECT_TRUE(contains(refusal(GgufBytes().word("general.architecture", "llama")), "llama.block_count: is missing",
                       "llama.embedding_length: is missing", "llama.attention.head_count: is missing", "vocab_size"));
  EXPECT_TRUE(contains(refusal(model("llama").number("llama.expert_count", 8)), "llama.expert_count", "is 8"));
  EXPECT_TRUE(contains(refusal(model("llama").number("llama.attention.key_length", 7)), "head_dim 7 is odd"));
  EXPECT_TRUE(contains(refusal(model("llama").number("llama.vocab_size", 1u << 31)), "vocab_size is 2147483648"));
}

}  // namespace
}  // namespace muster::spec
