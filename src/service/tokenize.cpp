#include "service/tokenize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "chat/model_text.hpp"
#include "job/generate/prompt_file.hpp"

namespace muster::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t rows_at_once = 4096;
constexpr std::size_t most_errors = 20;  // that are shown

struct Line {
  std::string text;  // with its end
  std::int64_t tokens = 0;
};

class RowTokenizer {
 public:
  RowTokenizer(const chat::ModelText& text, const TokenizeRequest& request) : text_(text), request_(request) {}

  Result<Line> line_of(const job::PromptRow& row) const { return request_.decode ? decoded(row) : encoded(row); }

 private:
  Result<Line> encoded(const job::PromptRow& row) const {
    Json out{{"index", row.index}, {"id", row.id}};
    Result<std::vector<tokenizer::TokenId>> ids = std::vector<tokenizer::TokenId>{};
    if (row.prompt) {
      ids = text_.encode(*row.prompt);
    } else {
      const auto rendered = text_.render(conversation_of(row));
      if (!rendered) return rendered.error();
      out["text"] = rendered->text;
      ids = text_.encode_rendered(rendered->text);
    }
    if (!ids) return ids.error();
    Json pieces = Json::array();
    for (const tokenizer::TokenId id : *ids) pieces.push_back(text_.tokenizer().piece(id));
    out["tokens"] = *ids;
    out["pieces"] = std::move(pieces);
    return finished(std::move(out), ids->size());
  }

  chat::Conversation conversation_of(const job::PromptRow& row) const {
    chat::Conversation conversation;
    conversation.messages = row.messages;
    conversation.tools = row.tools;
    conversation.documents = row.documents;
    conversation.variables = row.template_variables;
    conversation.continue_final_message = row.continue_final_message;
    conversation.add_generation_prompt =
        row.add_generation_prompt.value_or(request_.add_generation_prompt && !row.continue_final_message);
    return conversation;
  }

  Result<Line> decoded(const job::PromptRow& row) const {
    const auto& tokenizer = text_.tokenizer();
    for (const tokenizer::TokenId id : row.tokens)
      if (tokenizer.piece(id).empty())
        return Error{Error::Kind::bad_input,
                     fmt::format("token {} is not in the vocabulary of {}", id, tokenizer.vocabulary()),
                     "use the tokenizer that the ids were made with"};
    Json out{
        {"index", row.index}, {"id", row.id}, {"text", tokenizer.decode(row.tokens, request_.skip_special_tokens)}};
    return finished(std::move(out), row.tokens.size());
  }

  static Line finished(Json out, std::size_t tokens) {
    out["token_count"] = tokens;
    return {out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n", static_cast<std::int64_t>(tokens)};
  }

  const chat::ModelText& text_;
  const TokenizeRequest& request_;
};

// The lines of many rows, made by several threads.
std::vector<Result<Line>> lines_of(const RowTokenizer& tokenizer, const std::vector<job::PromptRow>& rows, int threads) {
  std::vector<Result<Line>> lines(rows.size(), Line{});
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < rows.size(); i = next++) lines[i] = tokenizer.line_of(rows[i]);
  };
  std::vector<std::jthread> helpers;
  for (int i = 1; i < threads && static_cast<std::size_t>(i) < rows.size(); ++i) helpers.emplace_back(work);
  work();
  helpers.clear();  // joins
  return lines;
}

// Wrong rows so far, reported together at the end.
class WrongRows {
 public:
  explicit WrongRows(std::string source) : source_(std::move(source)) {}
  bool empty() const { return count_ == 0; }
  void add(const Error& error) {
    if (++count_ > most_errors) return;
    lines_ += (lines_.empty() ? "" : "\n") + error.what + (error.remedy.empty() ? "" : "; " + error.remedy);
  }
  void add(std::int64_t line, const Error& error) {
    add(Error{error.kind, fmt::format("{}:{}: {}", source_, line, error.what), error.remedy});
  }
  Error error() const {
    const std::string more = count_ > most_errors ? fmt::format("\nand {} more", count_ - most_errors) : "";
    return {Error::Kind::bad_input, lines_ + more, ""};
  }

 private:
  std::string source_, lines_;
  std::size_t count_ = 0;
};

// Up to this many valid rows; true at the end of the file.
Result<bool> read_rows(job::PromptFile& file, std::vector<job::PromptRow>& rows, WrongRows& wrong) {
  while (rows.size() < rows_at_once) {
    auto row = file.next();
    if (!row) {
      if (row.error().kind != Error::Kind::bad_input) return row.error();
      wrong.add(row.error());
      continue;
    }
    if (!*row) return true;
    rows.push_back(std::move(**row));
  }
  return false;
}

}  // namespace

Result<TokenizeSummary> tokenize(const TokenizeRequest& request, const spec::ModelSearch& search) {
  const auto text = chat::read_model_text(request.model, search);
  if (!text) return text.error();
  auto file = job::PromptFile::open(request.prompts, request.decode ? job::PromptUse::decoding : job::PromptUse::prompts);
  if (!file) return file.error();
  const RowTokenizer tokenizer(*text, request);
  WrongRows wrong(request.prompts == "-" ? "standard input" : request.prompts);
  TokenizeSummary summary;
  for (bool ended = false; !ended;) {
    std::vector<job::PromptRow> rows;
    const auto read = read_rows(*file, rows, wrong);
    if (!read) return read.error();
    ended = *read;
    std::string lines;
    const auto made = lines_of(tokenizer, rows, request.threads);
    for (std::size_t i = 0; i < made.size(); ++i) {
      if (!made[i]) {
        wrong.add(rows[i].line, made[i].error());
        continue;
      }
      lines += made[i]->text;
      summary.tokens += made[i]->tokens;
      ++summary.rows;
    }
    if (!wrong.empty()) continue;  // only looks for further ones
    if (auto written = request.write(lines); !written) return written.error();
    if (request.progress) request.progress({file->bytes_read()}, {file->bytes_total()});
  }
  if (!wrong.empty()) return wrong.error();
  return summary;
}

}  // namespace muster::service
