#include "ops/cpu/sparse/rows/row_streams.h"
#include "ops/cpu/sparse/sparse_kernel.h"
#include "ops/cpu/sparse/tiles/tile_units.h"

namespace nibble::ops::cpu {
namespace {

void run(const SparseWeight& w, const SparseInput& x, std::int64_t begin, std::int64_t end,
         float* y, std::int64_t ldy) {
  return w.rows == 1 ? run_rows_scalar(w, x, begin, end, y, ldy)
                     : run_tiles_scalar(w, x, begin, end, y, ldy);
}

}  // namespace

SparseKernel scalar_sparse_kernel() {
  return {"scalar", "nothing", [] { return true; }, run};
}

}  // namespace nibble::ops::cpu
