#pragma once

#include <cstdint>
#include <type_traits>

#include "ops/cpu/packed/tile_kernel.h"
#include "ops/cpu/packed/tile_layout.h"
#include "ops/cpu/packed/tile_sources.h"

/// The weights of panel_kernel.h: what their groups are, and how a panel of them is decoded. In an
/// unnamed namespace, as tile_kernel.h.
namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kPanelInputs = 512;
constexpr std::int64_t kStoredInputs = 4096;  // of a panel whose codes are used as they are stored

/// What the sums of a group begin or end with: -zero * sum of the token's codes.
enum class ZeroKind {
  kNone,      // not that, where every zero is 0
  kPrepared,  // made before, as all rows have one zero (PreparedTokens)
  kOne,       // a product with the zero of all rows
  kRows,      // a product with the zero of each row
};

enum class GroupWidth {
  kHalfUnit,
  kUnit,
  kUnits,
  kRow,  // one group for the whole row: its sums go from panel to panel
};

/// What the groups of a weight are, for templates.
template <GroupWidth Width, ZeroKind Zero, bool Minima>
struct GroupForm {
  static constexpr GroupWidth kWidth = Width;
  static constexpr ZeroKind kZero = Zero;
  static constexpr bool kMinima = Minima;
};

template <class Isa, GroupWidth Width, class F>
NIBBLE_INLINE void with_zeros(const TiledWeight& w, F f) {
  if constexpr (Width != GroupWidth::kRow) {  // rows with minima are cut into groups
    if (w.minima_offset != 0) {
      constexpr ZeroKind kZero = Isa::kLowers ? ZeroKind::kOne : ZeroKind::kNone;
      return f(GroupForm<Width, kZero, true>());
    }
  }
  if (w.zeros_offset != 0) {
    return f(GroupForm<Width, ZeroKind::kRows, false>());
  }
  constexpr ZeroKind kZero = Width == GroupWidth::kUnits ? ZeroKind::kOne : ZeroKind::kPrepared;
  f(GroupForm<Width, kZero, false>());
}

/// f(the form of the weight's groups).
template <class Isa, class F>
NIBBLE_INLINE void with_form(const TiledWeight& w, F f) {
  if (w.sums_whole_rows()) {
    with_zeros<Isa, GroupWidth::kRow>(w, f);
  } else if (w.group_inputs == kHalfUnit) {
    with_zeros<Isa, GroupWidth::kHalfUnit>(w, f);
  } else if (w.group_inputs == kUnit) {
    with_zeros<Isa, GroupWidth::kUnit>(w, f);
  } else {
    with_zeros<Isa, GroupWidth::kUnits>(w, f);
  }
}

/// Whether codes are used as they are stored, without a panel.
template <class Source>
constexpr bool kNeedsNoPanel = false;
template <class Isa, int V>
constexpr bool kNeedsNoPanel<Whole<CodeSource<Isa, V, 8>, V>> = true;

/// Such codes from one unit on.
template <class Source>
struct StoredCodes {
  static constexpr int kParts = Source::kParts;
  static constexpr int kColumns = Source::kColumns;
  static constexpr int kQuads = Source::kQuads;
  Source source;
  std::int64_t first;

  NIBBLE_INLINE void prefetch(std::int64_t) const {}
  template <class Int>
  NIBBLE_INLINE void load(int part, std::int64_t unit, int pair, Int (&w)[2][kColumns]) const {
    source.load(part, first + unit, pair, w);
  }
};

/// Decodes `units` units of a block from `first` on into the panel.
template <class Isa, class Source, int V>
NIBBLE_NOINLINE void unpack(const TiledWeight& w, const Block<Isa, V>& block, std::int64_t first,
                            std::int64_t units, std::uint8_t* panel) {
  const Source source(w, block);
  for (std::int64_t u = 0; u < units; ++u) {
    source.prefetch(first + u);
    for (int part = 0; part < Source::kParts; ++part) {
#pragma GCC unroll 4
      for (int pair = 0; pair < kPairsPerUnit; ++pair) {
        typename Isa::Int codes[2][Source::kColumns];
        source.load(part, first + u, pair, codes);
        for (int quad = 0; quad < 2; ++quad) {
          for (int c = 0; c < Source::kColumns; ++c, panel += sizeof(typename Isa::Int)) {
            Isa::store(panel, codes[quad][c]);
          }
        }
      }
    }
  }
}

