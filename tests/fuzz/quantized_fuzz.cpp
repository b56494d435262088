// Opens damaged checkpoints of quantised weights and decodes them: quantized_fuzz [--inputs N] [--seed S]. A crash, a
// sanitizer report or an input that takes far too long ends it, and the files stay in the folder that is named.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "fuzz/checkpoint_reading.hpp"
#include "fuzz/fuzz_frame.hpp"
#include "fuzz/mutator.hpp"
#include "fuzz/quantized_seeds.hpp"
#include "testing/scratch_folder.hpp"

namespace muster {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> words() {
  return {"null", "-1", "0", "3", "[]", "{}", "99999999999999999999", "4294967296", "\"I32\"", "\"U8\"", "\"F16\"", "\"F8_E4M3\"",
          "\"F8_E8M0\"", "\"bits\": 2,", "\"bits\": 8,", "\"group_size\": 1,", "\"group_size\": -1,", "\"group_size\": 1048576,",
          "[1]", "[0, 32]", "qweight", "qzeros", "scales", "g_idx", "weight_scale", "weight", "absmax", "gptq", "awq", "gemv",
          "bitsandbytes", "fp8", "true", "false", ",", "1e300", "\xff"};
}

struct Counts {
  std::vector<std::size_t> opened;  // of each seed
  std::size_t damaged = 0, tensors = 0;
};

class Fuzzer {
 public:
  explicit Fuzzer(std::uint64_t seed) : seeds_(quantized_seeds()), random_(seed) {
    for (const QuantizedSeed& sound : seeds_) {
      headers_.emplace_back(std::vector{sound.header}, words(), seed);
      settings_.emplace_back(std::vector{sound.settings}, words(), seed);
    }
    counts_.opened.resize(seeds_.size());
    fuzz::watched = "the files in " + folder_.path().string();
    for (const QuantizedSeed& sound : seeds_) check(sound);
  }

  void one() {
    const std::size_t which = below(seeds_.size());
    const QuantizedSeed& sound = seeds_[which];
    const bool damaged_header = below(3) == 0, damaged_settings = below(4) == 0;
    const std::string header = damaged_header ? headers_[which].next() : sound.header;
    std::string file = spec::testing::little_endian<std::uint64_t>(header.size()) + header + data_of(sound);
    if (below(16) == 0) file.resize(below(file.size() + 1));
    write("model.safetensors", file);
    write_settings(damaged_settings ? settings_[which].next() : sound.settings);
    const auto opened = checkpoint::open_checkpoint(folder_.path().string(), {});
    if (!opened) return;
    ++counts_.opened[which];
    if (damaged_header || damaged_settings) ++counts_.damaged;
    counts_.tensors += read_everything(**opened, random_);
  }
  std::vector<fuzz::Reached> reached() const {
    return {{"opened_of_each_method_at_least", std::ranges::min(counts_.opened)},
            {"opened_though_damaged", counts_.damaged},
            {"tensors_read", counts_.tensors}};
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  void write(const char* name, const std::string& bytes) {
    std::ofstream(folder_.path() / name, std::ios::binary) << bytes;
  }

  void check(const QuantizedSeed& sound) {
    write("model.safetensors", spec::testing::little_endian<std::uint64_t>(sound.header.size()) + sound.header + sound.data);
    write("config.json", fmt::format(fmt::runtime(quantized_config), ", \"quantization_config\": " + sound.settings));
    const auto opened = checkpoint::open_checkpoint(folder_.path().string(), {});
    if (!opened) throw std::logic_error(fmt::format("{} is refused: {}", sound.settings, to_string(opened.error())));
    if (read_everything(**opened, random_) == 0) throw std::logic_error(sound.settings + " cannot be read");
  }

  // Most often sound, so that what lies behind the checks is reached; otherwise with other bytes in a few places.
  std::string data_of(const QuantizedSeed& sound) {
    std::string data = sound.data;
    if (below(3) == 0)
      for (std::size_t changes = 1 + below(6); changes > 0; --changes) {
        const std::size_t at = below(data.size());
        const std::string bytes = spec::testing::little_endian(random_());
        data.replace(at, std::min<std::size_t>(1 + below(8), data.size() - at), bytes.substr(0, 1 + below(8)));
      }
    data.resize(sound.data.size());
    return data;
  }

  // In config.json, or in a file beside it as older programs wrote them.
  void write_settings(const std::string& settings) {
    for (const char* name : {"quantize_config.json", "quant_config.json"}) fs::remove(folder_.path() / name);
    const bool beside = below(6) == 0;
    if (beside) write(below(2) == 0 ? "quantize_config.json" : "quant_config.json", settings);
    const std::string section = beside ? "" : ", \"quantization_config\": " + settings;
    write("config.json", fmt::format(fmt::runtime(quantized_config), section));
  }

  testing::ScratchFolder folder_;
  std::vector<QuantizedSeed> seeds_;
  std::vector<Mutator> headers_, settings_;  // parallel to the seeds
  std::mt19937_64 random_;
  Counts counts_;
};

}  // namespace
}  // namespace muster

int main(int count, char** words) {
  return muster::fuzz::run<muster::Fuzzer>("quantized_fuzz", count, words, 4'000, 2'000);
}
