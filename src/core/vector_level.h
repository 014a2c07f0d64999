#pragma once

/// For functions that are inlined into others with more instruction sets.
#define NIBBLE_INLINE inline __attribute__((always_inline))

namespace nibble::core {

/// A vector of GCC's, for loads and stores by memcpy.
template <typename T, int kLanes>
struct VectorOf {
  using Type [[gnu::vector_size(kLanes * sizeof(T)), gnu::may_alias]] = T;
};

enum class VectorLevel {
  kPlain,   // what every processor of the family has
  kAvx2,    // x86-64
  kAvx512,  // x86-64: F, BW, DQ, VL, with AVX2
};

/// The best that this processor has and the operating system has enabled. Asked once.
VectorLevel vector_level();

template <typename Loop, typename Function = decltype(Loop::template run<16>)>
struct VectorVersions;

/// A loop that is written once and compiled for each level. `Loop` has a function
///
///   template <int kVectorBytes> static NIBBLE_INLINE Result run(Arguments...)
///
/// over vectors of so many bytes (gnu::vector_size), or in which compilers find vectors. Where it
/// does the same additions in the same order for all sizes, results have the same bits: no version
/// has multiply-adds (-ffp-contract=off).
template <typename Loop, typename Result, typename... Arguments>
struct VectorVersions<Loop, Result(Arguments...)> {
  static Result plain(Arguments... arguments) { return Loop::template run<16>(arguments...); }

#if defined(__x86_64__)
  [[gnu::target("avx2")]] static Result avx2(Arguments... arguments) {
    return Loop::template run<32>(arguments...);
  }
  [[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] static Result avx512(
      Arguments... arguments) {
    return Loop::template run<64>(arguments...);
  }
#endif

  /// That of vector_level().
  static Result best(Arguments... arguments) {
    static const auto chosen = at(vector_level());
    return chosen(arguments...);
  }

  /// The version for a level, which the processor must have.
  static auto at([[maybe_unused]] VectorLevel level) -> Result (*)(Arguments...) {
#if defined(__x86_64__)
    switch (level) {
      case VectorLevel::kAvx512:
        return avx512;
      case VectorLevel::kAvx2:
        return avx2;
      case VectorLevel::kPlain:
        break;
    }
#endif
    return plain;
  }
};

}  // namespace nibble::core
