#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/cuda/attention/checks.h"
#include "ops/cuda/attention/decode_append.cuh"
#include "ops/cuda/attention/decode_kernel.cuh"
#include "ops/cuda/attention/decode_one_head.cuh"
#include "ops/cuda/attention/kv_dispatch.cuh"
#include "ops/cuda/attention/plain.h"

namespace nibble::ops::cuda {
namespace {

std::int64_t passes_of(std::int64_t group) {
  return (group + decode::kColumns - 1) / decode::kColumns;
}

decode::Arguments arguments_of(const AttentionLayer& layer, const core::Fp16* queries,
                               const std::byte* pages, const DevicePlan& plan, float* partials,
                               const AttentionOutput& output) {
  constexpr float kLog2E = 1.44269504088896341f;
  const KvLayout& layout = layer.layout;
  const auto kv_heads = static_cast<int>(layout.kv_heads);
  const auto group = static_cast<int>(layer.heads) / kv_heads;
  const auto passes = static_cast<int>(passes_of(group));
  return {queries,
          pages,
          plan,
          partials,
          head_sink(output, layer.heads * layout.head_dim),
          static_cast<int>(layer.heads),
          kv_heads,
          group,
          Divisor(passes),
          Divisor(kv_heads * passes),
          kLog2E / std::sqrt(static_cast<float>(layout.head_dim)),
          layer.turned && layout.types.values == KvType::kInt4,
          false,
          {}};
}

std::int64_t units_of(const AttentionLayer& layer, std::int64_t items) {
  return items * layer.layout.kv_heads * passes_of(layer.heads / layer.layout.kv_heads);
}

constexpr int kBlocksEach = 2;  // of a multiprocessor

// Three blocks of OneHead would fit. Then the last round of units is emptier, and while blocks of
// the kernel before still run, some multiprocessors take three and others one: they ask for more
// than they use.
constexpr int kSharedOfOneHead = 78 * 1024;

// Whether all warps that the device holds at a time have work for most of the time, when each takes
// one unit after the other.
bool keep_warps_busy(std::int64_t units) {
  const std::int64_t at_once = std::int64_t{kBlocksEach} * decode::kWarps * multiprocessors();
  const std::int64_t rounds = (units + at_once - 1) / at_once;
  return 4 * units >= 3 * rounds * at_once;
}

bool many_brief(const DevicePlan& plan, std::int64_t units) {
  return plan.brief && units > 2 * multiprocessors();
}

template <bool kAppends, KvType K, KvType V, int D, typename Team, typename Heads>
void launch(const decode::Arguments& arguments, std::int64_t units, cudaStream_t stream) {
  constexpr auto* kKernel = kAppends ? decode::append_attend_kernel<K, V, D, Team, Heads>
                                     : decode::attend_kernel<K, V, D, Team, Heads>;
  using S = decode::Shape<K, V, D>;
  constexpr int kRings = decode::kWarps * S::kStages * S::kStage;
  constexpr bool kOneHead = std::is_same_v<Heads, decode::OneHead>;
  constexpr int kShared = kOneHead ? std::max(kRings, kSharedOfOneHead) : kRings;
  static const int resident = resident_blocks(kKernel, decode::kWarps * kWarp, kShared);
  decode::run<D>(kKernel, Team::kTeams, resident, kShared, arguments, units, stream);
}

// | keys and values | head size | query heads of a KV head | warps of a unit | |
// | integers | 128 | 1 | one | OneHead |
// | all others | | | | HeadsOfGroup |
template <bool kAppends>
void run(const AttentionLayer& layer, const decode::Arguments& arguments, cudaStream_t stream) {
  const std::int64_t units = units_of(layer, arguments.plan.max_items);
  const bool by_warps = decodes_by_warps(arguments.plan, layer.heads, layer.layout.kv_heads);
  with_fragments(layer.layout, [&]<KvType K, KvType V, int D>() {
    using decode::HeadsOfGroup;
    if (!by_warps) {
      return launch<kAppends, K, V, D, decode::BlockTeam, HeadsOfGroup>(arguments, units, stream);
    }
    if constexpr (is_integer(K) && is_integer(V) && D == 128) {
      if (arguments.group == 1) {
        return launch<kAppends, K, V, D, decode::WarpTeam, decode::OneHead>(arguments, units,
                                                                            stream);
      }
    }
    launch<kAppends, K, V, D, decode::WarpTeam, HeadsOfGroup>(arguments, units, stream);
  });
}

}  // namespace

bool decodes_by_warps(const DevicePlan& plan, std::int64_t heads, std::int64_t kv_heads) {
  const std::int64_t units = plan.decode_items * kv_heads * passes_of(heads / kv_heads);
  return many_brief(plan, units) || (units > 0 && keep_warps_busy(units));
}

bool attention_writes(const AttentionLayer& layer, const InputTarget& target, bool decode) {
  const bool summed = target.form == InputForm::kFloat16Summed;
  if (has_values(target.form) && !summed) {
    return true;
  }
  const KvLayout& layout = layer.layout;  // whole groups in a warp
  return decode && layout.fragments() && layout.head_dim == kInputPadding &&
         (summed || (target.has_integers() && target.group == kInputPadding));
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
  // For more work, it is better to have the next units' queries on their way. Short sequences of
  // integers are that from the second unit of a warp on.
  const std::int64_t units = units_of(layer, m);
  const KvTypes& types = layer.layout.types;
  const int of_brief = is_integer(types.keys) && is_integer(types.values) ? 8 : 16;
  const int each = many_brief(plan, units) ? of_brief : 4;
  const bool few = units <= each * multiprocessors();
  if (!layer.layout.fragments() || layer.rotary % 8 != 0 || !few || !can_read_heads(layer, qkv)) {
    return false;
  }
  decode::Arguments arguments = arguments_of(layer, nullptr, pages, plan, partials, output);
  arguments.rows = {layer, qkv, pages};
  run<true>(layer, arguments, stream);
  return true;
}

}  // namespace nibble::ops::cuda
