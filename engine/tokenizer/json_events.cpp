#include "tokenizer/json_events.hpp"

#include <fmt/format.h>

namespace muster::tokenizer {
namespace {

using nlohmann::json;
constexpr std::size_t deepest_json = 64;

std::string shown_text(std::string_view text) {
  return json(text.substr(0, 60)).dump(-1, ' ', true, json::error_handler_t::replace);
}

// Every event returns whether to continue; the first complaint ends the reading.
class Events : public nlohmann::json_sax<json> {
 public:
  explicit Events(TokenizerDocument& document) : document_(document) {}
  const std::string& complaint() const { return complaint_; }

  bool null() override { return value(nullptr); }
  bool boolean(bool flag) override { return value(flag); }
  bool number_integer(json::number_integer_t number) override { return value(number); }
  bool number_unsigned(json::number_unsigned_t number) override {
    return place_ == Place::vocabulary ? add_token(number) : value(number);
  }
  bool number_float(json::number_float_t number, const std::string&) override { return value(number); }
  bool string(std::string& text) override {
    if (place_ == Place::merges) return add_written_merge(text);
    if (place_ == Place::merge) return add_half(std::move(text));
    return value(std::move(text));
  }
  bool binary(json::binary_t&) override { return complain("bytes where text is expected"); }

  bool start_object(std::size_t) override {
    if (place_ == Place::awaits_vocabulary) {
      place_ = Place::vocabulary;
      return document_.has_vocabulary = true;
    }
    return open(json::object());
  }
  bool key(std::string& name) override {
    if (place_ == Place::vocabulary) {
      key_ = std::move(name);
      return true;
    }
    if (open_.back()->contains(name))
      return complain(fmt::format("the key {} stands twice in one object", shown_text(name)));
    const bool of_model = open_.size() == 2 && open_.back() == model_;
    if (of_model && ((name == "vocab" && document_.has_vocabulary) || (name == "merges" && document_.has_merges)))
      return complain(fmt::format("the key {} stands twice in one object", shown_text(name)));
    if (of_model && name == "vocab") place_ = Place::awaits_vocabulary;
    if (of_model && name == "merges") place_ = Place::awaits_merges;
    key_ = std::move(name);
    return true;
  }
  bool end_object() override {
    if (place_ == Place::vocabulary)
      place_ = Place::elsewhere;
    else
      open_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override {
    if (place_ == Place::awaits_merges) {
      place_ = Place::merges;
      return document_.has_merges = true;
    }
    if (place_ == Place::merges) {
      place_ = Place::merge;
      halves_ = 0;
      document_.merges.emplace_back();
      return true;
    }
    return open(json::array());
  }
  bool end_array() override {
    if (place_ == Place::merge) {
      place_ = Place::merges;
      return halves_ == 2 || bad_merge();
    }
    if (place_ == Place::merges)
      place_ = Place::elsewhere;
    else
      open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return complain(fmt::format("invalid JSON at byte {}", position));
  }

 private:
  enum class Place { elsewhere, awaits_vocabulary, vocabulary, awaits_merges, merges, merge };

  bool complain(std::string complaint) {
    if (complaint_.empty()) complaint_ = std::move(complaint);
    return false;
  }

  json* put(json something) {
    if (open_.empty()) return &(document_.rest = std::move(something));
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(something));
      return &open_.back()->back();
    }
    return &((*open_.back())[key_] = std::move(something));
  }

  bool open(json container) {
    if (place_ == Place::vocabulary || place_ == Place::merges || place_ == Place::merge) return bad_place();
    place_ = Place::elsewhere;
    if (open_.size() == deepest_json)
      return complain(fmt::format("lists and objects nested deeper than {}", deepest_json));
    const bool is_model = open_.size() == 1 && open_.back()->is_object() && key_ == "model";
    open_.push_back(put(std::move(container)));
    if (is_model) model_ = open_.back();
    return true;
  }

  bool value(json something) {
    if (place_ == Place::vocabulary || place_ == Place::merges || place_ == Place::merge) return bad_place();
    place_ = Place::elsewhere;
    put(std::move(something));
    return true;
  }

  bool bad_place() {
    if (place_ == Place::vocabulary)
      return complain(fmt::format("model.vocab: the token {} has no whole number from 0 to {} as its id",
                                  shown_text(key_), largest_token_id));
    return bad_merge();
  }

  bool bad_merge() {
    return complain(
        fmt::format("model.merges: entry {} is neither \"a b\" nor [\"a\", \"b\"]", document_.merges.size()));
  }

  bool add_token(std::uint64_t id) {
    if (id > static_cast<std::uint64_t>(largest_token_id)) return bad_place();
    if (document_.vocabulary.add(key_, static_cast<TokenId>(id))) return true;
    return complain(fmt::format("model.vocab: the token {} or its id {} stands there twice", shown_text(key_), id));
  }

  bool add_written_merge(std::string_view text) {
    if (text.starts_with("#version")) return true;
    const std::size_t space = text.find(' ');
    document_.merges.emplace_back(text.substr(0, space),
                                  space == text.npos ? std::string_view() : text.substr(space + 1));
    return (space != text.npos && text.find(' ', space + 1) == text.npos) || bad_merge();
  }

  bool add_half(std::string text) {
    if (halves_ == 2) return bad_merge();
    (halves_++ == 0 ? document_.merges.back().first : document_.merges.back().second) = std::move(text);
    return true;
  }

  TokenizerDocument& document_;
  std::vector<json*> open_;
  const json* model_ = nullptr;
  std::string key_, complaint_;
  Place place_ = Place::elsewhere;
  int halves_ = 0;
};

}  // namespace

Result<TokenizerDocument> parse_document(std::string_view text, std::string_view source) {
  TokenizerDocument document;
  Events events(document);
  const bool whole = json::sax_parse(text, &events);
  const auto refusal = [&](std::string_view what) {
    return Error{Error::Kind::bad_input, fmt::format("{}: {}", source, what),
                 "check that the file is whole and the right one"};
  };
  if (!whole) return refusal(events.complaint().empty() ? "invalid JSON" : events.complaint());
  if (!document.rest.is_object()) return refusal("holds no JSON object");
  return document;
}

}  // namespace muster::tokenizer
