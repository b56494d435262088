#include "data/token_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/bit_mix.hpp"
#include "base/checksum.hpp"
#include "system/file_descriptor.hpp"
#include "system/files.hpp"
#include "system/staged_file.hpp"

namespace muster::data {
namespace {

static_assert(sizeof(TokenFileStart) == 16 && sizeof(TokenFileFooter) == 144 && sizeof(SampleIndex) == 24 &&
              sizeof(TokenSpan) == 16);

template <class Value>
std::string_view bytes_of(const Value& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Bytes on their way to somewhere, in blocks of checksum_block bytes.
class BlockBuffer {
 public:
  // put(block) is called for each full block.
  template <class Put>
  Result<void> add(std::string_view bytes, Put&& put) {
    while (!bytes.empty()) {
      const std::size_t taken = std::min(bytes.size(), checksum_block - held_.size());
      held_ += bytes.substr(0, taken);
      bytes.remove_prefix(taken);
      if (held_.size() < checksum_block) break;
      if (auto done = flush(put); !done) return done;
    }
    return {};
  }
  template <class Put>
  Result<void> flush(Put&& put) {
    if (held_.empty()) return {};
    sum_ = fold_checksum(sum_, checksum(std::as_bytes(std::span(held_))));
    Result<void> done = put(std::string_view(held_));
    held_.clear();
    return done;
  }
  std::uint64_t sum() const { return sum_; }

 private:
  std::string held_;
  std::uint64_t sum_ = 0;
};

// What comes after the tokens waits in a file without a name, which vanishes with its descriptor.
class Spool {
 public:
  static Result<Spool> create(const std::filesystem::path& beside) {
    const std::string path = fmt::format("{}.spool-{}", beside.string(), ::getpid());
    FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file) return cannot_write(beside);
    ::unlink(path.c_str());
    return Spool(std::move(file), beside);
  }

  Result<void> write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t put = ::write(file_.number(), bytes.data(), bytes.size());
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return cannot_write(beside_);
      bytes.remove_prefix(static_cast<std::size_t>(put));
    }
    return {};
  }

  Result<void> copy_to(StagedFile& out) const {
    std::string block(checksum_block, '\0');
    for (off_t at = 0;;) {
      const ssize_t got = ::pread(file_.number(), block.data(), block.size(), at);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return cannot_write(beside_);
      if (got == 0) return {};
      if (auto written = out.write({block.data(), static_cast<std::size_t>(got)}); !written) return written;
      at += got;
    }
  }

 private:
  Spool(FileDescriptor file, std::filesystem::path beside) : file_(std::move(file)), beside_(std::move(beside)) {}
  static Error cannot_write(const std::filesystem::path& place) {
    return {Error::Kind::failed, fmt::format("cannot write beside {}: {}", place.string(), system_reason()),
            "check free space and permissions of the folder; MUSTER_CACHE names another one"};
  }

  FileDescriptor file_;
  std::filesystem::path beside_;
};

}  // namespace

std::uint64_t fold_checksum(std::uint64_t sum, std::uint64_t block) {
  return mix_bits(sum + 0x9e3779b97f4a7c15u) ^ block;
}

SampleCounts counts_of(const TokenFileFooter& footer) {
  const auto number = [](std::uint64_t count) { return static_cast<std::int64_t>(count); };
  return {.samples = number(footer.samples),
          .tokens = number(footer.tokens),
          .trained_tokens = number(footer.trained_tokens),
          .reply_tokens = number(footer.reply_tokens),
          .cut = number(footer.cut),
          .dropped = number(footer.dropped),
          .token_limit = number(footer.token_limit),
          .longest = number(footer.longest),
          .conversations = number(footer.conversations),
          .split = number(footer.split),
          .trajectories = number(footer.trajectories),
          .poor = number(footer.poor),
          .older = number(footer.older)};
}

std::uint64_t checksum_of(const TokenFileStart& start, const TokenFileFooter& footer) {
  const std::uint64_t seed = checksum(std::as_bytes(std::span(&start, 1)));
  const auto bytes = std::as_bytes(std::span(&footer, 1));
  return checksum(bytes.first(bytes.size() - sizeof footer.own_checksum), seed);
}

