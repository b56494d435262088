#include "gpu/identity.hpp"

#include "base/text.hpp"

namespace muster::gpu {

GpuName::GpuName(std::string_view word) : name_(std::string(word)) {
  if (const auto index = parse_number<int>(word)) name_ = static_cast<VisibleIndex>(*index);
}

bool GpuName::is_of(VisibleIndex index, const std::optional<GpuUuid>& uuid) const {
  if (const auto* named = std::get_if<VisibleIndex>(&name_)) return *named == index;
  const auto& beginning = std::get<std::string>(name_);
  return uuid && (beginning.starts_with("GPU-") || beginning.starts_with("MIG-")) && uuid->text.starts_with(beginning);
}

std::string GpuName::text() const {
  if (const auto* named = std::get_if<VisibleIndex>(&name_)) return std::to_string(number(*named));
  return std::get<std::string>(name_);
}

std::vector<GpuName> gpu_names(const std::vector<std::string>& words) {
  return {words.begin(), words.end()};
}

std::vector<std::string> texts_of(const std::vector<GpuName>& names) {
  std::vector<std::string> texts;
  for (const GpuName& name : names) texts.push_back(name.text());
  return texts;
}

}  // namespace muster::gpu
