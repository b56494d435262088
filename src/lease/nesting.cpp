#include "lease/nesting.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "lease/lock_file.hpp"
#include "lease/record.hpp"

namespace muster::lease {

bool Nesting::allows(const ResourceName& resource) const {
  return depth == 0 || std::ranges::find(resources, resource) != resources.end();
}

int Nesting::depth_of(const ResourceName& resource) const { return allows(resource) ? depth : 0; }

std::string to_variable(int depth, const std::string& id, const std::vector<ResourceName>& resources) {
  return fmt::format("{}:{}:{}", depth, id, fmt::join(resources, ","));
}

Nesting find_nesting(const LeaseFolder& folder, const std::optional<std::string>& variable) {
  if (!variable) return {};
  const auto first = variable->find(':');
  const auto second = first == std::string::npos ? first : variable->find(':', first + 1);
  if (second == std::string::npos) return {};
  const auto depth = parse_number<int>(std::string_view(*variable).substr(0, first));
  const std::string id = variable->substr(first + 1, second - first - 1);
  Nesting nesting{depth.value_or(0), split(std::string_view(*variable).substr(second + 1), ',')};
  if (nesting.depth < 1) return {};
  for (const ResourceName& resource : nesting.resources) {
    if (!check_resource_name(resource)) return {};
    const FileDescriptor file = open_to_look(folder.locks, lock_file_name(resource, nesting.depth - 1));
    if (!file || !is_locked(file)) return {};
    const auto record = read_record(file);
    if (!record || record->id != id) return {};
  }
  return nesting;
}

}  // namespace muster::lease
