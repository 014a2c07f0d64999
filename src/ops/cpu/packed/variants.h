#pragma once

#include <cstdint>
#include <span>

#include "ops/cpu/packed/tile_layout.h"

/// Kernels of the packed linear layer, one line for each implementation file. This header is also
/// included by files that are compiled for one instruction set: it must not bring inline functions
/// with it, because the linker may keep the copy that needs that instruction set.
namespace nibble::ops::cpu {

/// Activations of one token into integers (quantized_input.h says what).
struct RowToQuantize {
  const float* x = nullptr;  // [k]
  std::int64_t k = 0;
  std::int64_t group = 0;         // inputs of a group of the layout
  std::int64_t group_stride = 0;  // group padded to units
  std::int64_t scale_group = 0;   // inputs per scale: a multiple of group, or at least k
  int bits = 8;
  bool symmetric = true;
  float clip = 1.0f;
  float scale = 0.0f;             // of all inputs, symmetric; 0: that of their range
  bool e2m1 = false;              // codes are doubles of E2M1 numbers (formats/fp4)
  std::int8_t* codes = nullptr;   // [groups * group_stride]
  float* scales = nullptr;        // [groups]
  std::int32_t* sums = nullptr;   // [groups]
  std::int32_t* zeros = nullptr;  // [groups], only for 8 bits asymmetric
  /// Where the second digits go when codes have 16 bits; null for codes of 8 bits.
  std::int8_t* low_codes = nullptr;
  float* low_scales = nullptr;
  std::int32_t* low_sums = nullptr;
};

struct Variant {
  const char* name = nullptr;  // the value of NIBBLE_ISA that forces it
  const char* needs = nullptr;
  bool (*runs_here)() = nullptr;  // the CPU and the operating system have what it needs
  /// Tiles [begin, end) of all tokens; y points at column 0 of this matrix.
  void (*run)(const TiledWeight&, const TiledInput&, std::int64_t begin, std::int64_t end, float* y,
              std::int64_t ldy) = nullptr;
  void (*quantize_row)(const RowToQuantize&) = nullptr;
  /// Products on registers alone, as many rounds as told: what a benchmark takes for the limit of
  /// arithmetic. Returns the number of multiply-adds.
  std::int64_t (*multiply_registers)(std::int64_t rounds) = nullptr;
  /// Rows of codes up to which weights in groups of so many inputs are decoded on their way from
  /// memory, one by one; for more rows they are decoded in panels. Null: never in panels.
  std::int64_t (*direct_rows)(std::int64_t group_inputs) = nullptr;
  /// Tokens of the blocks in which m rows of `row_bytes` bytes of codes should pass all tiles, so
  /// that they stay in a cache; null: all in one.
  std::int64_t (*block_tokens)(std::int64_t m, std::int64_t row_bytes) = nullptr;
  /// Whether it multiplies in tile registers: layers of floats may then, too (dense/float_tiles.h).
  bool has_tile_registers = false;
};

Variant scalar_variant();

// x86-64
Variant avx2_variant();
Variant avxvnni_variant();
Variant avx512vnni_variant();
Variant avx512vbmi_variant();
Variant amxint8_variant();

// 64-bit ARM
Variant neon_dotprod_variant();
Variant neon_i8mm_variant();

/// All variants of this build, slowest first.
std::span<const Variant> variants();

/// The fastest variant that runs here, or the one that NIBBLE_ISA names. Throws
/// kUsage when NIBBLE_ISA is not a name, or names one that this machine cannot run.
const Variant& active_variant();

/// The variant that NIBBLE_ISA names; null where it names none. Throws as active_variant().
const Variant* named_variant();

/// The same for an explicit name; an empty name means the fastest.
const Variant& choose_variant(const char* name);

}  // namespace nibble::ops::cpu
