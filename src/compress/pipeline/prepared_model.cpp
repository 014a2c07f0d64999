#include "compress/pipeline/prepared_model.h"

namespace nibble::compress {

PreparedModel::PreparedModel(const models::Network& original, const models::LoraAdapter* adapter,
                             std::unique_ptr<ModelTransform> transform, BlockStore& store,
                             core::ThreadPool& pool)
    : original_(original), network_(original), transform_(std::move(transform)), pool_(pool) {
  if (adapter != nullptr) {
    pairs_ = adapter->pairs_for(original);
    adapter_scale_ = adapter->scale();
  }
  if (transform_) {
    const ChangedEnds ends = transform_->ends(original, pool);
    store.put_ends(ends);
    network_ = with_ends(original, ends);
  }
}

void PreparedModel::separate_output() {
  const formats::PackedWeight weight = network_.output.parts.front().weight;
  network_ = with_output(std::move(network_), weight);
}

models::Block PreparedModel::block(const models::Block& original) const {
  const models::Block merged =
      pairs_.empty() ? original : models::merge_adapter(original, pairs_, adapter_scale_, pool_);
  return transform_ ? transform_->block(merged, pool_) : merged;
}

}  // namespace nibble::compress
