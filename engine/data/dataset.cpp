#include "data/dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <thread>

#include "base/checksum.hpp"
#include "checkpoint/mapped_file.hpp"
#include "data/token_file.hpp"

namespace muster::data {
namespace {

using Bytes = std::span<const std::byte>;

Error damaged(const std::filesystem::path& path, std::string_view what) {
  return {Error::Kind::failed, fmt::format("{} is not a whole token file: {}", path.string(), what),
          "remove it; it is made again from the data"};
}

// Where the parts lie, and that they fill the file: nothing else is trusted before that.
struct Layout {
  Bytes tokens, spans, index;
};
std::optional<Layout> layout_of(Bytes file, const TokenFileFooter& footer) {
  constexpr std::uint64_t most = std::uint64_t{1} << 56;  // sums below cannot overflow
  if (footer.samples > most || footer.tokens > most || footer.spans > most) return std::nullopt;
  const std::uint64_t tokens = footer.tokens * 4, padding = footer.tokens % 2 * 4;
  const std::uint64_t spans = footer.spans * sizeof(TokenSpan), index = (footer.samples + 1) * sizeof(SampleIndex);
  const std::uint64_t begin = sizeof(TokenFileStart);
  if (begin + tokens + padding + spans + index + sizeof(TokenFileFooter) != file.size()) return std::nullopt;
  return Layout{file.subspan(begin, tokens), file.subspan(begin + tokens + padding, spans),
                file.subspan(begin + tokens + padding + spans, index)};
}

std::uint64_t block_checksum(Bytes bytes, int threads) {
  const std::size_t blocks = (bytes.size() + checksum_block - 1) / checksum_block;
  std::vector<std::uint64_t> sums(blocks);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < blocks;) {
      const std::size_t begin = i * checksum_block;
      sums[i] = checksum(bytes.subspan(begin, std::min(checksum_block, bytes.size() - begin)));
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < threads && static_cast<std::size_t>(i) < blocks; ++i) others.emplace_back(work);
    work();
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t block : sums) sum = fold_checksum(sum, block);
  return sum;
}

template <class Value>
std::span<const Value> as_values(Bytes bytes) {
  return {reinterpret_cast<const Value*>(bytes.data()), bytes.size() / sizeof(Value)};
}

bool spans_are_right(std::span<const TokenSpan> spans, std::uint64_t length, std::uint32_t trained) {
  std::uint64_t end = 1, count = 0;
  for (const TokenSpan& span : spans) {
    if (span.begin < end || span.end <= span.begin || span.end > length) return false;
    if (span.speaker != Speaker::assistant && span.speaker != Speaker::others) return false;
    end = span.end;
    count += span.end - span.begin;
  }
  return count == trained;
}

// Every sample lies within the tokens, and its spans within the sample.
bool index_is_right(std::span<const SampleIndex> index, std::span<const TokenSpan> spans,
                    const TokenFileFooter& footer) {
  const SampleIndex& last = index.back();
  if (index.front().token != 0 || index.front().span != 0) return false;
  if (last.token != footer.tokens || last.span != footer.spans) return false;
  for (std::size_t i = 0; i + 1 < index.size(); ++i) {
    const SampleIndex& here = index[i];
    const SampleIndex& next = index[i + 1];
    if (next.token < here.token || next.token > footer.tokens || next.span < here.span || next.span > footer.spans)
      return false;
    if (!spans_are_right(spans.subspan(here.span, next.span - here.span), next.token - here.token, here.trained))
      return false;
  }
  return true;
}

