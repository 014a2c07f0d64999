#pragma once

#include <cstddef>
#include <cstdint>

#include "core/float16.h"
#include "core/float8.h"
#include "ops/cpu/attention/kv_layout.h"
#include "ops/kv_pages.h"
#include "ops/kv_types.h"

namespace nibble::ops::cpu {

/// Bits of a code of integers.
constexpr int code_bits(KvType type) {
  return type == KvType::kInt8 ? 8 : 4;
}

/// Keys or values of one KV head: vectors of head_dim elements, one for each token, side by side;
/// codes of integers as kv_layout.h says.
struct KvView {
  KvType type = KvType::kF32;
  const void* data = nullptr;            // the first vector
  std::int64_t stride = 0;               // elements from one vector to the next
  const core::Fp16* steps = nullptr;     // kInt8 and kInt4: the ranges, one for each vector
  const core::Fp16* smallest = nullptr;  // null for floats, as steps
};

/// What is stored of element d of a key, or of a value: the number, or the code of integers.
inline float stored_element(const KvView& view, bool is_key, std::int64_t token, std::int64_t d) {
  const std::int64_t in_row = token * view.stride + d;
  switch (view.type) {
    case KvType::kF32:
      return static_cast<const float*>(view.data)[in_row];
    case KvType::kF16:
      return core::to_float(static_cast<const core::Fp16*>(view.data)[in_row]);
    case KvType::kFp8: {
      const std::int64_t at = is_key ? fp8_key_place(token, d) : in_row;
      return core::to_float(static_cast<const core::E4m3*>(view.data)[at]);
    }
    case KvType::kInt8:
    case KvType::kInt4:
      break;
  }
  const int bits = code_bits(view.type);
  const CodePlace place = (is_key ? key_code_place : value_code_place)(bits, token, d);
  return static_cast<float>(code_at(static_cast<const std::uint8_t*>(view.data), place, bits));
}

/// Keys or values of one KV head of one sequence: position p is vector p % page_tokens of page
/// p / page_tokens of the list.
struct KvPages {
  KvType type = KvType::kF32;
  const std::byte* data = nullptr;  // the vectors of this head in page 0 of the memory
  std::int64_t stride = 0;          // elements from one vector to the next
  std::int64_t ranges = 0;          // bytes from the vectors to steps [page_tokens], which
                                    // smallest [page_tokens] follow; 0 for floats
  std::int64_t page_bytes = 0;      // from one page to the next
  std::int64_t page_tokens = 0;
  const PageId* pages = nullptr;

  /// The vectors of a page of the list.
  KvView page(std::int64_t index) const {
    const std::byte* vectors = data + pages[index] * page_bytes;
    KvView view{type, vectors, stride};
    if (ranges > 0) {
      view.steps = reinterpret_cast<const core::Fp16*>(vectors + ranges);
      view.smallest = view.steps + page_tokens;
    }
    return view;
  }
};

/// Float32 vectors that lie evenly in memory, as one page of everything.
inline KvPages one_page(const float* vectors, std::int64_t stride) {
  static constexpr PageId kOnly = 0;
  KvPages pages;
  pages.data = reinterpret_cast<const std::byte*>(vectors);
  pages.stride = stride;
  pages.page_tokens = std::int64_t{1} << 62;
  pages.pages = &kOnly;
  return pages;
}

/// body(view, first, begin, end) for each page that holds some of positions [begin, end): those are
/// vectors [begin, end) of `view`, the first of them position `first`.
template <typename Body>
void for_each_page(const KvPages& vectors, std::int64_t begin, std::int64_t end, Body body) {
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t page = at / vectors.page_tokens;
    const std::int64_t from = at - page * vectors.page_tokens;
    const std::int64_t left = end - at;
    const std::int64_t count =
        left < vectors.page_tokens - from ? left : vectors.page_tokens - from;
    body(vectors.page(page), at, from, from + count);
    at += count;
  }
}

}  // namespace nibble::ops::cpu
