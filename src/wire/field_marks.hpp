// What a field of a task is to the other ranks of the job and to the identity of the run, said beside the field in
// describe():
//
//   visit("rate", self.rate, agreed("training.learning_rate"), of_identity);
//   visit("loader_threads", self.loader_threads, own);
//
// Hosts plan by themselves, so that what must not differ between ranks is compared before they begin
// (engine/train/task_agreement.cpp); what the numbers of a run follow from is hashed, and a checkpoint with another hash
// is not resumed (run_identity.hpp). Both are loops over these marks. Every field of a marked struct that is not a
// marked struct itself says what it is to the ranks; one that does not fails to compile there.
#pragma once

#include <concepts>
#include <string_view>

namespace muster::wire {

// ---- to the other ranks: one of these ----

// Each rank's own affair.
struct Own {};
inline constexpr Own own;

// Rank 0's is taken by all.
struct FromRankZero {};
inline constexpr FromRankZero from_rank_zero;

// The same on all ranks; the setting is named where it is not.
struct Agreed {
  std::string_view setting;
};
constexpr Agreed agreed(std::string_view setting) { return {setting}; }

// Given on all ranks or on none, whatever it is.
struct AgreedPresence {
  std::string_view setting;
};
constexpr AgreedPresence agreed_presence(std::string_view setting) { return {setting}; }

// A file that is named after its contents, in any folder.
struct AgreedFileName {
  std::string_view setting;
};
constexpr AgreedFileName agreed_file_name(std::string_view setting) { return {setting}; }

template <class Mark>
concept RankMark = std::same_as<Mark, Own> || std::same_as<Mark, FromRankZero> || std::same_as<Mark, Agreed> ||
                   std::same_as<Mark, AgreedPresence> || std::same_as<Mark, AgreedFileName>;

template <class... Marks>
inline constexpr bool has_rank_mark = (int{RankMark<Marks>} + ... + 0) == 1;

// ---- to the identity of the run ----

// The numbers of a run follow from it.
struct Identity {};
inline constexpr Identity of_identity;

template <class... Marks>
inline constexpr bool is_identity = (std::same_as<Marks, Identity> || ...);

// A field that came later: with this value runs are what they were without it.
template <auto usual>
struct IdentityUnless {
  static constexpr auto value = usual;
};
template <auto usual>
inline constexpr IdentityUnless<usual> of_identity_unless;

// The same for one that may be absent: without it runs are what they were before it came.
struct IdentityIfThere {};
inline constexpr IdentityIfThere of_identity_if_there;

template <class Mark>
concept IdentityUnlessMark = requires { Mark::value; };

}  // namespace muster::wire
