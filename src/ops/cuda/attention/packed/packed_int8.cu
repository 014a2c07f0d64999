#include "ops/cuda/attention/packed/int8_product.cuh"
#include "ops/cuda/attention/packed/packed_kernel.cuh"

namespace nibble::ops::cuda {

void packed_attention_int8(const PackedAttention& shape, const __half* qkv, std::int64_t stride,
                           const PackedTile* tiles, std::int64_t count, __half* y,
                           cudaStream_t stream) {
  using packed::Int8Product;
  packed::check_int8(shape);
  const packed::Arguments arguments = packed::arguments_of(shape, qkv, stride, tiles, y);
  if (count == 0) {
    return;
  }
  switch (shape.head_dim) {
    case 32:
      return packed::run<Int8Product<32>>(arguments, shape.tile_rows, count, stream);
    case 64:
      return packed::run<Int8Product<64>>(arguments, shape.tile_rows, count, stream);
    case 96:
      return packed::run<Int8Product<96>>(arguments, shape.tile_rows, count, stream);
    default:
      return packed::run<Int8Product<128>>(arguments, shape.tile_rows, count, stream);
  }
}

}  // namespace nibble::ops::cuda
