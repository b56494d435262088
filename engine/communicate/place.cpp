#include "communicate/place.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "base/text.hpp"

namespace muster::communicate {
namespace {

Error bad(const char* name, const std::optional<std::string>& value, const std::string& accepted) {
  return {Error::Kind::bad_input,
          fmt::format("{} is {}, and must be {}", name, value ? "\"" + *value + "\"" : "not set", accepted),
          "start the program through muster, or through muster launch or torchrun, which set it"};
}

}  // namespace

Place place_in_group(const Place& place, int first, int size, int stride) {
  Place inside = place;
  inside.rank = (place.rank - first) / stride;
  inside.size = size;
  inside.group = fmt::format("ranks-{}-{}{}/", first, first + (size - 1) * stride,
                             stride > 1 ? fmt::format("-by-{}", stride) : "");
  inside.first_rank = first;
  inside.stride = stride;
  return inside;
}

Result<Place> read_place(const std::function<std::optional<std::string>(const char*)>& variable) {
  const auto number = [&](const char* name) -> std::optional<int> {
    const auto value = variable(name);
    return value ? parse_number<int>(*value) : std::nullopt;
  };
  Place place;
  const auto size = number("WORLD_SIZE");
  if (!size || *size < 1) return bad("WORLD_SIZE", variable("WORLD_SIZE"), "a number above 0");
  place.size = *size;
  const auto rank = number("RANK");
  if (!rank || *rank < 0 || *rank >= place.size)
    return bad("RANK", variable("RANK"), fmt::format("a number from 0 to {} (WORLD_SIZE is {})", *size - 1, *size));
  place.rank = *rank;
  const auto local_rank = number("LOCAL_RANK");
  if (!local_rank || *local_rank < 0) return bad("LOCAL_RANK", variable("LOCAL_RANK"), "a number from 0 on");
  place.local_rank = *local_rank;
  if (place.size == 1) return place;
  place.store_address = variable("MASTER_ADDR").value_or("");
  if (place.store_address.empty()) return bad("MASTER_ADDR", variable("MASTER_ADDR"), "the address of the store");
  const auto port = number("MASTER_PORT");
  if (!port || *port < 1 || *port > 65535) return bad("MASTER_PORT", variable("MASTER_PORT"), "a port");
  place.store_port = static_cast<std::uint16_t>(*port);
  return place;
}

Result<Place> read_place() {
  return read_place([](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

}  // namespace muster::communicate
