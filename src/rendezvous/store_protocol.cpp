#include "rendezvous/store_protocol.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "rendezvous/key_value_store.hpp"

namespace muster::rendezvous {
namespace {

static_assert(std::endian::native == std::endian::little, "the protocol's integers are copied as they are");

using Outcome = Decoding::Outcome;

// What a request is made of, in the order of the wire. none ends a shape.
enum class Part : std::uint8_t { none, key, value, desired, amount, number, keys, pairs };
using Shape = std::array<Part, 4>;

constexpr std::array<Shape, store_command_count> shapes = {{
    {Part::number},                           // validate
    {Part::key, Part::value},                 // set
    {Part::key, Part::value, Part::desired},  // compare_set
    {Part::key},                              // get
    {Part::key, Part::amount},                // add
    {Part::keys},                             // check
    {Part::keys},                             // wait
    {},                                       // number_of_keys
    {Part::key},                              // delete_key
    {Part::key, Part::value},                 // append
    {Part::keys},                             // multiple_get
    {Part::pairs},                            // multiple_set
    {},                                       // cancel_wait
    {Part::number},                           // ping
    {Part::key, Part::value},                 // queue_push
    {Part::key},                              // queue_pop
    {Part::key},                              // queue_length
    {},                                       // list_keys
    {Part::key, Part::amount},                // barrier
}};

// Reads one request, part by part. The first part that is not all there, or is too long, ends it.
class BytesReader {
 public:
  BytesReader(std::string_view bytes, const StoreLimits& limits) : bytes_(bytes), limits_(limits) {}

  Decoding read(StoreRequest& request) {
    if (bytes_.empty()) return {Outcome::incomplete, 1};
    const auto command = static_cast<std::uint8_t>(bytes_.front());
    if (command >= store_command_count) return {Outcome::malformed, 0};
    request.command = static_cast<StoreCommand>(command);
    at_ = 1;
    for (const Part part : shapes[command]) {
      if (part == Part::none) break;
      if (!read_part(part, request)) return {outcome_, needed_};
    }
    return {Outcome::complete, at_};
  }

 private:
  bool read_part(Part part, StoreRequest& request) {
    switch (part) {
      case Part::key:
        return read_text(request.key, limits_.key_bytes);
      case Part::value:
        return read_text(request.value, limits_.value_bytes);
      case Part::desired:
        return read_text(request.desired, limits_.value_bytes);
      case Part::amount:
        return read_integer(request.amount);
      case Part::number:
        return read_integer(request.number);
      case Part::keys:
        return read_list(request, false);
      case Part::pairs:
        return read_list(request, true);
      case Part::none:
        break;
    }
    return true;
  }

  template <class Integer>
  bool read_integer(Integer& integer) {
    if (!has(sizeof integer)) return false;
    std::memcpy(&integer, bytes_.data() + at_, sizeof integer);
    at_ += sizeof integer;
    return true;
  }

  bool read_text(std::string_view& text, std::size_t longest) {
    std::uint64_t size = 0;
    if (!read_integer(size)) return false;
    if (size > longest) return malformed();
    if (!has(size)) return false;
    text = bytes_.substr(at_, size);
    at_ += size;
    return true;
  }

  bool read_list(StoreRequest& request, bool with_values) {
    std::uint64_t count = 0;
    if (!read_integer(count)) return false;
    if (count > limits_.keys_per_request) return malformed();
    request.keys.clear();
    request.values.clear();
    following_ = count * (with_values ? 2 : 1) * sizeof(std::uint64_t);
    for (; count > 0; --count) {
      following_ -= sizeof(std::uint64_t);
      if (!read_text(request.keys.emplace_back(), limits_.key_bytes)) return false;
      if (!with_values) continue;
      following_ -= sizeof(std::uint64_t);
      if (!read_text(request.values.emplace_back(), limits_.value_bytes)) return false;
    }
    return true;
  }

  bool has(std::size_t size) {
    if (size <= bytes_.size() - at_) return true;
    outcome_ = Outcome::incomplete;
    needed_ = at_ + size + following_;
    return false;
  }
  bool malformed() {
    outcome_ = Outcome::malformed;
    return false;
  }

  std::string_view bytes_;
  const StoreLimits& limits_;
  std::size_t at_ = 0;
  // What must come behind the part that is read, at least: the lengths of the texts that are left of a list. Asking for
  // them, too, bounds how often a long list that trickles in is read from its beginning.
  std::size_t following_ = 0;
  Outcome outcome_ = Outcome::malformed;
  std::size_t needed_ = 0;
};

template <class Integer>
void append_integer(std::string& bytes, Integer integer) {
  std::array<char, sizeof integer> raw;
  std::memcpy(raw.data(), &integer, sizeof integer);
  bytes.append(raw.data(), raw.size());
}

void append_part(Part part, const StoreRequest& request, std::string& bytes) {
  switch (part) {
    case Part::key:
      return append_text(bytes, request.key);
    case Part::value:
      return append_text(bytes, request.value);
    case Part::desired:
      return append_text(bytes, request.desired);
    case Part::amount:
      return append_integer(bytes, request.amount);
    case Part::number:
      return append_integer(bytes, request.number);
    case Part::keys:
    case Part::pairs:
      append_integer(bytes, std::uint64_t{request.keys.size()});
      for (std::size_t i = 0; i < request.keys.size(); ++i) {
        append_text(bytes, request.keys[i]);
        if (part == Part::pairs) append_text(bytes, request.values.at(i));
      }
      return;
    case Part::none:
      return;
  }
}

}  // namespace

Decoding decode(std::string_view bytes, const StoreLimits& limits, StoreRequest& request) {
  return BytesReader(bytes, limits).read(request);
}

void encode(const StoreRequest& request, std::string& bytes) {
  bytes.push_back(static_cast<char>(request.command));
  for (const Part part : shapes.at(static_cast<std::size_t>(request.command))) append_part(part, request, bytes);
}

void append_byte(std::string& bytes, std::uint8_t value) { bytes.push_back(static_cast<char>(value)); }
void append_number(std::string& bytes, std::int64_t value) { append_integer(bytes, value); }
void append_number(std::string& bytes, std::uint32_t value) { append_integer(bytes, value); }
void append_text(std::string& bytes, std::string_view text) {
  append_integer(bytes, std::uint64_t{text.size()});
  bytes.append(text);
}

}  // namespace muster::rendezvous
