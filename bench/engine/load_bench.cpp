// How long does it take to bring a checkpoint into memory, every byte of it, and how high does resident memory rise?
// load_bench MODEL [--threads N] [--way view|read]: one JSON line. view: the tensors where they lie, and a sum over
// each. read: a copy of each in memory of our own. load_peer.py makes the file, runs this and its peers in turn.
#include <fmt/format.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "base/text.hpp"
#include "checkpoint/parallel_read.hpp"
#include "checkpoint/tensor_source.hpp"

namespace muster::checkpoint {
namespace {

// Memory as an allocator gives it for something large: fresh pages. Asking for large ones made it four times slower on
// a virtual machine whose host has to find them first.
class Arena {
 public:
  explicit Arena(std::size_t bytes) : bytes_(bytes) {
    start_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start_ == MAP_FAILED) throw std::bad_alloc();
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() { ::munmap(start_, bytes_); }
  std::span<std::byte> span() const { return {static_cast<std::byte*>(start_), bytes_}; }

 private:
  void* start_ = nullptr;
  std::size_t bytes_;
};

// This program's alone: what getrusage tells begins with its parent's.
std::int64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  return 0;
}

// A sum over the numbers of two bytes each, as their bits.
std::uint64_t sum_of(std::span<const std::byte> bytes) {
  std::uint64_t sums[4] = {};
  for (; bytes.size() >= 32; bytes = bytes.subspan(32)) {
    std::uint64_t words[4];
    std::memcpy(words, bytes.data(), 32);
    for (int i = 0; i < 4; ++i) sums[i] += words[i];
  }
  for (const std::byte byte : bytes) sums[0] += std::to_integer<std::uint64_t>(byte);
  return sums[0] + sums[1] + sums[2] + sums[3];
}

Result<std::uint64_t> view_all(const TensorSource& source, int threads) {
  constexpr std::size_t part = std::size_t{4} << 20;
  std::vector<std::span<const std::byte>> parts;
  for (const TensorEntry& entry : source.tensors()) {
    const std::byte* start = source.view(entry.name);
    if (start == nullptr) return Error{Error::Kind::failed, "no view of " + entry.name, ""};
    for (std::size_t at = 0; at < entry.stored_bytes; at += part)
      parts.emplace_back(start + at, std::min(part, entry.stored_bytes - at));
  }
  std::atomic<std::size_t> next = 0;
  std::atomic<std::uint64_t> sum = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < parts.size(); i = next++) sum += sum_of(parts[i]);
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(work);
    work();
  }
  return sum.load();
}

Result<std::uint64_t> read_all(const TensorSource& source, int threads, std::size_t total) {
  const Arena arena(total);
  std::vector<TensorRead> reads;
  std::size_t at = 0;
  for (const TensorEntry& entry : source.tensors()) {
    reads.push_back({entry.name, {}, *entry.element_type, arena.span().subspan(at, entry.stored_bytes)});
    at += entry.stored_bytes;
  }
  if (const auto read = read_tensors(source, reads, threads); !read) return read.error();
  return std::to_integer<std::uint64_t>(arena.span().back());
}

int run(const std::string& path, int threads, bool view) {
  const std::int64_t before = peak_resident_bytes();
  const auto start = std::chrono::steady_clock::now();
  const auto source = open_safetensors(path);
  std::size_t total = 0;
  if (source)
    for (const TensorEntry& entry : (*source)->tensors()) total += entry.stored_bytes;
  const Result<std::uint64_t> sum = !source ? Result<std::uint64_t>(source.error())
                                    : view  ? view_all(**source, threads)
                                            : read_all(**source, threads, total);
  if (!sum) {
    fmt::print(stderr, "{}\n", to_string(sum.error()));
    return 1;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print(
      "{{\"bench\": \"load\", \"way\": \"{}\", \"bytes\": {}, \"threads\": {}, \"seconds\": {:.4f}, "
      "\"resident_over_model\": {:.4f}, \"sum\": {}}}\n",
      view ? "view" : "read", total, threads, seconds,
      static_cast<double>(peak_resident_bytes() - before) / static_cast<double>(total), *sum);
  return 0;
}

}  // namespace
}  // namespace muster::checkpoint

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  int threads = 2;
  bool view = true;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (std::string_view(argv[i]) == "--threads") threads = muster::parse_number<int>(argv[i + 1]).value_or(2);
    if (std::string_view(argv[i]) == "--way") view = std::string_view(argv[i + 1]) == "view";
  }
  return muster::checkpoint::run(argv[1], threads, view);
}
