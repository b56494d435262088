// The normal distribution, and how much better than a bar something uncertain is expected to be.
#pragma once

namespace muster::sweep {

double normal_density(double x);
double normal_cumulative(double x);
// The x below which this share lies; share from 0 to 1, both excluded.
double normal_quantile(double share);

// The logarithm of the expected improvement over bar of a value that is normal with this mean and deviation. A number
// that can be compared even where the improvement itself is too small for one.
double log_expected_improvement(double mean, double deviation, double bar);

}  // namespace muster::sweep
