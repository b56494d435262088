#include "plan/compat_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "plan/clean_map.hpp"
#include "plan/compat_error.hpp"
#include "plan/compat_layers.hpp"
#include "plan/compat_sizes.hpp"
#include "plan/compat_ties.hpp"
#include "plan/compat_worklist.hpp"

namespace muster::plan {
namespace {

using spec::ModelShape;
using spec::ModuleId;
using spec::TensorId;

struct Device {
  Place place;
  std::optional<Wide> limit;  // sixteenths of a byte; none on disk
  bool keeps_room = false;    // for the largest layer that may lie elsewhere
  Eighths used = 0;
};

// Entries that go wherever this one goes, because they hold other names of its tensors.
struct Partners {
  std::vector<Entry> modules;
  Eighths size = 0;  // with the entry itself
};

class Placement {
 public:
  Placement(const ModelShape& shape, const CompatRequest& request, const CompatSizes& sizes,
            const std::vector<Budget>& budgets)
      : shape_(shape),
        rules_(request.rules),
        fallback_allocation_(request.fallback_allocation),
        sizes_(sizes),
        ties_(tie_groups(shape)),
        list_(shape),
        layers_(shape, sizes),
        seen_(shape.modules.size() + shape.tensors.size()) {
    for (const Budget& budget : budgets) {
      Device device{.place = budget.place};
      device.keeps_room = budget.place == budgets.front().place || budget.place == on_cpu();
      if (budget.place == on_disk()) continue;
      device.limit = in_sixteenths(budget);
      devices_.push_back(device);
    }
    devices_.push_back({.place = on_disk()});
  }

  Result<std::vector<PlacedEntry>> run() {
    while (!list_.empty()) {
      const Entry head = list_.take_first();
      layers_.take(head);
      const auto partners = partners_of(head);
      if (!partners) return partners.error();
      if (fits(partners->size)) {
        place(head, *partners);
        continue;
      }
      if (!partners->modules.empty() && fits(sizes_.of(head)) && split_partner(head, *partners)) continue;
      if (split(head)) continue;
      const auto found = put_another_first(head, *partners);
      if (!found) return found.error();
      if (!*found) next_device(head);
    }
    return placed_;
  }

 private:
  Device& device() { return devices_[current_]; }
  // What the device may hold, in sixteenths; not called for the disk, which holds everything.
  Wide room() { return *device().limit - (device().keeps_room ? Wide{2} * layers_.size() : 0); }
  bool fits(Eighths size) { return !device().limit || Wide{2} * (device().used + size) <= room(); }
  bool can_split(Entry entry) const {
    return is_module(shape_, entry) && shape_.modules[number(entry)].end > number(entry) + 1 &&
           !sizes_.is_whole[number(entry)];
  }

  Error lost_partner(Entry entry, TensorId name) const {
    return fails_in_original(rules_, "IndexError: list index out of range",
                             fmt::format("\"{}\" is tied to \"{}\", which is in no module that is still to be placed",
                                         path(shape_, entry), shape_.path(name)),
                             "name the classes that are never split (no_split_module_classes)");
  }

  template <class FindHolder>
  Result<Partners> partners_of(Entry entry, FindHolder holder_of) const {
    Partners partners{.modules = {}, .size = sizes_.of(entry)};
    if (ties_.empty()) return partners;
    for (const TensorId name : names_outside(ties_, path(shape_, entry))) {
      const std::optional<Entry> holder = holder_of(name);
      if (!holder) return lost_partner(entry, name);
      if (rules_ == CompatRules::accelerate) {
        partners.size += sizes_.of(*holder) - sizes_.tensors[number(name)];  // for each name, even of one holder
      } else {
        if (std::find(partners.modules.begin(), partners.modules.end(), *holder) != partners.modules.end()) continue;
        partners.size += sizes_.of(*holder);
      }
      partners.modules.push_back(*holder);
    }
    return partners;
  }
  Result<Partners> partners_of(Entry head) const {
    return partners_of(head, [this](TensorId name) { return list_.holder_of(name); });
  }

  void write_down(Entry entry) {
    if (seen_[number(entry)]) return;
    seen_[number(entry)] = true;
    placed_.push_back({entry, device().place});
  }

  void place(Entry head, const Partners& partners) {
    device().used += partners.size;
    write_down(head);
    for (const Entry partner : partners.modules) {
      if (list_.holds(partner)) {
        list_.remove(partner);
        layers_.remove(partner);
      }
      write_down(partner);
    }
  }

  void put_back(Entry head) {
    list_.put_first(head);
    layers_.give_back(head);
  }

