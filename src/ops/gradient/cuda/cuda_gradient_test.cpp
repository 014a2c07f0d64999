// Values and gradients of a GPU's operators beside those of a CPU.

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>

#include <gtest/gtest.h>

#include "models/forward.h"
#include "models/model.h"
#include "ops/gradient/cuda/cuda_gradient_for_tests.h"

namespace nibble::ops::gradient {
namespace {

TEST_P(CudaGradient, OfNorms) {
  for (const NormKind kind : {NormKind::kRms, NormKind::kLayer}) {
    for (const auto& [rows, columns] : kShapes) {
      if (columns == 1 && kind == NormKind::kLayer) {
        continue;  // a variance of 0
      }
      const Norm norm{"norm", kind, random(columns),
                      kind == NormKind::kLayer ? random(columns) : std::vector<float>(), 1e-5f};
      const std::string what = std::to_string(rows) + " x " + std::to_string(columns);
      const cpu::Matrix x = random(rows, columns);
      const cpu::Matrix g = random(rows, columns);
      cpu::Matrix dx = random(rows, columns);
      const DeviceMatrix device_x = on_gpu(x);
      DeviceMatrix device_dx = on_gpu(dx);
      expect_near(gpu_->norm_matrix(device_x, norm), host_.norm_matrix(x, norm), what);
      std::vector<float> slope = random(2 * columns);
      const Buffer device_slope = Buffer::of(std::span<const float>(slope));
      ParameterGradients parameters;
      ParameterGradients device_parameters;
      const auto count = static_cast<std::size_t>(columns);
      parameters.add(norm.weight, std::span(slope).first(count));
      device_parameters.add(norm.weight, {device_slope.as<float>(), count});
      if (!norm.bias.empty()) {
        parameters.add(norm.bias, std::span(slope).last(count));
        device_parameters.add(norm.bias, {device_slope.as<float>() + count, count});
      }
      host_.norm_back(norm, x, g, &parameters, dx);
      gpu_->norm_back(norm, device_x, on_gpu(g), &device_parameters, device_dx);
      expect_near(device_dx, dx, what + " back");
      stream_->synchronize();
      expect_near(device_slope.values<float>(), slope, what + " at weight and bias");
      gpu_->release();
    }
  }
}

TEST_P(CudaGradient, OfActivations) {
  const LinearSet none;
  for (const auto activation :
       {MlpActivation::kSilu, MlpActivation::kGelu, MlpActivation::kGeluTanh, MlpActivation::kRelu,
        MlpActivation::kTanh}) {
    for (const auto& [rows, columns] : kShapes) {
      const std::string what = std::to_string(static_cast<int>(activation)) + ": " +
                               std::to_string(rows) + " x " + std::to_string(columns);
      const cpu::Matrix x = random(rows, 2 * columns);
      const cpu::Matrix g = random(rows, 2 * columns);
      const cpu::Matrix gated_g = random(rows, columns);
      const DeviceMatrix device_x = on_gpu(x);
      expect_near(gpu_->activation(device_x, activation), host_.activation(x, activation), what);
      expect_near(gpu_->gated_activation(device_x, activation, none),
                  host_.gated_activation(x, activation, none), what + " gated");
      cpu::Matrix dx = random(rows, 2 * columns);
      DeviceMatrix device_dx = on_gpu(dx);
      host_.activation_back(activation, x, g, dx);
      gpu_->activation_back(activation, device_x, on_gpu(g), device_dx);
      host_.gated_activation_back(activation, x, gated_g, dx);
      gpu_->gated_activation_back(activation, device_x, on_gpu(gated_g), device_dx);
      expect_near(device_dx, dx, what + " back");
    }
  }
}

TEST_P(CudaGradient, OfLinearLayers) {
  for (const auto& [rows, columns] : kShapes) {
    LinearSet set{0, {}};
    set.parts.push_back(layer(5, columns, true));
    set.parts.push_back(layer(33, columns, false));
    set.parts.push_back(layer(64, columns, true));
    const std::string what = std::to_string(rows) + " x " + std::to_string(columns);
    const cpu::Matrix x = random(rows, columns);
    const cpu::Matrix g = random(rows, set.n());
    cpu::Matrix dx = random(rows, columns);
    const DeviceMatrix device_x = on_gpu(x);
    const DeviceMatrix device_g = on_gpu(g);
    DeviceMatrix device_dx = on_gpu(dx);
    gpu_->load(set);
    expect_near(gpu_->linear(device_x, set), host_.linear(x, set), what);

    std::vector<float> slope = random(33 * columns);
    const Buffer device_slope = Buffer::of(std::span<const float>(slope));
    std::vector<float> bias_slope = random(64);
    const Buffer device_bias_slope = Buffer::of(std::span<const float>(bias_slope));
    LinearWitness<cpu::Matrix> witness;
    ParameterGradients parameters;
    parameters.add(set.parts[1].weight, slope);
    parameters.add(set.parts[2].bias, bias_slope);
    witness.parameters = &parameters;
    host_.linear_back(set, x, g, witness, dx);
    LinearWitness<DeviceMatrix> device_witness;
    ParameterGradients device_parameters;
    device_parameters.add(set.parts[1].weight, {device_slope.as<float>(), slope.size()});
    device_parameters.add(set.parts[2].bias, {device_bias_slope.as<float>(), bias_slope.size()});
    device_witness.parameters = &device_parameters;
    int calls = 0;
    device_witness.observer = [&](const LinearSet& seen, const DeviceMatrix& read,
                                  const DeviceMatrix& gradient) {
      ++calls;
      EXPECT_EQ(&seen, &set);
      EXPECT_EQ(read.columns(), columns);
      EXPECT_EQ(gradient.columns(), set.n());
    };
    gpu_->linear_back(set, device_x, device_g, device_witness, device_dx);
    EXPECT_EQ(calls, 1);
    expect_near(device_dx, dx, what + " at x");
    stream_->synchronize();
    expect_near(device_slope.values<float>(), slope, what + " at a weight");
    expect_near(device_bias_slope.values<float>(), bias_slope, what + " at a bias");
    gpu_->release();
  }
}

TEST_P(CudaGradient, OfAttention) {
  struct Case {
    std::int64_t heads;
    std::int64_t kv_heads;
    std::int64_t head_dim;
    std::int64_t rotary;
    Mask mask;
    float softcap;
    bool has_norms;
  };
  const Case cases[] = {
      {4, 4, 8, 8, {}, 0.0f, false},
      {6, 2, 16, 8, {}, 0.0f, true},
      {3, 1, 20, 20, {}, 2.0f, false},
      {4, 2, 8, 0, {.window = 4}, 0.0f, false},
      {2, 2, 64, 64, {.bidirectional = true}, 0.0f, false},
  };
  const std::vector<std::vector<std::int64_t>> texts = {{1}, {15, 9}, {700, 3}};
  const LinearSet none;
  for (const Case& c : cases) {
    AttentionSpec spec;
    spec.heads = c.heads;
    spec.kv_heads = c.kv_heads;
    spec.head_dim = c.head_dim;
    spec.mask = c.mask;
    spec.softcap = c.softcap;
    for (std::int64_t i = 0; i < c.rotary / 2; ++i) {
      spec.inverse_frequency.push_back(1.0f / static_cast<float>(i + 1));
    }
    if (c.has_norms) {
      spec.q_norm = random(c.head_dim);
      spec.k_norm = random(c.head_dim);
    }
    for (const auto& lengths : texts) {
      const std::string what = std::to_string(c.heads) + " heads of " + std::to_string(c.head_dim) +
                               ", rows " + std::to_string(lengths.front());
      std::vector<std::int32_t> positions;
      std::vector<SequenceSlice<cpu::KvCache>> slices;
      for (const std::int64_t length : lengths) {
        slices.push_back({nullptr, 0, std::ssize(positions), length});
        positions.resize(positions.size() + static_cast<std::size_t>(length));
        std::iota(positions.end() - length, positions.end(), 0);
      }
      const Batch<cpu::KvCache> batch{{}, positions, slices};
      const std::int64_t rows = std::ssize(positions);
      const cpu::Matrix qkv = random(rows, (c.heads + 2 * c.kv_heads) * c.head_dim);
      const cpu::Matrix g = random(rows, c.heads * c.head_dim);
      cpu::Matrix dqkv = random(rows, qkv.columns());
      const DeviceMatrix device_qkv = on_gpu(qkv);
      DeviceMatrix device_dqkv = on_gpu(dqkv);
      CpuOperators::Attended seen;
      CudaOperators::Attended device_seen;
      const cpu::Matrix y = host_.attention(qkv, spec, batch, none, seen);
      const DeviceMatrix device_y = gpu_->attention(device_qkv, spec, batch, none, device_seen);
      expect_near(device_y, y, what, 2.0);
      host_.attention_back(spec, seen, qkv, y, g, dqkv);
      gpu_->attention_back(spec, device_seen, device_qkv, device_y, on_gpu(g), device_dqkv);
      expect_near(device_dqkv, dqkv, what + " back", 2.0);
    }
    gpu_->release();
  }
}

TEST_P(CudaGradient, OfRowsThatMove) {
  const cpu::Matrix x = random(9, 33);
  const cpu::Matrix few = random(4, 33);
  const ExpertRows expert{{7, 0, 3, 8}, random(4)};
  cpu::Matrix gathered_dx = random(9, 33);
  cpu::Matrix scattered_dx = random(4, 33);
  DeviceMatrix device_gathered_dx = on_gpu(gathered_dx);
  DeviceMatrix device_scattered_dx = on_gpu(scattered_dx);
  expect_near(gpu_->gather(on_gpu(x), expert.rows), host_.gather(x, expert.rows), "gather");
  host_.gather_back(expert.rows, few, gathered_dx);
  gpu_->gather_back(expert.rows, on_gpu(few), device_gathered_dx);
  expect_near(device_gathered_dx, gathered_dx, "gather back");
  cpu::Matrix sum = random(9, 33);
  DeviceMatrix device_sum = on_gpu(sum);
  host_.scatter_add(sum, few, expert);
  gpu_->scatter_add(device_sum, on_gpu(few), expert);
  expect_near(device_sum, sum, "scatter");
  host_.scatter_add_back(expert, x, scattered_dx);
  gpu_->scatter_add_back(expert, on_gpu(x), device_scattered_dx);
  expect_near(device_scattered_dx, scattered_dx, "scatter back");
  expect_near(gpu_->scaled(on_gpu(x), -1.5f), host_.scaled(x, -1.5f), "scaled");
}

// What the tape does with a whole forward pass, and twice the same bits.
class CudaTape : public CudaGradient {
 protected:
  template <typename O>
  static auto run(O& ops, const models::Network& network, typename O::Matrix x,
                  std::span<const std::int32_t> positions) {
    const std::vector<SequenceSlice<cpu::KvCache>> slices = {{nullptr, 0, 0, 15},
                                                             {nullptr, 0, 15, 9}};
    models::run_stack(ops, network.config, network.decoder, {{}, positions, slices}, x);
    return x;
  }

