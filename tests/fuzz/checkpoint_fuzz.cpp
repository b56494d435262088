// Opens damaged checkpoints and reads all their tensors: checkpoint_fuzz [--inputs N] [--seed S]. A crash, a sanitizer
// report or an input that takes far too long ends it, and the files stay in the folder that is named.
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "system/files.hpp"
#include "base/text.hpp"
#include "checkpoint/checkpoint_saver.hpp"
#include "checkpoint/checksum.hpp"
#include "checkpoint/gguf_tokenizer.hpp"
#include "checkpoint/tensor_source.hpp"
#include "checkpoint/training_checkpoint.hpp"
#include "checkpoint_bytes.hpp"
#include "convert/convert_model.hpp"
#include "fuzz/checkpoint_reading.hpp"
#include "fuzz/fuzz_frame.hpp"
#include "fuzz/mutator.hpp"
#include "spec/model/gguf_header.hpp"
#include "testing/scratch_folder.hpp"

namespace muster {
namespace {

namespace fs = std::filesystem;
using checkpoint::TensorSource;
using spec::ElementType;
using spec::testing::GgufBytes;

constexpr std::string_view tiny_config =
    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8, "intermediate_size": 6,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 5,
        "max_position_embeddings": 16, "tie_word_embeddings": true, "rope_theta": 10000.0, "torch_dtype": "bfloat16"})";

