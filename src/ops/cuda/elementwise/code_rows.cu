#include <cuda_fp16.h>

#include "ops/cuda/elementwise/code_rows.h"
#include "ops/cuda/elementwise/warp_rows.cuh"

namespace nibble::ops::cuda {
namespace {

struct Arguments {
  const uint4* x = nullptr;
  RowCodes codes;
  std::int32_t* saturated = nullptr;
  int rows = 0;
};

/// The larger magnitudes of two float16 each; NaN once one of them is.
__device__ __forceinline__ __half2 larger(__half2 magnitude, std::uint32_t halves) {
  return __hmax2_nan(magnitude, __habs2(*reinterpret_cast<const __half2*>(&halves)));
}

template <int V>
__global__ void __launch_bounds__(kWarpRowThreads) code_rows_kernel(Arguments a) {
  launch_dependents();
  wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  each_warp_row(a.rows, [&](int row) {
    const uint4* x = a.x + static_cast<std::int64_t>(row) * (V * kWarpColumns / 8) + lane;
    uint4 words[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
      words[v] = x[32 * v];
    }
    __half2 both = {};
#pragma unroll
    for (int v = 0; v < V; ++v) {
      both = larger(larger(larger(larger(both, words[v].x), words[v].y), words[v].z), words[v].w);
    }
    Spread spread;
    spread.magnitude =
        __float_as_int(__half2float(__hmax_nan(__low2half(both), __high2half(both)))) & kAbsMask;
    if (a.saturated != nullptr &&
        has_saturated(*reinterpret_cast<const std::uint32_t*>(&both), 0)) {
      *a.saturated = 1;
    }
    spread.magnitude = __reduce_max_sync(kAllLanes, spread.magnitude);
    put_codes<V>(a.codes, row, spread, [&](int v) { return floats_of(words[v]); });
  });
}

using Kernel = void (*)(Arguments);

// Of a warp's columns each, null where there is none.
Kernel kernel_of(std::int64_t columns) {
  switch (columns / kWarpColumns) {
    case 1:
      return code_rows_kernel<1>;
    case 2:
      return code_rows_kernel<2>;
    case 3:
      return code_rows_kernel<3>;
    case 4:
      return code_rows_kernel<4>;
    case 6:
      return code_rows_kernel<6>;
    case 8:
      return code_rows_kernel<8>;
    case 12:
      return code_rows_kernel<12>;
    case 16:
      return code_rows_kernel<16>;
    default:
      return nullptr;
  }
}

}  // namespace

bool serves_code_rows(const MatrixView& x, const InputTarget& target, std::int64_t m,
                      std::int64_t columns) {
  return m >= kFewestWarpRows && x.half && takes_row_codes(target) && is_aligned(x.data) &&
         is_aligned(target.codes) && columns % kWarpColumns == 0 && kernel_of(columns) != nullptr;
}

void code_rows(const MatrixView& x, const InputTarget& target, std::int64_t m, std::int64_t columns,
               cudaStream_t stream) {
  const Arguments arguments{static_cast<const uint4*>(x.data), row_codes(target), x.saturated,
                            static_cast<int>(m)};
  launch_warp_rows(kernel_of(columns), arguments, m, stream);
}

}  // namespace nibble::ops::cuda
