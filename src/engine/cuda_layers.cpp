#include "engine/cuda_layers.h"

#include "core/error.h"

namespace nibble::engine {
namespace {

constexpr double kRoomForWeights = 0.9;  // of the memory, the rest for what a step needs

double weights_of(const models::Network& network) {
  auto weights = static_cast<double>(network.embeddings.tokens.elements());
  for (const models::Block* block : models::all_blocks(network)) {
    for (const ops::LinearSet* set : models::linear_sets(*block)) {
      weights += static_cast<double>(set->n() * set->k());
    }
  }
  return weights;
}

void require_room(const models::Network& network, const device::CudaDevice& device) {
  const auto need = static_cast<double>(models::total_weight_bytes(network));
  const auto free = static_cast<double>(device.free_bytes);
  core::require(need < free, core::ErrorKind::kOutOfMemory,
                "the weights need {:.2f} GB and the {} has {:.2f} GB free, enough for {:.1f} bits "
                "per weight; quantize the model to fewer bits, or use --device cpu",
                need / 1e9, device.name, free / 1e9,
                kRoomForWeights * 8 * free / weights_of(network));
}

}  // namespace

void prepare_layers(const models::Model& model, ops::cuda::CudaOps& ops, core::ThreadPool& pool) {
  require_room(model.network, ops.device());
  ops::cuda::UnitPacker packer(pool);
  for (const ops::LinearSet* set : models::linear_sets(model.network)) {
    ops.prepare(*set, packer);
    for (const ops::Linear& part : set->parts) {
      models::release_pages(model, part);
    }
    if (model.source) {
      model.source->check_intact();
    }
  }
}

}  // namespace nibble::engine
