#include "ops/cpu/cpu_features.h"
#include "ops/cpu/sparse/instruction_sets/vectors512.h"
#include "ops/cpu/sparse/rows/row_loops.h"
#include "ops/cpu/sparse/rows/token_lanes.h"
#include "ops/cpu/sparse/tiles/tile_loops.h"

namespace nibble::ops::cpu {
namespace {

void run(const SparseWeight& w, const SparseInput& x, std::int64_t begin, std::int64_t end,
         float* y, std::int64_t ldy) {
  return w.rows == 1 ? run_rows<Vectors512>(w, x, begin, end, y, ldy)
                     : run_tiles<Vectors512>(w, x, begin, end, y, ldy);
}

}  // namespace

SparseKernel avx512vnni_sparse_kernel() {
  return {"avx512vnni",
          "AVX512-VNNI (with AVX512 F, BW, DQ, VL)",
          [] { return cpu_features().avx512vnni; },
          run,
          Vectors512::kTokens,
          run_token_lanes_avx512vnni};
}

}  // namespace nibble::ops::cpu
