#pragma once

#include <vector>

#include "ops/cpu/packed/test_problems.h"
#include "ops/cuda/device_arrays_for_tests.h"
#include "ops/cuda/layer_chain/layer_chain.h"
#include "ops/cuda/small_batch/trial_for_tests.h"

namespace nibble::ops::cuda {

/// A layer's weight on both sides, with or without a bias.
struct TestWeight {
  formats::PackedWeight weight;
  OnDevice on_device;
  std::vector<float> bias;
  device::cuda::Buffer device_bias;

  TestWeight(std::int64_t n, std::int64_t k, std::uint64_t seed, bool has_bias = false)
      : weight(cpu::testing::random_weight("int4-sym-g128", n, k, seed)),
        on_device(weight),
        bias(has_bias ? normal_values(n, seed + 1) : std::vector<float>()),
        device_bias(ops::cuda::on_device(bias)) {}

  ChainedLayer layer() const {
    ChainedLayer layer;
    layer.weight = on_device.view;
    layer.bias = bias.empty() ? nullptr : device_bias.as<float>();
    return layer;
  }
};

}  // namespace nibble::ops::cuda
