#include "job/builtin_model.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "chat/model_text.hpp"
#include "checkpoint/model_texts.hpp"
#include "data/byte_tokenizer.hpp"
#include "system/files.hpp"

namespace muster::job {
namespace {

struct Shape {
  std::string_view name;
  std::string_view folder;  // changes when the shape does
  std::int64_t hidden, layers, heads, intermediate;
};

constexpr std::array shapes{Shape{builtin_model_name, "llama-0.6m-1", 128, 3, 4, 352},
                            Shape{"builtin:llama-0.2m", "llama-0.2m-1", 96, 2, 3, 256}};

const Shape* find_shape(std::string_view name) {
  const auto found = std::ranges::find(shapes, name, &Shape::name);
  return found == shapes.end() ? nullptr : &*found;
}

spec::ModelConfig builtin_config(const Shape& shape) {
  spec::ModelConfig config;  // a Llama
  config.vocabulary = data::ByteTokens::vocabulary;
  config.hidden = shape.hidden;
  config.layers = shape.layers;
  config.heads = shape.heads;
  config.kv_heads = shape.heads;
  config.head_size = 32;
  config.intermediate = shape.intermediate;
  config.positions = 256;
  config.norm_epsilon = 1e-5;
  config.tied = true;
  return config;
}

}  // namespace

bool is_builtin_model(std::string_view name) { return find_shape(name) != nullptr; }

Result<std::filesystem::path> builtin_model_folder(const std::filesystem::path& cache, std::string_view name) {
  const Shape* shape = find_shape(name);
  if (shape == nullptr)
    return Error{Error::Kind::bad_input, "there is no " + std::string(name),
                 "what is built in is builtin:llama-0.6m and builtin:llama-0.2m"};
  const std::filesystem::path folder = cache / "models" / shape->folder;
  const chat::ModelTextFiles files = data::byte_tokenizer_files();
  std::vector<checkpoint::NamedText> tokenizer{{"tokenizer.json", files.tokenizer}};
  if (files.tokenizer_config) tokenizer.push_back({"tokenizer_config.json", *files.tokenizer_config});
  const spec::TokenIds tokens{data::ByteTokens::begin, data::ByteTokens::padding, {data::ByteTokens::end}};
  const auto texts =
      checkpoint::texts_of_config(builtin_config(*shape), tokens, spec::ElementType::float32, std::move(tokenizer));
  if (!texts) return texts.error();
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    return Error{Error::Kind::failed, "cannot make " + folder.string() + ": " + failed.message(),
                 "MUSTER_CACHE names another folder"};
  for (const checkpoint::NamedText& text : *texts) {
    const auto there = read_file(folder / text.name);
    if (there && *there == text.text) continue;
    if (auto written = write_file_atomically(folder / text.name, text.text); !written) return written.error();
  }
  return folder;
}

}  // namespace muster::job
