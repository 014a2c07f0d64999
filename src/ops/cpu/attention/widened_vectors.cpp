#include "ops/cpu/attention/widened_vectors.h"

#include <algorithm>

#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::ops::cpu {
namespace {

void widen_floats(const KvView& view, std::int64_t from, std::int64_t to, std::int64_t dim,
                  float* out) {
  const std::int64_t count = (to - from) * dim;
  switch (view.type) {
    case KvType::kF32:
      std::copy_n(f32_row(view, from), count, out);
      return;
    case KvType::kF16:
      return vector_kernels().widen_f16(f16_row(view, from), out, count);
    case KvType::kFp8:
      return vector_kernels().widen_e4m3(fp8_row(view, from), out, count);
    case KvType::kInt8:
    case KvType::kInt4:
      return;  // never widened
  }
}

}  // namespace

FloatRows widen_values(const KvPages& vectors, std::int64_t begin, std::int64_t end,
                       std::int64_t head_dim, Scratch& scratch) {
  if (vectors.type == KvType::kF32 && end <= vectors.page_tokens) {
    return {f32_row(vectors.page(0), begin), vectors.stride};
  }
  float* floats = scratch.floats((end - begin) * head_dim);
  for_each_page(vectors, begin, end,
                [&](const KvView& view, std::int64_t at, std::int64_t from, std::int64_t to) {
                  widen_floats(view, from, to, head_dim, floats + (at - begin) * head_dim);
                });
  return {floats, head_dim};
}

FloatRows widen_keys(const KvPages& keys, std::int64_t begin, std::int64_t end,
                     std::int64_t head_dim, Scratch& scratch) {
  if (keys.type != KvType::kFp8) {
    return widen_values(keys, begin, end, head_dim, scratch);
  }
  float* floats = scratch.floats((end - begin) * head_dim);
  for_each_page(keys, begin, end,
                [&](const KvView& view, std::int64_t at, std::int64_t, std::int64_t to) {
                  float* const page = floats + (at - begin) * head_dim;
                  for (std::int64_t d = 0; d < head_dim; ++d) {
                    float side_by_side[kPageTokens];
                    vector_kernels().widen_e4m3(fp8_codes(view) + fp8_key_place(0, d), side_by_side,
                                                kPageTokens);
                    for (std::int64_t token = 0; token < to; ++token) {
                      page[token * head_dim + d] = side_by_side[token];
                    }
                  }
                });
  return {floats, head_dim};
}

}  // namespace nibble::ops::cpu
