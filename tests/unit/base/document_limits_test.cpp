#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <random>
#include <string>

#include "base/document.hpp"

namespace muster {
namespace {

// Runs work in a process that may have this much memory and this much of a core's time; whether it ended well.
::testing::AssertionResult ends_within(rlim_t bytes, rlim_t seconds, const std::function<void()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit memory{bytes, bytes}, time{seconds, seconds};
    ::setrlimit(RLIMIT_AS, &memory);
    ::setrlimit(RLIMIT_CPU, &time);
    try {
      work();
    } catch (...) {
      ::_exit(1);  // std::bad_alloc
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ::testing::AssertionSuccess();
  if (WIFSIGNALED(status)) return ::testing::AssertionFailure() << "ended by signal " << WTERMSIG(status);
  return ::testing::AssertionFailure() << "more memory was needed than is allowed";
}

constexpr rlim_t most_memory = rlim_t{1} << 30;
constexpr rlim_t most_seconds = 60;

// Text that grows where a reader is weak: anchors within anchors, aliases, long texts, many keys, deep nesting.
class HostileText {
 public:
  explicit HostileText(std::uint64_t seed) : random_(seed) {}

  std::string make() {
    std::string text;
    const std::size_t most = std::size_t{1} << (10 + below(11));
    while (text.size() < most) text += "k" + std::to_string(keys_++) + ": " + value(0) + "\n";
    if (below(3) == 0) text[below(text.size())] = static_cast<char>(random_());
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  std::string value(int depth) {
    const std::string anchor = below(3) == 0 ? "&a" + std::to_string(anchors_++) + " " : "";
    switch (depth > 20 ? 0 : below(6)) {
      case 0:
        return anchor + std::string(1 + below(std::size_t{1} << below(18)), 'x');
      case 1: {
        std::string list = anchor + "[";
        for (std::size_t i = below(6); i > 0; --i) list += value(depth + 1) + ", ";
        return list + "0]";
      }
      case 2: {
        std::string table = anchor + "{";
        for (std::size_t i = below(6); i > 0; --i)
          table += "k" + std::to_string(keys_++) + ": " + value(depth + 1) + ", ";
        return table + "last: 0}";
      }
      case 3: {
        std::string list = anchor + "[";
        for (std::size_t i = below(2000); i > 0 && anchors_ > 0; --i)
          list += "*a" + std::to_string(below(anchors_)) + ", ";
        return list + "0]";
      }
      case 4:
        return anchors_ > 0 ? "*a" + std::to_string(below(anchors_)) : "1";
      default:
        return anchor + "[" + value(depth + 1) + "]";
    }
  }

  std::mt19937_64 random_;
  std::size_t anchors_ = 0, keys_ = 0;
};

TEST(DocumentLimits, HoldForWhateverIsWritten) {
  EXPECT_TRUE(ends_within(most_memory, most_seconds, [] {
    for (std::uint64_t seed = 1; seed <= 150; ++seed) static_cast<void>(parse_document(HostileText(seed).make(), "f"));
  }));
}

// A megabyte that stood for gigabytes.
TEST(DocumentLimits, HoldForAnchorsWithinAnchors) {
  EXPECT_TRUE(ends_within(most_memory, most_seconds, [] {
    std::string text = "[" + std::string(1000, '0') + "]";
    for (int i = 0; i < 300; ++i) text = "&a" + std::to_string(i) + " [" + text + ", " + std::string(3000, 'x') + "]";
    static_cast<void>(parse_document(text, "f"));
    std::string flat = "a: [";
    for (int i = 0; i < 100'000; ++i) flat += "&a" + std::to_string(i) + " x, ";
    static_cast<void>(parse_document(flat + "x]\n", "f"));
  }));
}

TEST(DocumentLimits, HoldForOneLongTextManyTimes) {
  EXPECT_TRUE(ends_within(most_memory, most_seconds, [] {
    std::string text = "long: &l " + std::string(300'000, 'x') + "\nmany: [";
    for (int i = 0; i < 60'000; ++i) text += "*l, ";
    static_cast<void>(parse_document(text + "x]\n", "f"));
  }));
}

TEST(DocumentLimits, HoldForManySmallValues) {
  EXPECT_TRUE(ends_within(most_memory, most_seconds, [] {
    std::string list = "[", keys;
    for (int i = 0; i < 500'000; ++i) list += "1,";
    static_cast<void>(parse_document(list + "1]", "f"));
    for (int i = 0; i < 100'000; ++i) keys += "key-" + std::to_string(i) + ": 1\n";
    static_cast<void>(parse_document(keys, "f"));
    static_cast<void>(parse_document(std::string(1'000'000, '['), "f"));
    static_cast<void>(parse_document(std::string(1'000'000, '-'), "f"));
    std::string dashes;
    for (int i = 0; i < 300'000; ++i) dashes += "- ";
    static_cast<void>(parse_document(dashes, "f"));
  }));
}

}  // namespace
}  // namespace muster
