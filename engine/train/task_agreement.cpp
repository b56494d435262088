#include "train/task_agreement.hpp"

#include <fmt/format.h>

#include <bit>
#include <concepts>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bit_mix.hpp"
#include "json/fields.hpp"
#include "tensor/torch.hpp"
#include "wire/field_marks.hpp"

namespace muster::train {
namespace {

// One number of a field, or that stands for it.
struct Fact {
  std::string_view setting;  // empty: rank 0's value is taken
  std::int64_t value = 0;
};

std::int64_t mixed(const std::string& text) {
  std::uint64_t bits = 0;
  for (const char letter : text) bits = mix_bits(bits + static_cast<unsigned char>(letter) + 1);
  return static_cast<std::int64_t>(bits);
}

template <class Field>
std::int64_t to_number(const Field& field) {
  return static_cast<std::int64_t>(field);
}
std::int64_t to_number(double field) { return std::bit_cast<std::int64_t>(field); }
std::int64_t to_number(const std::optional<std::int64_t>& field) { return field.value_or(0); }
std::int64_t to_number(const std::optional<double>& field) { return to_number(field.value_or(0)); }
template <Described Field>
std::int64_t to_number(const std::optional<Field>& field) {
  return field ? mixed(as_line(to_json(*field))) : 0;
}

// What each kind of mark contributes; those of other meanings nothing.
class FactList {
 public:
  void add(const auto& field, wire::Agreed mark) { facts_.push_back({mark.setting, to_number(field)}); }
  void add(const auto& field, wire::FromRankZero) { facts_.push_back({"", to_number(field)}); }
  void add(const auto& field, wire::AgreedPresence mark) { facts_.push_back({mark.setting, field.has_value() ? 1 : 0}); }
  void add(const std::string& path, wire::AgreedFileName mark) {
    facts_.push_back({mark.setting, mixed(std::filesystem::path(path).filename().string())});
  }
  void add(const auto&, wire::Own) {}
  void add(const auto&, wire::Identity) {}
  void add(const auto&, wire::IdentityIfThere) {}
  template <auto usual>
  void add(const auto&, wire::IdentityUnless<usual>) {}

  template <class T>
  void add_fields(const T& described) {
    T::describe(described, [&]<class Field, class... Marks>(const char*, const Field& field, const Marks&... marks) {
      if constexpr (Described<Field>) {
        this->add_fields(field);
      } else {
        static_assert(wire::has_rank_mark<Marks...>, "say in describe() what the field is to the other ranks");
        (this->add(field, marks), ...);
      }
    });
  }

  const std::vector<Fact>& facts() const { return facts_; }

 private:
  std::vector<Fact> facts_;
};

// What decides which exchanges there are, and what is in them.
std::vector<Fact> facts_of(const wire::TrainTask& task, std::uint64_t seed) {
  FactList list;
  list.add(seed, wire::agreed("experiment.seed"));  // first: the data follows from it
  list.add_fields(task);
  return list.facts();
}

// The values of those fields, in their order.
void take_from_rank_zero(wire::TrainTask& task, const std::vector<std::int64_t>& values) {
  std::size_t place = 0;
  const auto take = [&](auto& described, const auto& self) -> void {
    described.describe(described, [&]<class Field, class... Marks>(const char*, Field& field, const Marks&...) {
      if constexpr (Described<Field>) {
        self(field, self);
      } else if constexpr ((std::same_as<Marks, wire::FromRankZero> || ...)) {
        field = static_cast<Field>(values[place++]);
      }
    });
  };
  take(task, take);
}

}  // namespace

Result<void> agree_on_task(wire::TrainTask& task, std::uint64_t seed, communicate::Communicator& ranks,
                         at::Device device) {
  const std::vector<Fact> facts = facts_of(task, seed);
  std::vector<std::int64_t> own;
  for (const Fact& fact : facts) own.push_back(fact.value);
  const at::Tensor mine = at::tensor(own, at::kLong).to(device);
  at::Tensor all = at::empty({ranks.size(), mine.numel()}, mine.options());
  ranks.all_gather(mine, all);
  const at::Tensor host = all.cpu();
  const auto of_rank = [&](std::int64_t rank, std::size_t place) {
    return host[rank][static_cast<std::int64_t>(place)].item<std::int64_t>();
  };
  for (std::int64_t rank = 1; rank < ranks.size(); ++rank)
    for (std::size_t i = 0; i < facts.size(); ++i)
      if (!facts[i].setting.empty() && of_rank(rank, i) != of_rank(0, i))
        return Error{Error::Kind::refused,
                     fmt::format("rank {} was started with another {} than rank 0", rank, facts[i].setting),
                     "give every host the same settings; what auto would choose may differ, so name it"};
  std::vector<std::int64_t> taken;
  for (std::size_t i = 0; i < facts.size(); ++i)
    if (facts[i].setting.empty()) taken.push_back(of_rank(0, i));
  take_from_rank_zero(task, taken);
  return {};
}

}  // namespace muster::train
