#include "eval/throughput.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/error.h"
#include "engine/fixed_sequences.h"
#include "eval/metrics/sample_statistics.h"

namespace nibble::eval {
namespace {

using Clock = std::chrono::steady_clock;
using engine::FixedSequences;
using engine::Runner;
using engine::Slice;

// What the engine asks for where the most probable tokens are taken.
void compute(Runner& runner, std::span<const Slice> slices) {
  std::vector<ops::RankedToken> ranked;
  runner.forward_ranked(slices, 1, ranked);
}

void prefill(Runner& runner, FixedSequences& sequences, std::int64_t index,
             std::span<const std::int32_t> tokens) {
  const auto most = static_cast<std::size_t>(runner.prefill_rows());
  while (!tokens.empty()) {
    const auto part = tokens.first(std::min(most, tokens.size()));
    tokens = tokens.subspan(part.size());
    Slice slice = sequences.next(index, part, tokens.empty() ? 1 : 0);
    slice.prompt_tokens = std::ssize(part);
    compute(runner, {&slice, 1});
  }
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double prefill_seconds(Runner& runner, std::span<const std::int32_t> tokens) {
  FixedSequences sequences(runner, 1, std::ssize(tokens));
  const auto start = Clock::now();
  prefill(runner, sequences, 0, tokens);
  return seconds_since(start);
}

// A step of each sequence; tokens [batch].
std::vector<Slice> decode_step(FixedSequences& sequences, std::span<const std::int32_t> tokens) {
  std::vector<Slice> slices;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    slices.push_back(sequences.next(static_cast<std::int64_t>(i), tokens.subspan(i, 1)));
  }
  return slices;
}

// As the engine does: each step is begun before the results of the last one are taken, and takes
// its tokens from it.
void decode_ahead(engine::StepsAhead& ahead, FixedSequences& sequences, std::int64_t steps,
                  std::vector<std::int32_t> tokens) {
  std::vector<ops::RankedToken> ranked;
  for (std::int64_t step = 0; step < steps; ++step) {
    ahead.begin(decode_step(sequences, tokens), {});
    for (std::size_t i = 0; step == 0 && i < tokens.size(); ++i) {
      tokens[i] = engine::token_of_row(static_cast<std::int64_t>(i));
    }
    if (step > 0) {
      ahead.finish(ranked);
    }
  }
  ahead.finish(ranked);
}

double decode_seconds(Runner& runner, std::int64_t batch, std::int64_t steps, std::int64_t depth,
                      std::span<const std::int32_t> tokens) {
  FixedSequences sequences(runner, batch, depth + steps + 1);
  for (std::int64_t i = 0; i < batch; ++i) {
    prefill(runner, sequences, i, tokens.first(static_cast<std::size_t>(depth + 1)));
  }
  std::vector<std::int32_t> given(static_cast<std::size_t>(batch), tokens.front());
  const auto start = Clock::now();
  if (engine::StepsAhead* const ahead = runner.ahead()) {
    decode_ahead(*ahead, sequences, steps, std::move(given));
  } else {
    for (std::int64_t step = 0; step < steps; ++step) {
      std::fill(given.begin(), given.end(), tokens[static_cast<std::size_t>(step)]);
      compute(runner, decode_step(sequences, given));
    }
  }
  return seconds_since(start);
}

// Repeats `work`, which returns its seconds, and fills in what they tell.
template <typename Work>
void repeat(const ThroughputOptions& options, ThroughputRow& row, Work work) {
  const core::OtherWorkMeter meter;
  std::vector<double> seconds;
  double sum = 0;
  while (std::ssize(seconds) < options.repeats ||
         (sum < options.least_seconds && std::ssize(seconds) < kMostRepeats)) {
    seconds.push_back(work());
    sum += seconds.back();
  }
  row.repeats = std::ssize(seconds);
  row.tokens_per_second = speed_of(seconds, row.tokens);
  row.other_work = meter.read();
}

ThroughputRow prefill_row(Runner& runner, const models::Network& network,
                          const ThroughputOptions& options, const engine::DeviceLimits& limits,
                          std::span<const std::int32_t> prompt) {
  prefill_seconds(runner, prompt.first(std::min<std::size_t>(prompt.size(), 32)));  // warm up
  ThroughputRow row;
  row.phase = Phase::kPrefill;
  row.tokens = std::ssize(prompt);
  repeat(options, row, [&] { return prefill_seconds(runner, prompt); });
  row.bytes_per_token = runner.bytes_per_token() / row.tokens;
  row.limit_tokens_per_second = limits.multiply_adds_per_second /
                                static_cast<double>(engine::multiplications_per_token(network));
  return row;
}

ThroughputRow decode_row(Runner& runner, const models::Network& network,
                         const ThroughputOptions& options, const engine::DeviceLimits& limits,
                         std::span<const std::int32_t> tokens, std::int64_t batch) {
  decode_seconds(runner, batch, std::min<std::int64_t>(4, options.decode_tokens), options.depth,
                 tokens);  // warm up
  ThroughputRow row;
  row.batch = batch;
  row.tokens = batch * options.decode_tokens;
  repeat(options, row, [&] {
    return decode_seconds(runner, batch, options.decode_tokens, options.depth, tokens);
  });
  const std::int64_t kv = runner.kv_bytes(options.depth + options.decode_tokens / 2);
  row.bytes_per_token = runner.bytes_per_token() / batch + kv;
  row.fits_cache = stays_in_cache(row.bytes_per_token * batch, limits.cache_bytes);
  row.limit_tokens_per_second = limits.multiply_adds_per_second /
                                static_cast<double>(engine::multiplications_per_token(network) +
                                                    network.output.n() * network.output.k());
  const double by_memory = limits.read_bytes_per_second / static_cast<double>(row.bytes_per_token);
  if (!row.fits_cache && by_memory < row.limit_tokens_per_second) {
    row.limit_tokens_per_second = by_memory;
    row.limited_by = Limit::kMemory;
  }
  return row;
}

}  // namespace

std::vector<std::int32_t> sample_tokens(std::int64_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::int32_t>((i * 7919 + 13) % vocabulary));
  }
  return tokens;
}

