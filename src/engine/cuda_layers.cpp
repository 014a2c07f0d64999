#include "engine/cuda_layers.h"

#include <algorithm>
#include <deque>
#include <map>

#include "core/error.h"
#include "models/moved_order.h"

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
  const models::TokenTable& tokens = network.embeddings.tokens;
  const std::int64_t decoded =  // a device has the whole table, in float32
      tokens.stored() == nullptr ? 0 : 4 * tokens.elements() - tokens.bytes();
  const auto need = static_cast<double>(models::total_weight_bytes(network) + decoded);
  const auto free = static_cast<double>(device.free_bytes);
  core::require(need < free, core::ErrorKind::kOutOfMemory,
                "the weights need {:.2f} GB and the {} has {:.2f} GB free, enough for {:.1f} bits "
                "per weight; quantize the model to fewer bits, or use --device cpu",
                need / 1e9, device.name, free / 1e9,
                kRoomForWeights * 8 * free / weights_of(network));
}

bool is_float32(const ops::Linear& part) {
  const formats::Scheme& scheme = part.weight.scheme;
  return formats::is_dense(scheme) && scheme.code.dense == core::DType::kF32;
}

bool all_float32(const models::Stack& stack) {
  return std::all_of(stack.blocks.begin(), stack.blocks.end(), [](const models::Block& block) {
    const auto sets = models::linear_sets(block);
    return std::all_of(sets.begin(), sets.end(), [](const ops::LinearSet* set) {
      return std::all_of(set->parts.begin(), set->parts.end(), is_float32);
    });
  });
}

/// The sets of a network, with orders of inputs moved where that can be (models/moved_order.h).
class MovedOrders {
 public:
  explicit MovedOrders(const models::Network& network) {
    const auto add = [this](const models::Mlp& mlp) {
      if (can_move_order(mlp)) {
        mlps_[mlp.up.id] = mlps_[mlp.down.id] = &mlp;
      }
    };
    for (const models::Block* block : models::all_blocks(network)) {
      if (block->mlp) {
        add(*block->mlp);
      }
      std::for_each(block->experts.begin(), block->experts.end(), add);
    }
  }

  ops::LinearSet of(const ops::LinearSet& set) const {
    const auto at = mlps_.find(set.id);
    if (at == mlps_.end()) {
      return set;
    }
    const models::Mlp& mlp = *at->second;
    return set.id == mlp.up.id ? up_in_order_of_down(mlp) : down_without_order(mlp);
  }

 private:
  std::map<int, const models::Mlp*> mlps_;  // by the ids of their sets
};

}  // namespace

void prepare_layers(const models::Model& model, ops::cuda::CudaOps& ops, core::ThreadPool& pool) {
  require_room(model.network, ops.device());
  ops::cuda::UnitPacker packer(pool);
  const MovedOrders moved(model.network);
  for (const ops::LinearSet* set : models::linear_sets(model.network)) {
    {
      std::deque<models::LayerHold> holds;
      for (const ops::Linear& part : set->parts) {
        holds.emplace_back(model, part);
      }
      ops.prepare(moved.of(*set), packer);
    }
    if (model.source) {
      model.source->check_intact();
    }
  }
}

ops::cuda::MatrixType matrices_between(const models::Stack& stack,
                                       ops::ActivationPrecision activations) {
  return activations == ops::ActivationPrecision::kFloat || all_float32(stack)
             ? ops::cuda::MatrixType::kFloat32
             : ops::cuda::MatrixType::kFloat16;
}

}  // namespace nibble::engine
