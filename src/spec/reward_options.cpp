#include "spec/reward_options.hpp"

namespace muster::spec {

std::vector<Word<RewardFunction>> words(RewardFunction) {
  return {{"exact", RewardFunction::exact},         {"contains", RewardFunction::contains},
          {"numeric", RewardFunction::numeric},     {"math", RewardFunction::math},
          {"format", RewardFunction::format},       {"length", RewardFunction::length},
          {"repetition", RewardFunction::repetition}, {"digits", RewardFunction::digits},
          {"program", RewardFunction::program},     {"code_tests", RewardFunction::code_tests},
          {"model", RewardFunction::model}};
}

std::vector<Word<FormatMatch>> words(FormatMatch) {
  return {{"whole", FormatMatch::whole}, {"search", FormatMatch::search}};
}

std::vector<Word<UnknownReward>> words(UnknownReward) {
  return {{"left_out", UnknownReward::left_out}, {"zero", UnknownReward::zero}};
}

std::vector<Word<CodeScoring>> words(CodeScoring) {
  return {{"share", CodeScoring::share}, {"all", CodeScoring::all}};
}

}  // namespace muster::spec
