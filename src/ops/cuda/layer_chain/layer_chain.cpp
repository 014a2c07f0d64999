#include "ops/cuda/layer_chain/layer_chain.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "core/error.h"
#include "device/cuda_devices.h"
#include "ops/cuda/attention/checks.h"
#include "ops/cuda/device_code/per_device.h"
#include "ops/cuda/layer_chain/chain_arguments.h"

namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;

struct Gpu {
  int index;
  int multiprocessors;
};
Gpu current_gpu() {
  return of_current_device([] {
    const device::CudaDevice device = device::current_cuda_device();
    return Gpu{device.index, device.multiprocessors};
  });
}

// The chain that is held for each device.
struct Holders {
  std::mutex mutex;
  std::map<int, const LayerChain*> of_device;
};
Holders& holders() {
  static Holders all;
  return all;
}

// What a link reads and writes.
struct Row {
  const float* values;
  std::int64_t count;
  friend bool operator==(const Row&, const Row&) = default;
};
Row read_by(const ChainedLayer& layer) {
  return {layer.codes.codes == nullptr ? layer.row : nullptr, layer.weight.k};
}
Row read_by(const ChainedAttention& attention) {
  const KvLayout& layout = attention.layer.layout;
  return {attention.qkv, (attention.layer.heads + 2 * layout.kv_heads) * layout.head_dim};
}
Row read_by(const ChainLink& link) {
  return std::visit([](const auto& each) { return read_by(each); }, link);
}
Row written_by(const ChainedLayer& layer) {
  return {layer.y, layer.gate ? layer.weight.n / 2 : layer.weight.n};
}
Row written_by(const ChainedAttention& attention) {
  return {attention.y, attention.layer.heads * attention.layer.layout.head_dim};
}
Row written_by(const ChainLink& link) {
  return std::visit([](const auto& each) { return written_by(each); }, link);
}

bool follows(const ChainLink& before, const ChainLink& link) {
  const auto* const layer = std::get_if<ChainedLayer>(&link);
  const bool is_free = layer == nullptr || layer->norm == nullptr;
  return read_by(link).values != nullptr && read_by(link) == written_by(before) &&
         (is_free || !std::holds_alternative<ChainedAttention>(before));
}

// Whether both have what ChainArguments has once.
bool go_together(const ChainedAttention& a, const ChainedAttention& b) {
  const auto common = [](const ChainedAttention& each) {
    const AttentionLayer& layer = each.layer;
    return std::tuple(each.plan.decode, layer.layout.types.keys, layer.layout.types.values,
                      layer.layout.kv_heads, layer.layout.head_dim, layer.heads,
                      layer.inverse_frequency, layer.rotary, layer.rope_factor, layer.norm_eps,
                      layer.turned);
  };
  return common(a) == common(b);
}

const UnitFormat& format_of(const ChainLink& link) {
  return std::get<ChainedLayer>(link).weight.format;
}

bool are_linked(std::span<const ChainLink> links) {
  const ChainedAttention* first = nullptr;
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (i > 0 && !follows(links[i - 1], links[i])) {
      return false;
    }
    const auto* const attention = std::get_if<ChainedAttention>(&links[i]);
    if (attention == nullptr) {
      if (i > 0 && format_of(links[i]) != format_of(links.front())) {
        return false;
      }
    } else {
      first = first == nullptr ? attention : first;
      if (i == 0 || !is_chainable(attention->layer) || !go_together(*first, *attention)) {
        return false;
      }
    }
  }
  return !links.empty() && links.size() <= kMostChained;
}

ChainPhase phase_of(const ChainedLayer& layer, int blocks) {
  ChainPhase phase;
  phase.units = layer.weight.units;
  phase.bias = layer.bias;
  phase.codes = layer.codes.codes;
  phase.scales = layer.codes.scales;
  phase.row = layer.codes.codes == nullptr ? layer.row : nullptr;
  if (layer.norm != nullptr) {
    phase.norm = layer.norm->weight;
    phase.eps = layer.norm->eps;
  }
  phase.y = layer.y;
  phase.blocks = static_cast<int>(layer.weight.k / kUnitInputs);
  phase.inverse_inputs = 1.0f / static_cast<float>(layer.weight.k);
  const auto tiles = static_cast<int>(layer.weight.n / kTileRows);
  phase.tiles_each = static_cast<std::int16_t>(tiles / blocks);
  phase.more_from = static_cast<std::int16_t>(blocks - tiles % blocks);
  phase.adds = layer.adds;
  phase.gated = layer.gate.has_value();
  phase.gate = static_cast<std::uint8_t>(layer.gate.value_or(MlpActivation::kSilu));
  phase.tables = layer.weight.tables;
  phase.factors = layer.weight.factors;
  return phase;
}

