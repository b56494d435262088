// muster model: fetch a model, list the available ones, write one in another form, merge an adapter into one.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "base/text.hpp"
#include "checkpoint/adapters/merge_adapter.hpp"
#include "cli/command.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "convert/convert_model.hpp"
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
  std::string model, folder, to, dtype = "auto";
  bool double_quant = false;
  std::vector<std::string> skipped;
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

// What is asked for under --to: codes, or a type of all weights.
struct ConvertedForm {
  std::optional<spec::WeightOptions> coded;
  std::optional<spec::ElementType> dtype;
};

Result<ConvertedForm> converted_form(const ConvertOptions& options) {
  const auto dtype = element_type(options.dtype);
  if (!dtype) return dtype.error();
  ConvertedForm form{{}, *dtype};
  std::vector<std::string> accepted;
  for (const auto& [word, code] : spec::words(spec::PackedCode{})) {
    accepted.emplace_back(word);
    if (options.to == word) form.coded = spec::WeightOptions{{.code = code}, options.skipped};
  }
  if (!form.coded && (options.double_quant || !options.skipped.empty()))
    return bad_input(fmt::format("{} is for weights in codes, and no --to asks for these",
                                 options.double_quant ? "--double-quant" : "--skip-modules"),
                     "add --to nf4");
  if (options.double_quant && form.coded->packing.bits() == 8)
    return bad_input("--double-quant is for the scales of 4 bits, and --to is int8", "--to nf4 --double-quant");
  if (form.coded) form.coded->packing.double_quantized = options.double_quant;
  if (form.coded || options.to.empty()) return form;
  auto named = element_type(options.to);
  if (!named || !*named)
    return bad_input(fmt::format("--to {}", options.to),
                     fmt::format("accepted: {}, float32, bfloat16, float16", join(accepted, ", ")));
  if (form.dtype && form.dtype != *named)
    return bad_input(fmt::format("--to {} and --dtype {} name two types for the same weights", options.to, options.dtype),
                     "keep one of the two");
  form.dtype = *named;
  return form;
}

std::string conversion_text(const ConvertOptions& options, const convert::Conversion& done) {
  std::string text;
  if (!done.dequantised.empty())
    text = fmt::format("weights in {} were dequantised first\n", join(done.dequantised, ", "));
  std::string form{spec::name(done.dtype)};
  if (done.quantised > 0)
    form = fmt::format("{} ({} weights; the rest as {})", options.to, done.quantised, form);
  return text + fmt::format("{}: {} tensors, {} parameters as {}, {}\n", options.folder, done.tensors, done.parameters,
                            form, to_string(done.bytes));
}

int convert(const ConvertOptions& options) {
  const auto form = converted_form(options);
  if (!form) return report(form.error());
  convert::ConversionRequest request{.model = options.model,
                                     .folder = options.folder,
                                     .form = form->coded,
                                     .dtype = form->dtype,
                                     .threads = allotted_cores(),
                                     .progress = {}};
  const auto converted = [&] {
    ProgressLine line(fmt::format("writing {}", options.folder));
    request.progress = [&](ByteCount done, ByteCount total) { line.show(done, total); };
    return convert::convert_model(request, spec::model_search_from_environment());
  }();
  if (!converted) return report(converted.error());
  show(conversion_text(options, *converted));
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
  if (const auto packing = model.packing())
    return report(Error{Error::Kind::bad_input,
                        fmt::format("{} asks for weights in {} bits, and a merged model has plain ones",
                                    options.model.empty() ? options.adapter : "-m " + options.model, packing->bits()),
                        fmt::format("-m {} merges over its own weights; to merge over the numbers of codes: muster model "
                                    "convert {} FOLDER --to {}, and -m FOLDER",
                                    *model.path, *model.path, packing->bits() == 8 ? "int8" : "nf4")});
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

void add_convert_command(CLI::App& model_command, Action& action) {
  CLI::App* command = model_command.add_subcommand(
      "convert", "write a model as a Hugging Face folder in another form: from GGUF, in 8 or 4 bits, in another type");
  auto options = std::make_shared<ConvertOptions>();
  command->add_option("MODEL", options->model, "a folder, a .gguf file, a fetched model, a name in the hub cache")->required();
  command->add_option("FOLDER", options->folder, "where to; must not exist")->required();
  command->add_option("--to", options->to,
                      "nf4, fp4 or int8: the weights of linear layers in codes, as bitsandbytes has them; or a type of all "
                      "weights; not given: as --dtype says");
  command
      ->add_option("--dtype", options->dtype,
                   "type of the weights that are not in codes; auto: the model's own, float16 for packed ones of GGUF")
      ->capture_default_str();
  command->add_flag("--double-quant", options->double_quant, "nf4, fp4: the scales in 8 bits, too");
  command
      ->add_option("--skip-modules", options->skipped,
                   "modules that stay as they are, as in model.llm_int8_skip_modules; several with commas")
      ->delimiter(',');
  command->callback([&action, options] { action.run = [options](const Tail&) { return convert(*options); }; });
}

}  // namespace

void add_model_command(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("model", "fetch a model, list those at hand, quantise or convert one, merge an adapter");
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

  add_convert_command(*command, action);

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
