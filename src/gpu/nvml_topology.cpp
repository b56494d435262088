#include "gpu/nvml_topology.hpp"

#include <algorithm>
#include <map>

namespace muster::gpu::nvml {
namespace {

constexpr int over_nvlink = 2;  // NVML_P2P_CAPS_INDEX_NVLINK
constexpr int peer_ok = 0;      // NVML_P2P_STATUS_OK

// The active NVLinks of one GPU, by where they end.
struct LinkCounts {
  bool known = false;                // the driver reported the state of the links, or that there are none
  std::map<PciAddress, int> direct;  // by the device at the other end, if that is a GPU of this machine
  int elsewhere = 0;                 // to a switch
};

bool is_gpu(std::span<const Place> places, PciAddress address) {
  return std::ranges::any_of(places, [&](const Place& place) { return place.address == address; });
}

LinkCounts count_links(const Calls& calls, const Place& place, std::span<const Place> places) {
  LinkCounts counts;
  if (calls.link_state == nullptr) return counts;
  for (unsigned link = 0; link < most_links; ++link) {
    unsigned active = 0;
    const Return code = calls.link_state(place.device, link, &active);
    if (code == Return::success || code == Return::not_supported) counts.known = true;
    if (code != Return::success || active == 0) continue;
    PciInfo remote{};
    const bool told = calls.link_remote != nullptr && calls.link_remote(place.device, link, &remote) == Return::success;
    const PciAddress address{remote.domain, remote.bus, remote.device};
    if (told && is_gpu(places, address))
      ++counts.direct[address];
    else
      ++counts.elsewhere;
  }
  return counts;
}

// How many NVLinks join two GPUs: direct ones, or those that each has to the switches between them. A driver that tells
// of no links may still say that NVLink joins the two: then the number stays unknown (0).
std::optional<int> nvlink_lanes(const Calls& calls, const Place& a, const LinkCounts& from_a, const Place& b,
                                const LinkCounts& from_b) {
  if (b.address)
    if (const auto direct = from_a.direct.find(*b.address); direct != from_a.direct.end()) return direct->second;
  const int lanes = std::min(from_a.elsewhere, from_b.elsewhere);
  if (from_a.known && from_b.known && lanes == 0) return std::nullopt;
  int status = 0;
  if (calls.peer_status == nullptr) return std::nullopt;
  if (calls.peer_status(a.device, b.device, over_nvlink, &status) != Return::success) return std::nullopt;
  return status == peer_ok ? std::optional(lanes) : std::nullopt;
}

// nvmlGpuTopologyLevel_t
std::optional<LinkKind> to_kind(unsigned level) {
  switch (level) {
    case 0:   // two GPUs of one board
    case 10:  // one switch
      return LinkKind::pix;
    case 20:
      return LinkKind::pxb;
    case 30:
      return LinkKind::phb;
    case 40:
      return LinkKind::node;
    case 50:
      return LinkKind::sys;
    default:
      return std::nullopt;
  }
}

std::optional<LinkKind> common_ancestor(const Calls& calls, const Place& a, const Place& b) {
  unsigned level = 0;
  if (calls.common_ancestor == nullptr) return std::nullopt;
  if (calls.common_ancestor(a.device, b.device, &level) != Return::success) return std::nullopt;
  return to_kind(level);
}

}  // namespace

std::vector<Link> read_links(const Calls& calls, std::span<const Place> places) {
  std::vector<LinkCounts> counts;
  if (places.size() > 1)
    for (const Place& place : places) counts.push_back(count_links(calls, place, places));
  std::vector<Link> links;
  for (std::size_t a = 0; a < places.size(); ++a)
    for (std::size_t b = a + 1; b < places.size(); ++b) {
      if (const auto lanes = nvlink_lanes(calls, places[a], counts[a], places[b], counts[b]))
        links.push_back({places[a].index, places[b].index, LinkKind::nvlink, *lanes});
      else if (const auto kind = common_ancestor(calls, places[a], places[b]))
        links.push_back({places[a].index, places[b].index, *kind, 0});
    }
  return links;
}

}  // namespace muster::gpu::nvml
