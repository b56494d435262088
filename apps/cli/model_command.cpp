// muster model: fetch a model, list the available ones, turn a GGUF file into a Hugging Face folder, merge an adapter into
// a model.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "base/text.hpp"
#include "checkpoint/adapters/merge_adapter.hpp"
#include "checkpoint/convert.hpp"
#include "cli/command.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "job/model_forms.hpp"
#include "service/model_fetch.hpp"
#include "service/models.hpp"
#include "spec/model/model_search.hpp"
#include "spec/run_spec.hpp"
#include "spec/values.hpp"
#include "system/allotted_cores.hpp"

namespace muster::cli {
namespace {

int get(const std::string& name) {
  const service::KnownModel* model = service::find_known_model(name);
  if (model == nullptr) {
    std::vector<std::string> known;
    for (const service::KnownModel& entry : service::known_models()) known.emplace_back(entry.name);
    return report({Error::Kind::bad_input, fmt::format("muster knows no model \"{}\" to fetch", name),
                   fmt::format("known: {}; any other model is given by its path or its name in the hub cache",
                               join(known, ", "))});
  }
  const char* python = std::getenv("MUSTER_PYTHON");
  service::FetchRequest request{*model,
                                spec::model_search_from_environment().store,
                                python == nullptr || *python == '\0' ? "python3" : python,
                                {}};
  Result<service::FetchedModel> fetched = [&] {
    ProgressLine line(fmt::format("fetching {}", model->title));
    request.progress = [&](ByteCount done) { line.show(done, model->download); };
    return service::fetch_model(request);
  }();
  if (!fetched) return report(fetched.error());
  show(fmt::format("{} {}: {}\n", model->title, fetched->was_there ? "is there already" : "is ready",
                   fetched->file.string()));
  show(fmt::format("licence {}; use it as -m {}\n", model->licence, model->name));
  return 0;
}

int list(bool as_json) {
  const spec::ModelSearch search = spec::model_search_from_environment();
  const auto models = service::models_at_hand(search);
  if (as_json)
    show_json(service::models_json(models) + "\n");
  else
    show(service::models_text(models, search, output_has_colour()));
  return 0;
}

struct ConvertOptions {
  std::string model, folder, dtype = "auto";
};

Result<std::optional<spec::ElementType>> element_type(const std::string& word) {
  std::vector<std::string> accepted;
  for (const auto& [text, value] : spec::words(spec::DataType{})) {
    accepted.emplace_back(text);
    if (text != word) continue;
    switch (value) {
      case spec::DataType::automatic:
        return std::optional<spec::ElementType>{};
      case spec::DataType::float32:
        return std::optional(spec::ElementType::float32);
      case spec::DataType::bfloat16:
        return std::optional(spec::ElementType::bfloat16);
      case spec::DataType::float16:
        return std::optional(spec::ElementType::float16);
    }
  }
  return Error{Error::Kind::bad_input, fmt::format("--dtype {}", word),
               fmt::format("accepted: {}", join(accepted, ", "))};
}

int convert(const ConvertOptions& options) {
  const auto dtype = element_type(options.dtype);
  if (!dtype) return report(dtype.error());
  const auto file = spec::find_model(options.model, spec::model_search_from_environment());
  if (!file) return report(file.error());
  checkpoint::ConversionRequest request;
  request.file = *file;
  request.folder = options.folder;
  request.dtype = *dtype;
  const auto converted = [&] {
    ProgressLine line(fmt::format("writing {}", options.folder));
    request.progress = [&](ByteCount done, ByteCount total) { line.show(done, total); };
    return checkpoint::convert_gguf(request);
  }();
  if (!converted) return report(converted.error());
  show(fmt::format("{}: {} tensors, {} parameters as {}, {}\n", options.folder, converted->tensors, converted->parameters,
                   spec::name(converted->dtype), to_string(converted->bytes)));
  return 0;
}

struct MergeOptions {
  std::string model, adapter, folder, dtype = "auto";
};

int merge(const MergeOptions& options) {
  const auto dtype = element_type(options.dtype);
  if (!dtype) return report(dtype.error());
  spec::ModelSpec model;
  model.path = options.model.empty() ? options.adapter : options.model;
  if (const auto taken = job::take_model_name(model); !taken) return report(taken.error());
  checkpoint::MergeRequest request{.model = *model.path, .adapter = options.adapter, .folder = options.folder,
                                   .dtype = *dtype, .threads = allotted_cores(), .progress = {}};
  const auto merged = [&] {
    ProgressLine line(fmt::format("writing {}", options.folder));
    request.progress = [&](ByteCount done, ByteCount total) { line.show(done, total); };
    return checkpoint::merge_adapter(request, spec::model_search_from_environment());
  }();
  if (!merged) return report(merged.error());
  show(fmt::format("{}: {} of {} with {} weights from {}\n", options.folder, to_string(merged->bytes), *model.path,
                   merged->adapted, options.adapter));
  return 0;
}

}  // namespace

void add_model_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("model", "fetch a model, list those at hand, convert a GGUF file, merge an adapter");
  command->require_subcommand(1);

  CLI::App* get_command =
      command->add_subcommand("get", "fetch a model that muster knows by name, check it, and keep it for -m NAME");
  auto name = std::make_shared<std::string>();
  get_command->add_option("NAME", *name, "smollm2: SmolLM2-135M-Instruct, 98 MB, Apache-2.0")->required();
  get_command->callback([&action, name] { action.run = [name](const Tail&) { return get(*name); }; });

  CLI::App* list_command =
      command->add_subcommand("list", "the models in muster's store and in the Hugging Face cache");
  auto as_json = std::make_shared<bool>(false);
  list_command->add_flag("--json", *as_json, "for programs");
  list_command->callback([&action, as_json] { action.run = [as_json](const Tail&) { return list(*as_json); }; });

  CLI::App* convert_command = command->add_subcommand(
      "convert", "write a GGUF file as a Hugging Face folder: configuration, safetensors, tokenizer, chat template");
  auto options = std::make_shared<ConvertOptions>();
  convert_command->add_option("FILE", options->model, "a .gguf file, or the name of a fetched model")->required();
  convert_command->add_option("FOLDER", options->folder, "where to; must not exist")->required();
  convert_command
      ->add_option("--dtype", options->dtype, "type of the weights; auto: the file's own, float16 for packed ones")
      ->capture_default_str();
  convert_command->callback([&action, options] { action.run = [options](const Tail&) { return convert(*options); }; });

  CLI::App* merge_command =
      command->add_subcommand("merge", "write a model with a low-rank adapter in its weights, as a Hugging Face folder");
  auto merging = std::make_shared<MergeOptions>();
  merge_command->add_option("ADAPTER", merging->adapter, "the adapter's folder, as muster train and PEFT write it")->required();
  merge_command->add_option("FOLDER", merging->folder, "where to; must not exist")->required();
  merge_command->add_option("-m,--model", merging->model, "the model that it is for; not given: the one it names");
  merge_command->add_option("--dtype", merging->dtype, "type of the weights; auto: the model's own")->capture_default_str();
  merge_command->callback([&action, merging] { action.run = [merging](const Tail&) { return merge(*merging); }; });
}

}  // namespace muster::cli
