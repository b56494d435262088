#include "service/builtin_model.hpp"

#include "base/files.hpp"
#include "chat/model_text.hpp"
#include "checkpoint/model_texts.hpp"
#include "data/byte_tokenizer.hpp"

namespace muster::service {
namespace {

spec::ModelConfig builtin_config() {
  spec::ModelConfig config;
  config.family = spec::Family::llama;
  config.vocabulary = data::ByteTokens::vocabulary;
  config.hidden = 128;
  config.layers = 3;
  config.heads = 4;
  config.kv_heads = 4;
  config.head_size = 32;
  config.intermediate = 352;
  config.positions = 256;
  config.norm_epsilon = 1e-5;
  config.tied = true;
  return config;
}

}  // namespace

Result<std::filesystem::path> builtin_model_folder(const std::filesystem::path& cache) {
  const std::filesystem::path folder = cache / "models" / "llama-0.6m-1";
  const chat::ModelTextFiles files = data::byte_tokenizer_files();
  std::vector<checkpoint::NamedText> tokenizer{{"tokenizer.json", files.tokenizer}};
  if (files.tokenizer_config) tokenizer.push_back({"tokenizer_config.json", *files.tokenizer_config});
  const spec::TokenIds tokens{data::ByteTokens::begin, data::ByteTokens::padding, {data::ByteTokens::end}};
  const auto texts =
      checkpoint::texts_of_config(builtin_config(), tokens, spec::ElementType::float32, std::move(tokenizer));
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

}  // namespace muster::service
