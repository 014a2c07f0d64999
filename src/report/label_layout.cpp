#include "report/label_layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/random.h"

namespace nibble::report {
namespace {

constexpr double kHeight = 14;    // of a label
constexpr double kGap = 3;        // between a point and a label beside it
constexpr double kOverlap = 4.5;  // half of the distance of two points that overlap
constexpr double kRowStep = 16;   // between places farther away
constexpr double kColumnStep = 24;
constexpr double kNear = 12;                    // the shortest line to a point
constexpr double kConflict = 10000;             // costs more than any line
constexpr std::size_t kMostTests = 20'000'000;  // of two places, some tenths of a second
constexpr std::array<Place, 8> kDirections = {Place{1, 0},       Place{-1, 0},    Place{0.8, -0.6},
                                              Place{-0.8, -0.6}, Place{0.8, 0.6}, Place{-0.8, 0.6},
                                              Place{0, -1},      Place{0, 1}};

struct Segment {
  Place from;
  Place to;
};

Box around(Place place, double reach) {
  return {place.x - reach, place.y - reach, place.x + reach, place.y + reach};
}

Place nearest(const Box& box, Place point) {
  return {std::clamp(point.x, box.left, box.right), std::clamp(point.y, box.top, box.bottom)};
}

// Cuts [0, 1], the share of a segment, down to where `start + share * step` is in [low, high].
void cut(double start, double step, double low, double high, double& first, double& last) {
  if (step == 0) {
    last = start > low && start < high ? last : -1;
    return;
  }
  const double a = (low - start) / step;
  const double b = (high - start) / step;
  first = std::max(first, std::min(a, b));
  last = std::min(last, std::max(a, b));
}

bool crosses(const Segment& segment, const Box& box) {
  double first = 0;
  double last = 1;
  cut(segment.from.x, segment.to.x - segment.from.x, box.left, box.right, first, last);
  cut(segment.from.y, segment.to.y - segment.from.y, box.top, box.bottom, first, last);
  return first < last;
}

// On which side of a segment's line a place lies: the sign.
double side(const Segment& segment, Place place) {
  return (segment.to.x - segment.from.x) * (place.y - segment.from.y) -
         (segment.to.y - segment.from.y) * (place.x - segment.from.x);
}

// Lines from points that overlap part anyhow.
bool cross(const Segment& a, const Segment& b) {
  return !around(a.from, kOverlap).meets(around(b.from, kOverlap)) &&
         side(a, b.from) * side(a, b.to) < 0 && side(b, a.from) * side(b, a.to) < 0;
}

// A box of a label that begins (or ends, or is centred) `distance` from the point.
Box beside(Place point, Place direction, double distance, double width) {
  const double x = point.x + direction.x * distance;
  const double y = point.y + direction.y * (distance + kHeight / 2);
  const double left = direction.x > 0 ? x : direction.x < 0 ? x - width : x - width / 2;
  return {left, y - kHeight / 2, left + width, y + kHeight / 2};
}

// A place where a label could stand.
struct Candidate {
  Box box;
  Segment leader;  // of no length beside the point
  double cost = 0;
  bool has_leader() const { return cost >= kNear; }
};

bool conflict(const Candidate& a, const Candidate& b) {
  return a.box.meets(b.box) || (a.has_leader() && crosses(a.leader, b.box)) ||
         (b.has_leader() && crosses(b.leader, a.box)) ||
         (a.has_leader() && b.has_leader() && cross(a.leader, b.leader));
}

// All places of one label that hide nothing but perhaps other labels, the best first.
class Candidates {
 public:
  Candidates(const std::vector<Place>& points, const std::vector<Box>& obstacles, const Box& area,
             double radius)
      : points_(points), obstacles_(obstacles), area_(area), radius_(radius) {}

  std::vector<Candidate> of(std::size_t point, double width) const {
    std::vector<Candidate> found;
    const Place place = points_[point];
    for (std::size_t i = 0; i < kDirections.size(); ++i) {
      const Box box = beside(place, kDirections[i], radius_ + kGap, width);
      if (is_free(box)) {
        found.push_back({box, {place, place}, static_cast<double>(i)});
      }
    }
    for (double top = area_.top + 1; top + kHeight < area_.bottom; top += kRowStep) {
      for (double left = area_.left + 1; left + width < area_.right; left += kColumnStep) {
        const Box box = {left, top, left + width, top + kHeight};
        const Segment leader = {place, nearest(box, place)};
        const double length = std::hypot(leader.to.x - place.x, leader.to.y - place.y);
        if (length >= kNear && is_free(box) && is_free(leader)) {
          found.push_back({box, leader, length});
        }
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate& a, const Candidate& b) { return a.cost < b.cost; });
    return found;
  }

 private:
  bool is_free(const Box& box) const {
    return box.left > area_.left && box.right < area_.right && box.top > area_.top &&
           box.bottom < area_.bottom &&
           std::none_of(obstacles_.begin(), obstacles_.end(),
                        [&](const Box& other) { return other.meets(box); }) &&
           std::none_of(points_.begin(), points_.end(),
                        [&](Place point) { return around(point, radius_).meets(box); });
  }

