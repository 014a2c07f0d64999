#pragma once

#include <cstdint>
#include <type_traits>

#include "ops/cpu/inlining.h"
#include "ops/cpu/packed/tile_layout.h"

/// How kernels get unsigned weight bytes out of lines. Included by the files of one instruction set
/// each; everything is in an unnamed namespace so that no two of them share code.
///
/// `Isa` gives vectors of kLanes rows x 4 inputs. A block is what one register tile covers: V
/// vectors, which are the parts of one tile (4 or 8 lanes) or neighbouring tiles (16 lanes).
///
/// Byte sources: load(v, unit, pair, even, odd) gives the quads 2 * pair and 2 * pair + 1 of a unit
/// for vector v as unsigned bytes. Kernel sources (Whole, and AVX2's planes): load(part, unit,
/// pair, w) gives w[even, odd][column] for all columns of a part of the block at once.
namespace nibble::ops::cpu {
namespace {

constexpr int kPairsPerUnit = static_cast<int>(kUnit / kQuad / 2);
constexpr std::int64_t kPrefetchBytes = 3072;  // ahead of the code stream: about 150 ns at 20 GB/s

/// Where the parts of vector v of a block begin.
struct VectorPlace {
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* tables = nullptr;
  const std::uint16_t* scales = nullptr;  // fp16
  const std::uint8_t* zeros = nullptr;    // null: the constant zero
  const std::uint8_t* minima = nullptr;   // f16, or i8 with supers; null: none
  const std::uint16_t* supers =
      nullptr;  // fp16 that i8 scales are multiples of; null: scales are fp16
  const std::uint16_t* min_supers = nullptr;
  const float* units = nullptr;
};

template <class Isa, int V>
struct Block {
  VectorPlace at[V];

  Block(const TiledWeight& w, std::int64_t first_tile) {
    for (int v = 0; v < V; ++v) {
      const std::int64_t row = v * Isa::kLanes;
      const std::uint8_t* tile = w.tiles + (first_tile + row / kTileRows) * w.tile_bytes;
      const std::int64_t lane = row % kTileRows;
      at[v].codes = tile + w.codes_offset + lane * kQuad;
      at[v].tables = tile + w.tables_offset + lane * w.table_size();
      at[v].scales = reinterpret_cast<const std::uint16_t*>(tile + w.scales_offset) + lane;
      at[v].zeros = w.zeros_offset == 0 ? nullptr : tile + w.zeros_offset + lane;
      set_blocks(w, tile, lane, at[v]);
      at[v].units = reinterpret_cast<const float*>(tile) + lane;
    }
  }

 private:
  static void set_blocks(const TiledWeight& w, const std::uint8_t* tile, std::int64_t lane,
                         VectorPlace& at) {
    const std::int64_t size = w.supers_offset == 0 ? 2 : 1;  // of a scale or minimum
    if (w.minima_offset != 0) {
      at.minima = tile + w.minima_offset + lane * size;
    }
    if (w.supers_offset != 0) {
      at.scales = reinterpret_cast<const std::uint16_t*>(tile + w.scales_offset + lane);
      at.supers = reinterpret_cast<const std::uint16_t*>(tile + w.supers_offset) + lane;
      at.min_supers = reinterpret_cast<const std::uint16_t*>(tile + w.min_supers_offset) + lane;
    }
  }
};

/// Pairs of quads of a unit that a product takes.
struct WholeUnit {
  static constexpr int kFirst = 0;
  static constexpr int kEnd = kPairsPerUnit;
};
struct FirstHalf {
  static constexpr int kFirst = 0;
  static constexpr int kEnd = kPairsPerUnit / 2;
};
struct SecondHalf {
  static constexpr int kFirst = kPairsPerUnit / 2;
  static constexpr int kEnd = kPairsPerUnit;
};

template <std::int64_t UnitBytes>
NIBBLE_INLINE void prefetch_unit(const std::uint8_t* codes, std::int64_t unit, std::int64_t ahead) {
#pragma GCC unroll 8
  for (std::int64_t byte = 0; byte < UnitBytes; byte += kLineBytes) {
    __builtin_prefetch(codes + unit * UnitBytes + byte + ahead);
  }
}

/// Bits of codes, to choose a function by.
template <int Bits>
using Width = std::integral_constant<int, Bits>;

/// What a source reads. Loops are made for what may stand beside such codes (tile_kernel.h).
struct StoredAs {
  CodeKind kind = CodeKind::kInteger;
  int bits = 4;
  bool two_of_four = false;
};

/// Codes as they are. The bits of a byte that a pair takes are told by numbers that unrolled loops
/// make constants.
template <class Isa, int V, int Bits>
struct CodeSource {
  using Int = typename Isa::Int;
  static constexpr StoredAs kStoredAs = {.bits = Bits};
  static constexpr std::int64_t kUnitBytes = kUnit * kTileRows * Bits / 8;
  const std::uint8_t* codes[V] = {};

