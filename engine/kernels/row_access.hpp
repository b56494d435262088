// Reading and writing up to sixteen elements. Lanes past the end are read as zero and not written, and go through the
// same arithmetic as all others, so that a result does not depend on where in a row it stands.
#pragma once

#include <cstdint>

namespace muster::kernels {

template <class L, class Element>
[[gnu::always_inline]] inline L load_some(const Element* source, std::int64_t count) {
  if (count >= 16) return L::load(source);
  Element elements[16] = {};
  for (std::int64_t i = 0; i < count; ++i) elements[i] = source[i];
  return L::load(static_cast<const Element*>(elements));
}

template <class L, class Element>
[[gnu::always_inline]] inline void store_some(L value, Element* target, std::int64_t count) {
  if (count >= 16) {
    value.store(target);
    return;
  }
  Element elements[16];
  value.store(static_cast<Element*>(elements));
  for (std::int64_t i = 0; i < count; ++i) target[i] = elements[i];
}

// value as it is after being stored and read again.
template <class L, class Element>
[[gnu::always_inline]] inline L rounded(L value) {
  Element elements[16];
  value.store(static_cast<Element*>(elements));
  return L::load(static_cast<const Element*>(elements));
}

}  // namespace muster::kernels
