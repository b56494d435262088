#include "spec/model/gguf_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "system/regular_file.hpp"
#include "base/text.hpp"
#include "json/json_text.hpp"
#include "spec/model/little_endian.hpp"

namespace muster::spec {
namespace {

constexpr std::uint64_t longest_gguf_header = std::uint64_t{128} << 20;
constexpr std::uint64_t first_part = std::uint64_t{1} << 20;

struct TypeRow {
  std::uint32_t number;  // in the file
  GgufType type;
  std::string_view name;
  GgufBlock block;
};
constexpr std::array type_rows{
    TypeRow{0, GgufType::f32, "F32", {1, 4}},        TypeRow{1, GgufType::f16, "F16", {1, 2}},
    TypeRow{2, GgufType::q4_0, "Q4_0", {32, 18}},    TypeRow{3, GgufType::q4_1, "Q4_1", {32, 20}},
    TypeRow{6, GgufType::q5_0, "Q5_0", {32, 22}},    TypeRow{7, GgufType::q5_1, "Q5_1", {32, 24}},
    TypeRow{8, GgufType::q8_0, "Q8_0", {32, 34}},    TypeRow{10, GgufType::q2_k, "Q2_K", {256, 84}},
    TypeRow{11, GgufType::q3_k, "Q3_K", {256, 110}}, TypeRow{12, GgufType::q4_k, "Q4_K", {256, 144}},
    TypeRow{13, GgufType::q5_k, "Q5_K", {256, 176}}, TypeRow{14, GgufType::q6_k, "Q6_K", {256, 210}},
    TypeRow{20, GgufType::iq4_nl, "IQ4_NL", {32, 18}},
    TypeRow{23, GgufType::iq4_xs, "IQ4_XS", {256, 136}},
    TypeRow{30, GgufType::bf16, "BF16", {1, 2}},
    TypeRow{39, GgufType::mxfp4, "MXFP4", {32, 17}},
};

const TypeRow& row_of(GgufType type) { return *std::ranges::find(type_rows, type, &TypeRow::type); }

// The kinds of metadata values, by their numbers in the file.
enum class ValueKind : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };

constexpr std::array<std::uint64_t, 13> least_bytes{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

Error gguf_refusal(std::string_view source, std::string what) {
  return {Error::Kind::bad_input, fmt::format("{}: {}", source, what),
          "check that the file is whole and the right one"};
}

// A name from the file for messages, quoted.
std::string shown_name(const std::string& name) { return shown(nlohmann::json(name)); }

// Goes through the header once. Reading stops at the first error, or where the bytes at hand end although
// the file goes on: then wants_more() is true.
class GgufParser {
 public:
  GgufParser(std::string_view bytes, std::uint64_t file_size, std::string_view source)
      : bytes_(bytes), file_size_(file_size), source_(source) {}

  Result<GgufHeader> parse() {
    if (!read_all()) return *error_;
    return std::move(header_);
  }
  bool wants_more() const { return wants_more_; }

 private:
  bool fail(std::string what) {
    if (!error_) error_ = gguf_refusal(source_, std::move(what));
    return false;
  }

  // Whether this many bytes lie ahead, in the file and at hand.
  bool ahead(std::uint64_t count) {
    if (count > file_size_ - position_)
      return fail(
          fmt::format("cut off: {} bytes should follow byte {}, and it has {} bytes", count, position_, file_size_));
    if (count <= bytes_.size() - position_) return true;
    wants_more_ = true;
    return fail(fmt::format("its header continues after byte {}", bytes_.size()));
  }

  template <class Number>
  bool read(Number& number) {
    if (!ahead(sizeof number)) return false;
    number = load_little_endian<Number>(bytes_.substr(position_));
    position_ += sizeof number;
    return true;
  }

  bool read(std::string& text) {
    std::uint64_t length = 0;
    if (!read(length) || !ahead(length)) return false;
    text = bytes_.substr(position_, length);
    position_ += length;
    return is_utf8(text) || fail(fmt::format("the text that ends at byte {} is not UTF-8", position_));
  }

  template <class Stored, class Kept>
  bool read_as(Kept& kept) {
    Stored stored{};
    if (!read(stored)) return false;
    kept = static_cast<Kept>(stored);
    return true;
  }

  bool read_whole(ValueKind kind, std::int64_t& number) {
    switch (kind) {
      case ValueKind::u8:
        return read_as<std::uint8_t>(number);
      case ValueKind::i8:
        return read_as<std::int8_t>(number);
      case ValueKind::u16:
        return read_as<std::uint16_t>(number);
      case ValueKind::i16:
        return read_as<std::int16_t>(number);
      case ValueKind::u32:
        return read_as<std::uint32_t>(number);
      case ValueKind::i32:
        return read_as<std::int32_t>(number);
      case ValueKind::u64:
        if (!read_as<std::uint64_t>(number)) return false;
        return number >= 0 || fail(fmt::format("the number that ends at byte {} is beyond 63 bits", position_));
      default:
        return read_as<std::int64_t>(number);
    }
  }

  bool read_boolean(bool& value) {
    std::uint8_t byte = 0;
    if (!read(byte)) return false;
    value = byte == 1;
    return byte <= 1 || fail(fmt::format("{} at byte {} is not a boolean", byte, position_ - 1));
  }

  bool read_kind(ValueKind& kind) {
    std::uint32_t number = 0;
    if (!read(number)) return false;
    kind = ValueKind{number};
    return number < least_bytes.size() ||
           fail(fmt::format("{} before byte {} is not a type of value", number, position_));
  }

  bool read_value(ValueKind kind, GgufValue& value) {
    switch (kind) {
      case ValueKind::f32:
        return read_as<float>(value.emplace<double>());
      case ValueKind::f64:
        return read(value.emplace<double>());
      case ValueKind::boolean:
        return read_boolean(value.emplace<bool>());
      case ValueKind::text:
        return read(value.emplace<std::string>());
      case ValueKind::array:
        return read_array(value.emplace<GgufArray>());
      default:
        return read_whole(kind, value.emplace<std::int64_t>());
    }
  }

  bool read_array(GgufArray& array) {
    ValueKind kind{};
    std::uint64_t count = 0;
    if (!read_kind(kind) || !read(count)) return false;
    if (kind == ValueKind::array) return fail(fmt::format("a list of lists before byte {}", position_));
    if (count > (file_size_ - position_) / least_bytes[static_cast<std::size_t>(kind)])
      return fail(fmt::format("a list of {} entries does not fit its {} bytes", count, file_size_));
    if (!ahead(count * least_bytes[static_cast<std::size_t>(kind)])) return false;  // so that reserving is safe
    return read_entries(kind, count, array);
  }

  bool read_entries(ValueKind kind, std::uint64_t count, GgufArray& array) {
    const bool is_number = kind == ValueKind::f32 || kind == ValueKind::f64;
    if (kind == ValueKind::text)
      array.texts.reserve(count);
    else if (is_number)
      array.numbers.reserve(count);
    else
      array.integers.reserve(count);
    for (; count > 0; --count) {
      if (kind == ValueKind::text) {
        if (!read(array.texts.emplace_back())) return false;
      } else if (is_number) {
        double& number = array.numbers.emplace_back();
        if (!(kind == ValueKind::f32 ? read_as<float>(number) : read(number))) return false;
      } else if (kind == ValueKind::boolean) {
        bool value = false;
        if (!read_boolean(value)) return false;
        array.integers.push_back(value ? 1 : 0);
      } else if (!read_whole(kind, array.integers.emplace_back())) {
        return false;
      }
    }
    return true;
  }

  bool read_start(std::uint64_t& tensors, std::uint64_t& values) {
    if (!bytes_.starts_with("GGUF")) return fail("no GGUF file: it does not begin with GGUF");
    position_ = 4;
    std::uint32_t version = 0;
    if (!read(version)) return false;
    if (version != 0 && (version & 0xFFFF) == 0) return fail("a big-endian GGUF file, which is not read");
    if (version != 2 && version != 3) return fail(fmt::format("GGUF version {}, and 2 and 3 are known", version));
    return read(tensors) && read(values);
  }

  bool read_metadata(std::uint64_t values) {
    for (; values > 0; --values) {
      std::string key;
      ValueKind kind{};
      GgufValue value;
      if (!read(key) || !read_kind(kind) || !read_value(kind, value)) return false;
      const std::string quoted_key = shown_name(key);
      if (!header_.metadata.emplace(std::move(key), std::move(value)).second)
        return fail(fmt::format("the key {} is there twice", quoted_key));
    }
    return true;
  }

  // begin and end hold the offset and the length until the place of the data is known.
  bool read_tensor(GgufTensor& tensor) {
    std::uint32_t rank = 0, type = 0;
    if (!read(tensor.name) || !read(rank)) return false;
    if (rank > tensor.dimensions.sizes.size())
      return fail(fmt::format("tensor {} has {} dimensions, and {} are the most", shown_name(tensor.name), rank,
                              tensor.dimensions.sizes.size()));
    for (std::size_t i = rank; i > 0; --i) {
      std::uint64_t size = 0;
      if (!read(size)) return false;
      if (size > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
        return fail(fmt::format("tensor {} has a size of {}", shown_name(tensor.name), size));
      tensor.dimensions.sizes[i - 1] = static_cast<std::int64_t>(size);
    }
    tensor.dimensions.rank = rank;
    if (!read(type) || !read(tensor.begin)) return false;
    const auto row = std::ranges::find(type_rows, type, &TypeRow::number);
    if (row == type_rows.end())
      return fail(fmt::format("tensor {} is of the type number {}, which is not known", shown_name(tensor.name), type));
    tensor.type = row->type;
    return measure(tensor);
  }

  bool measure(GgufTensor& tensor) {
    const GgufBlock block = block_of(tensor.type);
    std::int64_t elements = 1, bytes = 0;
    for (const std::int64_t size : tensor.dimensions.span())
      if (__builtin_mul_overflow(elements, size, &elements))
        return fail(fmt::format("tensor {} has more elements than 63 bits count", shown_name(tensor.name)));
    const std::int64_t row = tensor.dimensions.rank == 0 ? 1 : tensor.dimensions.sizes[tensor.dimensions.rank - 1];
    if (row % block.elements != 0)
      return fail(fmt::format("tensor {} has rows of {} elements, and {} comes in blocks of {}",
                              shown_name(tensor.name), row, name(tensor.type), block.elements));
    if (__builtin_mul_overflow(elements / block.elements, block.bytes, &bytes))
      return fail(fmt::format("tensor {} has more bytes than 63 bits count", shown_name(tensor.name)));
    tensor.end = static_cast<std::uint64_t>(bytes);
    return true;
  }

  bool read_alignment(std::uint64_t& alignment) {
    const auto entry = header_.metadata.find("general.alignment");
    if (entry == header_.metadata.end()) return true;
    const auto* number = std::get_if<std::int64_t>(&entry->second);
    constexpr std::int64_t most = 1 << 20;
    if (number == nullptr || *number < 1 || *number > most || (*number & (*number - 1)) != 0)
      return fail(fmt::format("general.alignment is {}, no power of two up to {}",
                              number == nullptr ? "not a number" : std::to_string(*number), most));
    alignment = static_cast<std::uint64_t>(*number);
    return true;
  }

  bool place_tensors() {
    std::uint64_t alignment = 32;
    if (!read_alignment(alignment)) return false;
    const std::uint64_t data = (position_ + alignment - 1) / alignment * alignment;
    for (GgufTensor& tensor : header_.tensors) {
      const std::uint64_t offset = tensor.begin, length = tensor.end;
      if (offset % alignment != 0)
        return fail(
            fmt::format("tensor {} lies at {}, which {} does not divide", shown_name(tensor.name), offset, alignment));
      if (data > file_size_ || offset > file_size_ - data || length > file_size_ - data - offset)
        return fail(fmt::format("cut off: tensor {} takes {} bytes from {} of the data, which begins at byte {} of {}",
                                shown_name(tensor.name), length, offset, data, file_size_));
      tensor.begin = data + offset;
      tensor.end = tensor.begin + length;
    }
    return check_overlap();
  }

  bool check_overlap() {
    std::vector<const GgufTensor*> order;
    for (const GgufTensor& tensor : header_.tensors)
      if (tensor.begin != tensor.end) order.push_back(&tensor);
    std::ranges::sort(order, {}, &GgufTensor::begin);
    for (std::size_t i = 1; i < order.size(); ++i)
      if (order[i]->begin < order[i - 1]->end)
        return fail(fmt::format("tensors {} and {} overlap at byte {}", shown_name(order[i - 1]->name),
                                shown_name(order[i]->name), order[i]->begin));
    return true;
  }

  bool read_all() {
    std::uint64_t tensors = 0, values = 0;
    if (!read_start(tensors, values) || !read_metadata(values)) return false;
    std::set<std::string, std::less<>> names;
    for (; tensors > 0; --tensors) {
      GgufTensor& tensor = header_.tensors.emplace_back();
      if (!read_tensor(tensor)) return false;
      if (!names.insert(tensor.name).second)
        return fail(fmt::format("tensor {} is there twice", shown_name(tensor.name)));
    }
    return place_tensors();
  }

  std::string_view bytes_;
  std::uint64_t file_size_;
  std::string_view source_;
  std::uint64_t position_ = 0;
  GgufHeader header_;
  std::optional<Error> error_;
  bool wants_more_ = false;
};

}  // namespace

std::string_view name(GgufType type) { return row_of(type).name; }
GgufBlock block_of(GgufType type) { return row_of(type).block; }

Result<GgufHeader> parse_gguf_header(std::string_view beginning, std::uint64_t file_size, std::string_view source) {
  return GgufParser(beginning.substr(0, file_size), file_size, source).parse();
}

// A header does not say how long it is: parts are read, each four times as long as the last, until one is enough.
Result<GgufHeader> read_gguf_header(const std::filesystem::path& file) {
  const auto opened = RegularFile::open(file);
  if (!opened) return opened.error();
  for (std::uint64_t length = first_part;; length *= 4) {
    const auto beginning = opened->beginning(length);
    if (!beginning) return beginning.error();
    GgufParser parser(*beginning, opened->size(), file.native());
    auto header = parser.parse();
    if (header || !parser.wants_more()) return header;
    if (length >= longest_gguf_header)
      return gguf_refusal(file.string(), fmt::format("its header is longer than {} bytes", longest_gguf_header));
    if (beginning->size() < std::min(length, opened->size())) return gguf_refusal(file.string(), "it is being cut off");
  }
}

}  // namespace muster::spec
