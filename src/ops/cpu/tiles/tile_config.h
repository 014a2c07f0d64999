#pragma once

#include <cstdint>

/// AMX tile registers: eight matrices of up to 16 rows x 64 bytes (Intel 64 and IA-32 Architectures
/// Software Developer's Manual, volume 1, chapter 18). Kernels take them as a template's `Tiles`,
/// which is the hardware (hardware_tiles.h), or what stands in for it in tests (emulated_tiles.h):
///
///   configure(config), release()
///   zero<T>(), load<T>(p, stride), store<T>(p, stride)
///   multiply<C, A, B, Signed>()     C += A B; bytes of A are signed, those of B as told
///   multiply_bf16<C, A, B>()        C += A B; pairs of BF16, sums in float32
namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kTileRegisterRows = 16;
constexpr std::int64_t kTileRegisterBytes = 64;  // of a row

/// The shapes of all tiles, as LDTILECFG reads them.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  void set(int tile, std::int64_t count, std::int64_t bytes) {
    rows[tile] = static_cast<std::uint8_t>(count);
    row_bytes[tile] = static_cast<std::uint16_t>(bytes);
  }
};
static_assert(sizeof(TileConfig) == 64);

/// Tile registers are configured while this lives: no other code of the thread meets them.
template <class Tiles>
class TileScope {
 public:
  explicit TileScope(const TileConfig& config) { Tiles::configure(config); }
  ~TileScope() { Tiles::release(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

}  // namespace
}  // namespace nibble::ops::cpu
