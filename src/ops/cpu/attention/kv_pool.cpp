#include "ops/cpu/attention/kv_pool.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include <sys/mman.h>

#include "core/byte_size.h"
#include "core/error.h"
#include "core/float8.h"
#include "core/memory.h"
#include "ops/cpu/attention/codes/code_kernels.h"
#include "ops/cpu/attention/kv_layout.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace {

using core::ErrorKind;

// One float vector.
std::int64_t vector_bytes(KvType type, std::int64_t head_dim) {
  switch (type) {
    case KvType::kF32:
      return head_dim * 4;
    case KvType::kF16:
      return head_dim * 2;
    case KvType::kFp8:
      return head_dim;
    case KvType::kInt8:
    case KvType::kInt4:
      break;
  }
  return 0;
}

std::int64_t keys_bytes(KvType type, std::int64_t head_dim) {
  if (type == KvType::kFp8) {
    return fp8_key_bytes(head_dim);
  }
  return has_range(type) ? key_code_bytes(code_bits(type), head_dim)
                         : kPageTokens * vector_bytes(type, head_dim);
}

std::int64_t values_bytes(KvType type, std::int64_t head_dim) {
  return has_range(type) ? value_code_bytes(code_bits(type), head_dim)
                         : kPageTokens * vector_bytes(type, head_dim);
}

std::int64_t ranges_bytes(KvType type) {
  return has_range(type) ? kPageTokens * static_cast<std::int64_t>(2 * sizeof(core::Fp16)) : 0;
}

// One head of one layer of a page.
std::int64_t block_bytes(KvTypes types, std::int64_t head_dim) {
  return keys_bytes(types.keys, head_dim) + values_bytes(types.values, head_dim) +
         ranges_bytes(types.keys) + ranges_bytes(types.values);
}

// Codes of a key, filled with zeros to kCodeLanes, where key_code_place() says: a line has one or
// two whole quads of a token.
void put_key(int bits, const std::uint8_t* codes, std::int64_t head_dim, std::int64_t slot,
             std::uint8_t* lines) {
  std::uint8_t* to = lines + slot * kCodeQuad;
  const std::int64_t quads = key_quads(bits, head_dim);
  for (std::int64_t quad = 0; quad < quads; quad += 8 / bits, to += kCodeLine) {
    std::uint32_t word = 0;
    std::memcpy(&word, codes + quad * kCodeQuad, sizeof(word));
    if (bits == 4) {
      std::uint32_t second = 0;
      std::memcpy(&second, codes + (quad + 1) * kCodeQuad, sizeof(second));
      word |= second << 4;
    }
    std::memcpy(to, &word, sizeof(word));
  }
}

// Codes of a value where value_code_place() says: a byte of every quad, or half a byte.
void put_value(int bits, const std::uint8_t* codes, std::int64_t head_dim, std::int64_t slot,
               std::uint8_t* lines) {
  const CodePlace first = value_code_place(bits, slot, 0);
  const std::int64_t block = value_code_bytes(bits, kCodeLanes);
  const int others = bits == 8 ? 0 : 0xf0 >> first.shift;
  std::uint8_t* to = lines + first.byte;
  for (std::int64_t d = 0; d < head_dim; d += kCodeLanes, to += block) {
    for (std::int64_t i = 0; i < kCodeLanes; ++i) {
      std::uint8_t& byte = to[i * kCodeQuad];
      byte = static_cast<std::uint8_t>((byte & others) | codes[d + i] << first.shift);
    }
  }
}

std::int64_t checked_page_bytes(KvTypes types, std::int64_t layers, std::int64_t kv_heads,
                                std::int64_t head_dim, std::int64_t pages) {
  const bool nibbles = types.keys == KvType::kInt4 || types.values == KvType::kInt4;
  core::require(!nibbles || head_dim % 2 == 0, ErrorKind::kUsage,
                "heads of {} elements do not fill bytes with 4-bit codes; use the KV cache type "
                "int8 or f16",
                head_dim);
  core::require(types.go_together(), ErrorKind::kUsage,
                "keys and values of a KV cache are both fp8, or neither of them");
  core::require(layers > 0 && kv_heads > 0 && head_dim > 0 && pages >= 0, ErrorKind::kUsage,
                "a KV cache of {} layers, {} heads of {} elements and {} pages can't be made",
                layers, kv_heads, head_dim, pages);
  const std::int64_t bytes = KvPool::page_bytes(types, layers, kv_heads, head_dim);
  core::require(pages <= std::numeric_limits<PageId>::max() &&
                    pages <= std::numeric_limits<std::int64_t>::max() / 2 / bytes,
                ErrorKind::kUsage, "a KV cache of {} pages of {} bytes can't be addressed", pages,
                bytes);
  return bytes;
}

}  // namespace

std::int64_t KvPool::page_bytes(KvTypes types, std::int64_t layers, std::int64_t kv_heads,
                                std::int64_t head_dim) {
  return layers * kv_heads * block_bytes(types, head_dim);
}