std::optional<std::string_view> wrong_with(const Layout& layout, const TokenFileFooter& footer,
                                           Verification verification, int threads) {
  if (block_checksum(layout.index, threads) != footer.index_checksum) return "its index is damaged";
  if (block_checksum(layout.spans, threads) != footer.span_checksum) return "its spans are damaged";
  if (!index_is_right(as_values<SampleIndex>(layout.index), as_values<TokenSpan>(layout.spans), footer))
    return "its index contradicts itself";
  if (verification == Verification::structure) return std::nullopt;
  if (block_checksum(layout.tokens, threads) != footer.token_checksum) return "its tokens are damaged";
  for (const std::int32_t token : as_values<std::int32_t>(layout.tokens))
    if (token < 0 || static_cast<std::uint64_t>(token) >= footer.token_limit) return "a token is out of bounds";
  return std::nullopt;
}

}  // namespace

struct Dataset::Map {
  checkpoint::MappedFile file;
  std::span<const std::int32_t> tokens;
  std::span<const TokenSpan> spans;
  std::span<const SampleIndex> index;

  const SampleIndex& entry(std::int64_t sample) const {
    if (sample < 0 || static_cast<std::size_t>(sample) + 1 >= index.size())
      throw std::out_of_range(fmt::format("sample {} of {}", sample, index.size() - 1));
    return index[static_cast<std::size_t>(sample)];
  }
};

Result<Dataset> Dataset::open(const std::filesystem::path& path, Verification verification, int threads) {
  const auto file = RegularFile::open(path);
  if (!file) return file.error();
  if (file->size() < sizeof(TokenFileStart) + sizeof(SampleIndex) + sizeof(TokenFileFooter))
    return damaged(path, fmt::format("{} bytes are too few", file->size()));
  auto mapped = checkpoint::MappedFile::map(*file);
  if (!mapped) return mapped.error();
  const Bytes bytes = mapped->bytes();
  TokenFileStart start;
  TokenFileFooter footer;
  std::memcpy(&start, bytes.data(), sizeof start);
  std::memcpy(&footer, bytes.data() + bytes.size() - sizeof footer, sizeof footer);
  if (start.magic != TokenFileStart{}.magic) return damaged(path, "it begins with something else");
  if (start.version != token_file_version)
    return damaged(path, fmt::format("version {}, and {} is read", start.version, token_file_version));
  if (checksum_of(start, footer) != footer.own_checksum) return damaged(path, "its end is damaged or missing");
  const auto layout = layout_of(bytes, footer);
  if (!layout) return damaged(path, "its length is not what its end says");
  if (const auto wrong = wrong_with(*layout, footer, verification, std::max(threads, 1))) return damaged(path, *wrong);
  auto map =
      std::make_shared<const Map>(Map{std::move(*mapped), as_values<std::int32_t>(layout->tokens),
                                      as_values<TokenSpan>(layout->spans), as_values<SampleIndex>(layout->index)});
  return Dataset(std::move(map), counts_of(footer));
}

SampleView Dataset::sample(std::int64_t index) const {
  const SampleIndex& here = map_->entry(index);
  const SampleIndex& next = *(&here + 1);
  return {map_->tokens.subspan(here.token, next.token - here.token),
          map_->spans.subspan(here.span, next.span - here.span), here.label};
}

std::int64_t Dataset::length(std::int64_t index) const {
  const SampleIndex& here = map_->entry(index);
  return static_cast<std::int64_t>((&here + 1)->token - here.token);
}

std::int64_t Dataset::trained(std::int64_t index) const { return map_->entry(index).trained; }

std::int64_t Dataset::reply_tokens(std::int64_t index) const {
  if (counts_.reply_tokens == 0) return 0;
  std::int64_t sum = 0;
  for (const TokenSpan& span : sample(index).trained)
    if (span.speaker == Speaker::others) sum += span.end - span.begin;
  return sum;
}

std::uint32_t Dataset::label(std::int64_t index) const { return map_->entry(index).label; }

std::vector<std::uint32_t> Dataset::lengths() const {
  std::vector<std::uint32_t> lengths;
  lengths.reserve(static_cast<std::size_t>(size()));
  for (std::int64_t i = 0; i < size(); ++i) lengths.push_back(static_cast<std::uint32_t>(length(i)));
  return lengths;
}

}  // namespace muster::data
