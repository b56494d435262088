// Keys, decoded from the bytes that a terminal sends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::monitor {

enum class KeyKind { text, up, down, page_up, page_down, home, end, enter, escape, backspace, interrupt, suspend };

struct Key {
  KeyKind kind = KeyKind::text;
  std::string text;  // one character, for KeyKind::text
  bool operator==(const Key&) const = default;
};

class KeyReader {
 public:
  // The keys that these bytes complete. Everything else is dropped.
  std::vector<Key> feed(std::string_view bytes);
  // Whether the bytes so far may be the beginning of a longer key: if nothing follows soon, it is rest().
  bool is_waiting() const { return !pending_.empty(); }
  std::vector<Key> rest();

 private:
  std::string pending_;
};

}  // namespace muster::monitor