struct TokenFileWriter::Parts {
  StagedFile file;
  Spool span_spool, index_spool;
  BlockBuffer tokens = {}, spans = {}, index = {};
  TokenFileFooter counts = {};

  Result<void> add_index(std::uint32_t trained, std::uint32_t label) {
    const SampleIndex entry{counts.tokens, counts.spans, trained, label};
    return index.add(bytes_of(entry), [&](std::string_view block) { return index_spool.write(block); });
  }
};

TokenFileWriter::TokenFileWriter(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
TokenFileWriter::TokenFileWriter(TokenFileWriter&&) noexcept = default;
TokenFileWriter::~TokenFileWriter() = default;

Result<TokenFileWriter> TokenFileWriter::create(const std::filesystem::path& place) {
  auto file = StagedFile::create(place);
  if (!file) return file.error();
  auto spans = Spool::create(place);
  if (!spans) return spans.error();
  auto index = Spool::create(place);
  if (!index) return index.error();
  const TokenFileStart start;
  if (auto written = file->write(bytes_of(start)); !written) return written.error();
  return TokenFileWriter(std::unique_ptr<Parts>(new Parts{std::move(*file), std::move(*spans), std::move(*index)}));
}

Result<void> TokenFileWriter::add(const Sample& sample) {
  Parts& parts = *parts_;
  std::uint32_t trained = 0, replies = 0;
  for (const TokenSpan& span : sample.trained) {
    trained += span.end - span.begin;
    if (span.speaker == Speaker::others) replies += span.end - span.begin;
  }
  if (auto added = parts.add_index(trained, sample.label); !added) return added;
  const std::string_view tokens(reinterpret_cast<const char*>(sample.tokens.data()), sample.tokens.size() * 4);
  if (auto added = parts.tokens.add(tokens, [&](std::string_view block) { return parts.file.write(block); }); !added)
    return added;
  const std::string_view spans(reinterpret_cast<const char*>(sample.trained.data()),
                               sample.trained.size() * sizeof(TokenSpan));
  if (auto added = parts.spans.add(spans, [&](std::string_view block) { return parts.span_spool.write(block); });
      !added)
    return added;
  TokenFileFooter& counts = parts.counts;
  ++counts.samples;
  counts.tokens += sample.tokens.size();
  counts.spans += sample.trained.size();
  counts.trained_tokens += trained;
  counts.reply_tokens += replies;
  counts.longest = std::max<std::uint64_t>(counts.longest, sample.tokens.size());
  for (const std::int32_t token : sample.tokens)
    counts.token_limit = std::max(counts.token_limit, static_cast<std::uint64_t>(token) + 1);
  return {};
}

Result<SampleCounts> TokenFileWriter::commit(const SampleCounts& told) {
  Parts& parts = *parts_;
  TokenFileFooter& counts = parts.counts;
  if (auto added = parts.add_index(0, 0); !added) return added.error();
  const auto to_file = [&](std::string_view block) { return parts.file.write(block); };
  Result<void> done = parts.tokens.flush(to_file);
  if (done && counts.tokens % 2 != 0) done = parts.file.write(std::string_view("\0\0\0\0", 4));
  if (done) done = parts.spans.flush([&](std::string_view block) { return parts.span_spool.write(block); });
  if (done) done = parts.index.flush([&](std::string_view block) { return parts.index_spool.write(block); });
  if (done) done = parts.span_spool.copy_to(parts.file);
  if (done) done = parts.index_spool.copy_to(parts.file);
  counts.cut = static_cast<std::uint64_t>(told.cut);
  counts.dropped = static_cast<std::uint64_t>(told.dropped);
  counts.conversations = static_cast<std::uint64_t>(told.conversations);
  counts.split = static_cast<std::uint64_t>(told.split);
  counts.trajectories = static_cast<std::uint64_t>(told.trajectories);
  counts.poor = static_cast<std::uint64_t>(told.poor);
  counts.older = static_cast<std::uint64_t>(told.older);
  counts.token_checksum = parts.tokens.sum();
  counts.span_checksum = parts.spans.sum();
  counts.index_checksum = parts.index.sum();
  counts.own_checksum = checksum_of(TokenFileStart{}, counts);
  if (done) done = parts.file.write(bytes_of(counts));
  if (done) done = parts.file.commit();
  if (!done) return done.error();
  return counts_of(counts);
}

}  // namespace muster::data
