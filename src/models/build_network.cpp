#include "models/build_network.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "formats/column_slice.h"
#include "formats/row_slice.h"
#include "models/build_heads.h"

namespace nibble::models {
namespace {

std::string numbered(std::string_view pattern, std::int64_t number) {
  return fmt::format(fmt::runtime(pattern), number);
}

class Builder {
 public:
  Builder(const Architecture& architecture, const TensorNames& names, WeightLoader& loader,
          const Shard& shard)
      : architecture_(architecture),
        config_(architecture.config),
        names_(names),
        loader_(loader),
        shard_(shard),
        root_(root()),
        stack_root_(root_ + std::string(architecture.is_encoder ? names.encoder : names.decoder)) {}

  Network build() {
    Network network;
    network.config = config_;
    if (architecture_.encoder) {
      const Architecture architecture = encoder_of(architecture_);
      Builder encoder(architecture, names_, loader_, shard_);
      network.encoder_embeddings = encoder.embeddings();
      network.encoder = encoder.stack();
    }
    network.embeddings = embeddings();
    if (architecture_.is_encoder) {
      network.encoder = stack();
      build_heads(architecture_, names_, root_, loader_, network);
    } else {
      network.decoder = stack();
      network.project_out = projection(names_.project_out, embedding_width(), config_.hidden);
      network.output = output(network.embeddings);
    }
    require_all_used();
    return network;
  }

 private:
  // The encoder of an encoder-decoder, as if it stood alone.
  static Architecture encoder_of(const Architecture& both) {
    Architecture encoder = both;
    encoder.is_encoder = true;
    encoder.encoder.reset();
    encoder.config.layers = both.encoder->layers;
    encoder.config.heads = encoder.config.kv_heads = both.encoder->heads;
    encoder.config.head_dim = both.config.hidden / both.encoder->heads;
    encoder.config.ffn = both.encoder->ffn;
    encoder.config.windows.assign(static_cast<std::size_t>(both.encoder->layers), 0);
    return encoder;
  }

  std::string root() const {
    for (const std::string_view root : names_.roots) {
      if (loader_.contains(fmt::format("{}{}.weight", root, names_.embedding))) {
        return std::string(root);
      }
    }
    return std::string(names_.roots.back());
  }

  Embeddings embeddings() {
    Embeddings tables;
    tables.tokens_name = fmt::format("{}{}.weight", root_, names_.embedding);
    tables.tokens = tokens(tables.tokens_name);
    tables.scale = architecture_.embedding_scale;
    tables.project_in = projection(names_.project_in, config_.hidden, embedding_width());
    if (!names_.positions.empty()) {
      tables.positions_name = fmt::format("{}{}.weight", stack_root_, names_.positions);
      tables.positions = loader_.matrix(
          tables.positions_name, config_.max_positions + config_.position_offset, config_.hidden);
    }
    if (architecture_.token_types > 0) {
      tables.types = loader_.matrix(fmt::format("{}{}.weight", stack_root_, names_.token_types),
                                    architecture_.token_types, config_.hidden);
    }
    if (!names_.embedding_norm.empty()) {
      tables.norm = norm(stack_root_ + std::string(names_.embedding_norm));
    }
    return tables;
  }

  // The output of a tied model multiplies by the table, and ranks have some of its rows: these are
  // plain.
  TokenTable tokens(const std::string& name) {
    TokenTable table = loader_.table(name, config_.vocabulary, embedding_width());
    if (shard_.whole()) {
      return config_.tied_output ? TokenTable(table.plain()) : table;
    }
    const Range here = tokens_here();
    return table.plain_rows(here.begin, here.end);
  }

  std::int64_t embedding_width() const {
    return architecture_.embedding_width > 0 ? architecture_.embedding_width : config_.hidden;
  }

  // Between the hidden width and that of the embedding, where they differ.
  std::optional<ops::LinearSet> projection(std::string_view name, std::int64_t n, std::int64_t k) {
    if (embedding_width() == config_.hidden) {
      return std::nullopt;
    }
    return loader_.set({loader_.linear(root_ + std::string(name), n, k, false)});
  }

  Stack stack() {
    Stack stack;
    stack.norms = architecture_.norms;
    if (architecture_.final_norm) {
      stack.final_norm = norm(stack_root_ + std::string(names_.final_norm));
    }
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      stack.blocks.push_back(block(layer));
    }
    return stack;
  }

