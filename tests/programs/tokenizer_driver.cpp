// Tokenizers for tests in Python: JSON lines in, one JSON line back for each.
//   {"load": FILE}                                    → {"vocabulary": N} or {"error": "…"}; the questions below are to
//   it
//   {"encode": [TEXT, …], "special": BOOL}            → {"ids": [[…], …]}
//   {"decode": [[ID, …], …], "skip": BOOL}            → {"texts": […], "streamed": […]}
//   {"pieces": [ID, …]}                               → {"pieces": […], "special": […]}
//   {"find": [PIECE, …]}                              → {"ids": [ID or null, …]}
//   {"split": PATTERN, "texts": […]}                  → {"stretches": [[[BEGIN, END, MATCHES], …], …]} or {"error":
//   "…"}
//   {"normalize": FORM, "texts": […]}                 → {"texts": […]}; NFC, NFD, NFKC, NFKD or Lowercase
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tokenizer/letter_case.hpp"
#include "tokenizer/normal_form.hpp"
#include "tokenizer/pattern.hpp"
#include "tokenizer/streaming_decoder.hpp"
#include "tokenizer/tokenizer.hpp"

namespace muster::tokenizer {
namespace {

using nlohmann::json;

json load(const std::string& file, std::optional<Tokenizer>& tokenizer) {
  tokenizer.reset();
  auto read = read_tokenizer(file);
  if (!read) return {{"error", to_string(read.error())}};
  tokenizer = *std::move(read);
  return {{"vocabulary", tokenizer->vocabulary()}};
}

json encode(const Tokenizer& tokenizer, const json& texts, bool special) {
  json ids = json::array();
  for (const json& text : texts) ids.push_back(tokenizer.encode(text.get_ref<const std::string&>(), special));
  return {{"ids", ids}};
}

json decode(const Tokenizer& tokenizer, const json& lists, bool skip) {
  json texts = json::array(), streamed = json::array();
  for (const json& list : lists) {
    const auto ids = list.get<std::vector<TokenId>>();
    texts.push_back(tokenizer.decode(ids, skip));
    StreamingDecoder decoder(tokenizer, skip);
    json parts = json::array();
    for (const TokenId id : ids) parts.push_back(decoder.push(id));
    parts.push_back(decoder.finish());
    streamed.push_back(parts);
  }
  return {{"texts", texts}, {"streamed", streamed}};
}

json pieces(const Tokenizer& tokenizer, const json& ids) {
  json found = json::array(), special = json::array();
  for (const json& id : ids) {
    found.push_back(tokenizer.piece(id.get<TokenId>()));
    special.push_back(tokenizer.is_special(id.get<TokenId>()));
  }
  return {{"pieces", found}, {"special", special}};
}

json find(const Tokenizer& tokenizer, const json& pieces) {
  json ids = json::array();
  for (const json& piece : pieces) {
    const auto id = tokenizer.find(piece.get_ref<const std::string&>());
    ids.push_back(id ? json(*id) : json());
  }
  return {{"ids", ids}};
}

json split(const std::string& expression, const json& texts) {
  const auto pattern = Pattern::expression(expression);
  if (!pattern) return {{"error", to_string(pattern.error())}};
  json stretches = json::array();
  for (const json& text : texts) {
    json row = json::array();
    for (const Stretch& stretch : pattern->find_all(text.get_ref<const std::string&>()))
      row.push_back({stretch.begin, stretch.end, stretch.matches});
    stretches.push_back(row);
  }
  return {{"stretches", stretches}};
}

json normalize(const std::string& form, const json& texts) {
  json results = json::array();
  for (const json& text : texts) {
    const auto& given = text.get_ref<const std::string&>();
    results.push_back(form == "Lowercase"
                          ? lower_cased(given)
                          : normal_form(given, {.compatible = form.size() == 4, .composed = form.back() == 'C'}));
  }
  return {{"texts", results}};
}

json answer(const json& question, std::optional<Tokenizer>& tokenizer) {
  if (question.contains("load")) return load(question["load"], tokenizer);
  if (question.contains("split")) return split(question["split"], question["texts"]);
  if (question.contains("normalize")) return normalize(question["normalize"], question["texts"]);
  if (!tokenizer) return {{"error", "no tokenizer is loaded"}};
  if (question.contains("encode")) return encode(*tokenizer, question["encode"], question["special"]);
  if (question.contains("decode")) return decode(*tokenizer, question["decode"], question["skip"]);
  if (question.contains("pieces")) return pieces(*tokenizer, question["pieces"]);
  if (question.contains("find")) return find(*tokenizer, question["find"]);
  return {{"error", "no such question"}};
}

}  // namespace
}  // namespace muster::tokenizer

int main() {
  std::optional<muster::tokenizer::Tokenizer> tokenizer;
  for (std::string line; std::getline(std::cin, line);) {
    std::string reply;
    try {
      reply = muster::tokenizer::answer(nlohmann::json::parse(line), tokenizer).dump();
    } catch (const std::exception& failure) {
      reply = nlohmann::json{{"error", failure.what()}}.dump();
    }
    fmt::print("{}\n", reply);
    std::fflush(stdout);
  }
  return 0;
}
