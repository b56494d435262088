// Feeds mutated texts to every parser that reads what a user wrote: parser_fuzz [--inputs N] [--seed S]. A crash, a
// sanitizer report or an input that takes longer than ten seconds ends it, with the input on standard error.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/byte_count.hpp"
#include "base/duration.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "gpu/inventory.hpp"
#include "gpu/mask.hpp"
#include "spec/resolve.hpp"

namespace muster {
namespace {

std::string current_input;  // for the signal handler, which can reach nothing else

extern "C" void show_input(int) {
  constexpr std::string_view title = "\nparser_fuzz: too slow, or aborted, on this input:\n";
  static_cast<void>(!::write(STDERR_FILENO, title.data(), title.size()));
  static_cast<void>(!::write(STDERR_FILENO, current_input.data(), current_input.size()));
  ::_exit(1);
}

class Mutator {
 public:
  Mutator(std::vector<std::string> corpus, std::vector<std::string> words, std::uint64_t seed)
      : corpus_(std::move(corpus)), words_(std::move(words)), random_(seed) {}

  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  std::string next() {
    std::string text = corpus_[below(corpus_.size())];
    for (std::size_t changes = 1 + below(8); changes > 0; --changes) change(text);
    if (text.size() > 20'000) text.resize(20'000);
    return text;
  }

 private:
  void change(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    switch (below(8)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      case 1:
        text.insert(at, words_[below(words_.size())]);
        break;
      case 2:
        text.erase(at, below(12));
        break;
      case 3:
        text.resize(at);
        break;
      case 4:
        text.insert(at, text.substr(below(text.size() + 1), below(60)));
        break;
      case 5: {
        const std::string& other = corpus_[below(corpus_.size())];
        text = text.substr(0, at) + other.substr(below(other.size() + 1));
        break;
      }
      case 6:
        text.insert(at, std::string(below(300), "[{ \n-:&*\"'0,"[below(12)]));
        break;
      default: {
        const auto space = text.find_first_of(" \n", at);
        if (space != std::string::npos) text.replace(at, space - at, words_[below(words_.size())]);
      }
    }
  }

  std::vector<std::string> corpus_, words_;
  std::mt19937_64 random_;
};

std::vector<gpu::Gpu> four_gpus() {
  const auto snapshot = gpu::parse_inventory(
      "gpus: [{count: 3, memory_total: 40GiB}, {memory_total: 1GiB, mig: [{uuid: MIG-aa, gpu_instance: 1, "
      "compute_instance: 0}]}]",
      "four");
  if (!snapshot) throw std::logic_error(snapshot.error().what);
  return snapshot->gpus;
}

std::vector<std::string> seed_texts(const spec::Schema& schema) {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(MUSTER_CORPUS)) {
    const auto extension = entry.path().extension();
    if (extension == ".yaml" || extension == ".json") texts.push_back(read_file(entry.path()).value());
  }
  texts.push_back(spec::print_configuration(schema, spec::resolve(schema, {}).value()));
  texts.emplace_back(
      "{\"gpus\": [{\"index\": 0, \"memory\": {\"total\": 42949672960, \"used\": 1}, \"processes\": [{\"pid\": 1}], "
      "\"healthy\": true}], \"links\": []}");
  texts.emplace_back(
      "gpus:\n  - {count: 8, name: A, memory_total: 40GiB, temperature: 30, xids: [79]}\nlinks:\n  - {between: [0, 1], "
      "kind: nvlink, lanes: 4}\n");
  texts.emplace_back("a: &x {b: [1, 2, *y]}\nc: *x\n? d\n: !!str e\n--- \n...\n");
  texts.emplace_back("training.max_steps=100");
  texts.emplace_back("0,1,GPU-aaaa,MIG-GPU-bbbb/1/0,-1");
  texts.emplace_back("12.5GiB 300ms");
  return texts;
}

std::vector<std::string> dictionary(const spec::Schema& schema) {
  std::vector<std::string> words{":",
                                 ": ",
                                 "- ",
                                 "\n",
                                 "\n  ",
                                 "[",
                                 "]",
                                 "{",
                                 "}",
                                 ",",
                                 "\"",
                                 "'",
                                 "#",
                                 "&a ",
                                 "*a",
                                 "!!int ",
                                 "|\n",
                                 ">\n",
                                 "---\n",
                                 "null",
                                 "~",
                                 "true",
                                 "-1",
                                 "1e999",
                                 "0x7f",
                                 "99999999999999999999",
                                 "GiB",
                                 "GB",
                                 "\t",
                                 "\\u0000",
                                 "\xff\xfe",
                                 "\xc3",
                                 "<<: ",
                                 "count: 1000000000",
                                 "index: -1",
                                 "memory_total: ",
                                 "between: [0, 0]",
                                 "MIG-",
                                 "GPU-"};
  for (const std::string& key : schema.keys()) {
    words.push_back(key);
    words.push_back(key.substr(key.rfind('.') + 1) + ": ");
  }
  return words;
}

void feed(const spec::Schema& schema, const std::vector<gpu::Gpu>& gpus, const std::string& text, std::size_t which) {
  switch (which) {
    case 0: {
      const auto resolved = spec::resolve(schema, {.file = spec::ConfigurationFile{"fuzz.yaml", text}});
      if (!resolved) return;
      const std::string printed = spec::print_configuration(schema, *resolved);  // what loads must print and load again
      if (!spec::resolve(schema, {.file = spec::ConfigurationFile{"printed.yaml", printed}}))
        throw std::logic_error("printed configuration does not load:\n" + printed);
      return;
    }
    case 1:
      static_cast<void>(gpu::parse_inventory(text, "fuzz.yaml"));
      return;
    case 2:
      static_cast<void>(gpu::read_mask(text, gpus));
      static_cast<void>(gpu::read_as_cuda(text, gpus));
      return;
    case 3:
      if (const auto override = spec::parse_override(text))
        static_cast<void>(spec::resolve(schema, {.overrides = {*override}}));
      return;
    default:
      static_cast<void>(parse_byte_count(text));
      static_cast<void>(parse_duration(text));
      static_cast<void>(spec::resolve(schema, {.environment = {{"MUSTER_" + text.substr(0, 40), text}}}));
  }
}

int fuzz(std::size_t inputs, std::uint64_t seed) {
  const spec::Schema schema;
  const std::vector<gpu::Gpu> gpus = four_gpus();
  Mutator mutator(seed_texts(schema), dictionary(schema), seed);
  ::signal(SIGALRM, show_input);
  ::signal(SIGABRT, show_input);
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < inputs; ++i) {
    current_input = mutator.next();
    ::alarm(10);
    feed(schema, gpus, current_input, mutator.below(8) < 4 ? 0 : mutator.below(5));
    if (i % 100'000 == 99'999) fmt::print(stderr, "parser_fuzz: {} inputs\n", i + 1);
  }
  ::alarm(0);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{{\"bench\": \"parser_fuzz\", \"inputs\": {}, \"seed\": {}, \"seconds\": {:.1f}, \"crashes\": 0}}\n",
             inputs, seed, seconds);
  return 0;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  std::size_t inputs = 20'000;
  std::uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const auto value = muster::parse_number<std::uint64_t>(argv[i + 1]);
    if (!value) return 2;
    (std::string_view(argv[i]) == "--seed" ? seed : inputs) = *value;
  }
  return muster::fuzz(inputs, seed);
}
