#pragma once

#include <string>
#include <vector>

#include "core/threads.h"
#include "ops/cpu/packed/test_problems.h"
#include "ops/cuda/blocks/block_weight.h"
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

  TestWeight(std::int64_t n, std::int64_t k, std::uint64_t seed, bool has_bias = false,
             const std::string& scheme = "int4-sym-g128")
      : weight(as_units_hold(cpu::testing::random_weight(scheme, n, k, seed))),
        on_device(weight),
        bias(has_bias ? normal_values(n, seed + 1) : std::vector<float>()),
        device_bias(ops::cuda::on_device(bias)) {}

  static formats::PackedWeight as_units_hold(const formats::PackedWeight& weight) {
    if (!formats::has_minima(weight.scheme)) {
      return weight;
    }
    core::ThreadPool pool(1);
    return block_weight(weight, "weight", pool);
  }

  ChainedLayer layer() const {
    ChainedLayer layer;
    layer.weight = on_device.view;
    layer.bias = bias.empty() ? nullptr : device_bias.as<float>();
    return layer;
  }
};

}  // namespace nibble::ops::cuda
