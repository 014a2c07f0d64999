#pragma once

#include <cstdint>
#include <span>

#include <cuda_runtime_api.h>

#include "core/float16.h"
#include "ops/cuda/attention/attention.h"
#include "ops/cuda/attention/attention_plan.h"
#include "ops/cuda/attention/kv_layout.h"

/// Attention of a decoder to texts that an encoder has read (cross-attention, arXiv 1706.03762,
/// section 3.2.3): keys and values of a text are stored once, in pages of their own, and every row
/// of the decoder sees all of its text. The kernels are those of decode steps (attention.h): a row
/// is one that stands at the last token of its text.
namespace nibble::ops::cuda {

/// Rows of a batch and the memory that is theirs, `tokens` of it in `pages`.
struct MemoryRows {
  std::span<const std::int32_t> pages;
  std::int64_t tokens = 0;
  std::int64_t row = 0;
  std::int64_t rows = 0;
};

/// Where rows of an encoder are stored: those of a text as its tokens 0, 1, ... (`tokens` is as
/// many as `rows`). The batch has m rows; those of no text are not stored. Throws kFailed where a
/// text has too few pages.
AttentionPlan plan_storing(std::span<const MemoryRows> texts, std::int64_t m);

/// What rows of a decoder read: each all tokens of its memory, which rows may share. Rows that
/// follow one another and share one list its pages once. Throws as plan_storing().
AttentionPlan plan_reading(std::span<const MemoryRows> readers);

/// k|v [m, 2 kv_heads head_dim] float32 into the pages of a layer, by a plan of plan_storing().
void store_memory(const KvLayout& layout, const float* kv, const DevicePlan& plan, std::int64_t m,
                  std::byte* pages, cudaStream_t stream);

/// The heads of the decoder and how the memory lies. Keys and values are not turned: no 4 bits.
AttentionLayer memory_layer(const KvLayout& layout, std::int64_t heads);

/// softmax(q k^T / sqrt(head_dim)) v of q [m, heads head_dim] float32, by a plan of
/// plan_reading(). `halves` [m, heads head_dim] gets the queries as float16 where the layout is in
/// fragments, and is not read else. Output and `partials` as those of attend_decode().
void attend_to_memory(const AttentionLayer& layer, const float* q, core::Fp16* halves,
                      const DevicePlan& plan, std::int64_t m, const std::byte* pages,
                      float* partials, const AttentionOutput& output, cudaStream_t stream);

}  // namespace nibble::ops::cuda