  Block block(std::int64_t layer) {
    const std::string prefix = stack_root_ + numbered(names_.block, layer) + ".";
    Block block;
    block.attention_norm = norm(prefix + std::string(names_.attention_norm));
    block.attention_out_norm = optional_norm(prefix, names_.attention_out_norm);
    block.mlp_norm = norm(prefix + std::string(names_.mlp_norm));
    block.mlp_out_norm = optional_norm(prefix, names_.mlp_out_norm);
    block.attention = attention(prefix, layer);
    if (architecture_.encoder) {
      block.cross = cross_attention(prefix);
    }
    if (config_.routing.experts == 0) {
      block.mlp = mlp(prefix, names_.mlp, config_.ffn);
      return block;
    }
    if (const std::int64_t width = dense_ffn(layer); width > 0) {
      block.mlp = mlp(prefix, names_.dense_mlp, width);
      return block;
    }
    block.router = set(prefix, {names_.router}, {config_.routing.experts}, config_.hidden);
    for (std::int64_t expert = 0; expert < config_.routing.experts; ++expert) {
      block.experts.push_back(
          mlp(prefix + numbered(names_.expert, expert) + ".", names_.mlp, config_.ffn));
    }
    return block;
  }

  std::int64_t dense_ffn(std::int64_t layer) const {
    const auto& widths = architecture_.dense_ffn;
    return widths.empty() ? 0 : widths[static_cast<std::size_t>(layer)];
  }

  std::optional<ops::Norm> optional_norm(const std::string& prefix, std::string_view name) {
    return name.empty() ? std::nullopt : std::optional(norm(prefix + std::string(name)));
  }

  Attention attention(const std::string& prefix, std::int64_t layer) {
    const std::int64_t width = config_.heads * config_.head_dim;
    const std::int64_t kv_width = config_.kv_heads * config_.head_dim;
    const bool fused = names_.qkv.size() == 1;
    const std::vector<std::int64_t> apart = {width, kv_width, kv_width};
    const HeadRanges here = heads_of(config_, shard_);
    const Range heads = times(here.heads, config_.head_dim);
    const Range kv_heads = times(here.kv_heads, config_.head_dim);
    std::vector<std::vector<Range>> rows = {{heads}, {kv_heads}, {kv_heads}};
    if (fused) {
      rows = {{heads, shifted(kv_heads, width), shifted(kv_heads, width + kv_width)}};
    }
    Attention attention;
    attention.qkv = set(prefix, names_.qkv, fused ? std::vector{width + 2 * kv_width} : apart,
                        config_.hidden, rows);
    attention.out = behind(layer_of(prefix, names_.attention_out, config_.hidden, width,
                                    has_bias(prefix, names_.attention_out)),
                           heads);
    attention.spec = spec(prefix, layer);
    attention.spec.heads = here.heads.size();
    attention.spec.kv_heads = here.kv_heads.size();
    attention.spec.key_centre = elements(loader_.key_centre(attention.qkv, kv_width), {kv_heads});
    return attention;
  }

  static Range times(const Range& range, std::int64_t factor) {
    return {range.begin * factor, range.end * factor};
  }
  static Range shifted(const Range& range, std::int64_t by) {
    return {range.begin + by, range.end + by};
  }
  Range outputs_here(std::int64_t count) const { return part_of(count, shard_, "outputs"); }
  Range tokens_here() const { return part_of(config_.vocabulary, shard_, "tokens"); }

  // Those of `values` that lie in the ranges, one range after another.
  static std::vector<float> elements(const std::vector<float>& values,
                                     const std::vector<Range>& ranges) {
    std::vector<float> here;
    for (const Range& range : values.empty() ? std::vector<Range>() : ranges) {
      here.insert(here.end(), values.begin() + range.begin, values.begin() + range.end);
    }
    return here;
  }

  // What this rank has of a layer: a layer for each range of its rows, of the same name.
  void append_part(const ops::Linear& layer, const std::vector<Range>& rows,
                   std::vector<ops::Linear>& parts) const {
    if (shard_.whole()) {
      parts.push_back(layer);
      return;
    }
    for (const Range& range : rows) {
      ops::Linear& part = parts.emplace_back();
      part.name = layer.name;
      part.weight = formats::own_rows_of(layer.weight, range.begin, range.end);
      part.bias = elements(layer.bias, {range});
    }
  }

