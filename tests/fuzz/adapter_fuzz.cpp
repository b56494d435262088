// Opens damaged folders of adapters, reads all their tensors and merges them: adapter_fuzz [--inputs N] [--seed S]. A
// crash, a sanitizer report or an input that takes far too long ends it, and the files stay in the folder that is named.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "checkpoint/adapters/adapter_folder.hpp"
#include "checkpoint/adapters/merge_adapter.hpp"
#include "checkpoint_bytes.hpp"
#include "fuzz/checkpoint_reading.hpp"
#include "fuzz/fuzz_frame.hpp"
#include "fuzz/mutator.hpp"
#include "spec/model/model_source.hpp"
#include "system/files.hpp"
#include "testing/scratch_folder.hpp"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view base_config =
    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8, "intermediate_size": 12,
        "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 5,
        "max_position_embeddings": 16, "tie_word_embeddings": true, "torch_dtype": "float16"})";

std::vector<spec::AdapterOptions> sound_options() {
  return {{.rank = 2},
          {.rank = 3, .rank_stabilized = true, .targets = {"q_proj", "down_proj"}, .layers = {1},
           .rank_patterns = {{"down_proj", 1}}, .alpha_patterns = {{"q_proj", 2.5}}},
          {.rank = 2, .weight_decomposed = true, .targets = {".*\\.mlp\\.(up|gate)_proj"}, .excluded = {"gate_proj"}},
          {.rank = 1, .targets = {"o_proj"}, .saved_modules = {"embed_tokens", "norm"}}};
}

std::vector<std::string> words() {
  return {"null", "-1", "0", "3", "[]", "{}", "\"\"", "99999999999999999999", "4294967296", "1e300", "true", "false", ",", "\"F16\"",
          "[1]", "[0, 8]", "lora_A", "lora_B", "lora_magnitude_vector", "score.weight", "base_model.model.", "\"all-linear\"",
          "\"SEQ_CLS\"", "\"r\": 65536,", "\"use_dora\": true,", "\"lora_alpha\": 0,", "(((a*)*)*)*", "(?:", ".*", "norm", "\xff"};
}

// One adapter's files, taken apart.
struct Seed {
  std::string config, header, data;
};

Seed sound_adapter(const fs::path& folder, const spec::ModelShape& base, const spec::AdapterOptions& options) {
  const auto zeros = [](const checkpoint::TensorDeclaration&, std::span<std::byte> out) -> Result<void> {
    std::ranges::fill(out, std::byte{0});
    return {};
  };
  const checkpoint::AdapterExport request{.folder = folder, .replace = true, .texts = {}, .config = {.options = options}};
  if (const auto written = checkpoint::write_adapter(request, base, zeros); !written)
    throw std::logic_error(to_string(written.error()));
  const std::string file = read_file(folder / "adapter_model.safetensors").value();
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  return {read_file(folder / "adapter_config.json").value(), file.substr(sizeof length, length),
          file.substr(sizeof length + length)};
}

class Fuzzer {
 public:
  explicit Fuzzer(std::uint64_t seed) : random_(seed) {
    write_base();
    const auto model = spec::read_model(base_.string(), {}, std::nullopt);
    if (!model) throw std::logic_error(to_string(model.error()));
    shape_ = model->shape;
    for (const spec::AdapterOptions& options : sound_options()) {
      seeds_.push_back(sound_adapter(adapter_, shape_, options));
      configs_.emplace_back(std::vector{seeds_.back().config}, words(), seed);
      headers_.emplace_back(std::vector{seeds_.back().header}, words(), seed);
      if (!try_one(seeds_.back(), true)) throw std::logic_error(seeds_.back().config + " is refused");
    }
    opened_.assign(seeds_.size(), 0);
    fuzz::watched = "the files in " + folder_.path().string();
  }

  void one() {
    const std::size_t which = below(seeds_.size());
    Seed seed = seeds_[which];
    const bool other_config = below(2) == 0, other_header = below(3) == 0;
    if (other_config) seed.config = configs_[which].next();
    if (other_header) seed.header = headers_[which].next();
    if (below(8) == 0) seed.data.resize(below(seed.data.size() + 1));
    if (!try_one(seed, below(16) == 0)) return;
    ++opened_[which];
    if (other_config || other_header) ++damaged_;
  }

  std::vector<fuzz::Reached> reached() const {
    return {{"opened_of_each_kind_at_least", std::ranges::min(opened_)},
            {"opened_though_damaged", damaged_},
            {"merged", merged_},
            {"tensors_read", tensors_}};
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  static void write(const fs::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

  void write_base() {
    const auto config = spec::parse_model_config(base_config, "base").value();
    const spec::ModelShape shape = spec::build_shape(config, spec::ElementType::float16);
    const checkpoint::ExportRequest request{.folder = base_,
                                            .texts = {{"config.json", std::string(base_config)}},
                                            .tensors = checkpoint::tensors_to_export(shape, spec::ElementType::float16)};
    const auto written = checkpoint::export_model(request, [](const auto&, std::span<std::byte> out) -> Result<void> {
      std::ranges::fill(out, std::byte{0x31});
      return {};
    });
    if (!written) throw std::logic_error(to_string(written.error()));
  }

  // Whether it could be opened.
  bool try_one(const Seed& seed, bool merging) {
    write(adapter_ / "adapter_config.json", seed.config);
    write(adapter_ / "adapter_model.safetensors",
          spec::testing::little_endian<std::uint64_t>(seed.header.size()) + seed.header + seed.data);
    static_cast<void>(checkpoint::score_head_of(adapter_));
    const auto opened = checkpoint::open_adapter(adapter_, shape_);
    if (opened) tensors_ += read_everything(*opened->tensors, random_);
    if (!merging) return static_cast<bool>(opened);
    const fs::path out = folder_.path() / "merged";
    if (checkpoint::merge_adapter({.model = base_.string(), .adapter = adapter_, .folder = out}, {})) ++merged_;
    fs::remove_all(out);
    return static_cast<bool>(opened);
  }

  testing::ScratchFolder folder_;
  fs::path base_ = folder_.path() / "base", adapter_ = folder_.path() / "adapter";
  spec::ModelShape shape_;
  std::vector<Seed> seeds_;
  std::vector<Mutator> configs_, headers_;  // parallel to the seeds
  std::mt19937_64 random_;
  std::vector<std::size_t> opened_;
  std::size_t damaged_ = 0, merged_ = 0, tensors_ = 0;
};

}  // namespace
}  // namespace muster

int main(int count, char** words) {
  return muster::fuzz::run<muster::Fuzzer>("adapter_fuzz", count, words, 2'000, 1'500);
}
