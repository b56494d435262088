#include "checkpoint/training_manifest.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/checksum.hpp"
#include "json/fields.hpp"

namespace muster::checkpoint {
namespace {

constexpr std::string_view manifest_format = "muster-training-checkpoint";
// The older one where every number is a float32 for one element, so that older programs read it as well.
constexpr std::int64_t version_of_floats = 2, version_of_any = 3;

// The same with types that JSON has.
struct TensorRow {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<std::string> states;
  bool transposed = false;

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("name", self.name);
    visit("shape", self.shape);
    visit("states", self.states);
    visit("transposed", self.transposed);
  }
};

struct FileRow {
  std::string name;
  std::uint64_t size = 0;
  std::string header_checksum;

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("name", self.name);
    visit("size", self.size);
    visit("header_checksum", self.header_checksum);
  }
};

struct ManifestRow {
  std::string format{manifest_format};
  std::int64_t version = version_of_floats;
  TrainingState state;
  std::vector<TensorRow> tensors;
  std::vector<FileRow> files;

  template <class Self, class Visit>
  static void describe(Self& self, Visit&& visit) {
    visit("format", self.format);
    visit("version", self.version);
    visit("state", self.state);
    visit("tensors", self.tensors);
    visit("files", self.files);
  }
};

Error bad_manifest(const std::string& source, const std::string& what) {
  return {Error::Kind::bad_input, fmt::format("{}: {}", source, what), "resume from another checkpoint"};
}

bool has_plain_form(const std::string& state) {
  const StateForm form = form_of(state);
  return form.type == spec::ElementType::float32 && form.block == 1;
}

ManifestRow to_row(const TrainingManifest& manifest) {
  ManifestRow row;
  row.state = manifest.state;
  for (const LogicalTensor& tensor : manifest.tensors) {
    const auto sizes = tensor.dimensions.span();
    row.tensors.push_back({tensor.name, {sizes.begin(), sizes.end()}, tensor.states, tensor.transposed});
    if (!std::ranges::all_of(tensor.states, has_plain_form)) row.version = version_of_any;
  }
  for (std::size_t i = 0; i < manifest.files.size(); ++i)
    row.files.push_back({piece_file_name(i, manifest.files.size()), manifest.files[i].size,
                         checksum_text(manifest.files[i].header_checksum)});
  return row;
}

Result<TrainingManifest> from_row(ManifestRow row, const std::string& source) {
  if (row.format != manifest_format) return bad_manifest(source, fmt::format("no manifest of a training checkpoint"));
  if (row.version < version_of_floats || row.version > version_of_any)
    return bad_manifest(source, fmt::format("version {} of the format, and this muster reads {} and {}", row.version,
                                            version_of_floats, version_of_any));
  TrainingManifest manifest{std::move(row.state), {}, {}};
  for (TensorRow& tensor : row.tensors) {
    LogicalTensor logical{std::move(tensor.name), {}, std::move(tensor.states), tensor.transposed};
    if (tensor.shape.size() > logical.dimensions.sizes.size())
      return bad_manifest(source, fmt::format("tensor {} has {} dimensions", logical.name, tensor.shape.size()));
    std::ranges::copy(tensor.shape, logical.dimensions.sizes.begin());
    logical.dimensions.rank = tensor.shape.size();
    manifest.tensors.push_back(std::move(logical));
  }
  if (const auto checked = check_tensors(manifest.tensors); !checked) return bad_manifest(source, checked.error().what);
  for (std::size_t i = 0; i < row.files.size(); ++i) {
    const auto checksum = parse_checksum(row.files[i].header_checksum);
    if (row.files[i].name != piece_file_name(i, row.files.size()) || !checksum)
      return bad_manifest(source, fmt::format("file {} has no name or no checksum", i));
    manifest.files.push_back({row.files[i].size, *checksum});
  }
  return manifest;
}

// The text up to where its checksum begins.
std::optional<std::string_view> sealed_part(std::string_view text) {
  const std::size_t ending = seal_manifest("").size();
  if (text.size() < ending) return std::nullopt;
  const std::string_view object = text.substr(0, text.size() - ending);
  return seal_manifest(object) == text ? std::optional(object) : std::nullopt;
}

}  // namespace

std::string piece_file_name(std::size_t rank, std::size_t ranks) {
  return fmt::format("rank-{}-of-{}.state", rank, ranks);
}

std::string seal_manifest(std::string_view open_object) {
  return fmt::format("{},\n \"checksum\": \"{}\"\n}}\n", open_object, checksum_text(checksum_of(open_object)));
}

Result<std::string> print_manifest(const TrainingManifest& manifest) {
  if (const auto checked = check_tensors(manifest.tensors); !checked) return checked.error();
  std::string text = to_json(to_row(manifest)).dump(1, ' ', false, Json::error_handler_t::replace);
  text.resize(text.size() - 2);  // without "\n}"
  std::string sealed = seal_manifest(text);
  const auto read = parse_manifest(sealed, "the manifest");
  if (!read) return read.error();
  if (*read != manifest)
    return Error{Error::Kind::failed, "the state of the training run holds a text that is not UTF-8", ""};
  return sealed;
}

Result<TrainingManifest> parse_manifest(std::string_view text, const std::string& source) {
  if (!sealed_part(text)) return bad_manifest(source, "damaged or cut off: its checksum does not match");
  const auto object = parse_json_object(text, source);
  if (!object) return object.error();
  ManifestRow row;
  if (const auto found = read_json(*object, row)) return bad_manifest(source, *found);
  return from_row(std::move(row), source);
}

}  // namespace muster::checkpoint