// The header of its checkpoint, in every type that is converted, and the bytes of its data.
std::pair<std::string, std::size_t> tiny_safetensors() {
  struct Row {
    const char* name;
    std::vector<std::int64_t> sizes;
    const char* type;
    std::size_t element;
  };
  const std::vector<Row> rows{{"model.embed_tokens.weight", {5, 8}, "F64", 8},
                              {"model.layers.0.input_layernorm.weight", {8}, "F32", 4},
                              {"model.layers.0.mlp.down_proj.weight", {8, 6}, "BF16", 2},
                              {"model.layers.0.mlp.gate_proj.weight", {6, 8}, "F16", 2},
                              {"model.layers.0.mlp.up_proj.weight", {6, 8}, "BF16", 2},
                              {"model.layers.0.post_attention_layernorm.weight", {8}, "BF16", 2},
                              {"model.layers.0.self_attn.k_proj.weight", {4, 8}, "F16", 2},
                              {"model.layers.0.self_attn.o_proj.weight", {8, 8}, "F32", 4},
                              {"model.layers.0.self_attn.q_proj.weight", {8, 8}, "BF16", 2},
                              {"model.layers.0.self_attn.v_proj.weight", {4, 8}, "BF16", 2},
                              {"model.norm.weight", {8}, "BF16", 2}};
  nlohmann::json header{{"__metadata__", {{"format", "pt"}}}};
  std::size_t end = 0;
  for (const Row& row : rows) {
    std::size_t bytes = row.element;
    for (const std::int64_t size : row.sizes) bytes *= static_cast<std::size_t>(size);
    header[row.name] = {{"dtype", row.type}, {"shape", row.sizes}, {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  return {header.dump(), end};
}

struct BlockType {
  std::uint32_t number;
  std::uint64_t elements, bytes;
};
constexpr std::array block_types{BlockType{0, 1, 4},      BlockType{1, 1, 2},      BlockType{30, 1, 2},
                                 BlockType{2, 32, 18},    BlockType{3, 32, 20},    BlockType{6, 32, 22},
                                 BlockType{7, 32, 24},    BlockType{8, 32, 34},    BlockType{10, 256, 84},
                                 BlockType{11, 256, 110}, BlockType{12, 256, 144}, BlockType{13, 256, 176},
                                 BlockType{14, 256, 210}, BlockType{20, 32, 18},    BlockType{23, 256, 136},
                                 BlockType{39, 32, 17}};

void add_tokenizer(GgufBytes& bytes, bool byte_level) {
  bytes.word("tokenizer.ggml.model", byte_level ? "gpt2" : "llama");
  if (byte_level) bytes.word("tokenizer.ggml.pre", "smollm").words("tokenizer.ggml.merges", {"a b", "ab c"});
  bytes.words("tokenizer.ggml.tokens", {"a", "b", "ab", "c", "abc", "<e>"}).number("tokenizer.ggml.eos_token_id", 5);
  std::string scores = spec::testing::little_endian<std::uint32_t>(6) + spec::testing::little_endian<std::uint64_t>(6);
  for (const float score : {-1.F, -2.F, -3.F, -4.F, -5.F, 0.F}) scores += spec::testing::little_endian(score);
  bytes.value("tokenizer.ggml.scores", 9, scores).word("tokenizer.chat_template", "{{ messages }}");
}

struct GgufFileSeed {
  std::string header;
  std::size_t data;  // bytes
};
using GgufSeed = std::vector<GgufFileSeed>;  // a model's files

class SeedBuilder {
 public:
  SeedBuilder(std::string architecture, std::uint32_t first_type) : next_type_(first_type), parts_(1) {
    parts_[0].bytes.word("general.architecture", architecture).number("general.alignment", 32);
    const auto number = [&](const char* key, std::uint32_t value) { parts_[0].bytes.number(architecture + "." + key, value); };
    const bool gpt2 = architecture == "gpt2";
    number("block_count", 1);
    number("embedding_length", 256);
    number("feed_forward_length", gpt2 ? 32 : 2);
    number("context_length", 4);
    number("attention.head_count", gpt2 ? 64 : 2);
    number("vocab_size", 6);
    if (gpt2) return;
    number("attention.head_count_kv", 1);
    number("attention.key_length", 4);
  }

  // Sizes in torch's order. The next type whose blocks fill its rows.
  void add(const char* name, std::vector<std::uint64_t> sizes) {
    const std::uint64_t row = sizes.back();
    BlockType type = block_types[0];
    for (std::size_t i = 0; i < block_types.size(); ++i) {
      type = block_types[next_type_++ % block_types.size()];
      if (row % type.elements == 0) break;
    }
    std::uint64_t bytes = row / type.elements * type.bytes;
    if (sizes.size() == 2) bytes *= sizes[0];
    parts_.back().bytes.tensor(name, {sizes.rbegin(), sizes.rend()}, type.number, bytes);
    parts_.back().data += (bytes + 31) / 32 * 32;
    ++tensors_;
  }

  // What is added from now on lies in another file.
  void next_part() { parts_.emplace_back(); }

  GgufSeed finish(bool byte_level) {
    add_tokenizer(parts_[0].bytes, byte_level);
    GgufSeed seed;
    for (std::uint32_t i = 0; i < parts_.size(); ++i) {
      auto& [bytes, data] = parts_[i];
      if (parts_.size() > 1)
        bytes.number("split.no", i)
            .number("split.count", static_cast<std::uint32_t>(parts_.size()))
            .number("split.tensors.count", tensors_);
      seed.push_back({bytes.header(), data});
    }
    return seed;
  }

 private:
  struct Part {
    GgufBytes bytes;
    std::size_t data = 0;
  };

  std::size_t next_type_;
  std::vector<Part> parts_;
  std::uint32_t tensors_ = 0;
};

GgufSeed llama_seed(std::uint32_t first_type, bool in_parts) {
  SeedBuilder seed("llama", first_type);
  seed.add("token_embd.weight", {6, 256});
  for (const char* name : {"output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"})
    seed.add(name, {256});
  seed.add("blk.0.attn_q.weight", {8, 256});
  seed.add("blk.0.attn_k.weight", {4, 256});
  seed.add("blk.0.attn_v.weight", {4, 256});
  if (in_parts) seed.next_part();
  seed.add("blk.0.attn_q.bias", {8});
  for (const char* name : {"blk.0.attn_k.bias", "blk.0.attn_v.bias"}) seed.add(name, {4});
  seed.add("blk.0.attn_output.weight", {256, 8});
  seed.add("blk.0.attn_output.bias", {256});
  if (in_parts) seed.next_part();
  seed.add("blk.0.ffn_gate.weight", {2, 256});
  seed.add("blk.0.ffn_up.weight", {2, 256});
  seed.add("blk.0.ffn_down.weight", {256, 2});
  return seed.finish(first_type % 2 == 0);
}

GgufSeed gpt2_seed(std::uint32_t first_type) {
  SeedBuilder seed("gpt2", first_type);
  seed.add("token_embd.weight", {6, 256});
  seed.add("position_embd.weight", {4, 256});
  for (const char* name : {"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"})
    for (const char* part : {".weight", ".bias"}) seed.add((std::string(name) + part).c_str(), {256});
  seed.add("blk.0.attn_qkv.weight", {768, 256});
  seed.add("blk.0.attn_qkv.bias", {768});
  seed.add("blk.0.attn_output.weight", {256, 256});
  seed.add("blk.0.attn_output.bias", {256});
  seed.add("blk.0.ffn_up.weight", {32, 256});
  seed.add("blk.0.ffn_up.bias", {32});
  seed.add("blk.0.ffn_down.weight", {256, 32});
  seed.add("blk.0.ffn_down.bias", {256});
  return seed.finish(true);
}

// A training checkpoint of two ranks: its files apart, so that each can be damaged and sealed again.
struct TrainingSeed {
  std::string manifest;  // up to its checksum
  std::array<std::string, 2> headers, numbers;
};

TrainingSeed training_seed(const fs::path& folder) {
  std::vector<checkpoint::LogicalTensor> tensors{{"a.weight", {{3, 5}, 2}, {"parameter", "momentum"}},
                                                 {"b", {{7}, 1}, {"parameter", "momentum_codes", "momentum_scales"}}};
  std::vector<std::unique_ptr<checkpoint::CheckpointSaver>> savers;
  checkpoint::TrainingState state;
  state.step = 3;
  state.schedule = {{"peak", 1e-3}};
  for (int rank = 0; rank < 2; ++rank) {
    savers.push_back(std::make_unique<checkpoint::CheckpointSaver>(
        checkpoint::SaverContext{.folder = folder, .attempt = "f", .rank = rank, .ranks = 2}, tensors));
    auto copy = std::make_shared<checkpoint::HostCopy>(checkpoint::share_of(tensors, 2, rank));
    for (std::size_t i = 0; i < copy->pieces().size(); ++i) std::ranges::fill(copy->bytes(i), std::byte{1});
    if (!savers.back()->begin(state, copy)) throw std::logic_error("no seed");
  }
  const auto saved = savers[0]->wait();
  if (!saved) throw std::logic_error("no seed: " + saved.error().what);
  TrainingSeed seed;
  seed.manifest = *read_file(saved->path / checkpoint::manifest_name);
  seed.manifest.resize(seed.manifest.size() - checkpoint::seal_manifest("").size());
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const std::string file = *read_file(saved->path / checkpoint::piece_file_name(rank, 2));
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    seed.headers[rank] = file.substr(sizeof length, length);
    seed.numbers[rank] = file.substr(sizeof length + length);
  }
  return seed;
}

std::vector<std::string> words() {
  std::vector<std::string> list{"null",
                                "-1",
                                "[]",
                                "{}",
                                "99999999999999999999",
                                "\"dtype\":\"F16\"",
                                "\"shape\":[0]",
                                "\"data_offsets\":[0,8]",
                                "GGUF",
                                "\xff",
                                "[8,5]",
                                "[40]",
                                "F64",
                                "BF16",
                                "U8",
                                ","};
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{255}, std::uint64_t{1} << 31,
                                     std::uint64_t{1} << 62, std::uint64_t{1} << 63, ~std::uint64_t{0}})
    list.push_back(spec::testing::little_endian(number));
  for (std::uint32_t number = 0; number < 32; ++number) list.push_back(spec::testing::little_endian(number));
  return list;
}

