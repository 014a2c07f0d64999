#include "compress/block/block_work.h"

#include <algorithm>
#include <numeric>

#include "formats/format.h"

namespace nibble::compress {
namespace {

// Each channel has a scale of its own.
void scale_each(InputSource& source, std::int64_t k) {
  source.scales = k;
  source.scale_of.resize(static_cast<std::size_t>(k));
  std::iota(source.scale_of.begin(), source.scale_of.end(), 0);
}

// Channels of the attention's output: head h reads value head h / (heads / kv_heads).
void scale_heads(InputSource& source, const ops::AttentionSpec& spec) {
  source.scales = spec.kv_heads * spec.head_dim;
  for (std::int64_t head = 0; head < spec.heads; ++head) {
    const std::int64_t value_head = head / (spec.heads / spec.kv_heads);
    for (std::int64_t i = 0; i < spec.head_dim; ++i) {
      source.scale_of.push_back(static_cast<std::int32_t>(value_head * spec.head_dim + i));
    }
  }
}

void multiply_columns(std::vector<float>& w, std::span<const float> s) {
  for (std::size_t row = 0; row < w.size(); row += s.size()) {
    for (std::size_t j = 0; j < s.size(); ++j) {
      w[row + j] *= s[j];
    }
  }
}

// values[first + i] /= s[i]; nothing when there are no values (a norm or layer without bias).
void divide(std::vector<float>& values, std::span<const float> s, std::size_t first = 0) {
  for (std::size_t i = 0; i < s.size() && !values.empty(); ++i) {
    values[first + i] /= s[i];
  }
}

// Rows first .. first + s.size() of a layer, with their biases.
void divide_rows(LayerWork& layer, std::int64_t first, std::span<const float> s) {
  const auto k = static_cast<std::size_t>(layer.k());
  for (std::vector<float>* w : {&layer.target, &layer.weights}) {
    float* row = w->data() + first * layer.k();
    for (std::size_t i = 0; i < s.size(); ++i, row += k) {
      std::transform(row, row + k, row, [&](float value) { return value / s[i]; });
    }
  }
  divide(layer.bias, s, static_cast<std::size_t>(first));
  if (layer.curvature != nullptr) {
    layer.curvature->divide_outputs(first, s);
  }
}

// The first layers of attention and MLP, k inputs each.
void link_norm(models::NormPlacement norms, ops::Norm& norm, std::int64_t k, SetWork& set) {
  if (norms == models::NormPlacement::kPost) {
    set.source.why_not = "the residual stream itself (post-norm)";
    return;
  }
  set.source.norm = &norm;
  scale_each(set.source, k);
}

// Whether a positive factor passes through the MLP's activation.
bool commutes(const models::NetworkConfig& config) {
  return config.gated || config.activation == ops::MlpActivation::kRelu;
}

}  // namespace

formats::PackedWeight round_dense(const LayerWork& layer) {
  return formats::round_to_nearest(layer.weights, layer.n(), layer.k(), layer.scheme);
}

std::optional<SetWork> make_set_work(const ops::LinearSet& set,
                                     const std::map<std::string, formats::Scheme>& schemes,
                                     std::map<int, SetCurvature>& curvature) {
  SetWork work;
  work.id = set.id;
  for (const ops::Linear& part : set.parts) {
    const auto scheme = schemes.find(part.name);
    if (scheme == schemes.end()) {
      return std::nullopt;
    }
    LayerWork layer;
    layer.layer = &part;
    layer.scheme = scheme->second;
    layer.target = core::to_float32(part.weight.dense);
    layer.weights = layer.target;
    layer.bias = part.bias;
    work.layers.push_back(std::move(layer));
  }
  if (const auto found = curvature.find(set.id); found != curvature.end()) {
    for (std::size_t i = 0; i < work.layers.size(); ++i) {
      work.layers[i].curvature = &found->second.layers[i];
    }
  }
  return work;
}

BlockWork::BlockWork(const models::NetworkConfig& config, models::NormPlacement norms,
                     const models::Block& block,
                     const std::map<std::string, formats::Scheme>& schemes,
                     std::map<int, SetCurvature>& curvature)
    : attention_norm_(block.attention_norm), mlp_norm_(block.mlp_norm) {
  if (block.cross) {
    cross_norm_ = block.cross->norm;
  }
  for (const ops::LinearSet* set : models::linear_sets(block)) {
    if (auto work = make_set_work(*set, schemes, curvature)) {
      sets_.push_back(*std::move(work));
    }
  }
  link(config, norms, block);
}

void BlockWork::use(std::map<int, InputStatistics>& statistics) {
  for (SetWork& set : sets_) {
    if (const auto found = statistics.find(set.id); found != statistics.end()) {
      set.statistics = &found->second;
    }
  }
}

SetWork* BlockWork::find(const ops::LinearSet& set) {
  for (SetWork& work : sets_) {
    if (work.layers.front().layer == &set.parts.front()) {
      return &work;
    }
  }
  return nullptr;
}

void BlockWork::link(const models::NetworkConfig& config, models::NormPlacement norms,
                     const models::Block& block) {
  const models::Attention& attention = block.attention;
  if (SetWork* const qkv = find(attention.qkv)) {
    link_norm(norms, attention_norm_, attention.qkv.k(), *qkv);
  }
  link_values(attention.qkv, attention.spec, attention.out);
  if (block.cross) {
    link_cross(norms, *block.cross);
  }
  const auto link_mlp = [&](const models::Mlp& mlp) {
    SetWork* const up = find(mlp.up);
    SetWork* const down = find(mlp.down);
    if (up != nullptr && down != nullptr && commutes(config)) {
      down->source.layer = &up->layers.back();
      down->source.first_row =
          up->layers.back().n() - mlp.down.k();  // `up` of gate|up in one layer
      scale_each(down->source, mlp.down.k());
    }
    return up;
  };
  if (block.mlp) {
    if (SetWork* const up = link_mlp(*block.mlp)) {
      link_norm(norms, mlp_norm_, block.mlp->up.k(), *up);
    }
  }
  for (const models::Mlp& expert : block.experts) {
    link_mlp(expert);  // the norm before them feeds all experts and the router: left alone
  }
}

void BlockWork::link_cross(models::NormPlacement norms, const models::CrossAttention& cross) {
  if (SetWork* const q = find(cross.q)) {
    link_norm(norms, *cross_norm_, cross.q.k(), *q);
  }
  if (SetWork* const kv = find(cross.kv)) {
    kv->source.why_not = "the states of the encoder, which other blocks read too";
  }
  link_values(cross.kv, cross.spec, cross.out);
}

// What `out` reads are the values, the last rows of `from`.
void BlockWork::link_values(const ops::LinearSet& from, const ops::AttentionSpec& spec,
                            const ops::LinearSet& out) {
  SetWork* const values = find(from);
  SetWork* const heads = find(out);
  if (values != nullptr && heads != nullptr) {
    heads->source.layer = &values->layers.back();
    heads->source.first_row = values->layers.back().n() - spec.kv_heads * spec.head_dim;
    scale_heads(heads->source, spec);
  }
}

void transform_inputs(LayerWork& layer, const ops::InputTransform& transform,
                      core::ThreadPool& pool) {
  constexpr std::int64_t kRows = 16;  // rows of one task
  const auto k = static_cast<std::size_t>(layer.k());
  for (std::vector<float>* w : {&layer.target, &layer.weights}) {
    pool.parallel_for(layer.n(), kRows, [&](std::int64_t begin, std::int64_t end) {
      for (auto row = static_cast<std::size_t>(begin); row < static_cast<std::size_t>(end); ++row) {
        transform.apply(std::span(*w).subspan(row * k, k));
      }
    });
  }
}

void note_unscaled(SetWork& set) {
  for (LayerWork& layer : set.layers) {
    if (!set.source.why_not.empty()) {
      layer.note = fmt::format("not scaled: it reads {}", set.source.why_not);
    }
  }
}

void scale_inputs(SetWork& set, std::span<const float> s) {
  InputSource& source = set.source;
  core::require(source.scales == static_cast<std::int64_t>(s.size()), core::ErrorKind::kFailed,
                "{} scales for an input with {}", s.size(), source.scales);
  std::vector<float> per_channel;
  for (const std::int32_t scale : source.scale_of) {
    per_channel.push_back(s[static_cast<std::size_t>(scale)]);
  }
  for (LayerWork& layer : set.layers) {
    multiply_columns(layer.target, per_channel);
    multiply_columns(layer.weights, per_channel);
  }
  if (source.norm != nullptr) {
    divide(source.norm->weight, s);
    divide(source.norm->bias, s);
  } else {
    divide_rows(*source.layer, source.first_row, s);
  }
  if (set.statistics != nullptr) {
    set.statistics->divide_inputs(per_channel);
  }
}

}  // namespace nibble::compress