ChainPhase phase_of(const ChainedAttention& attention) {
  ChainPhase phase;
  phase.row = attention.qkv;
  phase.y = attention.y;
  phase.pages = attention.pages;
  phase.q_norm = attention.layer.q_norm;
  phase.k_norm = attention.layer.k_norm;
  phase.key_centre = attention.layer.key_centre;
  return phase;
}

std::optional<ChainedHeads> kind_of(const KvLayout& layout) {
  if (!layout.fragments() || layout.types.keys != layout.types.values) {
    return std::nullopt;
  }
  const bool is_long = layout.head_dim == 128;
  switch (layout.types.keys) {
    case KvType::kF16:
      return is_long ? ChainedHeads::kF16x128 : ChainedHeads::kF16x64;
    case KvType::kInt8:
      return is_long ? ChainedHeads::kInt8x128 : ChainedHeads::kInt8x64;
    case KvType::kFp8:
      return is_long ? ChainedHeads::kFp8x128 : ChainedHeads::kFp8x64;
    case KvType::kInt4:
      return is_long ? ChainedHeads::kInt4x128 : ChainedHeads::kInt4x64;
    default:
      return std::nullopt;
  }
}

ChainAttention common_of(const ChainedAttention& attention, int blocks) {
  constexpr float kLog2E = 1.44269504088896341f;
  constexpr int kMostParts = 8;
  const AttentionLayer& layer = attention.layer;
  const KvLayout& layout = layer.layout;
  ChainAttention common;
  common.layer = layer;
  common.item = attention.plan.decode;
  common.table = attention.plan.table;
  common.kind = *kind_of(layout);
  common.heads = static_cast<int>(layer.heads);
  common.group = static_cast<int>(layer.heads / layout.kv_heads);
  common.scale = kLog2E / std::sqrt(static_cast<float>(layout.head_dim));
  common.most_parts = std::min(kMostParts, blocks / common.heads);
  common.block_bytes = static_cast<int>(layout.block_bytes());
  const bool is_whole = common.block_bytes <= kPagePieceBytes;
  common.first_bytes = is_whole ? common.block_bytes : static_cast<int>(layout.key_bytes());
  common.rest_bytes = common.block_bytes - common.first_bytes;
  return common;
}

// The most stages for which there is room; 0 where two are too many.
int stages_of(ChainMemory memory) {
  for (memory.stages = kMostChainStages; memory.stages >= kFewestChainStages; --memory.stages) {
    if (memory.bytes() <= chain_shared_bytes()) {
      return memory.stages;
    }
  }
  return 0;
}

// Without what is sent.
ChainArguments arguments_of(std::span<const ChainLink> links, int blocks) {
  constexpr int kTileSize = static_cast<int>(kTileRows);
  ChainArguments a;
  for (const ChainLink& link : links) {
    ChainPhase& phase = a.phases[a.count++];
    if (const auto* const attention = std::get_if<ChainedAttention>(&link)) {
      phase = phase_of(*attention);
      a.attention = common_of(*attention, blocks);
      a.rows = std::max(a.rows, ChainMemory::kAttentionRows);
      continue;
    }
    phase = phase_of(std::get<ChainedLayer>(link), blocks);
    a.format = std::get<ChainedLayer>(link).weight.format;
    const int tiles = phase.tiles_each + (phase.more_from < blocks ? 1 : 0);
    const int groups = (phase.blocks + kChainWarps - 1) / kChainWarps;
    a.rows = std::max(a.rows, tiles * kTileSize);
    a.groups = std::max(a.groups, groups);
  }
  a.stages = stages_of(ChainMemory(a, a.format));
  return a;
}

