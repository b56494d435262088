// Prepares data as it is told, one JSON object a line: data_driver.
//   {"write_byte_tokenizer": "folder"}                                        answered with {}
//   {"model": "folder" or "bytes", "data": "path", "cache": "folder", "sequence_length": 64, "threads": 2,
//    "train_on": "all" or "last", "form": "examples", "preferences",
//    "whole preferences" or "judgements"}
// The second is answered with {"samples": [{"tokens": […], "mask": [0, 1, …]}, …], "counts": {…}} or {"error": "…"}.
// With "steps": 3, "batch_size": 4, "seed": 42, "packing": false also with the samples that these steps of a training
// take: "batches": [[[0, 1], [2]], …], the units of each step.
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "system/files.hpp"
#include "data/batch_schedule.hpp"
#include "data/byte_tokenizer.hpp"
#include "data/dataset.hpp"
#include "data/prepare_data.hpp"

namespace muster::data {
namespace {

using nlohmann::json;

json error_of(const Error& error) { return {{"error", to_string(error)}}; }

json write_byte_tokenizer(const std::filesystem::path& folder) {
  const auto files = byte_tokenizer_files();
  for (const auto& [name, text] : {std::pair{"tokenizer.json", files.tokenizer},
                                   {"tokenizer_config.json", *files.tokenizer_config},
                                   {"generation_config.json", *files.generation_config}})
    if (auto written = write_file_atomically(folder / name, text); !written) return error_of(written.error());
  return json::object();
}

json sample_json(const SampleView& sample) {
  std::vector<int> mask(sample.tokens.size(), 0);
  for (const TokenSpan& span : sample.trained)
    for (std::uint32_t i = span.begin; i < span.end; ++i) mask[i] = 1;
  return {{"tokens", std::vector<std::int32_t>(sample.tokens.begin(), sample.tokens.end())}, {"mask", mask}};
}

RowForm form_of(const json& order) {
  for (const RowForm form : {RowForm::preferences, RowForm::whole_preferences, RowForm::comparisons, RowForm::judgements})
    if (order.value("form", "") == name(form)) return form;
  return RowForm::examples;
}

json batches_of(const Dataset& dataset, const json& order) {
  BatchSchedule schedule(dataset.lengths(),
                         {order.value("seed", std::uint64_t{42}), true, order.value("packing", false),
                          order.value("sequence_length", std::int64_t{1024}), samples_together(form_of(order))},
                         order.value("batch_size", std::int64_t{1}));
  json batches = json::array();
  for (int step = 0; step < order.value("steps", 0); ++step) batches.push_back(schedule.next().units);
  return batches;
}

json prepared(const json& order) {
  const std::string model = order.at("model");
  const auto text = model == "bytes" ? chat::ModelText::parse(byte_tokenizer_files()) : chat::read_model_text(model);
  if (!text) return error_of(text.error());
  DataRequest request;
  request.path = order.at("data");
  request.sequence_length = order.value("sequence_length", 1024);
  if (order.value("train_on", "all") == "last") request.train_on = spec::TrainedAnswers::last;
  request.form = form_of(order);
  const auto done = prepare_data(request, *text, order.at("cache").get<std::string>(), order.value("threads", 2));
  if (!done) return error_of(done.error());
  const auto dataset = Dataset::open(done->training.path, Verification::everything);
  if (!dataset) return error_of(dataset.error());
  json samples = json::array();
  for (std::int64_t i = 0; i < dataset->size(); ++i) samples.push_back(sample_json(dataset->sample(i)));
  const SampleCounts& counts = dataset->counts();
  return {{"samples", samples},
          {"batches", batches_of(*dataset, order)},
          {"was_there", done->training.was_there},
          {"counts",
           {{"samples", counts.samples},
            {"tokens", counts.tokens},
            {"trained_tokens", counts.trained_tokens},
            {"cut", counts.cut},
            {"dropped", counts.dropped},
            {"conversations", counts.conversations},
            {"split", counts.split}}}};
}

}  // namespace
}  // namespace muster::data

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto order = nlohmann::json::parse(line);
    const auto answer = order.contains("write_byte_tokenizer")
                            ? muster::data::write_byte_tokenizer(order["write_byte_tokenizer"].get<std::string>())
                            : muster::data::prepared(order);
    std::cout << answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  }
}
