#pragma once

#include <cstdint>
#include <vector>

#include "core/progress.h"
#include "engine/runner.h"

namespace nibble::eval {

enum class Phase { kPrefill, kDecode };

struct ThroughputOptions {
  std::int64_t prefill_tokens = 512;  // 0: no prefill row
  std::int64_t decode_tokens = 128;   // steps of each decode row, 0: none
  std::vector<std::int64_t> batches = {1};
  std::int64_t depth = 0;    // tokens already in each sequence before decoding
  std::int64_t repeats = 3;  // of each row; the median counts
};

/// One line of `nibble bench`.
struct ThroughputRow {
  Phase phase = Phase::kDecode;
  std::int64_t batch = 1;
  std::int64_t tokens = 0;           // computed in one repeat, over all sequences
  double tokens_per_second = 0;      // median
  std::int64_t bytes_per_token = 0;  // weights and KV cache read, shared by the batch
  double limit_tokens_per_second = 0;
  double share_of_limit = 0;
};

/// Measures prefill and decode with fixed token ids. The limit of decoding is the measured read
/// bandwidth over the bytes of a step; that of prefill the measured rate of 8-bit multiply-adds
/// over the multiplications of a token.
std::vector<ThroughputRow> measure_throughput(engine::Runner& runner,
                                              const models::Decoder& decoder,
                                              const ThroughputOptions& options,
                                              const engine::DeviceLimits& limits,
                                              core::ProgressSink& progress);

}  // namespace nibble::eval
