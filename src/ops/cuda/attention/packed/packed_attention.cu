#include "ops/cuda/attention/packed/half_product.cuh"
#include "ops/cuda/attention/packed/packed_kernel.cuh"

namespace nibble::ops::cuda {
namespace {

void run(const PackedAttention& shape, const packed::Arguments& arguments, std::int64_t tiles,
         cudaStream_t stream) {
  switch (shape.head_dim) {
    case 16:
      return packed::run<packed::HalfProduct<16>>(arguments, shape.tile_rows, tiles, stream);
    case 32:
      return packed::run<packed::HalfProduct<32>>(arguments, shape.tile_rows, tiles, stream);
    case 64:
      return packed::run<packed::HalfProduct<64>>(arguments, shape.tile_rows, tiles, stream);
    case 80:
      return packed::run<packed::HalfProduct<80>>(arguments, shape.tile_rows, tiles, stream);
    case 96:
      return packed::run<packed::HalfProduct<96>>(arguments, shape.tile_rows, tiles, stream);
    case 128:
      return packed::run<packed::HalfProduct<128>>(arguments, shape.tile_rows, tiles, stream);
    default:
      return packed::attend_plain(arguments, tiles, stream);
  }
}

}  // namespace

void packed_attention(const PackedAttention& shape, const __half* qkv, std::int64_t stride,
                      const PackedTile* tiles, std::int64_t count, __half* y, cudaStream_t stream) {
  const packed::Arguments arguments = packed::arguments_of(shape, qkv, stride, tiles, y);
  if (count > 0) {
    run(shape, arguments, count, stream);
  }
}

}  // namespace nibble::ops::cuda
