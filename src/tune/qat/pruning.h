#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace nibble::tune {

/// Which weights of a row stay while a student is trained: of every `of` in a row `keep`, each for
/// itself, or in pairs of neighbours that stay or go together (the unit of 4-bit sparse products on
/// tensor cores). What stays is chosen anew in each step (arXiv 2301.12017, section 5).
struct Pruning {
  int keep = 0;
  int of = 0;    // 0: nothing is pruned
  int unit = 1;  // 2: pairs
  /// By scores that are trained: they rise where a weight moves away from 0 (movement pruning,
  /// arXiv 2005.07683, section 4). Otherwise by magnitude.
  bool by_movement = false;
  /// Q => P: steps of the grid are those of all weights. Otherwise P => Q: of those that stay.
  bool after_rounding = false;

  bool any() const { return of > 0; }
};

/// Of "2:4" or "4:8-pairs": the numbers. Throws kUsage, naming the text, for anything else:
/// 0 < keep < of <= 32, and both even for pairs.
Pruning parse_pruning(std::string_view text);

/// "2of4", "4of8pairs-movement-rounded": for names of recipes.
std::string name_of(const Pruning& pruning);

/// Zeroes the values of a row that go: those of the lowest score, of equal scores those of the
/// smallest magnitude (of a pair, sums of both), of these the later ones. `scores` has a number for
/// each value, or none: then magnitudes alone count. Values behind the last whole `of` stay.
void prune(std::span<float> values, std::span<const float> scores, const Pruning& pruning);

}  // namespace nibble::tune