// Whether so many phases take room from weights.
bool cost_a_stage(const ChainArguments& a) {
  constexpr int kOfBlock = 5;  // phases
  ChainMemory memory(a, a.format);
  memory.argument_bytes -= std::max(0, a.count - kOfBlock) * static_cast<int>(sizeof(ChainPhase));
  return stages_of(memory) > a.stages;
}

}  // namespace

bool is_chainable(const UnitsView& weight) {
  return has_chain_kernel(weight.format) &&
         is_book(weight.format.codes) == (weight.factors != nullptr) && weight.n % kTileRows == 0 &&
         weight.k % kUnitInputs == 0 && weight.n <= kMostChainedRows;
}

bool is_chainable(const AttentionLayer& layer) {
  return kind_of(layer.layout) && layer.heads <= current_gpu().multiprocessors &&
         layer.rotary % 8 == 0 && can_read_heads(layer, nullptr);
}

bool chains_run() {
  return chain_shared_bytes() > 0;
}

LayerChain::~LayerChain() {
  if (device_ >= 0) {
    const std::lock_guard lock(holders().mutex);
    holders().of_device.erase(device_);
  }
}

bool LayerChain::hold() {
  const int device = current_gpu().index;
  if (device_ != device) {
    const std::lock_guard lock(holders().mutex);
    if (device_ >= 0 || !holders().of_device.emplace(device, this).second) {
      return false;
    }
    device_ = device;
  }
  return true;
}

bool LayerChain::fits(std::span<const ChainLink> links) {
  if (!are_linked(links)) {
    return false;
  }
  const ChainArguments a = arguments_of(links, current_gpu().multiprocessors);
  return a.stages > 0 && !cost_a_stage(a);
}

const LayerChain::SentRow& LayerChain::row_of(std::int64_t count, int ordinal, int blocks) {
  for (const SentRow& row : rows_) {
    if (row.count == count && ordinal-- == 0) {
      return row;
    }
  }
  SentRow row;
  row.count = count;
  row.values = Buffer(count * static_cast<std::int64_t>(sizeof(float)));
  row.runs = Buffer(blocks * static_cast<std::int64_t>(sizeof(std::uint32_t)));
  const std::vector<float> zeros(static_cast<std::size_t>(std::max<std::int64_t>(count, blocks)));
  row.values.upload(zeros.data(), row.values.bytes());  // no run yet: the first one is odd
  row.runs.upload(zeros.data(), row.runs.bytes());
  return rows_.emplace_back(std::move(row));
}

void LayerChain::run(std::span<const ChainLink> links, cudaStream_t stream) {
  const Gpu gpu = current_gpu();
  core::require(device_ == gpu.index, core::ErrorKind::kFailed, "no chain of GPU {} is held",
                gpu.index);
  core::require(are_linked(links), core::ErrorKind::kFailed,
                "{} layers and attentions are not one chain", links.size());
  ChainArguments a = arguments_of(links, gpu.multiprocessors);
  core::require(a.stages > 0, core::ErrorKind::kFailed,
                "GPU {} has too little shared memory for a chain of {} layers", gpu.index,
                links.size());
  if (std::holds_alternative<ChainedAttention>(links.back())) {
    a.attention.most_parts = 1;  // nothing merges them
  }
  std::map<std::int64_t, int> sent;  // rows of each size so far
  for (std::size_t i = 1; i < links.size(); ++i) {
    ChainPhase& before = a.phases[i - 1];
    ChainPhase& phase = a.phases[i];
    std::int64_t count = read_by(links[i]).count;
    if (before.pages != nullptr) {
      const ChainAttention& attention = a.attention;
      count =
          HeadParts::floats(attention.heads, attention.layer.layout.head_dim, attention.most_parts);
      phase.merges = attention.most_parts > 1;
    }
    const SentRow& row = row_of(count, sent[count]++, gpu.multiprocessors);
    before.sent = row.values.as<float>();
    before.sent_runs = row.runs.as<std::uint32_t>();
    phase.row = row.values.as<float>();
    phase.reads_sent = true;
  }
  launch_chain(a, gpu.multiprocessors, stream);
}

}  // namespace nibble::ops::cuda
