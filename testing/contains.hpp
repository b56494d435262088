// EXPECT_TRUE(contains(message, "what", "remedy")): says which part is missing from which text.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace muster::testing {

template <class... Parts>
::testing::AssertionResult contains(const std::string& text, const Parts&... parts) {
  for (const std::string_view part : {std::string_view(parts)...})
    if (text.find(part) == std::string::npos)
      return ::testing::AssertionFailure() << "no \"" << part << "\" in: " << text;
  return ::testing::AssertionSuccess();
}

}  // namespace muster::testing
