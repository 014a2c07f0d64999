#include <cmath>

#include "ops/cuda/attention/checks.h"
#include "ops/cuda/attention/decode_append.cuh"
#include "ops/cuda/attention/decode_kernel.cuh"
#include "ops/cuda/attention/kv_dispatch.cuh"
#include "ops/cuda/attention/plain.h"

namespace nibble::ops::cuda {
namespace {

std::int64_t passes_of(const AttentionLayer& layer) {
  const std::int64_t group = layer.heads / layer.layout.kv_heads;
  return (group + decode::kColumns - 1) / decode::kColumns;
}

decode::Arguments arguments_of(const AttentionLayer& layer, const core::Fp16* queries,
                               const std::byte* pages, const DevicePlan& plan, float* partials,
                               const AttentionOutput& output) {
  constexpr float kLog2E = 1.44269504088896341f;
  const KvLayout& layout = layer.layout;
  return {queries,
          pages,
          plan,
          partials,
          head_sink(output, layer.heads * layout.head_dim),
          static_cast<int>(layer.heads),
          static_cast<int>(layout.kv_heads),
          kLog2E / std::sqrt(static_cast<float>(layout.head_dim)),
          layer.turned && layout.types.values == KvType::kInt4,
          false,
          {}};
}

template <bool kAppends>
void run(const AttentionLayer& layer, const decode::Arguments& arguments, cudaStream_t stream) {
  const std::int64_t units = arguments.plan.max_items * layer.layout.kv_heads * passes_of(layer);
  with_fragments(layer.layout, [&]<KvType K, KvType V, int D>() {
    constexpr auto* kKernel =
        kAppends ? decode::append_attend_kernel<K, V, D> : decode::attend_kernel<K, V, D>;
    using S = decode::Shape<K, V, D>;
    constexpr int kShared = decode::kWarps * S::kStages * S::kStage;
    static const int resident = resident_blocks(kKernel, decode::kWarps * kWarp, kShared);
    decode::run<D>(kKernel, resident, kShared, arguments, units, stream);
  });
}

}  // namespace

bool attention_writes(const AttentionLayer& layer, InputForm form, std::int64_t group,
                      bool decode) {
  if (form == InputForm::kFloat16 || form == InputForm::kFloat16Tiles) {
    return true;
  }
  const KvLayout& layout = layer.layout;  // whole groups in a warp
  return decode && layout.fragments() && layout.head_dim == kInputPadding && group == kInputPadding;
}

void attend_decode(const AttentionLayer& layer, const Queries& queries, const std::byte* pages,
                   const DevicePlan& plan, float* partials, const AttentionOutput& output,
                   cudaStream_t stream) {
  check_layer(layer);
  if (!layer.layout.fragments()) {
    return plain::attend_decode(layer, queries, pages, plan, output, stream);
  }
  run<false>(layer, arguments_of(layer, queries.halves, pages, plan, partials, output), stream);
}

bool append_attend(const AttentionLayer& layer, const float* qkv, const DevicePlan& plan,
                   std::int64_t m, std::byte* pages, float* partials, const AttentionOutput& output,
                   cudaStream_t stream) {
  check_layer(layer);
  // For more blocks of work, it is better to have the next ones' queries on their way.
  const bool few = m * layer.layout.kv_heads * passes_of(layer) <= 4 * multiprocessors();
  if (!layer.layout.fragments() || layer.rotary % 8 != 0 || !few ||
      reinterpret_cast<std::uintptr_t>(qkv) % sizeof(float4) != 0) {
    return false;
  }
  decode::Arguments arguments = arguments_of(layer, nullptr, pages, plan, partials, output);
  arguments.rows = {layer, qkv, pages};
  run<true>(layer, arguments, stream);
  return true;
}

}  // namespace nibble::ops::cuda
