#pragma once

#include <cstdint>

#include "ops/kv_pages.h"
#include "ops/kv_types.h"

/// How keys and values lie in pages on the device.
namespace nibble::ops::cuda {

/// Tokens of a page are the rows of a matrix instruction's left operand.
using ops::kPageTokens;

constexpr bool is_integer(KvType type) {
  return type == KvType::kInt8 || type == KvType::kInt4;
}

constexpr int bits_of(KvType type) {
  switch (type) {
    case KvType::kF32:
      return 32;
    case KvType::kF16:
      return 16;
    case KvType::kInt8:
    case KvType::kFp8:
      return 8;
    case KvType::kInt4:
      return 4;
  }
  return 0;
}

/// A block holds one KV head of one page: keys, values, then, where either is an integer, ranges.
/// Blocks follow one another by head, page and layer. There are two orders of elements:
///
/// plain       keys [16, head_dim] and values [16, head_dim] as in cpu::KvPool.
/// fragments   (head_dim 64 or 128, no float32) as tensor cores read them: 16 x 16 tiles A_i, one
///             for each 16 dims, A_i[row, column] = key[token row][dim 16i + column], or
///             value[token column][dim 16i + row]. Lane 4g + t of a warp holds of each tile rows g
///             and g + 8, columns 2t, 2t + 1, 2t + 8 and 2t + 9; registers r = row / 8 + 2 (column
///             / 8), each with columns 2t + {0, 1}. A lane's data of successive tiles make units of
///             16 bytes; unit u of lane l lies at 512 u + 16 l.
///               8 bits, codes and E4M3 alike: two tiles, each registers 0..3 as 2 bytes.
///               4 bits: four tiles, each of a word. Keys: byte 2 (column % 2) + row / 8, nibble
///               column / 8. Values: byte 2 (column % 2) + column / 8, nibble row / 8.
///             float16, keys and values alike: matrices of 8 tokens x 8 dims, 128 bytes by tokens,
///             as `ldmatrix` and the products of warpgroups take them from shared memory. That of
///             tokens 8h.. and dims 8c.. lies at 128 (h head_dim / 8 + c), so that with pages that
///             follow one another all strides are the same.
///             No byte belongs to two tokens.
///
/// Ranges: float16 {step, smallest} of token i for keys at 16 (i % 8) + 4 (i / 8), for values 8
/// bytes behind it.
struct KvLayout {
  KvTypes types;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;

  constexpr bool fragments() const {
    return (head_dim == 64 || head_dim == 128) && types.keys != KvType::kF32 &&
           types.values != KvType::kF32;
  }
  constexpr std::int64_t key_bytes() const {
    return kPageTokens * head_dim * bits_of(types.keys) / 8;
  }
  constexpr std::int64_t value_bytes() const {
    return kPageTokens * head_dim * bits_of(types.values) / 8;
  }
  constexpr std::int64_t range_bytes() const {
    return is_integer(types.keys) || is_integer(types.values) ? kPageTokens * 8 : 0;
  }
  constexpr std::int64_t block_bytes() const {
    return (key_bytes() + value_bytes() + range_bytes() + 127) / 128 * 128;
  }
  constexpr std::int64_t page_bytes() const { return kv_heads * block_bytes(); }
};

}  // namespace nibble::ops::cuda
