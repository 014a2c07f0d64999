#pragma once

#include <cstdint>

#include "ops/cuda/elementwise/coder.cuh"
#include "ops/cuda/elementwise/row_norm.cuh"
#include "ops/cuda/elementwise/row_sinks.cuh"
#include "ops/cuda/layer_chain/chain_pieces.cuh"
#include "ops/cuda/layer_chain/sent_rows.cuh"

/// What a warp multiplies its groups of 128 inputs with: codes of 16 bits as two digits, in its
/// part of the shared memory.
namespace nibble::ops::cuda {

#if __CUDA_ARCH__ >= 900

/// Codes of 16 bits, two digits to the base 256, of values that share a power of two: a sum that
/// ends at this power has them in its lowest bits.
class PowerCoder {
 public:
  /// `largest`: the bits of the largest magnitude.
  __device__ explicit PowerCoder(std::int32_t largest) {
    constexpr int kLeast = 24;  // exponents for which both powers are normal
    constexpr int kMost = 254 - kMantissaBits + kCodeBits;
    // The first digit is 127 at the most: what would have codes from 32,640 on has the next power.
    constexpr std::int32_t kStep = (1 << kMantissaBits) >> (kCodeBits - 1);  // of codes
    constexpr std::int32_t kTop = kStep * 257 / 2;                           // 128 and a half
    const std::int32_t exponent =
        min(max((min(largest, kInfinityBits) + kTop) >> kMantissaBits, kLeast), kMost);
    const std::int32_t step = exponent + 1 - kCodeBits;
    scale_ = largest >= kInfinityBits ? __int_as_float(0x7fc00000)
                                      : __int_as_float(step << kMantissaBits);
    shift_ = __int_as_float((step + kMantissaBits) << kMantissaBits | 1 << (kMantissaBits - 1));
  }
  __device__ float scale() const { return scale_; }

  /// Of four values, in the order 0, 2, 1, 3.
  __device__ void digits(float4 v, std::uint32_t& first, std::uint32_t& second) const {
    const auto raised = [&](float value) {  // the second digit, from -128 on, becomes 0 to 255
      return __float_as_uint(__fadd_rn(value, shift_)) + 0x80u;
    };
    const std::uint32_t even = __byte_perm(raised(v.x), raised(v.z), 0x5140);
    const std::uint32_t odd = __byte_perm(raised(v.y), raised(v.w), 0x5140);
    second = __byte_perm(even, odd, 0x5410) ^ 0x80808080u;
    first = __byte_perm(even, odd, 0x7632);
  }

 private:
  static constexpr int kMantissaBits = 23;
  static constexpr int kCodeBits = 15;  // and a sign
  float scale_;
  float shift_;
};
inline constexpr int kPowerBase = 256;
inline constexpr int kCodesBase = kWideBase;  // of codes that another kernel made

/// What the kernel multiplies a group of 128 with. kGroups: groups of weights in it. One: columns 0
/// and 1 of the right operand are the digits. Four: of the t-th one they are columns 2t and 2t + 1,
/// which have zeros for the inputs of others, so that lanes have the sums of a group each.
template <int kGroups>
struct GroupInputs;

template <>
struct GroupInputs<1> {
  uint4 codes[2];  // of the lane's column
  float scale;
  std::int32_t sum;  // of codes, times Weights::kOfSum

  __device__ std::uint32_t word(int h, int e) const {
    const uint4& v = codes[h / 2];
    return h % 2 == 0 ? (e == 0 ? v.x : v.y) : (e == 0 ? v.z : v.w);
  }
};

template <>
struct GroupInputs<4> {
  uint2 codes;  // of the lane's column and its group
  int group;    // of the column
  float scale;
  std::int32_t sum;  // of the group t of lane 4g + t