  // The first partner that has parts is replaced by them, so that less has to move with it.
  bool split_partner(Entry head, const Partners& partners) {
    const auto found = std::find_if(partners.modules.begin(), partners.modules.end(),
                                    [this](Entry partner) { return can_split(partner); });
    if (found == partners.modules.end()) return false;
    list_.replace(*found, parts_of(shape_, module_of(*found)));
    put_back(head);
    layers_.look();
    return true;
  }

  bool split(Entry head) {
    // accelerate does not split what would fit without its partners, unless it fits to the last byte.
    const bool too_large = Wide{2} * (device().used + sizes_.of(head)) >= room();
    if (!can_split(head) || (rules_ == CompatRules::accelerate && !too_large)) return false;
    put_back(head);
    list_.replace(head, parts_of(shape_, module_of(head)));
    layers_.look();
    return true;
  }

  // accelerate's fallback_allocation: a device that would stay empty gets the first module that fits.
  Result<bool> put_another_first(Entry head, const Partners& partners) {
    if (!fallback_allocation_ || device().used != 0 || !device().limit) return false;
    const Wide limit = *device().limit - Wide{2} * std::max(layers_.size(), partners.size);
    if (limit % 16 != 0)
      return fails_in_original(rules_, "AttributeError: 'float' object has no attribute 'upper'",
                               "fallback allocation reads a size that is not a whole number of bytes as text",
                               "turn fallback allocation off");
    if (limit < 0) return false;
    const auto found = find_fitting(limit);
    if (!found) return found.error();
    if (!*found) return false;
    uncover(**found);
    list_.remove(**found);
    put_back(head);
    list_.put_first(**found);
    return true;
  }

  // Depth first through the list; what is too large is descended into.
  Result<std::optional<Entry>> find_fitting(Wide limit) const {
    std::vector<Entry> search;  // the next one last
    for (auto entry = list_.first(); entry; entry = list_.after(*entry)) search.push_back(*entry);
    std::reverse(search.begin(), search.end());
    std::unordered_set<std::size_t> waiting;
    for (const Entry entry : search) waiting.insert(number(entry));
    const auto holder_of = [&](TensorId name) -> std::optional<Entry> {
      for (std::optional<ModuleId> module = shape_.at(name).owner; module; module = shape_.at(*module).parent)
        if (waiting.contains(number(*module))) return entry_of(*module);
      return std::nullopt;
    };
    while (!search.empty()) {
      const Entry entry = search.back();
      search.pop_back();
      waiting.erase(number(entry));
      const auto partners = partners_of(entry, holder_of);
      if (!partners) return partners.error();
      if (Wide{2} * partners->size <= limit) return std::optional(entry);
      if (!can_split(entry)) continue;
      const std::vector<Entry> parts = parts_of(shape_, module_of(entry));
      search.insert(search.end(), parts.rbegin(), parts.rend());
      for (const Entry part : parts) waiting.insert(number(part));
    }
    return std::optional<Entry>();
  }

  // Splits the modules on the list above an entry, so that the entry itself is on it.
  void uncover(Entry entry) {
    if (list_.holds(entry)) return;
    const ModuleId above =
        is_module(shape_, entry) ? *shape_.at(module_of(entry)).parent : shape_.at(tensor_of(shape_, entry)).owner;
    uncover(entry_of(above));
    list_.replace(entry_of(above), parts_of(shape_, above));
  }

  // A device that was left is never used again.
  void next_device(Entry head) {
    ++current_;
    put_back(head);
  }

  const ModelShape& shape_;
  CompatRules rules_;
  bool fallback_allocation_;
  const CompatSizes& sizes_;
  std::vector<TieGroup> ties_;
  CompatWorklist list_;
  LargestLayer layers_;
  std::vector<Device> devices_;
  std::size_t current_ = 0;
  std::vector<bool> seen_;
  std::vector<PlacedEntry> placed_;
};

}  // namespace

Result<DeviceMap> compat_map(const ModelShape& shape, const CompatRequest& request,
                             const std::vector<Budget>& budgets) {
  CompatRequest with_limits = request;
  with_limits.limits_given = true;
  const auto ordered = sequential_budgets(with_limits, budgets);  // as the originals do again
  if (!ordered) return ordered.error();
  const auto sizes = compat_sizes(shape, request);
  if (!sizes) return sizes.error();
  const auto placed = Placement(shape, request, *sizes, *ordered).run();
  if (!placed) return placed.error();
  return request.clean ? clean_map(shape, *placed) : plain_map(shape, *placed);
}

}  // namespace muster::plan
