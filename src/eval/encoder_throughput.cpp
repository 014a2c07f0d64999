#include "eval/encoder_throughput.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "eval/metrics/sample_statistics.h"

namespace nibble::eval {
namespace {

using core::ErrorKind;
using Clock = std::chrono::steady_clock;

std::int64_t layer_bytes(const models::Network& network) {
  std::int64_t bytes = 0;
  for (const models::Block& block : network.encoder.blocks) {
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      for (const ops::Linear& part : set->parts) {
        bytes += formats::stored_bytes(part.weight) + ops::low_rank_bytes(part);
      }
    }
  }
  return bytes;
}

// Multiplications of one token, in the layers and with the keys and values of its text.
std::int64_t multiplications(const models::Network& network, std::int64_t text_tokens) {
  std::int64_t count = 0;
  for (const models::Block& block : network.encoder.blocks) {
    for (const ops::LinearSet* set : models::linear_sets(block)) {
      count += set->n() * set->k();
    }
    const ops::AttentionSpec& attention = block.attention.spec;
    count += 2 * attention.heads * attention.head_dim * text_tokens;
  }
  return count;
}

void set_limit(EncoderThroughputRow& row, const models::Network& network,
               const engine::DeviceLimits& limits) {
  row.weight_bytes = layer_bytes(network);
  row.fits_cache = stays_in_cache(row.weight_bytes, limits.cache_bytes);
  const std::int64_t tokens = row.shape.texts * row.shape.tokens;
  row.limit_seconds = static_cast<double>(tokens * multiplications(network, row.shape.tokens)) /
                      limits.multiply_adds_per_second;
  const double reading = static_cast<double>(row.weight_bytes) / limits.read_bytes_per_second;
  if (!row.fits_cache && reading > row.limit_seconds) {
    row.limit_seconds = reading;
    row.limited_by = Limit::kMemory;
  }
  row.share_of_limit = row.limit_seconds / row.median_seconds;
}

EncoderThroughputRow measure(engine::Encoder& encoder, const EncoderShape& shape,
                             const EncoderThroughputOptions& options,
                             std::span<const std::int32_t> tokens) {
  const std::vector<engine::EncoderText> texts(
      static_cast<std::size_t>(shape.texts),
      {tokens.first(static_cast<std::size_t>(shape.tokens)), {}});
  for (int i = 0; i < kEncoderWarmUps; ++i) {
    encoder.embed(texts);
  }
  const core::OtherWorkMeter meter;
  std::vector<double> seconds;
  double sum = 0;
  while (std::ssize(seconds) < options.repeats ||
         (sum < options.least_seconds && std::ssize(seconds) < kMostCalls)) {
    const auto start = Clock::now();
    encoder.embed(texts);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    sum += seconds.back();
  }
  EncoderThroughputRow row;
  row.shape = shape;
  row.other_work = meter.read();
  row.repeats = std::ssize(seconds);
  row.tokens_per_second = speed_of(seconds, shape.texts * shape.tokens);
  std::vector<float> ascending(seconds.begin(), seconds.end());
  std::sort(ascending.begin(), ascending.end());
  row.median_seconds = quantile(ascending, 0.5);
  row.p99_seconds = quantile(ascending, 0.99);
  return row;
}

}  // namespace

std::vector<EncoderThroughputRow> measure_encoder_throughput(
    engine::Encoder& encoder, const models::Network& network,
    const EncoderThroughputOptions& options, const engine::DeviceLimits& limits,
    core::ProgressSink& progress) {
  core::require(options.repeats >= 1, ErrorKind::kUsage, "bench needs at least one repeat");
  std::int64_t longest = 0;
  for (const EncoderShape& shape : options.shapes) {
    core::require(shape.texts >= 1 && shape.texts <= 1024, ErrorKind::kUsage,
                  "batch is {}, must be 1 to 1024", shape.texts);
    core::require(shape.tokens >= 1 && shape.tokens <= encoder.max_tokens(), ErrorKind::kUsage,
                  "texts of {} tokens were asked for; the model takes 1 to {}", shape.tokens,
                  encoder.max_tokens());
    longest = std::max(longest, shape.tokens);
  }
  const std::vector<std::int32_t> tokens = sample_tokens(longest, network.config.vocabulary);
  std::vector<EncoderThroughputRow> rows;
  progress.begin("bench", std::ssize(options.shapes));
  for (const EncoderShape& shape : options.shapes) {
    rows.push_back(measure(encoder, shape, options, tokens));
    set_limit(rows.back(), network, limits);
    progress.update(std::ssize(rows), fmt::format("{} x {} tokens", shape.texts, shape.tokens));
  }
  progress.end();
  return rows;
}

}  // namespace nibble::eval