  __device__ std::uint32_t word(int h, int e) const {
    return h == group ? (e == 0 ? codes.x : codes.y) : 0;
  }
};

/// Weights: of chain_weights.cuh.
template <typename Weights>
class ChainInputs {
 public:
  static constexpr int kGroups = Weights::kGroups;
  __device__ ChainInputs(const ChainMemory& memory, std::byte* shared, int warp)
      : stride_(memory.digit_stride()),
        codes_(reinterpret_cast<std::int8_t*>(shared + memory.inputs(warp))),
        notes_(reinterpret_cast<float*>(codes_ + 2 * stride_)),
        lane_(static_cast<int>(threadIdx.x) % kWarp) {}

  /// Goes to a phase, and asks for what it has in memory already: weights of its norm.
  __device__ void enter(const ChainPhase& phase, const WarpGroups& groups) {
    row_ = phase.row == nullptr ? nullptr : row_at(phase.row, groups.group(0));
    norm_ = phase.norm == nullptr ? nullptr : row_at(phase.norm, groups.group(0));
    groups_ = of_warp(groups.count);
    sent_ = of_warp(phase.reads_sent);
    square_ = 0.0f;
    has_norm_ = of_warp(norm_ != nullptr);
    ask_weight(0);
  }

  /// Copies codes that another kernel made.
  __device__ void copy_codes(const ChainPhase& phase, const WarpGroups& groups) {
    constexpr int kAtOnce = 4;
    for (int begin = 0; begin < groups.count; begin += kAtOnce) {
      std::uint32_t first[kAtOnce];
      std::uint32_t second[kAtOnce];
      float scale[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int group = groups.group(min(begin + i, groups.count - 1));
        const auto* const from = reinterpret_cast<const std::uint32_t*>(
            phase.codes + group * 128 + int8_lane_position(lane_ * 4));
        first[i] = __ldcg(from);
        second[i] = __ldcg(from + phase.blocks * 32);
        scale[i] = __ldcg(phase.scales + group);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (begin + i < groups.count) {
          put(begin + i, first[i], second[i], scale[i], kCodesBase);
        }
      }
    }
    __syncwarp();
  }

  /// Begins to read the warp's part of a row, which other blocks may still have to send.
  __device__ void begin_row(std::uint32_t run) {
    run_ = run;
    ask(0);
  }

  /// Rounds the warp's g-th group: once for each, in order, before group(g). More groups at a time,
  /// or more that are asked for ahead, take longer: gpu-layer-chain.md.
  __device__ __forceinline__ void round(int g) {
    bool waits = sent_;
    for (int tries = 0; waits; ++tries) {
      end_if_hopeless(tries);
      const bool is_there = is_of_run(values_, run_);
      if (!is_there) {
        ask(g);
      }
      waits = !__all_sync(kAllLanes, is_there);
    }
    float4 v = sent_ ? without_run(values_) : values_;
    const float4 weight = weight_;
    ask(g + 1);
    ask_weight(g + 1);
    if (has_norm_) {
      square_ += squares(v);
      v = {v.x * weight.x, v.y * weight.y, v.z * weight.z, v.w * weight.w};
    }
    take(g, v);
    __syncwarp();
  }
  /// Rounds `v`, the lane's four numbers of the warp's g-th group.
  __device__ __forceinline__ void take(int g, float4 v) {
    Spread spread;
    widen(spread, v, true);
    const PowerCoder coder(__reduce_max_sync(kAllLanes, spread.magnitude));
    std::uint32_t first;
    std::uint32_t second;
    coder.digits(v, first, second);
    put(g, first, second, coder.scale(), kPowerBase);
  }
  /// The sum of squares of the lane's numbers that were rounded.
  __device__ float square() const {
    return square_;
  }

