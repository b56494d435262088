#include "cli/gpu_query.hpp"

#include <fmt/format.h>

#include <array>

#include "base/text.hpp"

namespace muster::cli {
namespace {

using Text = std::optional<std::string>;

struct QueryField {
  std::string_view name;
  std::string_view unit;
  Text (*value)(const host::HostView&, const gpu::Gpu&);
};

template <class Value>
Text text_of(const std::optional<Value>& value) {
  return value ? Text(fmt::format("{}", *value)) : std::nullopt;
}
Text mebibytes_of(const std::optional<ByteCount>& bytes) {
  return bytes ? Text(std::to_string(in_mebibytes(*bytes))) : std::nullopt;
}
Text watts_of(const std::optional<double>& watts) { return watts ? Text(fmt::format("{:.2f}", *watts)) : std::nullopt; }

constexpr std::array query_fields{
    QueryField{
        "index", "",
        [](const host::HostView&, const gpu::Gpu& g) -> Text { return std::to_string(gpu::number(g.facts.index)); }},
    QueryField{"uuid", "",
               [](const host::HostView&, const gpu::Gpu& g) -> Text {
                 return g.facts.uuid ? Text(g.facts.uuid->text) : std::nullopt;
               }},
    QueryField{"name", "", [](const host::HostView&, const gpu::Gpu& g) -> Text { return g.facts.name; }},
    QueryField{"pci.bus_id", "",
               [](const host::HostView&, const gpu::Gpu& g) -> Text { return g.facts.pci_bus_id; }},
    QueryField{"driver_version", "",
               [](const host::HostView& v, const gpu::Gpu&) -> Text { return v.snapshot.driver_version; }},
    QueryField{
        "count", "",
        [](const host::HostView& v, const gpu::Gpu&) -> Text { return std::to_string(v.snapshot.gpus.size()); }},
    QueryField{"compute_cap", "",
               [](const host::HostView&, const gpu::Gpu& g) -> Text {
                 return g.facts.compute_capability ? Text(fmt::format("{}.{}", g.facts.compute_capability->major,
                                                                      g.facts.compute_capability->minor))
                                                   : std::nullopt;
               }},
    QueryField{"memory.total", "MiB",
               [](const host::HostView&, const gpu::Gpu& g) { return mebibytes_of(g.facts.memory_total); }},
    QueryField{"memory.reserved", "MiB",
               [](const host::HostView&, const gpu::Gpu& g) { return mebibytes_of(g.reading.memory_reserved); }},
    QueryField{"memory.used", "MiB",
               [](const host::HostView&, const gpu::Gpu& g) { return mebibytes_of(g.reading.memory_used); }},
    QueryField{"memory.free", "MiB",
               [](const host::HostView&, const gpu::Gpu& g) { return mebibytes_of(g.reading.memory_free); }},
    QueryField{"utilization.gpu", "%",
               [](const host::HostView&, const gpu::Gpu& g) { return text_of(g.reading.utilization); }},
    QueryField{"utilization.memory", "%",
               [](const host::HostView&, const gpu::Gpu& g) { return text_of(g.reading.memory_utilization); }},
    QueryField{"temperature.gpu", "",
               [](const host::HostView&, const gpu::Gpu& g) { return text_of(g.reading.temperature); }},
    QueryField{"power.draw", "W",
               [](const host::HostView&, const gpu::Gpu& g) { return watts_of(g.reading.power); }},
    QueryField{"power.limit", "W",
               [](const host::HostView&, const gpu::Gpu& g) { return watts_of(g.reading.power_limit); }},
    QueryField{"clocks.sm", "MHz",
               [](const host::HostView&, const gpu::Gpu& g) { return text_of(g.reading.clock_sm); }},
    QueryField{"clocks.mem", "MHz",
               [](const host::HostView&, const gpu::Gpu& g) { return text_of(g.reading.clock_memory); }},
    QueryField{"ecc.errors.corrected.volatile.total", "",
               [](const host::HostView&, const gpu::Gpu& g) { return text_of(g.reading.ecc_corrected); }},
    QueryField{"ecc.errors.uncorrected.volatile.total", "",
               [](const host::HostView&, const gpu::Gpu& g) { return text_of(g.reading.ecc_uncorrected); }},
    QueryField{
        "mig.mode.current", "",
        [](const host::HostView&, const gpu::Gpu& g) -> Text { return g.facts.mig_mode ? "Enabled" : "Disabled"; }},
};

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const QueryField& field : query_fields) names.emplace_back(field.name);
  return names;
}

}  // namespace

std::string query_field_names() { return join(all_names(), ", "); }

Result<std::string> query_gpus(const host::HostView& view, const std::string& fields, const std::string& format) {
  bool header = true, units = true, csv = false;
  for (const std::string& raw : split(format, ',')) {
    const std::string_view word = trim(raw);
    if (word == "csv")
      csv = true;
    else if (word == "noheader")
      header = false;
    else if (word == "nounits")
      units = false;
    else
      return Error{Error::Kind::bad_input, fmt::format("--format {}: \"{}\" is not known", format, word),
                   "use csv, csv,noheader or csv,noheader,nounits"};
  }
  if (!csv)
    return Error{Error::Kind::bad_input, fmt::format("--format {} does not name csv", format),
                 "use csv, csv,noheader or csv,noheader,nounits"};

  std::vector<const QueryField*> columns;
  for (const std::string& raw : split(fields, ',')) {
    const std::string name(trim(raw));
    const auto* found = std::find_if(query_fields.begin(), query_fields.end(),
                                     [&](const QueryField& field) { return field.name == name; });
    if (found == query_fields.end()) {
      const auto near = nearest(name, all_names());
      return Error{Error::Kind::bad_input, fmt::format("--query: there is no field \"{}\"", name),
                   near ? fmt::format("did you mean {}?", *near) : "known: " + query_field_names()};
    }
    columns.push_back(&*found);
  }
  std::string text;
  const auto add_line = [&](auto&& cell) {
    std::vector<std::string> cells;
    for (const QueryField* column : columns) cells.push_back(cell(*column));
    text += join(cells, ", ") + "\n";
  };
  if (header)
    add_line([&](const QueryField& field) {
      return field.unit.empty() || !units ? std::string(field.name) : fmt::format("{} [{}]", field.name, field.unit);
    });
  for (const gpu::Gpu& gpu : view.snapshot.gpus)
    add_line([&](const QueryField& field) -> std::string {
      const Text value = field.value(view, gpu);
      if (!value) return "[N/A]";
      return field.unit.empty() || !units ? *value : fmt::format("{} {}", *value, field.unit);
    });
  return text;
}

}  // namespace muster::cli
