#include "checkpoint/model_texts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "system/regular_file.hpp"
#include "base/text.hpp"
#include "checkpoint/gguf_tokenizer.hpp"
#include "json/json_text.hpp"
#include "spec/model/model_source.hpp"

namespace muster::checkpoint {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t longest_file = 512'000'000;

// What transformers' tokenizers and generation are made of; whatever else lies in a folder is not the model's text.
constexpr std::array copied_files{"generation_config.json",
                                  "tokenizer.json",
                                  "tokenizer_config.json",
                                  "special_tokens_map.json",
                                  "added_tokens.json",
                                  "vocab.json",
                                  "merges.txt",
                                  "vocab.txt",
                                  "tokenizer.model",
                                  "spiece.model",
                                  "chat_template.jinja",
                                  "chat_template.json"};
constexpr std::string_view template_folder = "additional_chat_templates";

Result<std::string> read_whole(const fs::path& path) {
  const auto file = RegularFile::open(path);
  if (!file) return file.error();
  if (file->size() > longest_file)
    return Error{Error::Kind::bad_input, fmt::format("{}: {} bytes are too long", path.string(), file->size()),
                 "check that the file is the right one"};
  return file->beginning(file->size());
}

// The names in the order of the list, those of more templates after them.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names, templates;
  std::error_code failure;
  for (const char* name : copied_files)
    if (fs::exists(folder / name, failure)) names.emplace_back(name);
  for (fs::directory_iterator entry(folder / template_folder, failure), end; !failure && entry != end;
       entry.increment(failure))
    if (entry->path().extension() == ".jinja")
      templates.push_back(fmt::format("{}/{}", template_folder, entry->path().filename().string()));
  std::ranges::sort(templates);
  names.insert(names.end(), templates.begin(), templates.end());
  return names;
}

// What is exported is plain, whatever it was made from. The same text where it says so already.
Result<std::string> with_type(std::string text, spec::ElementType type, const std::string& source) {
  auto object = parse_ordered_json_object(text, source);
  if (!object) return object.error();
  const auto before = *object;
  object->erase("quantization_config");
  const bool newer = object->contains("dtype"), older = object->contains("torch_dtype");
  if (newer) (*object)["dtype"] = spec::name(type);
  if (older || !newer) (*object)["torch_dtype"] = spec::name(type);  // which every version of transformers reads
  return *object == before ? text : object->dump(2) + "\n";
}

// From the tensors, where the folder has no config.json.
Result<std::string> config_text(const fs::path& path, const fs::path& folder, spec::ElementType type) {
  std::error_code ignored;
  const fs::path file = folder / "config.json";
  if (fs::exists(file, ignored)) {
    auto text = read_whole(file);
    if (!text) return text.error();
    return with_type(std::move(*text), type, file.string());
  }
  auto model = spec::read_model(path.string(), {}, type);
  if (!model) return model.error();
  model->config.dtype = type;
  return spec::write_model_config(model->config, {});
}

}  // namespace

Result<std::vector<NamedText>> texts_of_gguf(const spec::GgufHeader& header, const spec::ModelConfig& config,
                                             const std::string& source) {
  const auto ids = gguf_token_ids(header, source);
  if (!ids) return ids.error();
  std::vector<NamedText> texts{{"generation_config.json", spec::write_generation_config(*ids)}};
  struct Row {
    const char* name;
    Result<std::string> text;
  };
  for (auto& [name, text] : {Row{"config.json", spec::write_model_config(config, *ids)},
                             Row{"tokenizer.json", gguf_tokenizer_json(header, source)},
                             Row{"tokenizer_config.json", gguf_tokenizer_config_json(header, source)},
                             Row{"chat_template.jinja", gguf_chat_template(header, source)}}) {
    if (!text) return text.error();
    if (!text->empty()) texts.push_back({name, *text});
  }
  return texts;
}

Result<std::vector<NamedText>> texts_of_config(spec::ModelConfig config, const spec::TokenIds& tokens,
                                               spec::ElementType type, std::vector<NamedText> tokenizer) {
  config.dtype = type;
  auto written = spec::write_model_config(config, tokens);
  if (!written) return written.error();
  tokenizer.push_back({"config.json", std::move(*written)});
  tokenizer.push_back({"generation_config.json", spec::write_generation_config(tokens)});
  return tokenizer;
}

Result<void> name_classifier(std::vector<NamedText>& texts, const spec::ModelConfig& config,
                             std::optional<std::int64_t> padding) {
  const auto file = std::ranges::find(texts, "config.json", &NamedText::name);
  auto object = parse_ordered_json_object(file->text, file->name);
  if (!object) return object.error();
  spec::name_classifier(*object, config);
  if (padding && (!object->contains("pad_token_id") || (*object)["pad_token_id"].is_null()))
    (*object)["pad_token_id"] = *padding;
  file->text = object->dump(2) + "\n";
  return {};
}

Result<std::vector<NamedText>> texts_of_model(const fs::path& path, spec::ElementType type) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  if (!is_folder && to_lower(path.extension().string()) == ".gguf") {
    auto model = spec::read_model(path.string(), {}, type);
    if (!model) return model.error();
    model->config.dtype = type;
    const auto header = spec::read_gguf_header(path);
    if (!header) return header.error();
    return texts_of_gguf(*header, model->config, path.string());
  }
  const fs::path folder = is_folder ? path : path.parent_path();
  auto config = config_text(path, folder, type);
  if (!config) return config.error();
  std::vector<NamedText> texts{{"config.json", std::move(*config)}};
  for (const std::string& name : names_in(folder)) {
    auto text = read_whole(folder / name);
    if (!text) return text.error();
    texts.push_back({name, std::move(*text)});
  }
  return texts;
}

}  // namespace muster::checkpoint