  void expect_agreement(const std::string& family) {
    constexpr std::int64_t kRows = 24;
    const auto model = models::open_model(kFamilies / family);
    MlpActivation& activation = model->network.config.activation;
    if (activation == MlpActivation::kRelu) {
      activation = MlpActivation::kGelu;  // bf16 moves inputs across the kink, where slopes jump
    }
    const models::Network& network = model->network;
    const std::int64_t hidden = network.config.hidden;
    std::vector<std::int32_t> positions(kRows);
    std::iota(positions.begin(), positions.end(), 0);
    const cpu::Matrix start = random(kRows, hidden);
    const cpu::Matrix g = random(kRows, hidden);
    const formats::PackedWeight& weight =
        network.decoder.blocks.front().attention.qkv.parts.front().weight;
    const auto count = static_cast<std::size_t>(weight.n * weight.k);

    GradientOps tape(ops_);
    std::vector<float> slope(count);
    ParameterGradients parameters;
    parameters.add(weight, slope);
    tape.set_parameters(&parameters);
    const Variable x = tape.variable(ops_.copy(start));
    const Variable y = run(tape, network, x, positions);
    tape.backward(y, ops_.copy(g));

    for (const models::Block& block : network.decoder.blocks) {
      for (const LinearSet* set : models::linear_sets(block)) {
        gpu_->load(*set);
      }
    }
    std::vector<float> first;
    for (int trial = 0; trial < 2; ++trial) {
      CudaGradientOps device_tape(*gpu_);
      const Buffer device_slope = Buffer::of(std::span<const float>(std::vector<float>(count)));
      ParameterGradients device_parameters;
      device_parameters.add(weight, {device_slope.as<float>(), count});
      device_tape.set_parameters(&device_parameters);
      const auto device_x = device_tape.variable(on_gpu(start));
      const auto device_y = run(device_tape, network, device_x, positions);
      expect_near(device_y.value(), y.value(), family, 4.0);
      device_tape.backward(device_y, on_gpu(g));
      expect_near(device_x.gradient(), x.gradient(), family + " at x", 8.0);
      stream_->synchronize();
      const auto found = device_slope.values<float>();
      expect_near(found, slope, family + " at a weight", 8.0);
      if (trial == 0) {
        first = found;
      }
      EXPECT_EQ(found, first) << family;
    }
    gpu_->release();
  }
};

TEST_P(CudaTape, AgreesWithTheCpu) {
  for (const char* family :
       {"llama", "llama-bias-tied", "llama-yarn-rope", "mistral", "qwen2", "qwen2-window", "qwen3",
        "gemma2", "gemma3-text", "phi3", "gpt2", "opt", "opt-post-norm", "mixtral"}) {
    expect_agreement(family);
  }
}

TEST_P(CudaTape, RefusesWhatItDoesNotTrain) {
  const core::Tensor table = core::Tensor::zeros(core::DType::kF32, {4, 8});
  std::vector<float> slope(32);
  ParameterGradients parameters;
  parameters.add(table, slope);
  const std::int32_t ids[] = {1, 2};
  EXPECT_THROW(gpu_->embed_back(table, ids, 0, on_gpu(random(2, 8)), &parameters), core::Error);
  const LinearSet set{0, {layer(4, 8, false)}};
  EXPECT_THROW((void)gpu_->linear(on_gpu(random(2, 8)), set), core::Error);  // not loaded
}

INSTANTIATE_TEST_SUITE_P(All, CudaGradient, kPrecisions, name_of);
INSTANTIATE_TEST_SUITE_P(All, CudaTape, kPrecisions, name_of);

}  // namespace
}  // namespace nibble::ops::gradient
