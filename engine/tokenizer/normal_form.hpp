// Unicode's four normal forms.
#pragma once

#include <string>
#include <string_view>

namespace muster::tokenizer {

struct NormalForm {
  bool compatible = false;  // NFKC and NFKD: ligatures, wide forms and the like are taken apart too
  bool composed = false;    // NFC and NFKC
};

std::string normal_form(std::string_view text, NormalForm form);

}  // namespace muster::tokenizer
