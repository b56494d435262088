// Keys, out of the bytes that a terminal sends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::monitor {

enum class KeyKind { text, up, down, page_up, page_down, home, end, enter, escape, backspace, interrupt, suspend };

struct Key {
  KeyKind kind = KeyKind::text;
  std::string text;  // one character, of KeyKind::text
  bool operator==(const Key&) const = default;
};

class KeyReader {
 public:
  // The keys that these bytes complete. What is no key is left out.
  std::vector<Key> feed(std::string_view bytes);
  // Whether what is there may be the beginning of a longer key: if nothing follows soon, it is rest().
  bool is_waiting() const { return !pending_.empty(); }
  std::vector<Key> rest();

 private:
  std::string pending_;
};

}  // namespace muster::monitor
