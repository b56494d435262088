#include "gpu/snapshot.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace muster::gpu {

std::optional<Link> find_link(const std::vector<Link>& links, GpuIndex a, GpuIndex b) {
  for (const Link& link : links)
    if ((link.a == a && link.b == b) || (link.a == b && link.b == a)) return link;
  return std::nullopt;
}

std::string to_string(const Link& link) {
  switch (link.kind) {
    case LinkKind::nvlink:
      return link.lanes > 0 ? fmt::format("NV{}", link.lanes) : "NV";
    case LinkKind::pix:
      return "PIX";
    case LinkKind::pxb:
      return "PXB";
    case LinkKind::phb:
      return "PHB";
    case LinkKind::node:
      return "NODE";
    case LinkKind::sys:
      return "SYS";
  }
  throw std::logic_error("a link of no known kind");
}

}  // namespace muster::gpu
