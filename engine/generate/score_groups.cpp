#include "generate/score_groups.hpp"

#include <algorithm>
#include <numeric>
#include <span>

namespace muster::generate {
namespace {

constexpr std::int64_t least_shared = 16;  // tokens; fewer are not worth a step of their own

std::span<const std::int32_t> context_of(const ScoredText& text) {
  return std::span(text.tokens).first(static_cast<std::size_t>(text.context));
}

std::int64_t common_prefix(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

Request request_of(std::span<const ScoredText> texts, std::int64_t shared) {
  Request request;
  request.adapter = texts.front().adapter;
  const std::vector<std::int32_t>& first = texts.front().tokens;
  request.prompt.assign(first.begin(), first.begin() + shared);
  for (const ScoredText& text : texts) {
    Branch branch{text.index};
    branch.given.assign(text.tokens.begin() + shared, text.tokens.end());
    branch.unscored = text.context - shared;
    request.branches.push_back(std::move(branch));
  }
  return request;
}

std::int64_t rows_of(const Request& request) {
  return std::accumulate(
      request.branches.begin(), request.branches.end(), static_cast<std::int64_t>(request.prompt.size()),
      [](std::int64_t sum, const Branch& branch) { return sum + static_cast<std::int64_t>(branch.given.size()); });
}

void sort_by_length(std::vector<Request>& requests) { std::ranges::stable_sort(requests, std::greater<>(), rows_of); }

}  // namespace

std::vector<Request> group_scores(std::vector<ScoredText> texts) {
  std::ranges::stable_sort(texts, [](const ScoredText& a, const ScoredText& b) {
    if (a.adapter != b.adapter) return a.adapter < b.adapter;
    return std::ranges::lexicographical_compare(context_of(a), context_of(b));
  });
  std::vector<Request> requests;
  for (std::size_t first = 0, end = 0; first < texts.size(); first = end) {
    std::int64_t shared = texts[first].context;
    for (end = first + 1; end < texts.size() && texts[end].adapter == texts[first].adapter; ++end) {
      // One more saves the shared rows, and costs each of the others what is no longer shared.
      const std::int64_t common =
          common_prefix(context_of(texts[first]).first(static_cast<std::size_t>(shared)), context_of(texts[end]));
      const auto members = static_cast<std::int64_t>(end - first);
      if (common < least_shared || members * common <= (members - 1) * shared) break;
      shared = common;
    }
    requests.push_back(request_of(std::span(texts).subspan(first, end - first), shared));
  }
  sort_by_length(requests);
  return requests;
}

std::vector<Request> separate_scores(std::vector<ScoredText> texts) {
  std::vector<Request> requests;
  for (const ScoredText& text : texts) requests.push_back(request_of(std::span(&text, 1), text.context));
  sort_by_length(requests);
  return requests;
}

}  // namespace muster::generate
