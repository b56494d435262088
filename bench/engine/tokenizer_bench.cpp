// How fast a text becomes ids: tokenizer_bench TOKENIZER TEXT [THREADS]... The text is cut into documents at the byte
// 0; one JSON line for each number of threads, with the ids' count and a sum that tells whether two programs gave the
// same ids.
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <string_view>
#include <vector>

#include "system/files.hpp"
#include "base/text.hpp"
#include "tokenizer/tokenizer.hpp"

namespace muster::tokenizer {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<std::string_view> documents(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\0', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// Depends on every id and its place.
std::uint64_t sum_of(const std::vector<std::vector<TokenId>>& lists) {
  std::uint64_t sum = 0;
  for (const auto& list : lists)
    for (const TokenId id : list) sum = (sum * 31 + static_cast<std::uint64_t>(id)) % 1'000'000'007;
  return sum;
}

int run(const char* file, const char* text_file, const std::vector<int>& thread_counts) {
  const auto start = Clock::now();
  const auto tokenizer = read_tokenizer(file);
  if (!tokenizer) return fmt::print(stderr, "{}\n", to_string(tokenizer.error())), 1;
  const double load = seconds_since(start);
  const auto text = read_file(text_file);
  if (!text) return fmt::print(stderr, "{}\n", to_string(text.error())), 1;
  const auto parts = documents(*text);
  for (const int threads : thread_counts) {
    const auto begin = Clock::now();
    const std::clock_t processor_begin = std::clock();
    const auto lists = encode_all(*tokenizer, parts, false, threads);
    const double seconds = seconds_since(begin);
    const double processor = static_cast<double>(std::clock() - processor_begin) / CLOCKS_PER_SEC;
    std::size_t count = 0;
    for (const auto& list : lists) count += list.size();
    fmt::print(
        "{{\"bench\": \"tokenizer\", \"who\": \"muster\", \"threads\": {}, \"bytes\": {}, \"documents\": {}, \"ids\": "
        "{}, "
        "\"sum\": {}, \"seconds\": {:.3f}, \"processor_seconds\": {:.3f}, \"megabytes_per_second\": {:.2f}, "
        "\"load_seconds\": "
        "{:.3f}}}\n",
        threads, text->size(), parts.size(), count, sum_of(lists), seconds, processor,
        static_cast<double>(text->size()) / 1e6 / seconds, load);
  }
  return 0;
}

}  // namespace
}  // namespace muster::tokenizer

int main(int argc, char** argv) {
  std::vector<int> threads;
  for (int i = 3; i < argc; ++i) threads.push_back(muster::parse_number<int>(argv[i]).value_or(1));
  if (threads.empty()) threads.push_back(1);
  if (argc < 3) return fmt::print(stderr, "tokenizer_bench TOKENIZER TEXT [THREADS]...\n"), 2;
  return muster::tokenizer::run(argv[1], argv[2], threads);
}