struct Counts {
  std::size_t opened = 0, in_parts = 0, tensors = 0, tokenizers = 0, converted = 0, resumed = 0;
};

class Fuzzer {
 public:
  explicit Fuzzer(std::uint64_t seed)
      : headers_({tiny_safetensors().first}, words(), seed),
        configs_({std::string(tiny_config)}, words(), seed),
        training_(training_seed(folder_.path())),
        manifests_({training_.manifest}, words(), seed),
        piece_headers_({training_.headers.begin(), training_.headers.end()}, words(), seed),
        random_(seed) {
    for (std::uint32_t type = 0; type < block_types.size(); ++type) {
      gguf_seeds_.push_back(llama_seed(type, type % 4 == 1));
      if (type % 4 == 0) gguf_seeds_.push_back(gpt2_seed(type));
    }
    for (const GgufSeed& gguf : gguf_seeds_)
      for (auto& mutators = gguf_mutators_.emplace_back(); const GgufFileSeed& file : gguf)
        mutators.emplace_back(std::vector{file.header}, words(), seed + file.data);
    fuzz::watched = "the files in " + folder_.path().string();
  }

  void one() {
    const std::size_t kind = below(5);
    if (kind < 2)
      try_safetensors();
    else if (kind == 2)
      try_training_checkpoint();
    else
      try_gguf();
  }
  std::vector<fuzz::Reached> reached() const {
    return {{"opened", counts_.opened},         {"opened_in_parts", counts_.in_parts}, {"tensors_read", counts_.tensors},
            {"tokenizers", counts_.tokenizers}, {"converted", counts_.converted},      {"resumed", counts_.resumed}};
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  // Made once: what matters is that they differ, and making them anew took longest.
  std::string random_bytes(std::size_t count) {
    while (pool_.size() < 2 * count) pool_ += spec::testing::little_endian(random_());
    return pool_.substr(below(pool_.size() - count), count);
  }

  void write(const char* name, const std::string& bytes) {
    std::ofstream(folder_.path() / name, std::ios::binary) << bytes;
  }

  void try_safetensors() {
    const auto [sound, data] = tiny_safetensors();
    const std::string header = below(4) == 0 ? sound : headers_.next();
    std::string file = spec::testing::little_endian<std::uint64_t>(header.size()) + header + random_bytes(data);
    if (below(8) == 0) file.resize(below(file.size() + 1));
    if (below(8) == 0) file[below(8) % std::max<std::size_t>(1, file.size())] ^= static_cast<char>(1 << below(8));
    write("model.safetensors", file);
    write("config.json", below(3) == 0 ? configs_.next() : std::string(tiny_config));
    use(checkpoint::open_safetensors(folder_.path() / "model.safetensors"));
    use(checkpoint::open_checkpoint(folder_.path().string(), {}));
  }

  // One file of a model is damaged, or is missing.
  fs::path write_gguf(std::size_t which) {
    const GgufSeed& seed = gguf_seeds_[which];
    const std::size_t wrong = below(seed.size());
    fs::path first;
    for (std::size_t i = 0; i < seed.size(); ++i) {
      const bool sound = i != wrong || below(4) == 0;
      std::string file = sound ? seed[i].header : gguf_mutators_[which][i].next();
      file.resize((file.size() + 31) / 32 * 32);
      file += random_bytes(seed[i].data);
      if (i == wrong && below(8) == 0) file.resize(below(file.size() + 1));
      const std::string name =
          seed.size() == 1 ? "model.gguf" : fmt::format("m-{:05}-of-{:05}.gguf", i + 1, seed.size());
      write(name.c_str(), file);
      if (i == wrong && seed.size() > 1 && below(32) == 0) fs::remove(folder_.path() / name);
      if (i == 0) first = folder_.path() / name;
    }
    return first;
  }

  void try_gguf() {
    const fs::path path = write_gguf(below(gguf_seeds_.size()));
    const bool in_parts = path.filename() != "model.gguf";
    if (use(checkpoint::open_checkpoint(path.string(), {})) && in_parts) ++counts_.in_parts;
    const auto header = spec::read_gguf_header(path);
    if (header) {
      if (checkpoint::gguf_tokenizer_json(*header)) ++counts_.tokenizers;
      static_cast<void>(checkpoint::gguf_tokenizer_config_json(*header));
      static_cast<void>(checkpoint::gguf_token_ids(*header));
    }
    if (below(16) == 0) convert(path);
  }

  // Damage with the right checksums: what lies behind them must hold by itself.
  void try_training_checkpoint() {
    std::string manifest = below(3) == 0 ? manifests_.next() : training_.manifest;
    fs::create_directories(folder_.path() / "step-3");
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const bool damage = below(3) == 0;
      const std::string header = damage ? piece_headers_.next() : training_.headers[rank];
      const std::string start = spec::testing::little_endian<std::uint64_t>(header.size()) + header;
      write(("step-3/" + checkpoint::piece_file_name(rank, 2)).c_str(), start + training_.numbers[rank]);
      replace(manifest, header_checksum(training_.headers[rank]), header_checksum(header));
      const std::string size = "\"size\": ", name = checkpoint::piece_file_name(rank, 2);
      const std::size_t at = manifest.find(size, manifest.find(name));
      if (at == std::string::npos) continue;
      const std::size_t end = manifest.find(',', at);
      if (end != std::string::npos)
        manifest.replace(at, end - at, size + std::to_string(start.size() + training_.numbers[rank].size()));
    }
    write("step-3/manifest.json", checkpoint::seal_manifest(manifest));
    const auto opened = checkpoint::TrainingCheckpoint::open(folder_.path() / "step-3");
    if (!opened || !opened->verify(1)) return;
    ++counts_.resumed;
    for (const checkpoint::LogicalTensor& tensor : opened->tensors())
      for (const std::string& state : tensor.states) {
        // All bytes that were written are 1, wherever damage points.
        std::vector<std::byte> whole(static_cast<std::size_t>(checkpoint::byte_count(tensor, state)));
        if (!opened->read(tensor.name, state, 0, std::span(whole)))
          throw std::logic_error("what was verified cannot be read: " + tensor.name);
        if (std::ranges::any_of(whole, [](std::byte byte) { return byte != std::byte{1}; }))
          throw std::logic_error("another number than was written: " + tensor.name);
        whole.resize(below(20) * static_cast<std::size_t>(spec::bytes_per_element(checkpoint::form_of(state).type)));
        static_cast<void>(opened->read(tensor.name, state, static_cast<std::int64_t>(below(20)) - 1, std::span(whole)));
      }
  }

