#include "ops/cuda/attention/memory/memory_attention.h"

#include <vector>

#include "core/error.h"
#include "ops/cuda/elementwise/elementwise.h"

namespace nibble::ops::cuda {

AttentionPlan plan_storing(std::span<const MemoryRows> texts, std::int64_t m) {
  std::vector<PlannedSequence> sequences;
  for (const MemoryRows& text : texts) {
    sequences.push_back({text.pages, 0, text.row, text.rows});
  }
  AttentionPlan plan = plan_attention(sequences, 1, 0);
  plan.positions.resize(static_cast<std::size_t>(m), 0);
  plan.slots.resize(static_cast<std::size_t>(m), -1);
  plan.starts.resize(static_cast<std::size_t>(m), 0);
  plan.decode.clear();  // nothing is read
  plan.prefill.clear();
  plan.partials = 0;
  return plan;
}

AttentionPlan plan_reading(std::span<const MemoryRows> readers) {
  std::vector<PlannedSequence> sequences;
  for (const MemoryRows& reader : readers) {
    core::require(reader.tokens > 0, core::ErrorKind::kFailed,
                  "row {} of a step reads a text without tokens", reader.row);
    for (std::int64_t i = 0; i < reader.rows; ++i) {
      sequences.push_back({reader.pages, reader.tokens - 1, reader.row + i, 1});
    }
  }
  return plan_attention(sequences, 1, 0);
}

AttentionLayer memory_layer(const KvLayout& layout, std::int64_t heads) {
  AttentionLayer layer;
  layer.layout = layout;
  layer.heads = heads;
  return layer;
}

void store_memory(const KvLayout& layout, const float* kv, const DevicePlan& plan, std::int64_t m,
                  std::byte* pages, cudaStream_t stream) {
  append(memory_layer(layout, 0), kv, plan, m, {}, pages, stream);
}

void attend_to_memory(const AttentionLayer& layer, const float* q, core::Fp16* halves,
                      const DevicePlan& plan, std::int64_t m, const std::byte* pages,
                      float* partials, const AttentionOutput& output, cudaStream_t stream) {
  Queries queries;
  if (layer.layout.fragments()) {
    convert(q, halves, m, layer.heads * layer.layout.head_dim, stream);
    queries.halves = halves;
  } else {
    queries.floats = const_cast<float*>(q);  // they are read alone
  }
  attend_decode(layer, queries, pages, plan, partials, output, stream);
}

}  // namespace nibble::ops::cuda