  CrossAttention cross_attention(const std::string& prefix) {
    const CrossNames& names = names_.cross;
    const std::int64_t width = config_.heads * config_.head_dim;
    CrossAttention cross;
    cross.norm = norm(prefix + std::string(names.norm));
    cross.q = set(prefix, {names.q}, {width}, config_.hidden);
    cross.kv = set(prefix, {names.k, names.v}, {width, width}, config_.hidden);
    cross.out = set(prefix, {names.out}, {config_.hidden}, width);
    cross.spec.heads = cross.spec.kv_heads = config_.heads;
    cross.spec.head_dim = config_.head_dim;
    cross.spec.mask.bidirectional = true;
    return cross;
  }

  ops::AttentionSpec spec(const std::string& prefix, std::int64_t layer) {
    ops::AttentionSpec spec;
    spec.heads = config_.heads;
    spec.kv_heads = config_.kv_heads;
    spec.head_dim = config_.head_dim;
    spec.mask.bidirectional = architecture_.is_encoder;
    spec.mask.window = config_.windows[static_cast<std::size_t>(layer)];
    const bool local = spec.mask.window > 0 && !config_.local_inverse_frequency.empty();
    spec.inverse_frequency = local ? config_.local_inverse_frequency : config_.inverse_frequency;
    spec.rope_factor = local ? 1.0f : config_.rope_factor;
    spec.scale = architecture_.score_scale;
    spec.softcap = architecture_.score_softcap;
    spec.norm_eps = config_.norm_eps;
    take_norms(prefix, spec);
    return spec;
  }

  // Norms of queries and keys, where the checkpoint has them. They take a scale of the scores,
  // which devices know otherwise only as the root of the head size.
  void take_norms(const std::string& prefix, ops::AttentionSpec& spec) {
    const std::string q_norm = fmt::format("{}{}.weight", prefix, names_.q_norm);
    if (names_.q_norm.empty() || !loader_.contains(q_norm)) {
      return;
    }
    spec.q_norm = head_norm(q_norm);
    spec.k_norm = head_norm(fmt::format("{}{}.weight", prefix, names_.k_norm));
    const float factor = spec.score_scale() * std::sqrt(static_cast<float>(spec.head_dim));
    for (float& value : spec.q_norm) {
      value *= spec.scale > 0.0f ? factor : 1.0f;
    }
    spec.scale = 0.0f;
  }

  std::vector<float> head_norm(const std::string& name) {
    std::vector<float> weight = loader_.vector(name, config_.head_dim);
    for (float& value : weight) {
      value += architecture_.norms_stored_less;
    }
    return weight;
  }

  Mlp mlp(const std::string& prefix, const MlpNames& names, std::int64_t ffn) {
    ops::Linear down =
        layer_of(prefix, names.down, config_.hidden, ffn, has_bias(prefix, names.down));
    const Range rows = by_inputs() ? middle_of(ffn, shard_, step_of(down)) : outputs_here(ffn);
    Mlp mlp;
    if (!names.gate.empty()) {
      mlp.up = set(prefix, {names.gate, names.up}, {ffn, ffn}, config_.hidden, {{rows}, {rows}});
    } else if (config_.gated) {
      mlp.up = set(prefix, {names.up}, {2 * ffn}, config_.hidden, {{rows, shifted(rows, ffn)}});
    } else {
      mlp.up = set(prefix, {names.up}, {ffn}, config_.hidden, {{rows}});
    }
    mlp.up.pairs = mlp.up.parts.size() == 2;
    mlp.down = behind(std::move(down), rows);
    return mlp;
  }

  bool by_inputs() const { return !shard_.whole() && shard_.cut == Cut::kInputs; }

  // Where a layer can be cut by inputs.
  std::int64_t step_of(const ops::Linear& layer) const {
    const auto cuts = formats::column_cuts(layer.weight.scheme, layer.weight.k);
    core::require(cuts.refusal.empty(), core::ErrorKind::kUsage,
                  "{} is {} and cannot be divided among {} GPUs: {}; use one, or --device cpu",
                  core::printable(layer.name), layer.weight.scheme, shard_.size, cuts.refusal);
    return cuts.step;
  }

