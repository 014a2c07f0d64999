#include <algorithm>
#include <utility>

#include "ops/cuda/cuda_ops_input.h"
#include "ops/cuda/elementwise/gated_bfloat16.h"
#include "ops/cuda/elementwise/row_codes.h"

/// Linear layers, and what stands between the two of an MLP.
namespace nibble::ops::cuda {

LinearInput CudaOps::Input::of(const LinearLayer& layer) const {
  const InputKey key = layer.key(m_);
  if (rows_.x != nullptr || key.matrix) {
    LinearInput x;
    x.m = m_;
    x.rows = rows_;
    x.matrix = matrix_ ? matrix_->data() : nullptr;
    return x;
  }
  if (made_) {
    return *made_;
  }
  if (stream_ != nullptr) {
    LinearInput x;
    x.m = m_;
    x.target.values = stream_;
    return x;
  }
  return std::find_if(forms_.begin(), forms_.end(),
                      [&](const DeviceInput& each) { return each.key() == key; })
      ->view();
}

// What a set has beside one layer is added to a matrix, and so is what reads the result.
bool CudaOps::fuses(const Layers& layers, std::int64_t m, const Epilogue& epilogue) {
  return layers.parts.size() == 1 && layers.adapters.empty() &&
         !layers.parts.front().refusal(m, epilogue);
}

// Pairs of columns lie at multiples of 4 bytes.
bool CudaOps::writes_halves(const Layers& layers, std::int64_t m) {
  return layers.adapters.empty() &&
         std::all_of(layers.parts.begin(), layers.parts.end(), [&](const LinearLayer& part) {
           return part.n() % 2 == 0 && !part.refusal(m, {.half = true});
         });
}

CudaOps::Matrix CudaOps::linear(Input& input, const LinearSet& set) {
  if (input.type_ == MatrixType::kFloat32) {
    return linear_floats(input, set);
  }
  if (writes_halves(layers_of(set), input.m_)) {
    return linear_parts(input, layers_of(set), MatrixType::kFloat16);
  }
  const Matrix floats = linear_floats(input, set);
  Matrix y = matrix(floats.rows(), floats.columns(), MatrixType::kFloat16);
  y.set_paired(floats.paired());
  convert(view(floats), view(y), y.rows(), y.columns(), stream());
  return y;
}

// The layer of a set as one that may wait for others, if it may.
std::optional<ChainedLayer> CudaOps::chained(const Input& input, const Layers& layers) const {
  if (layers.parts.size() != 1 || !layers.adapters.empty() || input.type_ != MatrixType::kFloat32 ||
      input.m_ != 1) {
    return std::nullopt;
  }
  const LinearLayer& layer = layers.parts.front();
  std::optional<ChainedLayer> chained =
      layer.is_chainable() ? layer.chained(input.of(layer)) : std::nullopt;
  return chained && pending_.takes(*chained) ? chained : std::nullopt;
}

// All parts side by side, without adapters.
CudaOps::Matrix CudaOps::linear_parts(Input& input, const Layers& layers, MatrixType type) {
  Matrix y = matrix(input.m_, layers.n, type);
  y.set_paired(layers.parts.front().paired());
  if (auto layer = y.is_half() ? std::nullopt : chained(input, layers)) {
    layer->y = y.data();
    pending_.add(*layer, stream_.get());
    return y;
  }
  std::int64_t column = 0;
  for (const LinearLayer& part : layers.parts) {
    GemmOutput output;
    if (y.is_half()) {
      output.half = {.values = y.halves() + column, .stride = layers.n};
    } else {
      output.y = y.data() + column;
      output.stride = layers.n;
    }
    part.run(input.of(part), output, stream());
    column += part.n();
  }
  return y;
}

CudaOps::Matrix CudaOps::linear_floats(Input& input, const LinearSet& set) {
  const Layers& layers = layers_of(set);
  Matrix y = linear_parts(input, layers, MatrixType::kFloat32);
  for (const Adapter& adapter : layers.adapters) {
    const Matrix down = matrix(input.m_, adapter.a.n);
    dense(adapter.a, input.matrix_->data(), input.m_, down.data(), down.columns(), nullptr,
          stream());
    dense(adapter.b, down.data(), input.m_, y.data() + adapter.column, layers.n, nullptr, stream(),
          {adapter.scale, true});
  }
  return y;
}

std::optional<CudaOps::Matrix> CudaOps::linear(Input& input, const LinearSet& set,
                                               const Residual<Matrix>& onto) {
  const Layers& layers = layers_of(set);
  if (onto.x.is_half() || !fuses(layers, input.m_, {.adds = true})) {
    return linear(input, set);
  }
  if (auto layer = chained(input, layers)) {
    layer->y = onto.x.data();
    layer->adds = true;
    pending_.add(*layer, stream_.get());
    return std::nullopt;
  }
  const LinearLayer& layer = layers.parts.front();
  layer.run(input.of(layer), {.y = onto.x.data(), .stride = onto.x.columns(), .adds = true},
            stream());
  return std::nullopt;
}

std::optional<InputKey> CudaOps::direct_key(const LinearSet& set, std::int64_t m) const {
  const Layers& layers = layers_of(set);
  const InputKey key = layers.parts.front().key(m);
  const bool same = std::all_of(layers.parts.begin(), layers.parts.end(),
                                [&](const LinearLayer& part) { return part.key(m) == key; });
  return same && key.is_direct() && layers.adapters.empty() ? std::optional(key) : std::nullopt;
}

CudaOps::Input CudaOps::made_input(const LinearInput& made) {
  Input input;
  input.m_ = made.m;
  input.made_ = made;
  return input;
}

bool CudaOps::sends(const Input& input, const LinearSet& set) const {
  return input.type_ == MatrixType::kFloat32 && fuses(layers_of(set), input.m_, {.blocks = true});
}

void CudaOps::send(Input& input, const LinearSet& set, const BlockOutput& output) {
  const LinearLayer& layer = layers_of(set).parts.front();
  layer.run(input.of(layer), {.blocks = output}, stream());
}

CudaOps::Input CudaOps::linear(Input& input, const LinearSet& set, const ActivateInto& into) {
  const Layers& layers = layers_of(set);
  const std::int64_t m = input.m_;
  const Wanted wanted{into.next, m, input.type_};
  const bool half = input.type_ == MatrixType::kFloat16;
  if (into.gated) {
    if (std::optional<Input> result = linear_chained(input, layers, into)) {
      return std::move(*result);
    }
    if (fuses(layers, m, {.gate = into.activation})) {
      return linear_activated(input, set, into);
    }
    if (layers.parts.size() == 1 && layers.adapters.empty() && layers.n % 8 == 0 &&
        layers.parts.front().writes_bfloat16(m)) {
      return gated_through_bfloat16(input, layers.parts.front(), into);
    }
    return make_gated(linear_floats(input, set), into.activation, wanted);
  }
  if (!half) {
    return make_activation(linear_floats(input, set), into.activation, wanted);
  }
  if (layers.n % 2 == 0 && fuses(layers, m, {.half = true, .activation = into.activation})) {
    return linear_activated(input, set, into);
  }
  if (writes_halves(layers, m)) {
    return make_activation(linear_parts(input, layers_of(set), MatrixType::kFloat16),
                           into.activation, wanted);
  }
  // Rounded as by a product, so that the bits are those of more or fewer tokens.
  return CudaOps::input(activated(linear_floats(input, set), into.activation, MatrixType::kFloat16),
                        into.next);
}

bool CudaOps::reads_chained_row(const LinearSet& set) const {
  const Layers& layers = layers_of(set);
  return layers.parts.size() == 1 && layers.adapters.empty() && layers.parts.front().is_chainable();
}

CudaOps::Input CudaOps::chained_row(std::int64_t width) {
  Input row;
  row.m_ = 1;
  row.matrix_ = matrix(1, width);
  row.rows_.x = row.matrix_->data();
  return row;
}

// Of one token, where the layers of both sets may wait for each other: the next ones read a row.
std::optional<CudaOps::Input> CudaOps::linear_chained(const Input& input, const Layers& layers,
                                                      const ActivateInto& into) {
  if (!reads_chained_row(into.next) || !layers.parts.front().paired()) {
    return std::nullopt;
  }
  std::optional<ChainedLayer> layer = chained(input, layers);
  if (!layer) {
    return std::nullopt;
  }
  Input result = chained_row(layers.n / 2);
  layer->y = result.matrix_->data();
  layer->gate = into.activation;
  pending_.add(*layer, stream_.get());
  return result;
}

namespace {

// Whether a product can write all that layers with this input read: codes of one stored scale.
bool takes_codes(const InputTarget& target, std::int64_t width) {
  return takes_row_codes(target) && target.scale != 0.0f && width % kInputPadding == 0;
}

}  // namespace

// By the layer's product, in float16 or as codes.
CudaOps::Input CudaOps::linear_activated(Input& input, const LinearSet& set,
                                         const ActivateInto& into) {
  const LinearLayer& layer = layers_of(set).parts.front();
  const std::int64_t m = input.m_;
  const std::int64_t width = into.gated ? layer.n() / 2 : layer.n();
  bool has_sums = true;
  const auto run = [&](core::Fp16* values, bool tiles) {
    layer.run(input.of(layer), {.half = {values, width, into.activation, into.gated, tiles}},
              stream());
  };
  const Wanted wanted{into.next, m, input.type_};
  const bool checks = wanted.type == MatrixType::kFloat16;
  std::int32_t* const range = checks ? range_.on_device() : nullptr;
  Input result = make_input(
      wanted,
      [&](const InputTarget& target) {
        if (!into.gated && takes_codes(target, width) &&
            fuses(layers_of(set), m,
                  {.half = true, .activation = into.activation, .codes = true})) {
          const CodeOutput codes{target.codes,  width, into.activation, target.scale, target.bits,
                                 target.scales, range};
          return layer.run(input.of(layer), {.codes = codes}, stream());
        }
        if (target.form != InputForm::kFloat16 && is_half(target.form) &&
            width % kInputPadding == 0 && !checks) {
          has_sums = false;
          return run(target.values, true);
        }
        const PooledBuffer halves(pool_, m * width * 2);
        run(halves.as<core::Fp16>(), false);
        cuda::input({halves.as<core::Fp16>(), range}, target, m, width, stream());
      },
      [&] {
        const Matrix y = linear_floats(input, set);
        return into.gated ? gated_matrix(y, into.activation)
                          : activated(y, into.activation, MatrixType::kFloat32);
      },
      [](const InputKey& key) {  // float16 has not enough digits for 16 bits, or range for bfloat16
        return is_half(key.form) || (!has_values(key.form) && key.bits < 16);
      });
  if (!has_sums) {
    result.forms_.front().drop_sums();
  }
  return result;
}

CudaOps::Input CudaOps::gated_through_bfloat16(Input& input, const LinearLayer& layer,
                                               const ActivateInto& into) {
  const std::int64_t m = input.m_;
  const std::int64_t width = layer.n() / 2;
  const PooledBuffer gate_up(pool_, m * layer.n() * 2);
  auto* const values = gate_up.as<std::uint16_t>();
  layer.run_bfloat16(input.of(layer), {values, layer.n()}, stream());
  return make_input(
      {into.next, m, input.type_},
      [&](const InputTarget& target) {
        gated_bfloat16(values, into.activation, target, m, width, stream());
      },
      [&] {
        Matrix y = matrix(m, width);
        gated_bfloat16_matrix(values, into.activation, y.data(), m, width, stream());
        return y;
      },
      [](const InputKey& key) { return has_values(key.form); });
}

CudaOps::Input CudaOps::mlp_activation(const Matrix& x, MlpActivation activation,
                                       const LinearSet& set) {
  return make_activation(x, activation, {set, x.rows(), x.type()});
}

CudaOps::Input CudaOps::make_activation(const Matrix& x, MlpActivation activation,
                                        const Wanted& wanted) {
  return make_input(
      wanted,
      [&](const InputTarget& target) {
        cuda::mlp_activation(view(x), activation, target, x.rows(), x.columns(), stream());
      },
      [&] { return activated(x, activation, MatrixType::kFloat32); });
}

CudaOps::Matrix CudaOps::activated(const Matrix& x, MlpActivation activation, MatrixType type) {
  Matrix y = matrix(x.rows(), x.columns(), type);
  mlp_activation_matrix(view(x), activation, view(y), x.rows(), x.columns(), stream());
  return y;
}

CudaOps::Input CudaOps::gated_activation(const Matrix& gate_up, MlpActivation activation,
                                         const LinearSet& set) {
  return make_gated(gate_up, activation, {set, gate_up.rows(), gate_up.type()});
}

CudaOps::Input CudaOps::make_gated(const Matrix& gate_up, MlpActivation activation,
                                   const Wanted& wanted) {
  const std::int64_t width = gate_up.columns() / 2;
  const GateUp both(gate_up.data(), gate_up.paired());
  return make_input(
      wanted,
      [&](const InputTarget& target) {
        cuda::gated_activation(both, activation, target, wanted.m, width, stream());
      },
      [&] { return gated_matrix(gate_up, activation); });
}

CudaOps::Matrix CudaOps::gated_matrix(const Matrix& gate_up, MlpActivation activation) {
  Matrix y = matrix(gate_up.rows(), gate_up.columns() / 2);
  gated_activation_matrix({gate_up.data(), gate_up.paired()}, activation, y.data(), y.rows(),
                          y.columns(), stream());
  return y;
}

}  // namespace nibble::ops::cuda