  CodeSource(const TiledWeight&, const Block<Isa, V>& block) {
    for (int v = 0; v < V; ++v) {
      codes[v] = block.at[v].codes;
    }
  }
  NIBBLE_INLINE Int line(int v, std::int64_t unit, int index) const {
    return Isa::load(codes[v] + unit * kUnitBytes + index * kLineBytes);
  }
  NIBBLE_INLINE void load(int v, std::int64_t unit, int pair, Int& even, Int& odd) const {
    if constexpr (Bits == 8) {
      even = line(v, unit, 2 * pair);
      odd = line(v, unit, 2 * pair + 1);
    } else if constexpr (Bits == 4) {
      const Int both = line(v, unit, pair);
      even = Isa::field(both, 0, 4);
      odd = Isa::field(both, 4, 4);
    } else if constexpr (Bits == 2) {
      const Int four = line(v, unit, pair / 2);
      even = Isa::field(four, pair % 2 * 4, 2);
      odd = Isa::field(four, pair % 2 * 4 + 2, 2);
    } else {
      static_assert(Bits == 3);
      if (pair < 3) {
        const Int both = line(v, unit, pair);
        even = Isa::field(both, 0, 3);
        odd = Isa::field(both, 3, 3);
      } else {
        const Int highest = line(v, unit, 2);
        even = Isa::join(line(v, unit, 0), highest, 6);
        odd = Isa::join(line(v, unit, 1), highest, 7);
      }
    }
  }
};

/// Codes through the matrix's table.
template <class Isa, int V, int Bits>
struct SharedTableSource {
  using Int = typename Isa::Int;
  static constexpr StoredAs kStoredAs = {CodeKind::kSharedTable, Bits};
  static constexpr std::int64_t kUnitBytes = CodeSource<Isa, V, Bits>::kUnitBytes;
  CodeSource<Isa, V, Bits> codes;
  Int table;

  SharedTableSource(const TiledWeight& w, const Block<Isa, V>& block)
      : codes(w, block), table(Isa::broadcast_table(w.table)) {}
  NIBBLE_INLINE void load(int v, std::int64_t unit, int pair, Int& even, Int& odd) const {
    codes.load(v, unit, pair, even, odd);
    even = Isa::look_up(table, even);
    odd = Isa::look_up(table, odd);
  }
};

/// Codes through one table for each row.
template <class Isa, int V, int Bits>
struct RowTableSource {
  using Int = typename Isa::Int;
  static constexpr StoredAs kStoredAs = {CodeKind::kRowTables, Bits};
  static constexpr std::int64_t kUnitBytes = CodeSource<Isa, V, Bits>::kUnitBytes;
  CodeSource<Isa, V, Bits> codes;
  decltype(Isa::load_row_tables(nullptr, Width<Bits>())) tables[V];

