// Reads tokenizer.json: every part of it, or none.
#include <fmt/format.h>

#include <set>

#include "system/files.hpp"
#include "tokenizer/byte_alphabet.hpp"
#include "tokenizer/json_events.hpp"
#include "tokenizer/tokenizer_state.hpp"

namespace muster::tokenizer {

class TokenizerFile {
 public:
  TokenizerFile(TokenizerDocument document, std::string_view source)
      : document_(std::move(document)), root_(document_.rest, std::string(source), problems_) {}

  Result<Tokenizer> read() {
    check_frame();
    if (root_.has("normalizer")) state_->normalizer = Normalizer::read(root_.part("normalizer"));
    if (root_.has("pre_tokenizer")) state_->pre_tokenizer = PreTokenizer::read(root_.part("pre_tokenizer"));
    if (root_.has("post_processor")) state_->post_processor = PostProcessor::read(root_.part("post_processor"));
    if (root_.has("decoder")) state_->decoder = Decoder::read(root_.part("decoder"));
    read_model(root_.part("model"));
    if (problems_.empty() && root_.has("added_tokens")) read_added_tokens();
    if (problems_.empty()) check_special_tokens();
    root_.finish();
    if (!problems_.empty()) return to_error(problems_);
    return Tokenizer(std::move(state_));
  }

 private:
  void check_frame() {
    if (root_.has("version") && root_.text("version") != "1.0")
      root_.complain("\"version\" is not \"1.0\"", "this version of the format is not built");
    for (const std::string_view key : {"truncation", "padding"})
      if (root_.has(key))
        root_.complain(fmt::format("\"{}\" is set, which is not built", key), fmt::format("set \"{}\" to null", key));
  }

  void read_model(PartReader reader) {
    // Old files leave the type out.
    const std::string type = reader.has("type") ? reader.text("type") : "BPE";
    if (type != "BPE") return reader.refuse_type(type, "BPE");
    for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (reader.has(key) && !reader.text(key).empty())
        reader.complain(fmt::format("\"{}\" is set, which is not built", key), "null is accepted");
    if (reader.has("dropout") && reader.any("dropout") != 0.0)
      reader.complain("\"dropout\" is set, which is not built", "null is accepted");
    BytePairOptions options;
    options.fuse_unknown = reader.boolean("fuse_unk", false);
    options.byte_fallback = reader.boolean("byte_fallback", false);
    options.ignore_merges = reader.boolean("ignore_merges", false);
    options.words_are_bytes = state_->pre_tokenizer.gives_bytes();
    const std::string unknown = reader.has("unk_token") ? reader.text("unk_token") : "";
    const bool names_unknown = reader.has("unk_token");
    reader.finish();
    if (!document_.has_vocabulary) reader.complain("\"vocab\" is not an object of tokens and ids", "it is needed");
    if (!document_.has_merges) reader.complain("\"merges\" is not a list", "it is needed, even if it is empty");
    if (!problems_.empty()) return;
    auto vocabulary = std::make_shared<const Vocabulary>(std::move(document_.vocabulary));
    if (names_unknown) options.unknown = vocabulary->find(unknown);
    if (names_unknown && !options.unknown && !(options.words_are_bytes && knows_all_bytes(*vocabulary)))
      reader.complain(fmt::format("\"unk_token\" is \"{}\", which is not in the vocabulary", unknown),
                      "add it, or set it to null");
    state_->vocabulary = vocabulary;
    state_->end = vocabulary->end();
    MergeTable merges = read_merges(reader, *vocabulary);
    state_->model = std::make_unique<const BytePairs>(std::move(vocabulary), std::move(merges), options);
  }

  static bool knows_all_bytes(const Vocabulary& vocabulary) {
    for (unsigned byte = 0; byte < 256; ++byte)
      if (!vocabulary.find(character_of(static_cast<unsigned char>(byte)))) return false;
    return true;
  }

  MergeTable read_merges(PartReader& reader, const Vocabulary& vocabulary) {
    MergeTable merges(document_.merges.size());
    std::uint32_t rank = 0;
    for (const auto& [left, right] : document_.merges) {
      const auto first = vocabulary.find(left), second = vocabulary.find(right), both = vocabulary.find(left + right);
      if (!first || !second || !both) {
        reader.complain(fmt::format("merge {} makes or takes a token that is not in the vocabulary: \"{}\" + \"{}\"",
                                    rank, left, right),
                        "check that the file is whole");
        break;
      }
      merges.add(*first, *second, {rank++, *both});
    }
    return merges;
  }

