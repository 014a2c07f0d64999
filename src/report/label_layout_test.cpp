#include "report/label_layout.h"

#include <gtest/gtest.h>

namespace nibble::report {
namespace {

constexpr Box kArea = {0, 0, 700, 450};
constexpr double kRadius = 4.5;

Box around(Place place) {
  return {place.x - kRadius, place.y - kRadius, place.x + kRadius, place.y + kRadius};
}

// What a reader could not make out, or "".
std::string fault_of(const std::vector<PlacedLabel>& labels, const std::vector<Place>& points,
                     const std::vector<Box>& obstacles) {
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const Box& box = labels[i].box;
    if (box.left < kArea.left || box.right > kArea.right || box.top < kArea.top ||
        box.bottom > kArea.bottom) {
      return "a label leaves the area";
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (labels[j].box.meets(box)) {
        return "two labels collide";
      }
    }
    for (const Place& point : points) {
      if (around(point).meets(box)) {
        return "a label hides a point";
      }
    }
    for (const Box& obstacle : obstacles) {
      if (obstacle.meets(box)) {
        return "a label hides an error bar";
      }
    }
  }
  return "";
}

TEST(LabelLayout, AloneALabelStandsBesideItsPoint) {
  const auto labels = lay_out_labels({{100, 100}}, {"rtn-w4g128"}, {}, kArea, kRadius);
  ASSERT_EQ(labels.size(), 1u);
  EXPECT_FALSE(labels[0].leader);
  EXPECT_NEAR(labels[0].box.left, 100 + kRadius, 4);
  EXPECT_GT(labels[0].box.right - labels[0].box.left, 10 * 7);
}

TEST(LabelLayout, OfACrowdAllHaveRoomAndNoneCollide) {
  for (const double spread : {0.0, 1.0, 6.0}) {
    std::vector<Place> points;
    std::vector<std::string> names;
    std::vector<Box> bars;
    for (int i = 0; i < 25; ++i) {
      const Place point = {200 + spread * i, 300 - spread * (i * 7 % 25)};
      points.push_back(point);
      names.push_back("gptq-w4g128-with-number-" + std::to_string(i));
      bars.push_back({point.x - 4, point.y - 12, point.x + 4, point.y + 12});
    }
    const auto labels = lay_out_labels(points, names, bars, kArea, kRadius);
    EXPECT_EQ(labels.size(), points.size()) << spread;
    EXPECT_EQ(fault_of(labels, points, bars), "") << spread;
  }
}

TEST(LabelLayout, WithoutRoomALabelIsLeftOut) {
  const std::vector<Place> points(100, Place{350, 200});
  const std::vector<std::string> names(100, "a-recipe-with-a-long-name");
  const auto labels = lay_out_labels(points, names, {}, kArea, kRadius);
  EXPECT_LT(labels.size(), points.size());
  EXPECT_GT(labels.size(), 3u);
  EXPECT_EQ(fault_of(labels, points, {}), "");
}

// Two leaders from different points, and a leader over a third point, could be read wrongly.
TEST(LabelLayout, LeadersPassOtherPoints) {
  const std::vector<Place> points = {{100, 100}, {130, 100}, {160, 100}, {190, 100}, {220, 100}};
  const std::vector<std::string> names(5, "recipe-name");
  for (const PlacedLabel& label : lay_out_labels(points, names, {}, kArea, kRadius)) {
    if (!label.leader) {
      continue;
    }
    const Place from = points[label.point];
    for (const Place& other : points) {
      for (int step = 0; step <= 100 && (other.x != from.x); ++step) {
        const double share = step / 100.0;
        const Place at = {from.x + share * (label.leader_end.x - from.x),
                          from.y + share * (label.leader_end.y - from.y)};
        EXPECT_FALSE(std::abs(at.x - other.x) < kRadius && std::abs(at.y - other.y) < kRadius);
      }
    }
  }
}

}  // namespace
}  // namespace nibble::report
