#include "checkpoint/adapters/adapted_source.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

namespace muster::checkpoint {
namespace {

// Tensors of one number each.
class Numbers final : public TensorSource {
 public:
  explicit Numbers(std::map<std::string, float> numbers) : numbers_(std::move(numbers)) {
    for (const auto& [name, number] : numbers_) {
      TensorEntry& entry = entries_.emplace_back();
      entry.name = name;
      entry.dimensions = {{1}, 1};
    }
  }
  std::span<const TensorEntry> tensors() const override { return entries_; }
  const TensorEntry* find(std::string_view name) const override {
    for (const TensorEntry& entry : entries_)
      if (entry.name == name) return &entry;
    return nullptr;
  }
  Result<void> read(std::string_view name, const TensorSlice&, spec::ElementType, std::span<std::byte> out) const override {
    std::memcpy(out.data(), &numbers_.at(std::string(name)), sizeof(float));
    return {};
  }
  std::uint64_t bytes_read() const override { return 1; }

 private:
  std::map<std::string, float> numbers_;
  std::vector<TensorEntry> entries_;
};

float number_of(const TensorSource& source, const std::string& name) {
  float number = 0;
  EXPECT_TRUE(source.read(name, {}, spec::ElementType::float32, std::as_writable_bytes(std::span(&number, 1)))) << name;
  return number;
}

TEST(AdaptedSource, HasTheTensorsOfTheBaseAndOfEachAdapter) {
  std::vector<std::unique_ptr<TensorSource>> adapters;
  adapters.push_back(std::make_unique<Numbers>(std::map<std::string, float>{{"q.lora_A.weight", 2}}));
  adapters.push_back(std::make_unique<Numbers>(std::map<std::string, float>{{"q.lora_A.weight", 3}}));
  const auto all = with_adapters(std::make_unique<Numbers>(std::map<std::string, float>{{"q.weight", 1}}), std::move(adapters));
  EXPECT_EQ(all->tensors().size(), 3u);
  EXPECT_EQ(number_of(*all, "q.weight"), 1);
  EXPECT_EQ(number_of(*all, adapted_name(0, "q.lora_A.weight")), 2);
  EXPECT_EQ(number_of(*all, adapted_name(1, "q.lora_A.weight")), 3);
  EXPECT_EQ(adapted_name(0, "q.lora_A.weight"), "q.lora_A.weight");
  EXPECT_EQ(all->find("q.lora_B.weight"), nullptr);
  for (const TensorEntry& entry : all->tensors()) EXPECT_EQ(all->find(entry.name)->name, entry.name);
  EXPECT_EQ(all->bytes_read(), 3u);
}

TEST(AdaptedSource, HasWhatTheFirstAdapterHasAsAWholeInThePlaceOfTheBases) {
  std::vector<std::unique_ptr<TensorSource>> adapters;
  using Named = std::map<std::string, float>;
  adapters.push_back(std::make_unique<Numbers>(Named{{"head.weight", 5}, {"q.lora_A.weight", 2}}));
  const auto all =
      with_adapters(std::make_unique<Numbers>(Named{{"head.weight", 1}, {"q.weight", 4}}), std::move(adapters));
  EXPECT_EQ(number_of(*all, "head.weight"), 5);
  EXPECT_EQ(number_of(*all, "q.weight"), 4);
  EXPECT_EQ(all->tensors().size(), 3u);
  EXPECT_FALSE(all->packed("head.weight"));
}

TEST(AdaptedSource, IsTheBaseWithoutAdapters) {
  auto base = std::make_unique<Numbers>(std::map<std::string, float>{{"q.weight", 1}});
  const TensorSource* same = base.get();
  EXPECT_EQ(with_adapters(std::move(base), {}).get(), same);
}

}  // namespace
}  // namespace muster::checkpoint
