// Answers questions about checkpoints for tests in Python: one JSON object a line in, one a line out.
//   {"open": MODEL} | {"open_safetensors": PATH}                         → {"tensors": [{"name", "shape", "stored",
//   "bytes"}]}
//   {"read": NAME, "as": TYPE, "rows": [FIRST, COUNT], "columns": […], "to": FILE}  → {"bytes_read": N}
//   {"read": NAME, "as": TYPE, "view": true, "to": FILE}                 the same by view()
//   {"read_packed": NAME, "rows": [FIRST, COUNT], "to": FILE}            → {"code", "run", "double_quantized", "rows",
//   "columns"}, or {} where there are no codes; the codes and then the scales of these rows
//   {"read_all": TYPE, "threads": N, "to": FOLDER}                       → {"bytes_read": N}; one file a tensor
//   {"tokenizer_json": GGUF} | {"tokenizer_config_json": GGUF}           → {"text": …}
//   {"copy": FOLDER, "as": TYPE, "shard_bytes": N}                       → {}: the open checkpoint, written anew
//   {"convert": MODEL, "to": FOLDER, "as": TYPE, "shard_bytes": N, "form": {"code": WORD, "double_quantized": BOOL,
//   "skipped": […]}}                                                     → {"tensors": N, "bytes": N, "quantised": N,
//   "dequantised": […]}
//   {"save": FOLDER, "model": MODEL, "step": N, "ranks": N}              → {"path": …}: the open checkpoint's numbers
//   as a training checkpoint; the first moment is the parameter plus 1, the second its square
//   {"export": FOLDER, "model": MODEL, "checkpoint": PATH, "as": TYPE, "shard_bytes": N, "replace": BOOL, "written":
//   BOOL}
//                                                                        → {"bytes": N}: a training checkpoint's
//   parameters with the model's texts, or with a configuration that is written anew
// What fails answers {"error": …}.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint_saver.hpp"
#include "checkpoint/checkpoint_writer.hpp"
#include "checkpoint/export_model.hpp"
#include "checkpoint/gguf_tokenizer.hpp"
#include "checkpoint/parallel_read.hpp"
#include "checkpoint/tensor_source.hpp"
#include "checkpoint/training_parameters.hpp"
#include "convert/convert_model.hpp"
#include "spec/model/gguf_header.hpp"
#include "spec/model/model_source.hpp"

