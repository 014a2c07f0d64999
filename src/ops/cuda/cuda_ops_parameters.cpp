#include <algorithm>

#include "core/error.h"
#include "formats/trellis/trellis_code.h"
#include "ops/cuda/blocks/block_weight.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/linear/layer_parts.h"
#include "ops/input_transform.h"
#include "ops/plain_attention.h"

/// What the operators keep on the device.
namespace nibble::ops::cuda {
namespace {

using core::ErrorKind;
using device::cuda::Buffer;

/// The transforms of a set's parts, each of them once on the device.
class Transforms {
 public:
  std::shared_ptr<const DeviceTransform> of(const Linear& part) {
    const InputTransform wanted(part.weight);
    for (const auto& [known, made] : made_) {
      if (known == wanted) {
        return made;
      }
    }
    return made_.emplace_back(wanted, DeviceTransform::of(part.weight, part.name)).second;
  }

 private:
  std::vector<std::pair<InputTransform, std::shared_ptr<const DeviceTransform>>> made_;
};

Buffer upload(std::span<const float> values) {
  return Buffer::of<float>(values);
}

}  // namespace

// Blocks become what units hold.
void CudaOps::prepare(const LinearSet& set, UnitPacker& packer) {
  if (std::none_of(set.parts.begin(), set.parts.end(),
                   [](const Linear& part) { return is_block_scheme(part.weight.scheme); })) {
    return prepare_plain(set, packer);
  }
  LinearSet plain = set;
  for (Linear& part : plain.parts) {
    if (is_block_scheme(part.weight.scheme)) {
      part.weight = block_weight(part.weight, part.name, packer.pool());
    }
  }
  prepare_plain(plain, packer);
}

void CudaOps::prepare_plain(const LinearSet& set, UnitPacker& packer) {
  const auto id = static_cast<std::size_t>(set.id);
  if (prepared_.size() <= id) {
    prepared_.resize(id + 1);
  }
  Layers layers;
  layers.n = set.n();
  layers.k = set.k();
  Transforms transforms;
  for (std::size_t part = 0; part < set.parts.size();) {
    const std::size_t count = joint_parts(set, part);
    const Linear& front = set.parts[part];
    const formats::Scheme& scheme = front.weight.scheme;
    if (formats::is_dense(scheme)) {
      layers.parts.push_back(dense_layer(set, part, part + count));
    } else if (formats::is_block_sparse(scheme)) {
      layers.parts.push_back(LinearLayer::sparse(
          set, part, part + count,
          {device_kernels(*schedules_), products_, wide_scratch_, packer.pool()}));
    } else if (formats::keeps_two_of_four(scheme)) {
      layers.parts.push_back(LinearLayer::two_of_four(set, part, part + count,
                                                      device_kernels(*schedules_), packer.pool()));
    } else if (formats::has_trellis(scheme)) {
      layers.parts.push_back(LinearLayer::trellis(
          set, part, part + count, transforms.of(front),
          {device_kernels(*schedules_), products_, wide_scratch_, packer.pool()}));
    } else {
      layers.parts.push_back(
          LinearLayer::packed(set, part, part + count, transforms.of(front), *schedules_, packer));
    }
    part += count;
  }
  std::int64_t column = 0;
  for (const Linear& part : set.parts) {
    if (part.low_rank) {
      layers.adapters.push_back(adapter_of(*part.low_rank, column));
    }
    column += part.weight.n;
  }
  prepared_[id] = std::move(layers);
}

// A weight that stands alone may be a table too: the output layer's may be that of the embeddings.
LinearLayer CudaOps::dense_layer(const LinearSet& set, std::size_t first, std::size_t last) {
  const bool alone = last - first == 1;
  return LinearLayer::dense(set, first, last,
                            alone ? table_of(set.parts[first].weight.dense) : nullptr,
                            {device_kernels(*schedules_), products_, precision_.exact});
}

std::int64_t CudaOps::prepared_bytes() const {
  std::int64_t sum = 0;
  for (const Layers& layers : prepared_) {
    for (const LinearLayer& part : layers.parts) {
      sum += part.bytes();
    }
  }
  sum += wide_scratch_->bytes();
  for (const auto& [data, buffer] : tables_) {
    sum += buffer->bytes();
  }
  return sum;
}

const CudaOps::Layers& CudaOps::layers_of(const LinearSet& set) const {
  const auto id = static_cast<std::size_t>(set.id);
  core::require(id < prepared_.size() && !prepared_[id].parts.empty(), ErrorKind::kFailed,
                "layer {} was not made ready for the GPU", set.parts.front().name);
  return prepared_[id];
}

const NormWeights& CudaOps::weights_of(const Norm& norm) {
  const auto at = norms_.find(&norm);
  if (at != norms_.end()) {
    return at->second.view;
  }
  DeviceNorm& made = norms_[&norm];
  made.weight = upload(norm.weight);
  made.view = {norm.kind, made.weight.as<float>(), nullptr, norm.eps};
  if (!norm.bias.empty()) {
    made.bias = upload(norm.bias);
    made.view.bias = made.bias.as<float>();
  }
  return made.view;
}

const AttentionLayer& CudaOps::layer_of(const AttentionSpec& spec) {
  const auto at = attentions_.find(&spec);
  if (at != attentions_.end()) {
    return at->second.view;
  }
  core::require(!spec.mask.bidirectional, ErrorKind::kUsage,
                "attention in both directions does not run on a GPU yet; use --device cpu");
  require_plain(spec);
  DeviceAttention& made = attentions_[&spec];
  AttentionLayer& view = made.view;
  view.layout = kv_->layout();
  view.heads = spec.heads;
  view.rotary = 2 * static_cast<std::int64_t>(spec.inverse_frequency.size());
  view.rope_factor = spec.rope_factor;
  view.norm_eps = spec.norm_eps;
  view.turned = turn_->exists();
  view.turn = turn_->view();
  if (!spec.inverse_frequency.empty()) {
    Buffer& shared = frequencies_[spec.inverse_frequency];
    if (shared.empty()) {
      shared = upload(spec.inverse_frequency);
    }
    view.inverse_frequency = shared.as<float>();
  }
  if (!spec.q_norm.empty()) {
    made.q_norm = upload(spec.q_norm);
    view.q_norm = made.q_norm.as<float>();
  }
  if (!spec.k_norm.empty()) {
    made.k_norm = upload(spec.k_norm);
    view.k_norm = made.k_norm.as<float>();
  }
  if (!spec.key_centre.empty()) {
    made.key_centre = upload(spec.key_centre);
    view.key_centre = made.key_centre.as<float>();
  }
  return view;
}

std::shared_ptr<Buffer> CudaOps::table_of(const core::Tensor& tensor) {
  std::shared_ptr<Buffer>& table = tables_[tensor.raw()];
  if (!table) {
    table = std::make_shared<Buffer>(tensor.bytes());
    table->upload(tensor.raw(), tensor.bytes());
  }
  return table;
}

CudaOps::Adapter CudaOps::adapter_of(const LowRank& low_rank, std::int64_t column) {
  const auto view = [&](const formats::PackedWeight& weight) {
    return DenseView{table_of(weight.dense)->data(), weight.dense.dtype(), weight.n, weight.k};
  };
  return {column, view(low_rank.a), view(low_rank.b), low_rank.scale};
}

EmbeddingTable CudaOps::embedding(const core::Tensor& table) {
  return {table_of(table)->data(), table.dtype(), table.dim(0), table.dim(1)};
}

}  // namespace nibble::ops::cuda
