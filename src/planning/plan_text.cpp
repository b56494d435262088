#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/byte_count.hpp"
#include "base/count_of.hpp"
#include "base/table.hpp"
#include "base/text.hpp"
#include "planning/plan_format.hpp"
#include "planning/plan_report.hpp"

namespace muster::planning {
namespace {

using plan::Component;

constexpr int bar_width = 40;

std::string gibibytes_text(std::int64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
}

// The kinds of bytes that a bar distinguishes.
struct BarPart {
  std::string_view mark;
  std::string_view meaning;
  std::vector<Component> components;
};
const std::vector<BarPart>& bar_parts() {
  static const std::vector<BarPart> parts{
      {"█",
       "model",
       {Component::weights, Component::quantization, Component::buffers, Component::master, Component::adapters,
        Component::reference, Component::reward_model, Component::critic}},
      {"▓",
       "gradients and optimizer",
       {Component::gradients, Component::optimizer, Component::buckets, Component::gathered}},
      {"▒",
       "activations, logits, KV cache",
       {Component::activations, Component::logits, Component::kv_cache, Component::workspace}},
      {"░", "slack, NCCL, context", {Component::slack, Component::nccl, Component::context}},
  };
  return parts;
}

std::string bar(const plan::RankPlan& rank, bool colour) {
  const std::int64_t whole = rank.limit_is_known() ? std::max(rank.limit, rank.memory.total()) : rank.memory.total();
  std::string drawn;
  int cells = 0;
  std::int64_t before = 0;
  for (const BarPart& part : bar_parts()) {
    for (const Component component : part.components) before += rank.memory[component];
    const int until = static_cast<int>(
        static_cast<double>(before) / static_cast<double>(std::max<std::int64_t>(whole, 1)) * bar_width + 0.5);
    for (; cells < until; ++cells) drawn += part.mark;
  }
  std::string rest;
  for (; cells < bar_width; ++cells) rest += "·";
  return paint(rank.fits() ? Colour::green : Colour::red, drawn, colour) + paint(Colour::dim, rest, colour);
}

// Consecutive ranks that need and may use the same are one line.
struct Group {
  const plan::RankPlan* first = nullptr;
  const plan::RankPlan* last = nullptr;
};

bool in_a_row(const Group& group) {
  for (const plan::RankPlan* rank = group.first; rank != group.last; ++rank)
    if ((rank + 1)->gpu->number - rank->gpu->number > 1) return false;
  return true;
}

std::vector<Group> groups(const plan::Plan& plan) {
  std::vector<Group> list;
  for (const plan::RankPlan& rank : plan.ranks) {
    const bool same = !list.empty() && !rank.layers && list.back().last->memory.bytes == rank.memory.bytes &&
                      list.back().last->limit == rank.limit && list.back().last->host == rank.host;
    if (same)
      list.back().last = &rank;
    else
      list.push_back({&rank, &rank});
  }
  return list;
}

std::string layers_text(const plan::RankPlan& rank) {
  if (!rank.layers) return {};
  std::vector<std::string> parts;
  if (rank.layers->has_embedding) parts.emplace_back("embedding");
  if (rank.layers->end_block > rank.layers->first_block)
    parts.push_back(fmt::format("layers {}–{}", rank.layers->first_block, rank.layers->end_block - 1));
  if (rank.layers->has_head) parts.emplace_back("head");
  return parts.empty() ? "nothing" : join(parts, ", ");
}

std::string device_lines(const plan::Question& question, const plan::Plan& plan, bool colour) {
  std::vector<std::vector<Cell>> rows;
  rows.push_back({{"RANK"}, {"DEVICE"}, {"NEEDS", Colour::plain, true}, {"OF", Colour::plain, true}, {""}, {""}});
  for (const Group& group : groups(plan)) {
    const plan::RankPlan& rank = *group.first;
    const bool several = group.first != group.last;
    std::string device = device_name(question, rank);
    if (several && rank.gpu && group.last->gpu->number != rank.gpu->number)
      device += fmt::format("{}{}", in_a_row(group) ? "–" : ", …, ", group.last->gpu->number);
    if (rank.gpu) device += " " + rank.gpu->name;
    rows.push_back({{several ? fmt::format("{}–{}", rank.rank, group.last->rank) : std::to_string(rank.rank)},
                    {device},
                    {gibibytes_text(rank.memory.total()), rank.fits() ? Colour::plain : Colour::red, true},
                    {rank.limit_is_known() ? gibibytes_text(rank.limit) : "not known", Colour::plain, true},
                    {bar(rank, colour)},
                    {layers_text(rank)}});
  }
  return format_table(rows, colour);
}

// What fills the fullest device.
std::string component_lines(const plan::Question& question, const plan::Plan& plan, bool colour) {
  const plan::RankPlan& fullest = *std::ranges::max_element(
      plan.ranks, {}, [](const plan::RankPlan& rank) { return rank.memory.total() - rank.limit; });
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < plan::component_count; ++i) {
    const auto component = static_cast<Component>(i);
    if (component == Component::slack)
      rows.push_back(
          {{"peak of allocated bytes", Colour::bold}, {gibibytes_text(fullest.memory.peak()), Colour::bold, true}});
    if (fullest.memory[component] >= 5 << 20)
      rows.push_back(
          {{fmt::format("  {}", spoken(component))}, {gibibytes_text(fullest.memory[component]), Colour::plain, true}});
  }
  rows.push_back({{"needed", Colour::bold}, {gibibytes_text(fullest.memory.total()), Colour::bold, true}});
  std::string text = fmt::format("{}, highest at: {}\n", device_name(question, fullest), fullest.memory.moment);
  text += format_table(rows, colour);
  if (fullest.memory.host > 0) {
    std::int64_t on_host = 0;
    for (const plan::RankPlan& rank : plan.ranks)
      if (rank.host == fullest.host) on_host += rank.memory.host;
    text += fmt::format("in host memory: {} per rank, {} per host{}\n", gibibytes_text(fullest.memory.host),
                        gibibytes_text(on_host), question.host_memory ? "" : "; how much is free there is not known");
  }
  return text;
}

// What each part of a round takes of the fullest device.
std::string phase_lines(const plan::Plan& plan, bool colour) {
  if (plan.phases.empty()) return {};
  std::vector<std::vector<Cell>> rows{{{"phase of a round", Colour::bold}, {"takes", Colour::bold, true}}};
  for (const plan::Phase& phase : plan.phases)
    rows.push_back({{fmt::format("  {}", phase.name)},
                    {gibibytes_text(phase.bytes), phase.bytes > phase.limit ? Colour::red : Colour::plain, true}});
  return format_table(rows, colour);
}

}  // namespace

