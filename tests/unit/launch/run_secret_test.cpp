#include "launch/run_secret.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "system/files.hpp"
#include "testing/contains.hpp"
#include "testing/scratch_folder.hpp"

namespace muster::launch {
namespace {

using testing::contains;
namespace fs = std::filesystem;

SecretSource in_file(const fs::path& file) { return {SecretSource::Kind::file, {}, file}; }

TEST(RunSecret, IsMadeOnceHoweverManyHostsBeginTogether) {
  const testing::ScratchFolder folder;
  const SecretSource source = in_file(folder.path() / "a" / "b" / "secret");
  std::vector<std::string> secrets(8);
  {
    std::vector<std::jthread> hosts;
    for (std::string& secret : secrets) hosts.emplace_back([&] { secret = make_or_read_secret(source).value(); });
  }
  EXPECT_EQ(std::set(secrets.begin(), secrets.end()).size(), 1u);
  EXPECT_EQ(secrets.front().size(), 64u);
  EXPECT_EQ(std::distance(fs::directory_iterator(source.file.parent_path()), {}), 1) << "nothing is left beside it";
  EXPECT_EQ(fs::status(source.file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(find_secret(source).value(), secrets.front());
}

TEST(RunSecret, IsNotMadeByAHostThatLooksForIt) {
  const testing::ScratchFolder folder;
  const SecretSource source = in_file(folder.path() / "secret");
  EXPECT_EQ(find_secret(source).value(), std::nullopt);
  EXPECT_FALSE(fs::exists(source.file));
}

TEST(RunSecret, OfOneHostIsAnotherEachTime) {
  EXPECT_NE(make_or_read_secret({}).value(), make_or_read_secret({}).value());
  EXPECT_EQ(make_or_read_secret({SecretSource::Kind::insecure}).value(), "");
}

TEST(RunSecret, SaysWhatIsWrongWithAFile) {
  const testing::ScratchFolder folder;
  const auto file = folder.write("secret", "0123456789abcdef\n");
  fs::permissions(file, fs::perms::owner_read | fs::perms::group_read);
  EXPECT_TRUE(contains(to_string(find_secret(in_file(file)).error()), "open to other users (mode 440)", "chmod 600"));
  fs::permissions(file, fs::perms::owner_read);
  EXPECT_EQ(find_secret(in_file(file)).value(), "0123456789abcdef");
  EXPECT_FALSE(find_secret(in_file(folder.path())));  // a folder
  EXPECT_TRUE(contains(find_secret({SecretSource::Kind::text, "short", {}}).error().what, "MUSTER_RDZV_SECRET", "16"));
}

}  // namespace
}  // namespace muster::launch
