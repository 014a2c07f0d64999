#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"
#include "device/cuda/check.h"
#include "ops/cuda/attention/kv_pool.h"

/// What all layers of a pool hold.
namespace nibble::ops::cuda {

using PoolBytes = std::vector<std::uint8_t>;

inline PoolBytes bytes_of(const KvPool& pool) {
  PoolBytes bytes(static_cast<std::size_t>(pool.bytes()));
  device::cuda::check(cudaMemcpy(bytes.data(), pool.layer(0), bytes.size(), cudaMemcpyDeviceToHost),
                      "cudaMemcpy");
  return bytes;
}

/// Fills a pool with random bytes.
inline PoolBytes fill(const KvPool& pool) {
  PoolBytes bytes(static_cast<std::size_t>(pool.bytes()));
  core::Random random(1);
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>(random.below(256));
  }
  device::cuda::check(cudaMemcpy(pool.layer(0), bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
                      "cudaMemcpy");
  return bytes;
}

}  // namespace nibble::ops::cuda