KvPool::KvPool(KvTypes types, std::int64_t layers, std::int64_t kv_heads, std::int64_t head_dim,
               std::int64_t pages)
    : types_(types),
      layers_(layers),
      kv_heads_(kv_heads),
      head_dim_(head_dim),
      pages_(pages),
      block_bytes_(block_bytes(types, head_dim)),
      page_bytes_(checked_page_bytes(types, layers, kv_heads, head_dim, pages)),
      keys_{types.keys, 0, 0},
      values_{types.values, keys_bytes(types.keys, head_dim), 0} {
  const std::int64_t ranges = values_.vectors + values_bytes(types.values, head_dim);
  keys_.ranges = has_range(types.keys) ? ranges : 0;
  values_.ranges = has_range(types.values) ? ranges + ranges_bytes(types.keys) : 0;
  const bool nibbles = types.keys == KvType::kInt4 || types.values == KvType::kInt4;
  if (nibbles && formats::hadamard_exists(head_dim)) {
    turn_.emplace(head_dim);
  }
  if (pages == 0) {
    return;
  }
  mapped_ = static_cast<std::size_t>(pages * page_bytes_);
  void* memory =
      core::machine_has(pages * page_bytes_)
          ? mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
          : MAP_FAILED;
  if (memory == MAP_FAILED) {
    core::fail(ErrorKind::kOutOfMemory,
               "cannot allocate {} of KV cache for {} tokens on a machine that has {}; ask for a "
               "shorter context, fewer sequences or a smaller KV cache type",
               core::format_byte_size(pages * page_bytes_), pages * kPageTokens,
               core::format_byte_size(core::machine_memory_bytes()));
  }
  memory_ = static_cast<std::byte*>(memory);
}

KvPool::~KvPool() {
  if (memory_ != nullptr) {
    munmap(memory_, mapped_);
  }
}

void KvPool::copy(PageId from, PageId to) {
  for (const PageId page : {from, to}) {
    core::require(page >= 0 && page < pages_, ErrorKind::kFailed,
                  "page {} of a KV cache that has {}", page, pages_);
  }
  std::memmove(memory_ + to * page_bytes_, memory_ + from * page_bytes_,
               static_cast<std::size_t>(page_bytes_));
}

KvPages KvPool::view(const Half& half, std::int64_t block, const PageId* list) const {
  KvPages pages;
  pages.type = half.type;
  pages.data = memory_ + block * block_bytes_ + half.vectors;
  pages.stride = head_dim_;
  pages.ranges = half.ranges > 0 ? half.ranges - half.vectors : 0;
  pages.page_bytes = page_bytes_;
  pages.page_tokens = kPageTokens;
  pages.pages = list;
  return pages;
}

void KvPool::store_floats(const Half& half, std::byte* block, std::int64_t slot, const float* x) {
  std::byte* vector = block + half.vectors + slot * vector_bytes(half.type, head_dim_);
  switch (half.type) {
    case KvType::kF32:
      std::memcpy(vector, x, static_cast<std::size_t>(head_dim_) * sizeof(float));
      return;
    case KvType::kF16:
      vector_kernels().narrow_f16(x, reinterpret_cast<core::Fp16*>(vector), head_dim_);
      return;
    case KvType::kFp8:
      std::transform(x, x + head_dim_, reinterpret_cast<core::E4m3*>(vector), core::to_e4m3);
      return;
    case KvType::kInt8:
    case KvType::kInt4:
      return;  // store_integers()
  }
}

void KvPool::store_integers(const Half& half, std::byte* block, std::int64_t slot, const float* x,
                            PutCodes put) {
  thread_local std::vector<float> turned;
  thread_local std::vector<std::uint8_t> codes;
  codes.assign(static_cast<std::size_t>(rounded_up(head_dim_, kCodeLanes)), 0);
  if (const formats::Hadamard* turn = turn_of(half.type)) {
    turned.assign(x, x + head_dim_);
    turn->apply(std::span<float>(turned));
    x = turned.data();
  }
  const int bits = code_bits(half.type);
  auto* ranges = reinterpret_cast<core::Fp16*>(block + half.ranges);
  code_kernels().encode(x, head_dim_, (1 << bits) - 1, codes.data(), ranges + slot,
                        ranges + kPageTokens + slot);
  auto* lines = reinterpret_cast<std::uint8_t*>(block + half.vectors);
  put(bits, codes.data(), head_dim_, slot, lines);
}

void KvPool::store(PageId page, std::int64_t slot, std::int64_t layer, std::int64_t kv_head,
                   const float* key, const float* value) {
  core::require(page >= 0 && page < pages_ && slot >= 0 && slot < kPageTokens && layer >= 0 &&
                    layer < layers_ && kv_head >= 0 && kv_head < kv_heads_,
                ErrorKind::kFailed,
                "the KV cache of {} pages, {} layers and {} heads has no page {}, slot {}, layer "
                "{}, head {}",
                pages_, layers_, kv_heads_, page, slot, layer, kv_head);
  std::byte* block = memory_ + page * page_bytes_ + (layer * kv_heads_ + kv_head) * block_bytes_;
  if (keys_.type == KvType::kFp8) {
    auto* codes = reinterpret_cast<core::E4m3*>(block + keys_.vectors);
    for (std::int64_t d = 0; d < head_dim_; ++d) {
      codes[fp8_key_place(slot, d)] = core::to_e4m3(key[d]);
    }
  } else if (has_range(keys_.type)) {
    store_integers(keys_, block, slot, key, put_key);
  } else {
    store_floats(keys_, block, slot, key);
  }
  if (has_range(values_.type)) {
    store_integers(values_, block, slot, value, put_value);
  } else {
    store_floats(values_, block, slot, value);
  }
}

}  // namespace nibble::ops::cpu
