#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"
#include "ops/cpu/cpu_ops.h"

namespace nibble::engine {

/// A sequence's KV cache inside a runner.
using SequenceId = std::int64_t;

/// `tokens` continue the sequence.
struct Slice {
  SequenceId sequence = 0;
  std::span<const std::int32_t> tokens;
};

/// A text that stands alone, of which the logits are wanted from token `first_row` on.
struct ScoredText {
  std::span<const std::int32_t> tokens;
  std::int64_t first_row = 0;
};

/// Logits of some rows, row-major [rows, vocabulary], valid until the next call.
struct LogitsView {
  std::span<const float> values;
  std::int64_t rows = 0;
  std::int64_t vocabulary = 0;
  std::span<const float> row(std::int64_t i) const {
    return values.subspan(static_cast<std::size_t>(i * vocabulary),
                          static_cast<std::size_t>(vocabulary));
  }
};

/// Takes rows of logits as they are computed; `first_row` is the number of the first of them.
using ConsumeLogits = std::function<void(std::int64_t first_row, const LogitsView& logits)>;

/// What a device can do at the most, as measured.
struct DeviceLimits {
  std::string name;                     // "cpu, 2 threads", "NVIDIA H200"
  double read_bytes_per_second = 0;     // streaming memory that is in no cache
  double multiply_adds_per_second = 0;  // 8-bit products into 32-bit sums, from registers
};

/// A model made ready on one device. The forward pass is models/forward.h over that device's
/// operators; this interface hides which. One caller at a time.
class Runner {
 public:
  virtual ~Runner() = default;

  /// A sequence with room for `capacity` tokens. Throws kOutOfMemory.
  virtual SequenceId open_sequence(std::int64_t capacity) = 0;
  virtual void close_sequence(SequenceId id) = 0;
  virtual std::int64_t length(SequenceId id) const = 0;

  /// Continues sequences; one row of logits for each slice, of its last token. Throws kFailed when
  /// a sequence is full or a token id lies outside the vocabulary.
  virtual LogitsView forward(std::span<const Slice> slices) = 0;

  /// Computes texts together, none of which sees another, and hands over the wanted rows of their
  /// logits in chunks. Rows are counted over all texts, wanted ones only. Keys and values are
  /// rounded as the KV cache would; nothing is kept.
  virtual void score_texts(std::span<const ScoredText> texts, const ConsumeLogits& consume) = 0;

  /// Logits of every token of one text.
  void score(std::span<const std::int32_t> tokens, const ConsumeLogits& consume) {
    const ScoredText text{tokens, 0};
    score_texts({&text, 1}, consume);
  }

  /// Threads of the host, for work on logits.
  virtual core::ThreadPool& pool() = 0;

  /// Measures what limits the runner's device; takes less than a second.
  virtual DeviceLimits measure_limits() = 0;

  /// Bytes that one decode step reads at batch 1: all weights once, except embedding rows.
  virtual std::int64_t bytes_per_token() const = 0;

  /// Bytes of the KV cache of a sequence of `tokens`.
  virtual std::int64_t kv_bytes(std::int64_t tokens) const = 0;

  /// The most memory that was held at a time: weights as the kernels use them, KV caches,
  /// activations.
  virtual std::int64_t peak_bytes() const = 0;
};

enum class Device { kCpu, kCuda };

/// "cpu" or "cuda"; throws kUsage for anything else.
Device parse_device(std::string_view text);

struct RunnerOptions {
  Device device = Device::kCpu;
  ops::cpu::CpuOptions cpu;  // on a GPU: of the work that stays on the host
  ops::cpu::KvTypes kv_types;
  std::filesystem::path tile_file;  // layouts to map (tile_file.h); empty: they are made
};

/// The runner of options.device. Throws kUsage where that device cannot be used, or does not run
/// the model; kOutOfMemory; and as TileFile::open().
std::unique_ptr<Runner> make_runner(std::shared_ptr<const models::Model> model,
                                    const RunnerOptions& options);

std::unique_ptr<Runner> make_cpu_runner(std::shared_ptr<const models::Model> model,
                                        const RunnerOptions& options);
std::unique_ptr<Runner> make_cuda_runner(std::shared_ptr<const models::Model> model,
                                         const RunnerOptions& options);

/// Bytes that one decode step reads at batch 1: all weights once, except embedding rows.
std::int64_t weight_bytes_per_token(const models::Decoder& decoder);

}  // namespace nibble::engine
