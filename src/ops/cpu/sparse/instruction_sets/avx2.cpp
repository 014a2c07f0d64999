#include "ops/cpu/cpu_features.h"
#include "ops/cpu/sparse/instruction_sets/vectors256.h"
#include "ops/cpu/sparse/rows/row_loops.h"
#include "ops/cpu/sparse/tiles/tile_loops.h"

namespace nibble::ops::cpu {
namespace {

void run(const SparseWeight& w, const SparseInput& x, std::int64_t begin, std::int64_t end,
         float* y, std::int64_t ldy) {
  return w.rows == 1 ? run_rows<Vectors256>(w, x, begin, end, y, ldy)
                     : run_tiles<Vectors256>(w, x, begin, end, y, ldy);
}

}  // namespace

SparseKernel avx2_sparse_kernel() {
  return {"avx2", "AVX2 with FMA and F16C", [] { return cpu_features().avx2; }, run,
          Vectors256::kTokens};
}

}  // namespace nibble::ops::cpu
