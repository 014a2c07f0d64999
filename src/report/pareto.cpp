#include "report/pareto.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace nibble::report {

std::vector<std::size_t> pareto_front(std::span<const Costs> things) {
  std::vector<std::size_t> order(things.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(things[a].x, things[a].y) < std::tie(things[b].x, things[b].y);
  });
  std::vector<std::size_t> front;
  for (const std::size_t i : order) {
    const bool equals_last = !front.empty() && things[front.back()].x == things[i].x &&
                             things[front.back()].y == things[i].y;
    if (front.empty() || things[i].y < things[front.back()].y || equals_last) {
      front.push_back(i);
    }
  }
  return front;
}

}  // namespace nibble::report
