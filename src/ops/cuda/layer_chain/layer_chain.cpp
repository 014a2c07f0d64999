#include "ops/cuda/layer_chain/layer_chain.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/error.h"
#include "device/cuda_devices.h"
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

std::int64_t results_of(const ChainedLayer& layer) {
  return layer.gate ? layer.weight.n / 2 : layer.weight.n;
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
  phase.tiles_each = tiles / blocks;
  phase.more_from = blocks - tiles % blocks;
  phase.adds = layer.adds ? 1 : 0;
  phase.gated = layer.gate ? 1 : 0;
  phase.gate = layer.gate.value_or(phase.gate);
  return phase;
}

// Without what is sent. Stages: as many as there is room for; 0 where two are too many.
ChainArguments arguments_of(std::span<const ChainedLayer> layers, int blocks) {
  constexpr int kTileSize = static_cast<int>(kTileRows);
  ChainArguments a;
  for (const ChainedLayer& layer : layers) {
    ChainPhase& phase = a.phases[a.count++] = phase_of(layer, blocks);
    const int tiles = phase.tiles_each + (phase.more_from < blocks ? 1 : 0);
    const int groups = (phase.blocks + kChainWarps - 1) / kChainWarps;
    a.rows = std::max(a.rows, tiles * kTileSize);
    a.groups = std::max(a.groups, groups);
  }
  for (a.stages = kMostChainStages; a.stages >= kFewestChainStages; --a.stages) {
    if (ChainMemory(a).bytes() <= chain_shared_bytes()) {
      return a;
    }
  }
  a.stages = 0;
  return a;
}

}  // namespace

bool is_chainable(const UnitsView& weight) {
  return weight.format.codes == CodeKind::kInt4 && weight.format.groups == 1 &&
         weight.format.scales == ScaleKind::kF16 && weight.factors == nullptr &&
         weight.n % kTileRows == 0 && weight.k % kUnitInputs == 0;
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

bool LayerChain::fits(std::span<const ChainedLayer> layers) {
  return layers.size() <= kMostChained &&
         arguments_of(layers, current_gpu().multiprocessors).stages > 0;
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

void LayerChain::run(std::span<const ChainedLayer> layers, cudaStream_t stream) {
  const Gpu gpu = current_gpu();
  core::require(device_ == gpu.index && layers.size() <= kMostChained, core::ErrorKind::kFailed,
                "no chain runs {} layers on GPU {}: it is not held, or takes {}", layers.size(),
                gpu.index, kMostChained);
  ChainArguments a = arguments_of(layers, gpu.multiprocessors);
  core::require(a.stages > 0, core::ErrorKind::kFailed,
                "GPU {} has too little shared memory for a chain of {} layers", gpu.index,
                layers.size());
  std::map<std::int64_t, int> sent;  // rows of each size so far
  for (std::size_t i = 1; i < layers.size(); ++i) {
    const ChainedLayer& before = layers[i - 1];
    core::require(a.phases[i].row != nullptr && a.phases[i].row == before.y,
                  core::ErrorKind::kFailed, "layer {} of a chain does not read the one before", i);
    const std::int64_t count = results_of(before);
    core::require(count == layers[i].weight.k, core::ErrorKind::kFailed,
                  "layer {} of a chain reads {} inputs; the one before has {}", i,
                  layers[i].weight.k, count);
    const SentRow& row = row_of(count, sent[count]++, gpu.multiprocessors);
    a.phases[i - 1].sent = row.values.as<float>();
    a.phases[i - 1].sent_runs = row.runs.as<std::uint32_t>();
    a.phases[i].row = row.values.as<float>();
    a.phases[i].reads_sent = 1;
  }
  launch_chain(a, gpu.multiprocessors, stream);
}

}  // namespace nibble::ops::cuda
