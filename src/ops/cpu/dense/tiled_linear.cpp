#include "ops/cpu/dense/tiled_linear.h"

#include <algorithm>
#include <bit>

#include "core/float16.h"
#include "core/tensor.h"
#include "ops/cpu/vector/scratch.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace {

using core::DType;

constexpr std::int64_t kBlockTokens = 256;   // their digits of a panel fill 3/4 MiB of the L2 cache
constexpr std::int64_t kBlocksTogether = 2;  // whose digits exist at a time
constexpr std::int64_t kTaskStrips = 8;      // that read those from there, at most
constexpr std::int64_t kTasksPerWorker = 2;  // where there are strips enough
constexpr std::int64_t kSplitNumbers = 8192;  // that one worker splits at a time, at least

std::int64_t divide_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit;
}

/// The tokens that pass all weights together, in blocks.
struct Tokens {
  const float* x = nullptr;
  std::int64_t ldx = 0;
  std::int64_t count = 0;
  float* y = nullptr;
  std::int64_t ldy = 0;

  bool in_vectors = false;   // not in tile registers; one block of one group
  bool in_panels = true;     // the weights for tile registers
  std::int64_t columns = 0;  // of a group
  std::int64_t blocks = 0;
  std::int64_t block_groups = 0;  // of every block but the last
  const std::uint32_t* digits = nullptr;

  std::int64_t block_tokens() const { return block_groups * columns; }
  std::int64_t tokens_of(std::int64_t block) const {
    return std::min(block_tokens(), count - block * block_tokens());
  }
};

class Layer {
 public:
  Layer(const FloatTiles& tiles, const formats::PackedWeight& weight)
      : tiles_(tiles),
        weight_(weight),
        is_f16_(weight.dense.dtype() == DType::kF16),
        steps_(divide_up(weight.k, kStepInputs)),
        panel_steps_(panel_steps(is_f16_)) {}

  void multiply(Tokens& tokens, core::ThreadPool& pool) const {
    divide(tokens);
    thread_local Scratch scratch;  // of the calling thread; the workers read it
    auto* const digits = reinterpret_cast<std::uint32_t*>(
        scratch.floats(tokens.blocks * tokens.block_groups * group_words(tokens)));
    tokens.digits = digits;
    split(tokens, digits, pool);
    multiply_digits(tokens, pool);
  }

 private:
  void divide(Tokens& tokens) const {
    tokens.in_vectors = tiles_.vector_tokens.include(tokens.count, is_f16_);
    tokens.in_panels = !tiles_.unpanelled_tokens.include(tokens.count, is_f16_);
    tokens.columns = std::min(tokens.count, kGroupTokens);
    const std::int64_t groups = divide_up(tokens.count, tokens.columns);
    tokens.blocks = divide_up(tokens.count, kBlockTokens);
    tokens.block_groups = divide_up(groups, tokens.blocks);
    tokens.blocks = divide_up(groups, tokens.block_groups);
  }

  static std::int64_t step_words(const Tokens& tokens) {
    const std::int64_t words = kInputDigits * kStepPairs * tokens.columns;
    return tokens.in_vectors ? 2 * words : words;
  }
  std::int64_t group_words(const Tokens& tokens) const { return steps_ * step_words(tokens); }

