#include "ops/cuda/divided/pair_rows.h"
#include "ops/cuda/divided/pair_source.cuh"
#include "ops/cuda/elementwise/row_kernel.cuh"

namespace nibble::ops::cuda {
namespace {

/// The same rows on two GPUs, behind the first ones.
template <typename Sink>
struct BothSink {
  Sink here;
  Sink there;
  std::int64_t first;
  static constexpr bool kIntegers = Sink::kIntegers;
  static constexpr bool kByRowOnly = Sink::kByRowOnly;

  __host__ __device__ bool by_row() const { return here.by_row(); }
  __device__ bool symmetric() const { return here.symmetric(); }
  __device__ void widen_by(Spread& spread, float4 value) const { here.widen_by(spread, value); }
  __device__ Coder coder(const Spread& spread) const { return here.coder(spread); }
  __device__ void store_codes(std::int64_t row, int column, float4 value,
                              const Coder& coder) const {
    here.store_codes(first + row, column, value, coder);
    there.store_codes(first + row, column, value, coder);
  }
  __device__ void store_scale(std::int64_t row, const Coder& coder) const {
    here.store_scale(first + row, coder);
    there.store_scale(first + row, coder);
  }
  __device__ void store(std::int64_t row, int column, float4 value) const {
    here.store(first + row, column, value);
    there.store(first + row, column, value);
  }
};

}  // namespace

void add_begun_norm_rows(const PairSum& sum, float* x, const NormWeights& norm,
                         const InputTarget& here, const InputTarget& there, const TokenRange& rows,
                         std::int64_t columns, cudaStream_t stream) {
  check_weights(norm);
  const auto both = [&]<typename Sink>(const Sink& sink) {
    return BothSink<Sink>{sink, Sink::of(there, static_cast<int>(columns)), rows.begin};
  };
  run_input_into(InputSinks(), pair_source(sum, x, rows.begin, columns), norm, here, both,
                 rows.end - rows.begin, columns, stream);
}

}  // namespace nibble::ops::cuda
