#include "ops/cuda/sparse/sparse_few.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "ops/cuda/sparse/sparse_launch.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kMostNormedTokens = 4;  // whose norms shared memory has room for

constexpr int kRingBytes = 96 * 1024;  // of all warps, which leaves room for the next kernel's

SparseMemory memory_of(const SparseView& weight, int digits, int tokens, int stages) {
  return {
      1 << weight.warps_log2, stages, digits, tokens, weight.k / static_cast<int>(kSparseInputs),
      weight.most_rows};
}

int most_stages(const SparseView& weight) {
  const int unit = static_cast<int>(kSparseUnitBytes) << weight.warps_log2;
  return std::min(kRingBytes / unit, kMostSparseStages);
}

/// Tokens of the kernel that takes m: 1, 2, 3, 4, 6 or 8.
int room_of(int m) {
  return m <= 4 ? m : m <= 6 ? 6 : kMostSparseTokens;
}

int chunks_of(std::int64_t k) {
  return static_cast<int>((k + kInputPadding - 1) / kInputPadding);
}

}  // namespace

int max_sparse_tokens(const SparseView& weight, int digits) {
  int tokens = kMostSparseTokens;
  while (tokens > 0 && memory_of(weight, digits, tokens, 1).norms() > sparse_shared_bytes()) {
    tokens /= 2;
  }
  return tokens;
}

std::int64_t max_normed_sparse_rows(std::int64_t k, NormKind kind) {
  return kind == NormKind::kRms ? std::min(kMostNormedTokens, max_float_chunks() / chunks_of(k))
                                : 0;
}

void sparse_few(const SparseFewProblem& problem, cudaStream_t stream) {
  const SparseView& weight = *problem.weight;
  const bool norms = problem.rows.x != nullptr;
  const int digits = problem.x.digits;
  core::require(problem.m >= 1 && problem.m <= max_sparse_tokens(weight, digits),
                core::ErrorKind::kFailed, "{} tokens for a kernel of at most {}", problem.m,
                max_sparse_tokens(weight, digits));
  SparseArguments a;
  a.weight = weight;
  a.chunks = chunks_of(weight.k);
  if (norms) {
    const NormWeights& norm = *problem.rows.norm;
    core::require(problem.m <= max_normed_sparse_rows(weight.k, norm.kind),
                  core::ErrorKind::kFailed, "no kernel makes the norms of {} rows of {}", problem.m,
                  weight.k);
    a.rows = {problem.rows.x, norm.weight, norm.eps, weight.k, problem.rows.clip};
  }
  a.codes = problem.x.codes;
  a.scales = problem.x.scales;
  a.scales_each =
      problem.scale_step == 0 ? 1 : a.chunks * static_cast<int>(kInputPadding / problem.scale_step);
  a.step_log2 =
      problem.scale_step == 0
          ? kIndexBits
          : std::countr_zero(static_cast<std::uint64_t>(problem.scale_step / kSparseInputs));
  a.y = problem.y;
  a.bias = problem.bias;
  a.m = static_cast<int>(problem.m);
  a.ldy = static_cast<int>(problem.ldy);
  a.add = problem.add ? 1 : 0;
  const int tokens = room_of(a.m);
  const int norm_bytes = norms ? normed_bytes(a) : 0;
  a.stages = most_stages(weight);
  while (a.stages > 1 &&
         memory_of(weight, digits, tokens, a.stages).norms() + norm_bytes > sparse_shared_bytes()) {
    --a.stages;
  }
  launch_sparse_few(a, digits, tokens, stream);
}

}  // namespace nibble::ops::cuda
