// Texts as exec wants them.
#pragma once

#include <string>
#include <vector>

namespace muster {

// Pointers into the texts, which must outlive them, with a null pointer at the end.
inline std::vector<char*> pointers_for_exec(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace muster
