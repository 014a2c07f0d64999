#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace nibble::cli {

/// How far the work is.
struct ProgressState {
  std::string part;         // "nf4g64"; empty where the work has no parts
  std::int64_t number = 0;  // of the part, from 1
  std::int64_t parts = 0;   // in all
  std::string job;          // "quantize"
  std::int64_t done = 0;    // steps of the job
  std::int64_t total = 1;
  double seconds = 0;                 // since the job began
  std::optional<double> left;         // seconds that the job still takes, where that can be told
  std::optional<double> left_in_all;  // the same of all parts
  std::string note;                   // what was done last
};

/// A line for a log: everything, without a bar.
std::string plain_progress(const ProgressState& state);

/// A line with a bar that takes at most so many columns of a terminal. Of what does not fit, the
/// note goes first, then the bar and the names; the number of the part, the steps and the time that
/// is left go last.
std::string bar_progress(const ProgressState& state, std::size_t columns);

/// Seconds as "9s", "3m05s" or "2h10m".
std::string duration(double seconds);

}  // namespace nibble::cli