  RowTableSource(const TiledWeight& w, const Block<Isa, V>& block) : codes(w, block) {
    for (int v = 0; v < V; ++v) {
      tables[v] = Isa::load_row_tables(block.at[v].tables, Width<Bits>());
    }
  }
  NIBBLE_INLINE void load(int v, std::int64_t unit, int pair, Int& even, Int& odd) const {
    codes.load(v, unit, pair, even, odd);
    even = Isa::look_up(tables[v], even);
    odd = Isa::look_up(tables[v], odd);
  }
};

/// Codes of which two of each quad are stored, at the places that their indices name; the others
/// are their zero.
template <class Isa, int V, int Bits>
struct TwoOfFourSource {
  using Int = typename Isa::Int;
  static constexpr StoredAs kStoredAs = {.bits = Bits, .two_of_four = true};
  static constexpr std::int64_t kUnitBytes = kept_unit_bytes(Bits);
  static constexpr int kSign = Isa::kLowers ? 0x80 : 0;  // weights are taken 128 lower

  const std::uint8_t* units[V] = {};
  const std::uint8_t* zeros[V] = {};  // null: the constant zero
  std::uint64_t groups_of_unit;       // in 2^-32, rounded up: units_per_group() is at most 8
  Int zero;
  Int rows;    // the first byte of each row of 16 bytes
  Int places;  // of what is kept, by indices ^ 5 * input: 0, 1, or 0x80, which gives 0
  Int inputs;  // 5 * input

  TwoOfFourSource(const TiledWeight& w, const Block<Isa, V>& block)
      : groups_of_unit((std::uint64_t{1} << 32) / static_cast<std::uint64_t>(w.units_per_group()) +
                       1),
        zero(Isa::broadcast_byte(w.zero ^ kSign)),
        rows(Isa::of_rows(0x00000000, 0x04040404, 0x08080808, 0x0c0c0c0c)),
        places(Isa::of_rows(0x01010100, kNone, kNone, kNone)),
        inputs(Isa::broadcast(0x0f0a0500)) {
    for (int v = 0; v < V; ++v) {
      units[v] = block.at[v].codes;
      zeros[v] = block.at[v].zeros;
    }
  }
  NIBBLE_INLINE void load(int v, std::int64_t unit, int pair, Int& even, Int& odd) const {
    const std::uint8_t* lines = units[v] + unit * kUnitBytes;
    // The indices of a row's two quads, for each of their four inputs.
    const Int indices =
        Isa::look_up(Isa::load(lines), Isa::bit_or(rows, Isa::broadcast_byte(pair)));
    const Int none = zero_of(v, unit);
    const Int kept = kept_of(lines + kLineBytes, pair);
    even = Isa::bit_xor(take(kept, Isa::field(indices, 0, 4), rows), none);
    odd = Isa::bit_xor(
        take(kept, Isa::field(indices, 4, 4), Isa::bit_or(rows, Isa::broadcast(0x02020202))), none);
  }

 private:
  static constexpr int kNone = static_cast<int>(0x80808000);