  /// Those of the warp's g-th group.
  __device__ GroupInputs<kGroups> group(int g) const {
    constexpr int kDigits = 2;
    const int column = lane_ / 4;
    const std::int8_t* const from = codes_ + column % kDigits * stride_ + g * 128 + lane_ % 4 * 32;
    const float* const note = notes_ + g * kNote;
    GroupInputs<kGroups> inputs;
    if constexpr (kGroups == 1) {
      const auto* const words = reinterpret_cast<const uint4*>(from);
      inputs.codes[0] = column < kDigits ? words[0] : make_uint4(0, 0, 0, 0);
      inputs.codes[1] = column < kDigits ? words[1] : make_uint4(0, 0, 0, 0);
      const float2 both = *reinterpret_cast<const float2*>(note);
      inputs.scale = both.x;
      inputs.sum = __float_as_int(both.y);
    } else {
      inputs.group = column / kDigits;
      inputs.codes = reinterpret_cast<const uint2*>(from)[inputs.group];
      inputs.scale = *note;
      inputs.sum = __float_as_int(note[4 + lane_ % 4]);
    }
    return inputs;
  }

 private:
  __device__ __forceinline__ void ask(int g) {
    if (g < groups_) {
      const float4* const at = row_ + g * kNextGroup;
      values_ = sent_ ? read_sent(at) : __ldcg(at);
    }
  }
  __device__ __forceinline__ void ask_weight(int g) {
    if (has_norm_ && g < groups_) {
      weight_ = __ldg(norm_ + g * kNextGroup);
    }
  }
  static constexpr int kNextGroup = kChainWarps * kWarp;  // of the warp's

  /// The lane's four numbers of a group of 128.
  __device__ const float4* row_at(const float* row, int group) const {
    return reinterpret_cast<const float4*>(row + group * 128) + lane_;
  }
  // Of a group: its scale and the sum of its codes, or, 16 bytes behind, sums of 32 each.
  static_assert(kGroups == 1 || kGroups == 4);
  static constexpr int kNote = ChainMemory::note_bytes(kGroups) / 4;

  /// The lane's four codes of the warp's g-th group, in the order 0, 2, 1, 3.
  __device__ void put(int g, std::uint32_t first, std::uint32_t second, float scale, int base) {
    std::int8_t* const to = codes_ + g * 128 + int8_lane_position(lane_ * 4);
    *reinterpret_cast<std::uint32_t*>(to) = first;
    *reinterpret_cast<std::uint32_t*>(to + stride_) = second;
    float* const note = notes_ + g * kNote;
    int sum = 0;
    if constexpr (Weights::kOfSum != 0) {
      constexpr int kOnes = 0x01010101;
      sum = base * __dp4a(static_cast<int>(first), kOnes, 0) +
            __dp4a(static_cast<int>(second), kOnes, 0);
    }
    if constexpr (kGroups == 1) {
      if constexpr (Weights::kOfSum != 0) {
        sum = __reduce_add_sync(kAllLanes, sum);
      }
      if (lane_ == 0) {
        *reinterpret_cast<float2*>(note) =
            make_float2(scale, __int_as_float(Weights::kOfSum * sum));
      }
    } else {
      constexpr int kLanes = kWarp / kGroups;
#pragma unroll
      for (int distance = 1; distance < kLanes && Weights::kOfSum != 0; distance *= 2) {
        sum += __shfl_xor_sync(kAllLanes, sum, distance);
      }
      if (lane_ % kLanes == 0) {
        note[4 + lane_ / kLanes] = __int_as_float(Weights::kOfSum * sum);
      }
      if (lane_ == 0) {
        *note = scale;
      }
    }
  }

  int stride_;
  std::int8_t* codes_;  // [2 digits][stride]
  float* notes_;
  int lane_;

  // Of the row that is being rounded, the lane's numbers from the first group on:
  const float4* row_ = nullptr;
  const float4* norm_ = nullptr;
  int groups_ = 0;
  bool sent_ = false;
  bool has_norm_ = false;
  std::uint32_t run_ = 0;
  float square_ = 0.0f;
  float4 values_;  // of the next group
  float4 weight_;
};

#endif

}  // namespace nibble::ops::cuda