Speed speed_of(const std::vector<double>& seconds, std::int64_t tokens) {
  std::vector<float> speeds;
  for (const double time : seconds) {
    speeds.push_back(static_cast<float>(static_cast<double>(tokens) / time));
  }
  std::sort(speeds.begin(), speeds.end());
  return {quantile(speeds, 0.5), quantile(speeds, 0.25), quantile(speeds, 0.75)};
}

bool is_steady(const ThroughputRow& row) {
  const Speed& speed = row.tokens_per_second;
  return speed.high - speed.low <= kMostSpread * speed.median &&
         row.other_work.waited_share.value_or(0) <= kMostWaited;
}

bool stays_in_cache(std::int64_t step_bytes, std::int64_t cache_bytes) {
  return step_bytes <= 2 * cache_bytes;
}

std::vector<ThroughputRow> measure_throughput(Runner& runner, const models::Network& network,
                                              const ThroughputOptions& options,
                                              const engine::DeviceLimits& limits,
                                              core::ProgressSink& progress) {
  const std::int64_t longest =
      std::max(options.prefill_tokens, options.depth + options.decode_tokens + 1);
  core::require(longest <= network.config.max_positions, core::ErrorKind::kUsage,
                "{} tokens were asked for, the model was made for {}", longest,
                network.config.max_positions);
  core::require(options.repeats >= 1, core::ErrorKind::kUsage, "bench needs at least one repeat");
  for (const std::int64_t batch : options.batches) {
    core::require(batch >= 1 && batch <= 1024, core::ErrorKind::kUsage,
                  "batch is {}, must be 1 to 1024", batch);
  }
  const std::vector<std::int32_t> tokens = sample_tokens(longest, network.config.vocabulary);
  std::vector<ThroughputRow> rows;
  progress.begin("bench", std::ssize(options.batches) + 1);
  if (options.prefill_tokens > 0) {
    const auto prompt = std::span(tokens).first(static_cast<std::size_t>(options.prefill_tokens));
    rows.push_back(prefill_row(runner, network, options, limits, prompt));
  }
  std::int64_t done = 1;
  progress.update(done, "");
  for (const std::int64_t batch : options.batches) {
    if (options.decode_tokens > 0) {
      rows.push_back(decode_row(runner, network, options, limits, tokens, batch));
    }
    progress.update(++done, fmt::format("batch {}", batch));
  }
  progress.end();
  for (ThroughputRow& row : rows) {
    row.share_of_limit = row.tokens_per_second.median / row.limit_tokens_per_second;
  }
  return rows;
}

}  // namespace nibble::eval
