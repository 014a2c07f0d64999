#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/float16.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/tile_sources.h"

/// What lanes512.h gives, in plain C++: vectors of 16 rows for the tests of kernels whose
/// instruction set the machine may lack.
namespace nibble::ops::cpu {
namespace {

struct PlainLanes {
  static constexpr int kLanes = 16;
  static constexpr bool kLowers = false;
  struct Int {
    std::uint8_t bytes[64];
  };
  struct Float {
    float values[kLanes];
  };
  struct RowTables {
    const std::uint8_t* tables;  // [16 rows][entries]
    int entries;
  };

  static Int load(const void* p) {
    Int v;
    std::memcpy(v.bytes, p, sizeof(v.bytes));
    return v;
  }
  static void store(std::uint8_t* p, const Int& v) { std::memcpy(p, v.bytes, sizeof(v.bytes)); }
  static Int broadcast(std::int32_t value) {
    return each([&](int) { return value; });
  }
  static Int broadcast_byte(int value) {
    Int v;
    std::memset(v.bytes, value, sizeof(v.bytes));
    return v;
  }
  static Int field(Int v, int first, int width) {
    for (std::uint8_t& byte : v.bytes) {
      byte = static_cast<std::uint8_t>(byte >> first & ((1 << width) - 1));
    }
    return v;
  }
  static Int join(Int low, const Int& high, int bit) {
    for (int i = 0; i < 64; ++i) {
      low.bytes[i] = static_cast<std::uint8_t>(low.bytes[i] >> 6 | (high.bytes[i] >> bit & 1) << 2);
    }
    return low;
  }
  static Int broadcast_table(const std::uint8_t* p) {
    Int v;
    for (int i = 0; i < 64; ++i) {
      v.bytes[i] = p[i % 16];
    }
    return v;
  }
  static Int look_up(const Int& table, Int codes) {
    for (int i = 0; i < 64; ++i) {
      const int code = codes.bytes[i];
      codes.bytes[i] = code < 0x80 ? table.bytes[i / 16 * 16 + code % 16] : std::uint8_t{0};
    }
    return codes;
  }
  static Int of_rows(int row0, int row1, int row2, int row3) {
    const int rows[] = {row0, row1, row2, row3};
    return each([&](int i) { return rows[i % 4]; });
  }
  static Int shift_up(const Int& v) {
    return each([&](int i) { return lane(v, i) << 16; });
  }
  static Int bit_or(const Int& a, const Int& b) {
    return each([&](int i) { return lane(a, i) | lane(b, i); });
  }
  static Int bit_xor(const Int& a, const Int& b) {
    return each([&](int i) { return lane(a, i) ^ lane(b, i); });
  }
  template <int Bits>
  static RowTables load_row_tables(const std::uint8_t* p, Width<Bits>) {
    return {p, 1 << Bits};
  }
  static Int look_up(const RowTables& rows, Int codes) {
    for (int i = 0; i < 64; ++i) {
      codes.bytes[i] = rows.tables[i / kQuad * rows.entries + codes.bytes[i]];
    }
    return codes;
  }

  static Int bytes_of_rows(const std::uint8_t* p) {
    Int v;
    for (int i = 0; i < 64; ++i) {
      v.bytes[i] = p[i / kQuad];
    }
    return v;
  }
  static Int subtract_bytes(Int a, const Int& b) {
    for (int i = 0; i < 64; ++i) {
      a.bytes[i] = static_cast<std::uint8_t>(a.bytes[i] - b.bytes[i]);
    }
    return a;
  }

  static Int negative_zero(int zero) { return broadcast(-zero); }
  static Int negative_zeros(const std::uint8_t* p) {
    return each([&](int i) { return -p[i]; });
  }
  static Int multiply_zero(const Int& zero, const Int& a_sum) {
    return each([&](int i) { return lane(zero, i) * lane(a_sum, i); });
  }
  static Int add(const Int& a, const Int& b) {
    return each([&](int i) { return lane(a, i) + lane(b, i); });
  }

  static Float broadcast(float value) {
    return each_float([&](int) { return value; });
  }
  static Float load_scales(const std::uint16_t* p) {
    return each_float([&](int i) { return core::to_float(core::Fp16{p[i]}); });
  }
  static Float load_multiples(const std::int8_t* p) {
    return each_float([&](int i) { return static_cast<float>(p[i]); });
  }
  static Float load_floats(const float* p) {
    return each_float([&](int i) { return p[i]; });
  }
  static void store(float* p, const Float& v) { std::memcpy(p, v.values, sizeof(v.values)); }
  static Float zero() { return {}; }
  static void store_past_caches(float* p, const Float& v) { store(p, v); }
  static void fence() {}
  static Float to_float(const Int& v) {
    return each_float([&](int i) { return static_cast<float>(lane(v, i)); });
  }
  static Float mul(const Float& a, const Float& b) {
    return each_float([&](int i) { return a.values[i] * b.values[i]; });
  }
  static Float add_floats(const Float& a, const float* p) {
    return each_float([&](int i) { return a.values[i] + p[i]; });
  }
  static Float fma(const Float& a, const Float& b, const Float& c) {
    return each_float([&](int i) { return std::fma(a.values[i], b.values[i], c.values[i]); });
  }

 private:
  static std::int32_t lane(const Int& v, int i) {
    std::int32_t value = 0;
    std::memcpy(&value, v.bytes + 4 * i, sizeof(value));
    return value;
  }
  template <class F>
  static Int each(F f) {
    Int v;
    for (int i = 0; i < kLanes; ++i) {
      const std::int32_t value = f(i);
      std::memcpy(v.bytes + 4 * i, &value, sizeof(value));
    }
    return v;
  }
  template <class F>
  static Float each_float(F f) {
    Float v;
    for (int i = 0; i < kLanes; ++i) {
      v.values[i] = f(i);
    }
    return v;
  }
};

}  // namespace
}  // namespace nibble::ops::cpu
