// What the finished and running trials of a sweep say, as numbers for a Gaussian process.
#pragma once

#include <vector>

#include "sweep/search/gaussian_process.hpp"
#include "sweep/search/suggest.hpp"

namespace muster::sweep {

struct Trial {
  Point point;       // on [-1, 1], every parameter of the space
  double score = 0;  // high is good; for a failure: the worst of all scores
  double cost = 0;   // seconds
  bool failed = false;
};

struct Evidence {
  // Best first, failures last: an order that depends on the trials alone. Those outside the space are left out. Out of
  // very many, only some, since a process takes the cube of their number: the best, and every n-th of the others.
  std::vector<Trial> finished;
  std::vector<Point> running;
  std::size_t begun = 0;   // finished and running, in the space, all of them
  double seconds = 0;      // taken by all finished ones
  bool succeeded = false;  // at least one
};

Evidence gather(const Space& space, Goal goal, const History& history);

// The trials that no other beats in score at no more cost, cheapest first; of equal ones the first. Failures never are.
std::vector<const Trial*> pareto(const Evidence& evidence);

// Shifted and scaled to mean 0 and deviation 1; equal numbers become 0.
std::vector<double> standardized(std::vector<double> numbers);

// Scores as the process models them: 0 ± 1, in the same order, with those far below the middle drawn nearer, since how
// bad the bad ones are says nothing about the best.
std::vector<double> shaped_scores(const Evidence& evidence);

// A point for a process: only varying parameters, on [0, 1].
std::vector<double> features(const Space& space, const Point& point);
Ordered ordered_features(const Space& space);

}  // namespace muster::sweep