  /// A unit of work is one panel of one group.
  void split(const Tokens& tokens, std::uint32_t* digits, core::ThreadPool& pool) const {
    const std::int64_t panels = divide_up(steps_, panel_steps_);
    const std::int64_t groups = divide_up(tokens.count, tokens.columns);
    const std::int64_t grain =
        divide_up(kSplitNumbers, tokens.columns * panel_steps_ * kStepInputs);
    pool.parallel_for(groups * panels, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t group = unit / panels;
        const std::int64_t first_step = unit % panels * panel_steps_;
        const std::int64_t block = group / tokens.block_groups;
        const std::int64_t in_block =
            divide_up(tokens.tokens_of(block), tokens.columns);  // groups of the block
        TokensToSplit task;
        task.x = tokens.x + group * tokens.columns * tokens.ldx;
        task.ldx = tokens.ldx;
        task.tokens = std::min(tokens.columns, tokens.count - group * tokens.columns);
        task.columns = tokens.columns;
        task.k = weight_.k;
        task.first_step = first_step;
        task.steps = std::min(panel_steps_, steps_ - first_step);
        task.digits =
            digits + block * tokens.block_groups * group_words(tokens) +
            (first_step * in_block + group % tokens.block_groups * task.steps) * step_words(tokens);
        tokens.in_vectors ? tiles_.split_few(task) : tiles_.split(task);
      }
    });
  }

  void multiply_digits(const Tokens& tokens, core::ThreadPool& pool) const {
    const std::int64_t strips = divide_up(weight_.n, kStripRows);
    const std::int64_t most =
        tokens.count <= tokens.columns
            ? 1  // weights are read once: from one end to the other
            : std::clamp<std::int64_t>(strips * tokens.blocks / (kTasksPerWorker * pool.size()), 1,
                                       kTaskStrips);
    const std::int64_t chunks = divide_up(strips, most);
    pool.parallel_for(tokens.blocks * chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      thread_local Scratch scratch;
      for (std::int64_t at = begin; at < end; ++at) {
        FloatTileTask task;
        task.weights =
            static_cast<const std::uint16_t*>(static_cast<const void*>(weight_.dense.raw()));
        task.is_f16 = is_f16_;
        task.n = weight_.n;
        task.k = weight_.k;
        task.steps = steps_;
        task.first_strip = at % chunks * most;
        task.strips = std::min(most, strips - task.first_strip);
        const std::int64_t block = at / chunks;
        task.digits = tokens.digits + block * tokens.block_groups * group_words(tokens);
        task.tokens = tokens.tokens_of(block);
        task.columns = tokens.columns;
        task.groups = divide_up(task.tokens, task.columns);
        task.has_panels = tokens.in_panels;
        task.sums = scratch.floats(task.strips * task.groups * kGroupSums);
        const std::int64_t token = block * tokens.block_tokens();
        task.y = tokens.y + token * tokens.ldy;
        task.ldy = tokens.ldy;
        tokens.in_vectors ? tiles_.multiply_few(task) : tiles_.multiply(task);
        repair(tokens.x + token * tokens.ldx, tokens.ldx, task);
      }
    });
  }

  /// Makes numbers of a task again that are not finite. `x`: of its first token.
  void repair(const float* x, std::int64_t ldx, const FloatTileTask& task) const {
    const std::int64_t begin = task.first_strip * kStripRows;
    const std::int64_t end = std::min(task.n, begin + task.strips * kStripRows);
    for (std::int64_t i = 0; i < task.tokens; ++i) {
      float* const y = task.y + i * task.ldy;
      if (all_finite(y + begin, end - begin)) {
        continue;
      }
      for (std::int64_t j = begin; j < end; ++j) {
        if (!all_finite(y + j, 1)) {
          y[j] = dot(x + i * ldx, j);
        }
      }
    }
  }

  static bool all_finite(const float* values, std::int64_t count) {
    std::int32_t largest = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      largest = std::max(largest, std::bit_cast<std::int32_t>(values[i]) & 0x7fffffff);
    }
    return largest < 0x7f800000;
  }

  float dot(const float* x, std::int64_t row) const {
    const VectorKernels& kernels = vector_kernels();
    const std::int64_t k = weight_.k;
    float sum = 0;
    if (is_f16_) {
      kernels.dot_f16(x, k, 1, weight_.dense.data<core::Fp16>().data() + row * k, k, &sum);
    } else {
      kernels.dot_bf16(x, k, 1, weight_.dense.data<core::Bf16>().data() + row * k, k, &sum);
    }
    return sum;
  }

  const FloatTiles& tiles_;
  const formats::PackedWeight& weight_;
  bool is_f16_;
  std::int64_t steps_;
  std::int64_t panel_steps_;
};

}  // namespace

bool has_float_tiles(DType type) {
  return type == DType::kF16 || type == DType::kBF16;
}

void tiled_linear(const FloatTiles& tiles, const float* x, std::int64_t m, std::int64_t ldx,
                  const formats::PackedWeight& weight, float* y, std::int64_t ldy,
                  core::ThreadPool& pool) {
  const Layer layer(tiles, weight);
  for (std::int64_t row = 0; row < m; row += kBlocksTogether * kBlockTokens) {
    Tokens tokens;
    tokens.x = x + row * ldx;
    tokens.ldx = ldx;
    tokens.count = std::min(kBlocksTogether * kBlockTokens, m - row);
    tokens.y = y + row * ldy;
    tokens.ldy = ldy;
    layer.multiply(tokens, pool);
  }
}

}  // namespace nibble::ops::cpu
