#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/json_type.h"
#include "load_test/load_run.h"

namespace nibble::load_test {

/// Of one quantity over all served requests, in milliseconds.
struct Latency {
  double mean = 0;
  double deviation = 0;
  double median = 0;
  double p90 = 0;
  double p95 = 0;
  double p99 = 0;
};

/// Mean and percentiles (linear between ranks, as NumPy's default) of values in seconds; zeros for
/// none.
Latency latency_of(std::vector<double> seconds);

/// What a request must keep to count as good, in milliseconds.
struct Goals {
  std::optional<double> ttft;  // time to the first token
  std::optional<double> tpot;  // time per output token after the first
  std::optional<double> e2el;  // time to the end
};

/// "ttft:500", "tpot:50", "e2el:2000"; throws kUsage for anything else.
Goals parse_goals(const std::vector<std::string>& words);

/// A load in figures, with the names that vLLM's benchmark gives them.
struct LoadFigures {
  std::int64_t completed = 0;
  std::int64_t failed = 0;
  std::int64_t cancelled = 0;
  double seconds = 0;
  std::int64_t input_tokens = 0;   // of completed requests
  std::int64_t output_tokens = 0;  // the same
  double goodput = 0;              // completed requests per second that keep the goals
  Latency ttft;
  Latency tpot;
  Latency itl;  // between pieces of text
  Latency e2el;
};

LoadFigures figures_of(const LoadResult& result, const Goals& goals);

core::Json to_json(const LoadFigures& figures);
std::string to_text(const LoadFigures& figures);

/// A page with the figures and charts of when requests got their first token and their last.
std::string to_html(const LoadFigures& figures, const LoadResult& result, const std::string& title);

}  // namespace nibble::load_test
