// A model's text from the disk.
#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "system/files.hpp"
#include "system/regular_file.hpp"
#include "base/text.hpp"
#include "chat/model_text.hpp"
#include "checkpoint/gguf_tokenizer.hpp"
#include "spec/model/gguf_header.hpp"
#include "json/json_text.hpp"

namespace muster::chat {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t longest_file = 512'000'000;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

Result<std::string> read_whole(const fs::path& path) {
  const auto file = RegularFile::open(path);
  if (!file) return file.error();
  if (file->size() > longest_file)
    return Error{Error::Kind::bad_input, fmt::format("{}: {} bytes are too long", path.string(), file->size()),
                 "check that the file is the right one"};
  return file->beginning(file->size());
}

// Reads a file that may be missing. false: it is there, but cannot be read.
bool read_if_there(const fs::path& path, std::optional<std::string>& text, std::optional<Error>& failure) {
  if (!is_there(path)) return true;
  auto read = read_whole(path);
  if (read)
    text = std::move(*read);
  else
    failure = read.error();
  return !failure;
}

using Templates = std::map<std::string, std::string>;

// chat_template.jinja and additional_chat_templates/NAME.jinja.
Result<Templates> read_template_files(const fs::path& folder) {
  std::vector<std::pair<std::string, fs::path>> files;
  if (is_there(folder / "chat_template.jinja")) files.emplace_back("default", folder / "chat_template.jinja");
  std::error_code failure;
  for (fs::directory_iterator entry(folder / "additional_chat_templates", failure), end; !failure && entry != end;
       entry.increment(failure))
    if (entry->path().extension() == ".jinja") files.emplace_back(entry->path().stem().string(), entry->path());
  Templates templates;
  for (const auto& [name, path] : files) {
    auto text = read_whole(path);
    if (!text) return text.error();
    templates[name] = std::move(*text);
  }
  return templates;
}

// chat_template.json, an older place for it.
Result<Templates> read_older_template(const fs::path& file) {
  const auto text = read_whole(file);
  if (!text) return text.error();
  const auto parsed = parse_json_object(*text, file.string());
  if (!parsed) return parsed.error();
  const auto found = parsed->find("chat_template");
  if (found == parsed->end() || !found->is_string()) return Templates{};
  return Templates{{"default", found->get<std::string>()}};
}

bool names_a_template(const std::optional<std::string>& tokenizer_config) {
  if (!tokenizer_config) return false;
  const auto parsed = parse_json_object(*tokenizer_config, "tokenizer_config.json");
  return parsed && parsed->contains("chat_template");
}

// The files of the folder that a tokenizer.json lies in.
Result<ModelText> read_folder(const fs::path& folder, const fs::path& tokenizer) {
  ModelTextFiles files;
  files.source = tokenizer.string();
  auto text = read_whole(tokenizer);
  if (!text) return text.error();
  files.tokenizer = std::move(*text);
  std::optional<Error> failure;
  const bool read = read_if_there(folder / "tokenizer_config.json", files.tokenizer_config, failure) &&
                    read_if_there(folder / "special_tokens_map.json", files.special_tokens_map, failure) &&
                    read_if_there(folder / "generation_config.json", files.generation_config, failure) &&
                    read_if_there(folder / "config.json", files.config, failure);
  if (!read) return *failure;
  auto templates = read_template_files(folder);
  const fs::path older = folder / "chat_template.json";
  if (templates && templates->empty() && !names_a_template(files.tokenizer_config) && is_there(older))
    templates = read_older_template(older);
  if (!templates) return templates.error();
  files.templates = std::move(*templates);
  return ModelText::parse(files);
}

Result<ModelText> read_gguf(const fs::path& file) {
  const auto header = spec::read_gguf_header(file);
  if (!header) return header.error();
  ModelTextFiles files;
  files.source = file.string();
  auto tokenizer = checkpoint::gguf_tokenizer_json(*header, files.source);
  if (!tokenizer) return tokenizer.error();
  files.tokenizer = std::move(*tokenizer);
  auto config = checkpoint::gguf_tokenizer_config_json(*header, files.source);
  if (!config) return config.error();
  files.tokenizer_config = std::move(*config);
  const auto ids = checkpoint::gguf_token_ids(*header, files.source);
  if (!ids) return ids.error();
  files.generation_config = spec::write_generation_config(*ids);
  return ModelText::parse(files);
}

Error no_tokenizer(const fs::path& folder) {
  return {Error::Kind::bad_input, fmt::format("{} holds no tokenizer.json", folder.string()),
          "name a folder with one, a tokenizer.json, or a .gguf file"};
}

}  // namespace

Result<ModelText> read_model_text(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    if (!is_there(path / "tokenizer.json")) return no_tokenizer(path);
    return read_folder(path, path / "tokenizer.json");
  }
  const std::string extension = to_lower(path.extension().string());
  if (extension == ".gguf") return read_gguf(path);
  if (extension == ".json") return read_folder(path.parent_path(), path);
  return Error{Error::Kind::bad_input, fmt::format("no tokenizer can be read from {}", path.string()),
               "accepted: a folder with tokenizer.json, a tokenizer.json, a .gguf file"};
}

Result<ModelText> read_model_text(const std::string& model, const spec::ModelSearch& search) {
  const auto path = spec::find_model(model, search);
  if (!path) return path.error();
  return read_model_text(*path);
}

}  // namespace muster::chat
