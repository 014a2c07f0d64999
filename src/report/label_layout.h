#pragma once

#include <string>
#include <vector>

#include "report/svg.h"

namespace nibble::report {

struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
  bool meets(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

/// A label of a drawing: around its text, with a line to its point where it stands away from it.
struct PlacedLabel {
  std::size_t point = 0;
  Box box;
  bool leader = false;
  Place leader_end;
};

/// Finds room for a label at each point inside of `area`: beside the point, or farther away with a
/// line to it. A label hides no point, no other label and nothing in `obstacles`, and its line
/// crosses no label and no other point. A label without room is left out.
std::vector<PlacedLabel> lay_out_labels(const std::vector<Place>& points,
                                        const std::vector<std::string>& labels,
                                        const std::vector<Box>& obstacles, const Box& area,
                                        double point_radius);

}  // namespace nibble::report
