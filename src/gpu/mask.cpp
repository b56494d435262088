#include "gpu/mask.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/text.hpp"

namespace muster::gpu {
namespace {

enum class EntryKind { index, gpu_uuid, mig_uuid };

EntryKind kind_of(std::string_view entry) {
  if (entry.starts_with("GPU-")) return EntryKind::gpu_uuid;
  if (entry.starts_with("MIG-")) return EntryKind::mig_uuid;
  return EntryKind::index;
}

// One entry: the device it names, or why CUDA would stop here.
struct Resolution {
  std::optional<VisibleDevice> device;
  std::string reason;
};

Resolution stop(std::string reason) { return {std::nullopt, std::move(reason)}; }

VisibleDevice whole_gpu(const Gpu& gpu, std::string entry) {
  return {gpu.facts.index, std::nullopt, gpu.facts.uuid, std::move(entry)};
}

VisibleDevice instance(const Gpu& gpu, std::size_t mig, std::string entry) {
  return {gpu.facts.index, mig, gpu.facts.mig_instances[mig].uuid, std::move(entry)};
}

// A GPU in MIG mode stands for its first instance.
Resolution first_of(const Gpu& gpu, std::string entry) {
  if (!gpu.facts.mig_mode) return {whole_gpu(gpu, std::move(entry)), ""};
  if (gpu.facts.mig_instances.empty())
    return stop(fmt::format("GPU {} is in MIG mode and has no instance", number(gpu.facts.index)));
  return {instance(gpu, 0, std::move(entry)), ""};
}

std::string available_indices(std::span<const Gpu> gpus) {
  if (gpus.empty()) return "this machine has none";
  if (gpus.size() == 1) return fmt::format("this machine has {}", number(gpus.front().facts.index));
  return fmt::format("this machine has {} to {}", number(gpus.front().facts.index), number(gpus.back().facts.index));
}

// C's strtol in base 10: leading blanks, a sign, digits; what follows is ignored.
std::optional<long> leading_integer(std::string_view text) {
  text = trim(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  long value = 0;
  std::size_t digits = 0;
  while (digits < text.size() && std::isdigit(static_cast<unsigned char>(text[digits])) != 0) {
    value = std::min(value * 10 + (text[digits] - '0'), 1'000'000'000L);
    ++digits;
  }
  if (digits == 0) return std::nullopt;
  return negative ? -value : value;
}

Resolution resolve_index(const std::string& entry, std::span<const Gpu> gpus) {
  const auto value = leading_integer(entry);
  if (!value) return stop(fmt::format("\"{}\" is neither a number nor a GPU- or MIG- identifier", entry));
  if (*value < 0) return stop(fmt::format("{} is negative, which ends the list", *value));
  for (const Gpu& gpu : gpus)
    if (number(gpu.facts.index) == *value) return first_of(gpu, std::to_string(*value));
  return stop(fmt::format("there is no GPU {}; {}", *value, available_indices(gpus)));
}

// As the driver compares them: letters in either case, shortened while unique, what follows a whole one ignored.
bool names_uuid(std::string_view entry, const GpuUuid& uuid) {
  const std::string written = to_lower(entry), known = to_lower(uuid.text);
  return known.starts_with(written) || written.starts_with(known);
}

Resolution resolve_gpu_uuid(const std::string& entry, std::span<const Gpu> gpus) {
  if (entry == "GPU-") return stop("\"GPU-\" names no GPU");
  const Gpu* found = nullptr;
  for (const Gpu& gpu : gpus) {
    if (!gpu.facts.uuid || !names_uuid(entry, *gpu.facts.uuid)) continue;
    if (found != nullptr) return stop(fmt::format("\"{}\" is the beginning of more than one GPU's UUID", entry));
    found = &gpu;
  }
  if (found == nullptr) return stop(fmt::format("no GPU of this machine has the UUID \"{}\"", entry));
  return first_of(*found, entry);
}

// "MIG-GPU-<uuid>/<gpu instance>/<compute instance>", the form before driver 470.
std::string old_mig_name(const Gpu& gpu, const MigInstance& mig) {
  const std::string uuid = gpu.facts.uuid ? gpu.facts.uuid->text : "";
  return fmt::format("MIG-{}/{}/{}", uuid, mig.gpu_instance, mig.compute_instance);
}

Resolution resolve_mig_uuid(const std::string& entry, std::span<const Gpu> gpus) {
  if (entry == "MIG-") return stop("\"MIG-\" names no instance");
  std::optional<VisibleDevice> found;
  for (const Gpu& gpu : gpus) {
    for (std::size_t mig = 0; mig < gpu.facts.mig_instances.size(); ++mig) {
      const bool old_form = old_mig_name(gpu, gpu.facts.mig_instances[mig]) == entry;
      if (!old_form && !names_uuid(entry, gpu.facts.mig_instances[mig].uuid)) continue;
      if (found) return stop(fmt::format("\"{}\" is the beginning of more than one MIG instance's UUID", entry));
      found = instance(gpu, mig, entry);
    }
  }
  if (!found) return stop(fmt::format("no MIG instance of this machine is called \"{}\"", entry));
  return {std::move(found), ""};
}

Resolution resolve(EntryKind kind, const std::string& entry, std::span<const Gpu> gpus) {
  if (kind_of(entry) != kind)
    return stop(fmt::format(
        "\"{}\" is of another kind than the first entry; a list holds numbers, GPU- or MIG- identifiers, not a mixture",
        entry));
  switch (kind) {
    case EntryKind::index:
      return resolve_index(entry, gpus);
    case EntryKind::gpu_uuid:
      return resolve_gpu_uuid(entry, gpus);
    case EntryKind::mig_uuid:
      return resolve_mig_uuid(entry, gpus);
  }
  return stop("");
}

// The list up to where CUDA stops, before its rule about MIG.
CudaView read_list(std::string_view text, std::span<const Gpu> gpus) {
  CudaView view;
  if (trim(text).empty()) return view;
  const std::vector<std::string> entries = split(text, ',');
  if (entries.size() == 1 && (trim(text) == "-1" || trim(text) == "NoDevFiles")) return view;
  const EntryKind kind = kind_of(entries.front());
  std::set<std::pair<int, std::optional<std::size_t>>> seen;
  for (const std::string& entry : entries) {
    Resolution resolution = resolve(kind, entry, gpus);
    if (!resolution.device) {
      view.cut = resolution.reason;
      return view;
    }
    if (!seen.emplace(number(resolution.device->gpu), resolution.device->mig).second) {
      view.cut = fmt::format("\"{}\" is named twice, and a duplicate empties the whole list", trim(entry));
      view.devices.clear();
      return view;
    }
    view.devices.push_back(std::move(*resolution.device));
  }
  return view;
}

// What CUDA reads over in silence: text after a number or a whole UUID, as in "0;1", which to CUDA is GPU 0.
std::optional<std::string> ignored_text(std::string_view text, const CudaView& view) {
  const std::vector<std::string> entries = split(text, ',');
  for (std::size_t i = 0; i < view.devices.size() && i < entries.size(); ++i) {
    const std::string_view entry = trim(entries[i]);
    const VisibleDevice& device = view.devices[i];
    const bool is_number = kind_of(entry) == EntryKind::index;
    const bool is_whole = is_number ? parse_number<int>(entry).has_value()
                                    : !device.uuid || entry.size() <= device.uuid->text.size() || entry.find('/') != std::string_view::npos;
    if (!is_whole)
      return fmt::format("\"{}\" is not one GPU; CUDA would read it as {} and ignore the rest (GPUs are separated by commas)",
                         entry, is_number ? device.entry : device.uuid->text);
  }
  return std::nullopt;
}

std::vector<VisibleDevice> everything(std::span<const Gpu> gpus) {
  std::vector<VisibleDevice> devices;
  for (const Gpu& gpu : gpus) {
    if (!gpu.facts.mig_mode) devices.push_back(whole_gpu(gpu, std::to_string(number(gpu.facts.index))));
    for (std::size_t mig = 0; mig < gpu.facts.mig_instances.size(); ++mig)
      devices.push_back(instance(gpu, mig, gpu.facts.mig_instances[mig].uuid.text));
  }
  return devices;
}

}  // namespace

CudaView read_as_cuda(std::optional<std::string_view> text, std::span<const Gpu> gpus) {
  CudaView view;
  if (text)
    view = read_list(*text, gpus);
  else
    view.devices = everything(gpus);
  const auto first_mig =
      std::ranges::find_if(view.devices, [](const VisibleDevice& device) { return device.mig.has_value(); });
  if (first_mig != view.devices.end() && view.devices.size() > 1) {
    VisibleDevice only = std::move(*first_mig);
    view.devices.clear();
    view.devices.push_back(std::move(only));
    if (text && !view.cut) view.cut = "a process can use one MIG instance, and nothing beside it";
  }
  return view;
}

Result<std::vector<VisibleDevice>> read_mask(std::optional<std::string_view> text, std::span<const Gpu> gpus) {
  if (!text) return everything(gpus);
  CudaView view = read_list(*text, gpus);
  const auto refuse = [&](std::string_view reason) {
    return Error{Error::Kind::bad_input, fmt::format("CUDA_VISIBLE_DEVICES=\"{}\": {}", *text, reason),
                 "set it to GPUs that exist, for example CUDA_VISIBLE_DEVICES=0, or unset it"};
  };
  if (const auto ignored = ignored_text(*text, view)) return refuse(*ignored);
  if (view.cut) return refuse(fmt::format("{} (CUDA would use only part of the list without a word)", *view.cut));
  const bool all_by_instance = kind_of(trim(*text)) == EntryKind::mig_uuid;
  const bool has_mig =
      std::ranges::any_of(view.devices, [](const VisibleDevice& device) { return device.mig.has_value(); });
  if (has_mig && !all_by_instance && view.devices.size() > 1)
    return refuse("a GPU in MIG mode is named among others; name its instances by their MIG- identifiers");
  return std::move(view.devices);
}

Result<std::string> compose_mask(std::span<const VisibleDevice> inherited, std::span<const VisibleIndex> chosen,
                                 MaskForm form) {
  std::vector<std::string> entries;
  std::set<VisibleIndex> seen;
  const bool any_mig = std::ranges::any_of(chosen, [&](VisibleIndex index) {
    return number(index) >= 0 && number(index) < std::ssize(inherited) &&
           inherited[static_cast<std::size_t>(number(index))].mig;
  });
  for (const VisibleIndex index : chosen) {
    if (number(index) < 0 || number(index) >= std::ssize(inherited))
      return Error{Error::Kind::bad_input,
                   fmt::format("there is no visible GPU {}: the mask holds {}", number(index), inherited.size()),
                   "muster gpus lists them"};
    if (!seen.insert(index).second)
      return Error{Error::Kind::bad_input, fmt::format("GPU {} is named twice", number(index)), "name each GPU once"};
    const VisibleDevice& device = inherited[static_cast<std::size_t>(number(index))];
    if (form == MaskForm::uuid && !device.uuid)
      return Error{Error::Kind::failed, fmt::format("GPU {} does not tell its UUID", number(index)),
                   "leave it out: it is lost or failing"};
    entries.push_back(form == MaskForm::uuid ? device.uuid->text : device.entry);
  }
  if (any_mig && chosen.size() > 1)
    return Error{
        Error::Kind::refused,
        fmt::format(
            "{} devices with a MIG instance among them: one process can use one MIG instance and nothing beside it",
            chosen.size()),
        "ask for one, or start one process per instance"};
  return join(entries, ",");
}

std::vector<std::pair<std::string, std::string>> mask_environment(const std::string& mask) {
  return {{"CUDA_VISIBLE_DEVICES", mask}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}};
}

}  // namespace muster::gpu
