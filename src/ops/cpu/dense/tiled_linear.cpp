#include "ops/cpu/dense/tiled_linear.h"

#include <algorithm>
#include <cassert>

#include "core/float16.h"
#include "core/tensor.h"
#include "ops/cpu/tiles/all_finite.h"
#include "ops/cpu/vector/scratch.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace {

using core::DType;

bool is_f16(const formats::PackedWeight& weight) {
  return weight.dense.dtype() == DType::kF16;
}

constexpr std::int64_t kTaskStrips = 8;      // that read the digits of a block, at most
constexpr std::int64_t kTasksPerWorker = 2;  // where there are strips enough

std::int64_t divide_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit;
}

class Layer {
 public:
  Layer(const FloatTiles& tiles, const formats::PackedWeight& weight)
      : tiles_(tiles), weight_(weight), is_f16_(is_f16(weight)) {}

  void multiply(const FloatDigits& x, float* y, std::int64_t ldy, core::ThreadPool& pool) const {
    const std::int64_t strips = divide_up(weight_.n, kStripRows);
    const std::int64_t most =
        x.m() <= x.columns()
            ? 1  // weights are read once: from one end to the other
            : std::clamp<std::int64_t>(strips * x.blocks() / (kTasksPerWorker * pool.size()), 1,
                                       kTaskStrips);
    const std::int64_t chunks = divide_up(strips, most);
    pool.parallel_for(x.blocks() * chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      thread_local Scratch scratch;
      for (std::int64_t at = begin; at < end; ++at) {
        const std::int64_t block = at / chunks;
        const std::int64_t token = x.first_token(block);
        FloatTileTask task;
        task.weights =
            static_cast<const std::uint16_t*>(static_cast<const void*>(weight_.dense.raw()));
        task.is_f16 = is_f16_;
        task.n = weight_.n;
        task.k = weight_.k;
        task.steps = x.steps();
        task.first_strip = at % chunks * most;
        task.strips = std::min(most, strips - task.first_strip);
        task.digits = x.block(block);
        task.tokens = x.tokens_of(block);
        task.columns = x.columns();
        task.groups = x.groups_of(block);
        task.has_panels = x.in_panels();
        task.sums = scratch.floats(task.strips * task.groups * kGroupSums);
        task.y = y + token * ldy;
        task.ldy = ldy;
        tiles_.multiply(task);
        repair(x.x() + token * x.ldx(), x.ldx(), task);
      }
    });
  }

 private:
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
};

}  // namespace

bool has_float_tiles(DType type) {
  return type == DType::kF16 || type == DType::kBF16;
}

void tiled_linear(const FloatTiles& tiles, const FloatDigits& x,
                  const formats::PackedWeight& weight, float* y, std::int64_t ldy,
                  core::ThreadPool& pool) {
  assert(x.k() == weight.k && x.is_f16() == is_f16(weight));
  Layer(tiles, weight).multiply(x, y, ldy, pool);
}

void tiled_linear(const FloatTiles& tiles, const float* x, std::int64_t m, std::int64_t ldx,
                  const formats::PackedWeight& weight, float* y, std::int64_t ldy,
                  core::ThreadPool& pool) {
  thread_local FloatDigits digits;  // of the calling thread; the workers read it
  for (std::int64_t row = 0; row < m; row += FloatDigits::kMostTokens) {
    digits.split(tiles, x + row * ldx, std::min(FloatDigits::kMostTokens, m - row), ldx, weight.k,
                 is_f16(weight), pool);
    tiled_linear(tiles, digits, weight, y + row * ldy, ldy, pool);
  }
}

}  // namespace nibble::ops::cpu
