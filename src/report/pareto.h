#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace nibble::report {

/// Two costs of one thing; less is better in both.
struct Costs {
  double x = 0;
  double y = 0;
};

/// Numbers of the things that no other thing beats: none is as good in both costs and better in
/// one. In the order of x, then y; equal things are all in it.
std::vector<std::size_t> pareto_front(std::span<const Costs> things);

}  // namespace nibble::report
