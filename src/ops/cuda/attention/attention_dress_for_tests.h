#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "device/cuda/memory.h"
#include "ops/cuda/attention/attention.h"
#include "ops/cuda/device_arrays_for_tests.h"

namespace nibble::ops::cuda {

/// RoPE over some elements of a head, and QK norms, on the device.
struct Dress {
  device::cuda::Buffer frequency;
  device::cuda::Buffer q_norm;
  device::cuda::Buffer k_norm;

  Dress(AttentionLayer& layer, std::int64_t rotary, bool norms) {
    const std::int64_t dim = layer.layout.head_dim;
    if (rotary > 0) {
      std::vector<float> values;
      for (std::int64_t i = 0; i < rotary / 2; ++i) {
        values.push_back(
            std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(rotary)));
      }
      frequency = on_device(values);
      layer.inverse_frequency = frequency.as<float>();
      layer.rotary = rotary;
      layer.rope_factor = 1.1f;
    }
    if (norms) {
      q_norm = on_device(normal_values(dim, 8));
      k_norm = on_device(normal_values(dim, 9));
      layer.q_norm = q_norm.as<float>();
      layer.k_norm = k_norm.as<float>();
    }
  }
};

}  // namespace nibble::ops::cuda
