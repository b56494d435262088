#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings.hpp"
#include "errors.hpp"
#include "planning/plan_options.hpp"
#include "system/files.hpp"

namespace muster::python {
namespace {

using planning::PlanCommandLine;
using GivenOptions = std::vector<std::pair<std::string, std::vector<std::string>>>;

// A plan with everything its reports are made of.
struct AnsweredPlan {
  planning::PlanAnswer answer;
  PlanCommandLine command;
};

AnsweredPlan answer_plan(const GivenOptions& options, const std::optional<std::string>& gpus_from) {
  std::vector<PlanCommandLine::Given> given;
  for (const auto& [option, values] : options) given.push_back({option, values});
  host::HostSources sources = host::sources_from_environment();
  if (gpus_from) sources.inventory_file = *gpus_from;
  host::Host host(std::move(sources));
  auto answer = value_or_raise(planning::answer_plan(host, value_or_raise(planning::read_plan_options(given))));
  const plan::Work work = answer.question.workload.work;
  return {std::move(answer), PlanCommandLine(std::move(given), work)};
}

void save_picture(const AnsweredPlan& plan, const std::string& path) {
  const auto written = write_file_atomically(path, planning::plan_plot(plan.answer.question, plan.answer.plan));
  if (!written) raise(written.error());
}

// The fewest of the GPUs with these numbers that hold the model with its memory times margin; empty: not on all.
std::vector<int> smallest_set(const AnsweredPlan& plan, const std::vector<int>& numbers, double margin) {
  plan::Question question = plan.answer.question;
  question.devices.insert(question.devices.end(), question.spare.begin(), question.spare.end());
  std::erase_if(question.devices, [&](const plan::PlanDevice& device) {
    return std::ranges::find(numbers, device.number) == numbers.end();
  });
  for (plan::PlanDevice& device : question.devices)
    device.limit = static_cast<std::int64_t>(static_cast<double>(device.limit) / margin);
  std::vector<int> chosen;
  for (const plan::PlanDevice& device : plan::smallest_set(question)) chosen.push_back(device.number);
  return chosen;
}

}  // namespace

void bind_plan(nanobind::module_& module) {
  using nanobind::arg;
  using Released = nanobind::call_guard<nanobind::gil_scoped_release>;
  nanobind::class_<AnsweredPlan>(module, "AnsweredPlan", "A plan, for people, for programs and as a picture.")
      .def_prop_ro("notes", [](const AnsweredPlan& plan) { return plan.answer.notes; })
      .def("json",
           [](const AnsweredPlan& plan) {
             return planning::plan_json(plan.answer.question, plan.answer.plan, plan.command);
           })
      .def("text",
           [](const AnsweredPlan& plan) {
             return planning::plan_text(plan.answer.question, plan.answer.plan, plan.command, false);
           })
      .def("save_picture", &save_picture, arg("path"))
      .def("smallest_set", &smallest_set, arg("numbers"), arg("margin"), Released(),
           "The fewest of these GPUs that hold the model for inference; empty: not on all of them.");
  module.def("answer_plan", &answer_plan, arg("options"), arg("gpus_from").none(), Released(),
             "Plans as `muster plan` does with these options and their values.");
}

}  // namespace muster::python
