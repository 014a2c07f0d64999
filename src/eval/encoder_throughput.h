#pragma once

#include <cstdint>
#include <vector>

#include "engine/encoder.h"
#include "eval/throughput.h"

namespace nibble::eval {

/// Texts of one length that are computed in one call.
struct EncoderShape {
  std::int64_t texts = 1;
  std::int64_t tokens = 128;  // of each text
};

struct EncoderThroughputOptions {
  std::vector<EncoderShape> shapes;
  std::int64_t repeats = 3;    // of each shape at least, behind kEncoderWarmUps
  double least_seconds = 0.5;  // a shape is repeated, up to kMostCalls, until it was timed so long
};

inline constexpr int kEncoderWarmUps = 2;  // a GPU records its work in the second call
inline constexpr std::int64_t kMostCalls = 2000;

/// What one shape takes.
struct EncoderThroughputRow {
  EncoderShape shape;
  double median_seconds = 0;  // of a call, with all that the host does
  double p99_seconds = 0;
  Speed tokens_per_second;
  std::int64_t repeats = 0;
  core::OtherWork other_work;     // beside the repeats
  std::int64_t weight_bytes = 0;  // of the encoder's layers, read once in a call
  double limit_seconds = 0;
  Limit limited_by = Limit::kArithmetic;
  bool fits_cache = false;  // what a call reads: the memory does not limit it
  double share_of_limit = 0;
};

/// Seconds of calls of embed(), with fixed token ids. The model must pool
/// (models::Network::pooling). The limit is the time of the multiplications of layers and
/// attention, at the measured rate of 8-bit multiply-adds, or that of reading the weights once,
/// unless they stay in a cache, whichever is longer. Throws kUsage for shapes that the model has no
/// positions for.
std::vector<EncoderThroughputRow> measure_encoder_throughput(
    engine::Encoder& encoder, const models::Network& network,
    const EncoderThroughputOptions& options, const engine::DeviceLimits& limits,
    core::ProgressSink& progress);

}  // namespace nibble::eval
