#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

/// Bidirectional attention over packed rows: the rows of all texts of a batch follow one another
/// without padding, and each sees the rows of its own text, all of them. What encoders need.
namespace nibble::ops::cuda {

/// Query rows of a text for a block: rows [row, row + rows) of the batch see rows [first, first +
/// length).
struct alignas(16) PackedTile {
  std::int32_t row = 0;
  std::int32_t rows = 0;    // at most the plan's tile_rows; 0: nothing to do
  std::int32_t first = 0;   // of the text
  std::int32_t length = 0;  // rows of the text
};

inline constexpr std::int64_t kPackedTileRows = 64;

struct PackedAttention {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // query head h reads KV head h / (heads / kv_heads)
  std::int64_t head_dim = 0;
  float scale = 1.0f;                        // of scores, positive
  std::int64_t tile_rows = kPackedTileRows;  // 32, 64 or 128: the most that a tile has
  std::int32_t* saturated = nullptr;  // gets 1 where qkv is +-65504 (elementwise/matrix_view.h)
};

/// y = softmax(scale q k^T) v inside each text. qkv [m, stride] float16 has in each row q | k | v
/// of all heads; y [m, heads head_dim] float16. Sums and the softmax are float32, its weights are
/// rounded to float16 for the product with v. `count` tiles lie on the device; empty ones cost a
/// launch of blocks alone, so that a recorded graph serves fewer rows. A row's bits depend on its
/// text alone: neither on other texts nor on tile_rows.
///
/// The kernel reads tiles while kernels before it may still run: what wrote them must have ended,
/// as it has where a step begins with StepUpload. Nothing waits or allocates. Throws kUsage for
/// shapes that are refused: heads of more than kMaxHeadDim elements, heads that kv_heads do not
/// divide, a scale that is not positive; rows or pointers that do not lie at multiples of 16 bytes
/// where packed_attention_runs().
void packed_attention(const PackedAttention& shape, const __half* qkv, std::int64_t stride,
                      const PackedTile* tiles, std::int64_t count, __half* y, cudaStream_t stream);

/// Whether tensor cores serve: heads of 16, 32, 64, 80, 96 or 128 elements. A plain kernel serves
/// the others.
bool packed_attention_runs(const PackedAttention& shape);

/// The same with scores that are products of 8-bit integers: each query and key of a head is
/// rounded to integers of [-127, 127] and a scale of its own, by the kernel. Values and weights
/// stay float16. Throws kUsage also where packed_attention_int8_runs() says no.
void packed_attention_int8(const PackedAttention& shape, const __half* qkv, std::int64_t stride,
                           const PackedTile* tiles, std::int64_t count, __half* y,
                           cudaStream_t stream);

/// For heads of 32, 64, 96 or 128 elements.
bool packed_attention_int8_runs(const PackedAttention& shape);

/// The tiles of texts that begin at `firsts`, in order; the last ends at `rows`. Empty texts have
/// none. Padded with empty tiles up to `count`. Throws kUsage where the texts are not in order.
std::vector<PackedTile> packed_tiles(std::span<const std::int32_t> firsts, std::int64_t rows,
                                     std::int64_t count = 0,
                                     std::int64_t tile_rows = kPackedTileRows);

}  // namespace nibble::ops::cuda
