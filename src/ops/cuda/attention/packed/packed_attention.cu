#include "ops/cuda/attention/packed/packed_kernel.cuh"

namespace nibble::ops::cuda {
namespace {

constexpr float kLog2E = 1.44269504088896341f;

packed::Arguments arguments_of(const PackedAttention& shape, const __half* qkv, std::int64_t stride,
                               const PackedTile* tiles, __half* y) {
  const std::int64_t keys_at = shape.heads * shape.head_dim;
  return {qkv,
          stride,
          tiles,
          y,
          static_cast<int>(shape.heads),
          static_cast<int>(shape.heads / shape.kv_heads),
          static_cast<int>(keys_at),
          static_cast<int>(keys_at + shape.kv_heads * shape.head_dim),
          static_cast<int>(shape.head_dim),
          shape.scale * kLog2E};
}

template <int D, int kWarps>
void run(const packed::Arguments& arguments, std::int64_t blocks, cudaStream_t stream) {
  using Block = packed::Block<D, kWarps>;
  const auto kernel = packed::attend_kernel<D, kWarps>;
  allow_shared_bytes(kernel, Block::kSharedBytes);
  launch_dependent(kernel, dim3(static_cast<unsigned>(blocks)), dim3(Block::kThreads),
                   Block::kSharedBytes, stream, arguments);
}

template <int D>
void run(const packed::Arguments& arguments, std::int64_t tile_rows, std::int64_t blocks,
         cudaStream_t stream) {
  switch (tile_rows) {
    case 32:
      return run<D, 2>(arguments, blocks, stream);
    case 64:
      return run<D, 4>(arguments, blocks, stream);
    default:
      return run<D, 8>(arguments, blocks, stream);
  }
}

void run(const PackedAttention& shape, const packed::Arguments& arguments, std::int64_t blocks,
         cudaStream_t stream) {
  switch (shape.head_dim) {
    case 16:
      return run<16>(arguments, shape.tile_rows, blocks, stream);
    case 32:
      return run<32>(arguments, shape.tile_rows, blocks, stream);
    case 64:
      return run<64>(arguments, shape.tile_rows, blocks, stream);
    case 80:
      return run<80>(arguments, shape.tile_rows, blocks, stream);
    case 96:
      return run<96>(arguments, shape.tile_rows, blocks, stream);
    case 128:
      return run<128>(arguments, shape.tile_rows, blocks, stream);
    default:
      return packed::attend_plain(arguments, blocks, stream);
  }
}

}  // namespace

void packed_attention(const PackedAttention& shape, const __half* qkv, std::int64_t stride,
                      const PackedTile* tiles, std::int64_t count, __half* y, cudaStream_t stream) {
  packed::check(shape, qkv, stride, y);
  if (count > 0) {
    run(shape, arguments_of(shape, qkv, stride, tiles, y), count * shape.heads, stream);
  }
}

}  // namespace nibble::ops::cuda