std::string plan_text(const plan::Question& question, const plan::Plan& plan, const RemedyCommand& command,
                      bool colour) {
  std::string text = headline(question, plan) + "\n";
  for (const std::string& note : question.model->notes) text += "note: " + note + "\n";
  for (const std::string& reason : plan.reasons) text += reason + "\n";
  text += "\n" + device_lines(question, plan, colour);
  std::string legend;
  for (const BarPart& part : bar_parts()) legend += fmt::format("{} {}   ", part.mark, part.meaning);
  text += paint(Colour::dim, legend.substr(0, legend.size() - 3), colour) + "\n\n";
  text += component_lines(question, plan, colour);
  text += phase_lines(plan, colour);
  for (const auto& [place, bytes] : plan.off_gpu)
    text += fmt::format("on {}: {}\n", to_string(place), gibibytes_text(bytes));
  if (plan.duplicated > 0)
    text += fmt::format("the tied embedding lies on two devices: {} twice\n", gibibytes_text(plan.duplicated));
  if (plan.batches)
    text += fmt::format("batches that fit: {} generated at once, {} scored at once\n",
                        count_of(plan.batches->generation, "sequence"), count_of(plan.batches->scoring, "text"));
  text += "\n";
  if (!plan.refusal) return text + paint(Colour::green, "fits", colour) + "\n";
  text += paint(Colour::red, "does not fit", colour) + ": " + plan.refusal->reason + "\n";
  for (const plan::Remedy& remedy : plan.refusal->remedies)
    text += fmt::format("try: {}\n     {}\n", remedy.change, command(remedy.settings));
  if (plan.refusal->remedies.empty())
    text += fmt::format("nothing sensible makes it fit, not even several changes together: take a smaller model, or {}\n",
                        question.devices.empty() ? "a host with more memory" : "more or larger GPUs");
  return text;
}

}  // namespace muster::planning
