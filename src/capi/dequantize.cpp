#include <vector>

#include "capi/inputs.h"
#include "capi/status.h"
#include "core/threads.h"
#include "models/exchange/plain_weights.h"
#include "models/model.h"

namespace nibble::capi {
namespace {

// All linear layers, those of the blocks first.
std::vector<const ops::Linear*> all_layers(const models::Network& network) {
  std::vector<const ops::Linear*> layers;
  const auto add = [&](const std::vector<const ops::LinearSet*>& sets) {
    for (const ops::LinearSet* set : sets) {
      for (const ops::Linear& layer : set->parts) {
        layers.push_back(&layer);
      }
    }
  };
  for (const models::Block* block : models::all_blocks(network)) {
    add(models::linear_sets(*block));
  }
  add(models::end_sets(network));
  return layers;
}

void dequantize(const models::Model& model, nibble_weights_callback on_weights, void* user) {
  core::ThreadPool pool(0);
  for (const ops::Linear* layer : all_layers(model.network)) {
    if (formats::is_dense(layer->weight.scheme)) {
      continue;
    }
    const models::LayerHold hold(model, *layer);
    const std::vector<float> values = models::plain_weights(layer->weight, pool);
    if (on_weights(user, layer->name.c_str(), values.data(),
                   static_cast<std::size_t>(layer->weight.n),
                   static_cast<std::size_t>(layer->weight.k)) != 0) {
      throw Cancelled();
    }
  }
  model.source->check_intact();
}

}  // namespace
}  // namespace nibble::capi

using namespace nibble::capi;

extern "C" nibble_status nibble_dequantize(const char* model, nibble_weights_callback on_weights,
                                           void* user) {
  return guarded([&] {
    require_given(model, "model");
    nibble::core::require(on_weights != nullptr, nibble::core::ErrorKind::kUsage,
                          "'on_weights' is NULL");
    dequantize(*nibble::models::open_model(model), on_weights, user);
  });
}
