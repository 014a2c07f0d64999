#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/threads.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "ops/cuda/packed/unit_format.h"
#include "ops/cuda/packed/unit_rows.h"

namespace nibble::ops::cuda {

/// Brings compressed weights into units on the device. Rows are read from their (mapped) files into
/// one of two buffers while what is in the other is copied and packed. Beside the weights it takes
/// twice `staging_bytes`, or twice 64 rows where these are more, on the host and on the device,
/// from the first weight until it ends.
class UnitPacker {
 public:
  static constexpr std::int64_t kStagingBytes = 4 << 20;  // docs/experiments/loading-and-packing.md

  /// Threads of `pool` read; what they read comes in pieces of `staging_bytes`.
  explicit UnitPacker(core::ThreadPool& pool, std::int64_t staging_bytes = kStagingBytes)
      : pool_(pool), staging_bytes_(staging_bytes) {}

  core::ThreadPool& pool() const { return pool_; }

  /// Writes unit_grid().count() units of `format`, unit_format_of() the rows' scheme, to device
  /// memory, and waits for them. Throws kOutOfMemory.
  void pack(const UnitRows& rows, const UnitFormat& format, std::byte* units);

 private:
  struct Slot {
    device::cuda::PinnedBuffer host;
    device::cuda::Buffer device;
    device::cuda::Stream stream;
  };
  void require_room(std::int64_t bytes);

  core::ThreadPool& pool_;
  std::int64_t staging_bytes_;
  std::array<Slot, 2> slots_;
};

}  // namespace nibble::ops::cuda
