#include "tokenizer/post_processor.hpp"

#include <fmt/format.h>

#include <map>
#include <string>

namespace muster::tokenizer {
namespace {

using nlohmann::json;
constexpr int deepest_post_processor = 8;
using SpecialTokens = std::map<std::string, std::vector<TokenId>>;

SpecialTokens read_special_tokens(PartReader reader, const json& names) {
  SpecialTokens tokens;
  if (!names.is_object()) return tokens;
  for (const auto& [name, value] : names.items()) {
    PartReader token = reader.part(name);
    static_cast<void>(token.text("id"));
    static_cast<void>(token.any("tokens"));
    for (const json& id : token.any("ids")) {
      if (id.is_number_unsigned() && id.get<std::uint64_t>() <= static_cast<std::uint64_t>(largest_token_id))
        tokens[name].push_back(id.get<TokenId>());
      else
        token.complain("\"ids\" holds something that is not a token id", "it is a list of ids");
    }
    token.finish();
  }
  return tokens;
}

class Reader {
 public:
  PostProcessor take() { return std::move(result_); }

  void add(PartReader reader, int depth) {
    const std::string type = reader.type();
    if (type == "Sequence" && depth < deepest_post_processor) {
      for (PartReader& part : reader.list("processors")) add(std::move(part), depth + 1);
    } else if (type == "ByteLevel") {  // concerns offsets, which nobody asks for
      for (const std::string_view key : {"add_prefix_space", "trim_offsets", "use_regex"})
        static_cast<void>(reader.boolean(key, true));
    } else if (type == "TemplateProcessing") {
      template_processing(reader);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      add_once(reader, {end_token(reader, "cls")}, {end_token(reader, "sep")});
      if (type == "RobertaProcessing")
        for (const std::string_view key : {"add_prefix_space", "trim_offsets"})
          static_cast<void>(reader.boolean(key, true));
    } else {
      return reader.refuse_type(type, "ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing, Sequence");
    }
    reader.finish();
  }

 private:
  void add_once(PartReader& reader, std::vector<TokenId> before, std::vector<TokenId> behind) {
    if (added_) reader.complain("a second part that adds special tokens", "only one such part is built");
    added_ = true;
    result_ = {std::move(before), std::move(behind)};
  }

  // ["</s>", 2]
  TokenId end_token(PartReader& reader, std::string_view key) {
    const json& pair = reader.any(key);
    if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_number_unsigned() &&
        pair[1].get<std::uint64_t>() <= static_cast<std::uint64_t>(largest_token_id))
      return pair[1].get<TokenId>();
    reader.complain(fmt::format("\"{}\" is not a token with its id", key), "it is a list of a text and an id");
    return 0;
  }

  void template_processing(PartReader& reader) {
    const SpecialTokens tokens = read_special_tokens(reader.part("special_tokens"), reader.any("special_tokens"));
    std::vector<TokenId> before, behind;
    bool text_seen = false;
    for (PartReader& piece : reader.list("single")) {
      if (piece.has("Sequence")) {
        PartReader sequence = piece.part("Sequence");
        if (text_seen || sequence.text("id") != "A")
          piece.complain("the template holds more than the one text", "it has \"A\" once");
        static_cast<void>(sequence.number("type_id", 0, 0xFFFFFFFF));
        text_seen = true;
        sequence.finish();
      } else {
        add_special(piece, tokens, text_seen ? behind : before);
      }
      piece.finish();
    }
    if (!text_seen) reader.complain("the template leaves the text out", "it has \"A\" once");
    static_cast<void>(reader.list("pair"));  // for two texts at once, which nobody asks for
    add_once(reader, std::move(before), std::move(behind));
  }

  static void add_special(PartReader& piece, const SpecialTokens& tokens, std::vector<TokenId>& ids) {
    PartReader special = piece.part("SpecialToken");
    const std::string name = special.text("id");
    static_cast<void>(special.number("type_id", 0, 0xFFFFFFFF));
    special.finish();
    const auto found = tokens.find(name);
    if (found == tokens.end())
      special.complain(fmt::format("\"{}\" is not among \"special_tokens\"", name), "list it there");
    else
      ids.insert(ids.end(), found->second.begin(), found->second.end());
  }

  PostProcessor result_;
  bool added_ = false;
};

}  // namespace

PostProcessor PostProcessor::read(PartReader reader) {
  Reader parts;
  parts.add(std::move(reader), 0);
  return parts.take();
}

}  // namespace muster::tokenizer