/// Where the codes of a panel come from: decoded into it by unpack(). All sources whose panels have
/// one form share what multiplies them.
template <class Isa, int V, class Decoded>
struct DecodedPanels {
  static constexpr std::int64_t kInputs = kPanelInputs;
  static constexpr std::int64_t kBytes = kInputs / kUnit * Decoded::kUnitBytes;
  void (*unpack)(const TiledWeight&, const Block<Isa, V>&, std::int64_t first, std::int64_t units,
                 std::uint8_t* panel);

  Decoded codes(const TiledWeight& w, const Block<Isa, V>& block, std::int64_t first,
                std::int64_t units, std::uint8_t* panel) const {
    unpack(w, block, first, units, panel);
    return {panel};
  }
};

/// The same for codes that are used as they are stored.
template <class Isa, int V, class Source>
struct StoredPanels {
  static constexpr std::int64_t kInputs = kStoredInputs;
  static constexpr std::int64_t kBytes = 1;

  StoredCodes<Source> codes(const TiledWeight& w, const Block<Isa, V>& block, std::int64_t first,
                            std::int64_t, std::uint8_t*) const {
    return {Source(w, block), first};
  }
};

template <class Isa, int V, class Source>
constexpr auto panels_of() {
  if constexpr (kNeedsNoPanel<Source>) {
    return StoredPanels<Isa, V, Source>();
  } else {
    using Decoded = Panel<Isa, Source::kColumns, Source::kParts, Source::kQuads>;
    return DecodedPanels<Isa, V, Decoded>{unpack<Isa, Source, V>};
  }
}

/// The weights of a block of rows for the inputs of one panel.
template <class Isa, class Codes, int V>
struct PanelWeights {
  Codes codes;
  std::int64_t groups;
  std::int64_t units_per_group;
  const float* scales;           // [groups, V * kLanes]
  const float* minima;           // the same, where there are any
  const std::uint8_t* zeros[V];  // [groups, kTileRows] and its next lanes; null: `zero`
  int zero;
};

/// Memory of a panel.
template <class Isa, int V, class Panels>
class PanelBuffer {
 public:
  static constexpr std::int64_t kGroups = Panels::kInputs / kHalfUnit;

  /// `units` units of a block of rows from `unit` on, which are the groups [first, first + groups),
  /// or a part of the only one.
  auto fill(const TiledWeight& w, const Block<Isa, V>& block, const Panels& panels,
            std::int64_t unit, std::int64_t units, std::int64_t first, std::int64_t groups) {
    decode_scales(w, block, first, groups);
    const auto codes = panels.codes(w, block, unit, units, bytes_);
    const std::int64_t in_group = w.sums_whole_rows() ? units : w.units_per_group();
    PanelWeights<Isa, std::remove_const_t<decltype(codes)>, V> panel = {
        codes, groups, in_group, scales_, minima_, {}, w.zero};
    for (int v = 0; v < V; ++v) {
      if (block.at[v].zeros != nullptr) {
        panel.zeros[v] = block.at[v].zeros + first * kTileRows;
      }
    }
    return panel;
  }

 private:
  NIBBLE_NOINLINE void decode_scales(const TiledWeight& w, const Block<Isa, V>& block,
                                     std::int64_t first, std::int64_t groups) {
    for (int v = 0; v < V; ++v) {
      const VectorPlace& at = block.at[v];
      const bool has_supers = at.supers != nullptr;
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t to = (g * V + v) * Isa::kLanes;
        Isa::store(scales_ + to,
                   load_block_scales<Isa>(w, at.scales, at.supers, has_supers, first + g));
        if (at.minima != nullptr) {
          Isa::store(minima_ + to,
                     load_block_scales<Isa>(w, at.minima, at.min_supers, has_supers, first + g));
        }
      }
    }
  }

  alignas(64) std::uint8_t bytes_[Panels::kBytes];
  alignas(64) float scales_[kGroups * V * Isa::kLanes];
  alignas(64) float minima_[kGroups * V * Isa::kLanes];
};

}  // namespace
}  // namespace nibble::ops::cpu
