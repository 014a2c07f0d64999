#pragma once

#include <cstdint>

#include "device/cuda/memory.h"
#include "ops/cuda/attention/kv_pool.h"
#include "ops/cuda/attention/packed/packed_attention.h"
#include "ops/cuda/step_upload.h"
#include "ops/ops.h"

namespace nibble::ops::cuda {

/// The tiles of a step's texts on the device, at the same addresses in each step. Their number is
/// filled up with empty ones to few sizes, so that one recorded step serves many batches.
class TextTiles {
 public:
  /// Where the slices of a batch have no caches, brings their tiles to the device with `upload`.
  /// Whether they have none; for a batch with caches count() is 0. `rows` is the most that any
  /// batch has. Throws kFailed where only some slices have caches, or texts do not follow one
  /// another.
  bool plan(const Batch<KvSequence>& batch, std::int64_t rows, StepUpload& upload);

  const PackedTile* on_device() const { return device_.as<PackedTile>(); }
  /// With the empty ones.
  std::int64_t count() const { return count_; }

 private:
  std::int64_t count_ = 0;
  device::cuda::PinnedBuffer host_;
  device::cuda::Buffer device_;
};

}  // namespace nibble::ops::cuda