  static std::string header_checksum(const std::string& header) {
    return checkpoint::checksum_text(
        checkpoint::checksum_of(spec::testing::little_endian<std::uint64_t>(header.size()) + header));
  }
  static void replace(std::string& text, const std::string& old, const std::string& other) {
    if (const std::size_t at = text.find(old); at != std::string::npos) text.replace(at, old.size(), other);
  }

  void convert(const fs::path& path) {
    const fs::path place = folder_.path() / "converted";
    convert::ConversionRequest request;
    request.model = path.string();
    request.folder = place;
    request.dtype = ElementType::bfloat16;
    request.shard_size = ByteCount{20'000};
    if (below(2) == 0) request.form = spec::WeightOptions{{.double_quantized = below(2) == 0}, {}};
    if (!convert::convert_model(request, {})) return;
    ++counts_.converted;
    if (!checkpoint::open_checkpoint(place.string(), {}))
      throw std::logic_error("what was converted cannot be opened: " + path.string());
    fs::remove_all(place);
  }

  bool use(Result<std::unique_ptr<TensorSource>> opened) {
    if (!opened) return false;
    ++counts_.opened;
    counts_.tensors += read_everything(**opened, random_);
    return true;
  }

  testing::ScratchFolder folder_;
  Mutator headers_, configs_;
  TrainingSeed training_;
  Mutator manifests_, piece_headers_;
  std::vector<GgufSeed> gguf_seeds_;
  std::vector<std::vector<Mutator>> gguf_mutators_;  // parallel to the seeds and their files
  std::mt19937_64 random_;
  std::string pool_;
  Counts counts_;
};

}  // namespace
}  // namespace muster

int main(int count, char** words) {
  return muster::fuzz::run<muster::Fuzzer>("checkpoint_fuzz", count, words, 6'000, 5'000);
}