  static NIBBLE_INLINE Int kept_of(const std::uint8_t* lines, int pair) {
    if constexpr (Bits == 8) {
      return Isa::load(lines + pair * kLineBytes);
    } else {
      return Isa::field(Isa::load(lines + pair / 2 * kLineBytes), pair % 2 * 4, 4);
    }
  }
  NIBBLE_INLINE Int take(Int kept, Int indices, Int first) const {
    const Int which = Isa::look_up(places, Isa::bit_xor(indices, inputs));
    return Isa::look_up(kept, Isa::bit_or(which, first));
  }
  NIBBLE_INLINE Int zero_of(int v, std::int64_t unit) const {
    if (zeros[v] == nullptr) {
      return zero;
    }
    const auto group =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(unit) * groups_of_unit >> 32);
    const Int bytes = Isa::bytes_of_rows(zeros[v] + group * kTileRows);
    return kSign == 0 ? bytes : Isa::bit_xor(bytes, Isa::broadcast_byte(kSign));
  }
};

/// What weights are stored as, for templates: the byte source of a width for each kind.
template <int Bits>
struct Integers {
  template <class Isa, int V>
  using Source = CodeSource<Isa, V, Bits>;
};
template <int Bits>
struct SharedTable {
  template <class Isa, int V>
  using Source = SharedTableSource<Isa, V, Bits>;
};
template <int Bits>
struct RowTables {
  template <class Isa, int V>
  using Source = RowTableSource<Isa, V, Bits>;
};

template <int Bits>
struct TwoOfFour {
  template <class Isa, int V>
  using Source = TwoOfFourSource<Isa, V, Bits>;
};

template <template <int> class Codes, class F>
void with_width(int bits, F f) {
  switch (bits) {
    case 2:
      return f(Codes<2>());
    case 3:
      return f(Codes<3>());
    default:
      return f(Codes<4>());
  }
}

template <class F>
void with_integers(int bits, F f) {
  return bits == 8 ? f(Integers<8>()) : with_width<Integers>(bits, f);
}

/// f(what the weight is stored as).
template <class F>
void with_codes(const TiledWeight& w, F f) {
  switch (w.kind) {
    case CodeKind::kInteger:
      if (w.two_of_four) {
        return w.bits == 8 ? f(TwoOfFour<8>()) : f(TwoOfFour<4>());
      }
      return with_integers(w.bits, f);
    case CodeKind::kSharedTable:
      return with_width<SharedTable>(w.bits, f);
    case CodeKind::kRowTables:
      return with_width<RowTables>(w.bits, f);
  }
}

/// All V vectors of a block as columns of one part.
template <class Bytes, int V, int Quads = 8>
struct Whole {
  static constexpr StoredAs kStoredAs = Bytes::kStoredAs;
  static constexpr int kParts = 1;
  static constexpr int kColumns = V;
  static constexpr int kQuads = Quads;  // AVX2: quads whose products fit in 16 bits
  Bytes bytes;
  const std::uint8_t* codes;

  template <class Block>
  Whole(const TiledWeight& w, const Block& block) : bytes(w, block), codes(block.at[0].codes) {}
  NIBBLE_INLINE void prefetch(std::int64_t unit) const {
    prefetch_unit<Bytes::kUnitBytes>(codes, unit, kPrefetchBytes);
  }
  template <class Int>
  NIBBLE_INLINE void load(int, std::int64_t unit, int pair, Int (&w)[2][V]) const {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      bytes.load(v, unit, pair, w[0][v], w[1][v]);
    }
  }
};

/// Weight bytes of a block, decoded once for many tokens: for each unit, part and pair the 2 x
/// Columns vectors that a kernel source gives, one after another.
template <class Isa, int Columns, int Parts, int Quads>
struct Panel {
  using Int = typename Isa::Int;
  static constexpr int kColumns = Columns;
  static constexpr int kParts = Parts;
  static constexpr int kQuads = Quads;
  static constexpr std::int64_t kVectorBytes = static_cast<std::int64_t>(sizeof(Int));
  static constexpr std::int64_t kPairBytes = kVectorBytes * 2 * kColumns;
  static constexpr std::int64_t kUnitBytes = kPairBytes * kParts * kPairsPerUnit;
  const std::uint8_t* bytes;

  NIBBLE_INLINE void prefetch(std::int64_t) const {}
  NIBBLE_INLINE void load(int part, std::int64_t unit, int pair, Int (&w)[2][kColumns]) const {
    const std::uint8_t* from =
        bytes + unit * kUnitBytes + (part * kPairsPerUnit + pair) * kPairBytes;
    for (int quad = 0; quad < 2; ++quad) {
      for (int c = 0; c < kColumns; ++c) {
        w[quad][c] = Isa::load(from + (quad * kColumns + c) * kVectorBytes);
      }
    }
  }
};

}  // namespace
}  // namespace nibble::ops::cpu