  // Points that overlap the label's own can't be avoided.
  bool is_free(const Segment& leader) const {
    const Box own = around(leader.from, radius_);
    return std::none_of(points_.begin(), points_.end(), [&](Place other) {
      const Box box = around(other, radius_);
      return !box.meets(own) && crosses(leader, box);
    });
  }

  const std::vector<Place>& points_;
  const std::vector<Box>& obstacles_;
  Box area_;
  double radius_;
};

// Min-conflicts (Minton et al. 1992): a label that is in conflict moves to where it costs least,
// until none is or the tests are used up. Conflicts with labels that were in many cost more (Morris
// 1993), so that those in everybody's way leave.
class Layout {
 public:
  explicit Layout(std::vector<std::vector<Candidate>> candidates)
      : candidates_(std::move(candidates)),
        chosen_(candidates_.size(), nullptr),
        weights_(candidates_.size(), 1.0) {
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      chosen_[i] = candidates_[i].empty() ? nullptr : &candidates_[i].front();
    }
  }

  void improve() {
    core::Random random(1);
    std::vector<const Candidate*> best = chosen_;
    std::size_t fewest = in_conflict().size();
    for (std::size_t tests = 0; tests < kMostTests && fewest > 0;) {
      const std::vector<std::size_t> labels = in_conflict();
      if (labels.size() < fewest) {
        fewest = labels.size();
        best = chosen_;
      }
      for (const std::size_t label : labels) {
        weights_[label] += 1;
      }
      if (!labels.empty()) {
        const auto pick = random.below(static_cast<std::int64_t>(labels.size()));
        const std::size_t label = labels[static_cast<std::size_t>(pick)];
        move(label);
        tests += (candidates_[label].size() + chosen_.size()) * chosen_.size();
      }
    }
    chosen_ = best;
  }

  // Leaves labels out until none is in conflict, those that meet most others first.
  void leave_out() {
    for (;;) {
      std::size_t worst = 0;
      std::size_t most = 0;
      for (std::size_t i = 0; i < chosen_.size(); ++i) {
        const std::size_t conflicts = chosen_[i] == nullptr ? 0 : conflicts_of(i, *chosen_[i]);
        if (conflicts > most) {
          worst = i;
          most = conflicts;
        }
      }
      if (most == 0) {
        return;
      }
      chosen_[worst] = nullptr;
    }
  }

  // Finds room for labels that were left out for others that were left out later.
  void fill_in() {
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
      if (chosen_[i] != nullptr) {
        continue;
      }
      const auto free =
          std::find_if(candidates_[i].begin(), candidates_[i].end(),
                       [&](const Candidate& candidate) { return conflicts_of(i, candidate) == 0; });
      chosen_[i] = free == candidates_[i].end() ? nullptr : &*free;
    }
  }

  const std::vector<const Candidate*>& chosen() const { return chosen_; }

 private:
  std::size_t conflicts_of(std::size_t label, const Candidate& candidate) const {
    std::size_t conflicts = 0;
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
      conflicts += i != label && chosen_[i] != nullptr && conflict(candidate, *chosen_[i]) ? 1 : 0;
    }
    return conflicts;
  }

  double weight_of(std::size_t label, const Candidate& candidate) const {
    double weight = 0;
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
      weight +=
          i != label && chosen_[i] != nullptr && conflict(candidate, *chosen_[i]) ? weights_[i] : 0;
    }
    return weight;
  }

  std::vector<std::size_t> in_conflict() const {
    std::vector<std::size_t> labels;
    for (std::size_t i = 0; i < chosen_.size(); ++i) {
      if (chosen_[i] != nullptr && conflicts_of(i, *chosen_[i]) > 0) {
        labels.push_back(i);
      }
    }
    return labels;
  }

  void move(std::size_t label) {
    const Candidate* const before = chosen_[label];
    double least = std::numeric_limits<double>::infinity();
    for (const Candidate& candidate : candidates_[label]) {
      if (&candidate == before || candidate.cost >= least) {
        continue;
      }
      const double cost = candidate.cost + kConflict * weight_of(label, candidate);
      if (cost < least) {
        least = cost;
        chosen_[label] = &candidate;
      }
    }
  }

  std::vector<std::vector<Candidate>> candidates_;
  std::vector<const Candidate*> chosen_;  // null: no place
  std::vector<double> weights_;
};

}  // namespace

std::vector<PlacedLabel> lay_out_labels(const std::vector<Place>& points,
                                        const std::vector<std::string>& labels,
                                        const std::vector<Box>& obstacles, const Box& area,
                                        double point_radius) {
  const Candidates places(points, obstacles, area, point_radius);
  std::vector<std::vector<Candidate>> candidates;
  for (std::size_t i = 0; i < points.size(); ++i) {
    candidates.push_back(places.of(i, label_pixels(labels[i])));
  }
  Layout layout(std::move(candidates));
  layout.improve();
  layout.leave_out();
  layout.fill_in();
  std::vector<PlacedLabel> placed;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (const Candidate* const chosen = layout.chosen()[i]) {
      placed.push_back({i, chosen->box, chosen->has_leader(), chosen->leader.to});
    }
  }
  return placed;
}

}  // namespace nibble::report