namespace muster::checkpoint {
namespace {

using nlohmann::json;
using spec::ElementType;

json failure(const Error& error) { return {{"error", to_string(error)}}; }

ElementType type_named(const std::string& word) {
  for (const ElementType type :
       {ElementType::float64, ElementType::float32, ElementType::float16, ElementType::bfloat16, ElementType::int64})
    if (spec::name(type) == word) return type;
  throw std::runtime_error("no type " + word);
}

void write(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

std::size_t size_of(const TensorEntry& entry, ElementType as) {
  return static_cast<std::size_t>(entry.dimensions.elements() * spec::bytes_per_element(as));
}

class Driver {
 public:
  json answer(const json& question) {
    if (question.contains("open"))
      return listing(open_checkpoint(question["open"], spec::model_search_from_environment()));
    if (question.contains("open_safetensors"))
      return listing(open_safetensors(question["open_safetensors"].get<std::string>()));
    if (question.contains("read")) return read(question);
    if (question.contains("read_packed")) return read_packed(question);
    if (question.contains("read_all")) return read_all(question);
    if (question.contains("copy")) return copy(question);
    if (question.contains("convert")) return convert(question);
    if (question.contains("save")) return save(question);
    if (question.contains("export")) return export_checkpoint(question);
    if (question.contains("tokenizer_json")) return text(question["tokenizer_json"], gguf_tokenizer_json);
    if (question.contains("tokenizer_config_json"))
      return text(question["tokenizer_config_json"], gguf_tokenizer_config_json);
    return {{"error", "what?"}};
  }

 private:
  static json convert(const json& question) {
    convert::ConversionRequest request;
    request.model = question["convert"];
    request.folder = question["to"].get<std::string>();
    if (question.contains("as")) request.dtype = type_named(question["as"]);
    if (question.contains("form")) request.form = form_of(question["form"]);
    request.shard_size = {question.value("shard_bytes", std::int64_t{1} << 40)};
    const auto done = convert::convert_model(request, spec::model_search_from_environment());
    if (!done) return failure(done.error());
    return {{"tensors", done->tensors},
            {"bytes", done->bytes.value},
            {"quantised", done->quantised},
            {"dequantised", done->dequantised}};
  }

  static spec::WeightOptions form_of(const json& given) {
    spec::WeightOptions form;
    for (const auto& [word, code] : spec::words(spec::PackedCode{}))
      if (word == given["code"]) form.packing.code = code;
    form.packing.double_quantized = given.value("double_quantized", false);
    form.skipped = given.value("skipped", std::vector<std::string>());
    return form;
  }

  static json text(const std::string& path, Result<std::string> (*make)(const spec::GgufHeader&, std::string_view)) {
    const auto header = spec::read_gguf_header(path);
    if (!header) return failure(header.error());
    const auto made = make(*header, path);
    if (!made) return failure(made.error());
    return {{"text", *made}};
  }

  json listing(Result<std::unique_ptr<TensorSource>> opened) {
    if (!opened) return failure(opened.error());
    source_ = std::move(*opened);
    json tensors = json::array();
    for (const TensorEntry& entry : source_->tensors())
      tensors.push_back({{"name", entry.name},
                         {"shape", std::vector(entry.dimensions.span().begin(), entry.dimensions.span().end())},
                         {"stored", entry.stored_as},
                         {"bytes", entry.stored_bytes}});
    return {{"tensors", tensors}};
  }

  json read(const json& question) {
    const std::string name = question["read"];
    const TensorEntry* entry = source_->find(name);
    if (entry == nullptr) return {{"error", "no tensor " + name}};
    const ElementType as = type_named(question["as"]);
    TensorSlice slice;
    std::int64_t rows = entry->dimensions.rank == 0 ? 1 : entry->dimensions.sizes[0];
    std::int64_t columns = entry->dimensions.elements() / std::max<std::int64_t>(rows, 1);
    if (question.contains("rows")) {
      slice.first_row = question["rows"][0];
      slice.rows = rows = question["rows"][1];
    }
    if (question.contains("columns")) {
      slice.first_column = question["columns"][0];
      slice.columns = columns = question["columns"][1];
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(rows * columns * spec::bytes_per_element(as)));
    if (const auto done = source_->read(name, slice, as, bytes); !done) return failure(done.error());
    if (question.value("view", false)) {  // the whole tensor as it is stored
      const std::byte* start = source_->view(name);
      if (start == nullptr) return {{"error", "no view of " + name}};
      bytes.assign(start, start + entry->stored_bytes);
      source_->release(name);
      if (!std::equal(bytes.begin(), bytes.end(), start)) return {{"error", "other bytes after release"}};
    }
    write(question["to"], bytes);
    return {{"bytes_read", source_->bytes_read()}};
  }

  json read_packed(const json& question) {
    const std::string name = question["read_packed"];
    const auto form = source_->packed(name);
    if (!form) return json::object();
    const std::int64_t rows = question["rows"][1];
    std::vector<std::byte> codes(static_cast<std::size_t>(rows * form->code_bytes_per_row()));
    std::vector<float> scales(static_cast<std::size_t>(rows * form->scales_per_row()));
    if (const auto done = source_->read_packed(name, question["rows"][0], rows, codes, scales); !done)
      return failure(done.error());
    const auto bytes = std::as_bytes(std::span(scales));
    codes.insert(codes.end(), bytes.begin(), bytes.end());
    write(question["to"], codes);
    const spec::PackedCode code = form->packing.code;
    return {{"code", code == spec::PackedCode::int8 ? "int8" : code == spec::PackedCode::nf4 ? "nf4" : "fp4"},
            {"run", form->packing.run},
            {"double_quantized", form->packing.double_quantized},
            {"rows", form->rows},
            {"columns", form->columns}};
  }

  json read_all(const json& question) {
    const ElementType as = type_named(question["read_all"]);
    std::vector<std::vector<std::byte>> buffers;
    std::vector<TensorRead> reads;
    for (const TensorEntry& entry : source_->tensors()) {
      buffers.emplace_back(size_of(entry, as));
      reads.push_back({entry.name, {}, as, buffers.back()});
    }
    if (const auto done = read_tensors(*source_, reads, question["threads"]); !done) return failure(done.error());
    for (std::size_t i = 0; i < reads.size(); ++i)
      write(question["to"].get<std::string>() + "/" + reads[i].name, buffers[i]);
    return {{"bytes_read", source_->bytes_read()}};
  }

  // In the order of the tensors reversed, the first in two parts: the writer must not care.
  json copy(const json& question) {
    std::vector<TensorDeclaration> declared;
    for (const TensorEntry& entry : source_->tensors()) {
      const bool keep = question["as"] == "stored";
      declared.push_back({entry.name, keep ? *entry.element_type : type_named(question["as"]), entry.dimensions});
    }
    auto writer = CheckpointWriter::create(question["copy"].get<std::string>(), declared, {question["shard_bytes"]});
    if (!writer) return failure(writer.error());
    for (std::size_t i = declared.size(); i-- > 0;) {
      const auto& [name, type, dimensions] = declared[i];
      std::vector<std::byte> bytes(static_cast<std::size_t>(dimensions.elements() * spec::bytes_per_element(type)));
      if (const auto done = source_->read(name, {}, type, bytes); !done) return failure(done.error());
      const auto whole = std::span(std::as_const(bytes));
      const std::size_t half = i == 0 ? bytes.size() / 2 : 0;
      auto written = half == 0 ? writer->write(name, whole) : writer->write_part(name, half, whole.subspan(half));
      if (written && half > 0) written = writer->write_part(name, 0, whole.first(half));
      if (!written) return failure(written.error());
    }
    if (const auto done = writer->finish(); !done) return failure(done.error());
    return json::object();
  }

  void fill(HostCopy& copy, const std::vector<LogicalTensor>& tensors) const {
    for (std::size_t i = 0; i < copy.pieces().size(); ++i) {
      const Piece& piece = copy.pieces()[i];
      std::vector<float> whole(static_cast<std::size_t>(source_->find(piece.tensor)->dimensions.elements()));
      if (const auto done =
              source_->read(piece.tensor, {}, ElementType::float32, std::as_writable_bytes(std::span(whole)));
          !done)
        throw std::runtime_error(done.error().what);
      const LogicalTensor& tensor = *std::ranges::find(tensors, piece.tensor, &LogicalTensor::name);
      const auto rows = static_cast<std::size_t>(tensor.dimensions.sizes[0]),
                 columns = static_cast<std::size_t>(tensor.dimensions.sizes[1]);
      for (std::size_t k = 0; k < copy.numbers(i).size(); ++k) {
        const std::size_t element = static_cast<std::size_t>(piece.first) + k;
        const float number = whole[tensor.transposed ? element % columns * rows + element / columns : element];
        copy.numbers(i)[k] = piece.state == "parameter"      ? number
                             : piece.state == "first_moment" ? number + 1
                                                             : number * number;
      }
    }
  }

  json save(const json& question) const {
    const auto model = spec::read_model(question["model"], {}, std::nullopt);
    if (!model) return failure(model.error());
    const auto tensors = trained_tensors(model->shape, {"first_moment", "second_moment"});
    const int ranks = question["ranks"];
    TrainingState state;
    state.step = question["step"];
    std::vector<std::unique_ptr<CheckpointSaver>> savers;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto copy = std::make_shared<HostCopy>(share_of(tensors, ranks, rank));
      fill(*copy, tensors);
      savers.push_back(std::make_unique<CheckpointSaver>(
          SaverContext{.folder = question["save"].get<std::string>(), .attempt = "t", .rank = rank, .ranks = ranks},
          tensors));
      if (const auto begun = savers.back()->begin(state, copy); !begun) return failure(begun.error());
    }
    const auto done = savers.front()->wait();
    return done ? json{{"path", done->path.string()}} : failure(done.error());
  }

  static json export_checkpoint(const json& question) {
    const auto model = spec::read_model(question["model"], {}, std::nullopt);
    if (!model) return failure(model.error());
    auto opened = TrainingCheckpoint::open(question["checkpoint"].get<std::string>());
    if (!opened) return failure(opened.error());
    const auto source = training_parameters(std::move(*opened), model->shape);
    if (!source) return failure(source.error());
    const ElementType type = type_named(question["as"]);
    auto texts = texts_of_model(question["model"].get<std::string>(), type);
    if (texts && question.value("written", false)) {
      std::erase_if(*texts, [](const NamedText& text) { return !text.name.starts_with("tokenizer"); });
      texts = texts_of_config(model->config, {.begin = 1, .padding = {}, .ends = {2, 3}}, type, *texts);
    }
    if (!texts) return failure(texts.error());
    ExportRequest request{question["export"].get<std::string>(),
                          question.value("replace", false),
                          *texts,
                          tensors_to_export(model->shape, type),
                          {question.value("shard_bytes", std::int64_t{1} << 40)}};
    const auto done = export_model(request, **source);
    return done ? json{{"bytes", done->value}} : failure(done.error());
  }

  std::unique_ptr<TensorSource> source_;
};

}  // namespace
}  // namespace muster::checkpoint

int main() {
  muster::checkpoint::Driver driver;
  for (std::string line; std::getline(std::cin, line);)
    std::cout << driver.answer(nlohmann::json::parse(line)).dump() << std::endl;
}
