#include "spec/trained_answers.hpp"

namespace muster::spec {

std::vector<Word<TrainedAnswers>> words(TrainedAnswers) {
  return {{"all", TrainedAnswers::all}, {"last", TrainedAnswers::last}};
}

}  // namespace muster::spec