  // What this rank has of a layer behind the heads or the middle of an MLP: some outputs, or what
  // becomes of `inputs`. Rank 0 adds the bias then.
  ops::LinearSet behind(ops::Linear layer, const Range& inputs) {
    std::vector<ops::Linear> parts;
    if (!by_inputs()) {
      append_part(layer, {outputs_here(config_.hidden)}, parts);
      return loader_.set(std::move(parts));
    }
    const std::int64_t step = step_of(layer);
    const bool fits =
        inputs.begin % step == 0 && (inputs.end % step == 0 || inputs.end == layer.weight.k);
    core::require(fits, core::ErrorKind::kUsage,
                  "{} is {}, which can be cut at multiples of {} inputs, and {} GPUs would cut it "
                  "at {}; use another number of them, or --device cpu",
                  core::printable(layer.name), layer.weight.scheme, step, shard_.size,
                  inputs.begin % step == 0 ? inputs.end : inputs.begin);
    layer.weight = formats::columns_of(layer.weight, inputs.begin, inputs.end);
    if (shard_.rank != 0) {
      layer.bias.clear();
    }
    parts.push_back(std::move(layer));
    return loader_.set(std::move(parts));
  }

  bool has_bias(const std::string& prefix, std::string_view first) const {
    return names_.biases == Biases::kAll ||
           (names_.biases == Biases::kAsStored &&
            loader_.contains(fmt::format("{}{}.bias", prefix, first)));
  }

  ops::Linear layer_of(const std::string& prefix, std::string_view name, std::int64_t n,
                       std::int64_t k, bool bias) {
    const std::string full = prefix + std::string(name);
    return names_.conv1d ? loader_.conv1d(full, n, k) : loader_.linear(full, n, k, bias);
  }

  // Layers of the rows `n` that read the same k inputs, and of each the rows that this rank has: in
  // `rows`, or all where that is empty.
  ops::LinearSet set(const std::string& prefix, const std::vector<std::string_view>& names,
                     const std::vector<std::int64_t>& n, std::int64_t k,
                     const std::vector<std::vector<Range>>& rows = {}) {
    const bool bias = has_bias(prefix, names.front());
    std::vector<ops::Linear> parts;
    for (std::size_t i = 0; i < names.size(); ++i) {
      append_part(layer_of(prefix, names[i], n[i], k, bias),
                  rows.empty() ? std::vector{Range{0, n[i]}} : rows[i], parts);
    }
    return loader_.set(std::move(parts));
  }

  ops::Norm norm(const std::string& name) {
    return loader_.norm(name, config_.norm, config_.hidden, config_.norm_eps,
                        architecture_.norms_stored_less);
  }

  ops::LinearSet output(const Embeddings& tables) {
    const Range here = tokens_here();
    if (!config_.tied_output) {
      std::vector<ops::Linear> parts;
      append_part(loader_.linear(kOutputName, config_.vocabulary, embedding_width(), false), {here},
                  parts);
      return loader_.set(std::move(parts));
    }
    ops::Linear tied;
    tied.name = root_ + std::string(names_.embedding);
    tied.weight = formats::dense_weight(tables.tokens.plain());
    if (!names_.output_bias.empty()) {
      tied.bias = elements(
          core::to_float32(loader_.matrix(std::string(names_.output_bias), 1, config_.vocabulary)),
          {here});
    }
    return loader_.set({std::move(tied)});
  }

  void require_all_used() const {
    std::vector<std::string_view> harmless = names_.harmless;
    if (config_.tied_output) {
      harmless.push_back("lm_head.weight");
    }
    loader_.require_all_used(config_.family, harmless, names_.left_out);
  }

  const Architecture& architecture_;
  const NetworkConfig& config_;
  const TensorNames& names_;
  WeightLoader& loader_;
  const Shard shard_;
  std::string root_;
  std::string stack_root_;
};

}  // namespace

Network build_network(const Architecture& architecture, const TensorNames& names,
                      WeightLoader& loader, const Shard& shard) {
  require_divisible(architecture, shard);
  return Builder(architecture, names, loader, shard).build();
}

}  // namespace nibble::models
