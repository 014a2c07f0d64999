#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "ops/cuda/device_code/barrier.cuh"

/// A ring of stages in shared memory that one warp fills with asynchronous copies and empties, on
/// its own. sm_90: each stage is one bulk copy and a barrier; before: cp.async of 16 bytes by every
/// lane.
namespace nibble::ops::cuda {

class WarpRing {
 public:
  static constexpr int kMaxStages = 8;

  /// `memory`: stages * stage_bytes, 128-byte aligned; `barriers`: as many; both of this warp.
  __device__ WarpRing(std::byte* memory, std::uint64_t* barriers, int stages, int stage_bytes)
      : memory_(memory),
        barriers_(shared_address(barriers)),
        stages_(stages),
        stage_bytes_(stage_bytes) {
#if __CUDA_ARCH__ >= 900
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy_));
    if (threadIdx.x % 32 == 0) {
#pragma unroll 1
      for (int i = 0; i < stages_; ++i) {
        init_barrier(barriers_ + 8 * i, 1);
      }
      publish_barriers();
    }
    __syncwarp();
#endif
  }

  /// Begins to fill the next free stage with `bytes` from `source` (both multiples of 16). All
  /// lanes must have read what it held (see release()).
  __device__ void fill(const std::byte* source, int bytes) {
    const std::uint32_t target = address(filling_);
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x % 32 == 0) {
      arrive_expecting(barrier(filling_), static_cast<std::uint32_t>(bytes));
      copy(target, source, bytes);
    }
#else
    copy(target, source, bytes);
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
    filled();
  }

  /// The same from several places: `bytes` from the `source` of each of the first `parts` lanes,
  /// `stride` bytes apart in the stage.
  __device__ void fill_parts(const std::byte* source, int parts, int bytes, int stride) {
    const std::uint32_t target = address(filling_);
#if __CUDA_ARCH__ >= 900
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane == 0) {
      arrive_expecting(barrier(filling_), static_cast<std::uint32_t>(parts * bytes));
    }
    __syncwarp();
    if (lane < parts) {
      copy(target + lane * stride, source, bytes);
    }
#else
#pragma unroll 1
    for (int part = 0; part < parts; ++part) {
      const auto place = reinterpret_cast<unsigned long long>(source);
      copy(target + part * stride,
           reinterpret_cast<const std::byte*>(__shfl_sync(0xffffffffu, place, part)), bytes);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
    filled();
  }

  /// In the place of fill() when nothing is left to copy.
  __device__ void skip() {
#if __CUDA_ARCH__ < 900
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
  }

  /// Waits for the oldest filled stage and returns it.
  __device__ std::byte* wait() {
#if __CUDA_ARCH__ >= 900
    wait_barrier(barriers_ + 8 * reading_, phase_);
#else
    switch (stages_) {  // all but the latest stages_ - 1 groups
      case 1:
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        break;
      case 2:
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        break;
      case 3:
        asm volatile("cp.async.wait_group 2;" ::: "memory");
        break;
      case 4:
        asm volatile("cp.async.wait_group 3;" ::: "memory");
        break;
      default:
        asm volatile("cp.async.wait_group 4;" ::: "memory");  // more than is needed
    }
    __syncwarp();
#endif
    return memory_ + reading_ * stage_bytes_;
  }

  /// All lanes have read the stage that wait() returned; it may be filled again.
  __device__ void release() {
    __syncwarp();
    if (++reading_ == stages_) {
      reading_ = 0;
      phase_ ^= 1;
    }
  }

 private:
  __device__ std::uint32_t address(int stage) const {
    return shared_address(memory_) + stage * stage_bytes_;
  }
  __device__ std::uint32_t barrier(int stage) const {
    return barriers_ + 8 * stage;
  }
  __device__ void filled() {
    filling_ = filling_ + 1 == stages_ ? 0 : filling_ + 1;
  }

  // By one lane from sm_90 on, by all before.
  __device__ void copy(std::uint32_t target, const std::byte* source, int bytes) const {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1], %2, [%3], %4;" ::"r"(target),
        "l"(source), "r"(bytes), "r"(barrier(filling_)), "l"(policy_)
        : "memory");
#else
    for (int at = threadIdx.x % 32 * 16; at < bytes; at += 32 * 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target + at), "l"(source + at)
                   : "memory");
    }
#endif
  }

  std::byte* memory_;
  std::uint32_t barriers_;
  int stages_;
  int stage_bytes_;
  int filling_ = 0;
  int reading_ = 0;
  std::uint32_t phase_ = 0;
  std::uint64_t policy_ = 0;
};

}  // namespace nibble::ops::cuda
