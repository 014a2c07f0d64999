#pragma once

#include <cstdint>
#include <vector>

#include "core/other_work.h"
#include "core/progress.h"
#include "engine/runner.h"

namespace nibble::eval {

enum class Phase { kPrefill, kDecode };

struct ThroughputOptions {
  std::int64_t prefill_tokens = 512;  // 0: no prefill row
  std::int64_t decode_tokens = 128;   // steps of each decode row, 0: none
  std::vector<std::int64_t> batches = {1};
  std::int64_t depth = 0;    // tokens already in each sequence before decoding
  std::int64_t repeats = 3;  // of each row at least; the median counts
  double least_seconds = 0;  // a row is repeated, up to kMostRepeats, until it was timed so long
};

inline constexpr std::int64_t kMostRepeats = 25;

/// Tokens per second in some repeats of the same work.
struct Speed {
  double median = 0;
  double low = 0;  // quartiles: the middle half of the repeats lies between them
  double high = 0;
};

/// Of the repeats' seconds, each for `tokens` tokens. quantile() says how quartiles are taken.
Speed speed_of(const std::vector<double>& seconds, std::int64_t tokens);

/// What bounds a speed.
enum class Limit { kMemory, kArithmetic };

/// One line of `nibble bench`.
struct ThroughputRow {
  Phase phase = Phase::kDecode;
  std::int64_t batch = 1;
  std::int64_t tokens = 0;  // computed in one repeat, over all sequences
  Speed tokens_per_second;
  std::int64_t repeats = 0;
  core::OtherWork other_work;        // beside the repeats
  std::int64_t bytes_per_token = 0;  // weights and KV cache read, shared by the batch
  double limit_tokens_per_second = 0;
  Limit limited_by = Limit::kArithmetic;
  bool fits_cache = false;  // what a step reads: the memory does not limit it
  double share_of_limit = 0;
};

/// Repeats that differ by more (the quartiles, as a share of the median), or whose threads waited
/// longer for a CPU (core::OtherWork), do not tell how fast a model is: it is too small to be
/// timed, or the machine too busy.
inline constexpr double kMostSpread = 0.2;
inline constexpr double kMostWaited = 0.1;

/// Whether the repeats of a row tell a speed.
bool is_steady(const ThroughputRow& row);

/// Whether a step that reads so many bytes again and again finds at least half of them in a cache
/// (engine::DeviceLimits): then it may be faster than the memory.
bool stays_in_cache(std::int64_t step_bytes, std::int64_t cache_bytes);

/// Fixed ids that visit the whole vocabulary.
std::vector<std::int32_t> sample_tokens(std::int64_t count, std::int64_t vocabulary);

/// Measures prefill and decode with fixed token ids. The limit of decoding is the measured read
/// bandwidth over the bytes of a step, unless they stay in a cache, or the measured rate of 8-bit
/// multiply-adds over the multiplications of a token, whichever is lower; that of prefill is the
/// latter.
std::vector<ThroughputRow> measure_throughput(engine::Runner& runner,
                                              const models::Network& network,
                                              const ThroughputOptions& options,
                                              const engine::DeviceLimits& limits,
                                              core::ProgressSink& progress);

}  // namespace nibble::eval