  void read_added_tokens() {
    std::vector<AddedToken> tokens;
    std::set<std::string> special;
    auto next = static_cast<TokenId>(state_->vocabulary->size());
    for (PartReader& reader : root_.list("added_tokens")) {
      AddedToken token = read_added_token(reader);
      const auto known = state_->vocabulary->find(token.content);
      const TokenId expected = known ? *known : next++;
      if (token.id != expected)
        reader.complain(
            fmt::format("\"{}\" has the id {}, where the vocabulary leads to {}", token.content, token.id, expected),
            "ids of added tokens follow those of the vocabulary without gaps");
      if (token.content.empty()) reader.complain("an added token without content", "take it out");
      if (!state_->added_ids.emplace(token.content, token.id).second)
        reader.complain(fmt::format("\"{}\" is added twice", token.content), "keep one of them");
      if (token.special) special.insert(token.content);
      tokens.push_back(std::move(token));
    }
    if (!problems_.empty()) return;
    for (const AddedToken& token : tokens) add(token, special);
  }

  static AddedToken read_added_token(PartReader& reader) {
    AddedToken token;
    token.id = static_cast<TokenId>(reader.number("id", 0, largest_token_id));
    token.content = reader.text("content");
    token.single_word = reader.boolean("single_word");
    token.lstrip = reader.boolean("lstrip");
    token.rstrip = reader.boolean("rstrip");
    token.normalized = reader.boolean("normalized");
    token.special = reader.boolean("special");
    reader.finish();
    return token;
  }

  // What the post-processor puts around texts must be tokens.
  void check_special_tokens() {
    for (const auto& ids : {state_->post_processor.before, state_->post_processor.behind})
      for (const TokenId id : ids)
        if (!state_->added.contains(id) && !state_->vocabulary->text(id))
          root_.complain(fmt::format("\"post_processor\" adds the id {}, which no token has", id),
                         "give the token's id");
  }

  std::string normalized(const std::string& content) {
    try {
      return state_->normalizer.apply({content, content.size()}).text;
    } catch (const PatternFailure& failure) {
      root_.complain(failure.what(), "use another \"normalizer\"");
      return content;
    }
  }

  void add(const AddedToken& token, const std::set<std::string>& special) {
    std::string looked_for = token.content;
    if (token.normalized && !state_->normalizer.empty()) looked_for = normalized(token.content);
    auto& texts = token.normalized ? normalized_texts_ : plain_texts_;
    if (looked_for.empty() || !texts.insert(looked_for).second) {
      root_.complain(
          fmt::format("the added token \"{}\" cannot be told from another one, or from nothing, once normalised",
                      token.content),
          "set its \"normalized\" to false");
      return;
    }
    state_->end = std::max(state_->end, token.id + 1);
    state_->added[token.id] = {looked_for, token.special, special.contains(looked_for)};
    (token.normalized ? state_->in_normalized_text : state_->in_text).add(looked_for, token);
  }

  TokenizerDocument document_;
  std::vector<Problem> problems_;
  PartReader root_;
  std::set<std::string> plain_texts_, normalized_texts_;
  std::shared_ptr<Tokenizer::State> state_ = std::make_shared<Tokenizer::State>();
};

Result<Tokenizer> Tokenizer::parse(std::string_view tokenizer_json, std::string_view source) {
  auto document = parse_document(tokenizer_json, source);
  if (!document) return document.error();
  return TokenizerFile(*std::move(document), source).read();
}

Result<Tokenizer> read_tokenizer(const std::filesystem::path& file_or_folder) {
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(file_or_folder, ignored);
  const std::filesystem::path file = folder ? file_or_folder / "tokenizer.json" : file_or_folder;
  if (folder && !std::filesystem::exists(file, ignored))
    return Error{Error::Kind::bad_input, fmt::format("{} has no tokenizer.json", file_or_folder.string()),
                 "name a folder with a tokenizer.json; AutoTokenizer.from_pretrained(…).save_pretrained(FOLDER) of "
                 "transformers writes one"};
  auto text = read_file(file);
  if (!text) return text.error();
  return Tokenizer::parse(*text, file.string());
}

}  // namespace muster::tokenizer
