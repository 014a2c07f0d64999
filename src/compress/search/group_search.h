#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/format.h"

namespace nibble::compress {

/// Parameters of one group and what rounding with them costs.
struct GroupFit {
  formats::GroupParameters parameters;
  double loss = 0;  // sum over i of importance[i] (w[i] - decoded[i])^2
};

/// Steps of a search where nobody says how many.
inline constexpr int kSearchSteps = 32;

/// Looks for the parameters of a group that lose least when its weights are rounded to nearest,
/// each squared error counting by the importance of its input, E[x^2]: the diagonal of the layer's
/// output error (the "importance matrix" of llama.cpp).
///
/// From each of several starts, parameters are refitted in closed form to the codes that they give
/// (weighted least squares for the scale, and for the zero where one is stored) until that gains
/// nothing. Starts are the round-to-nearest parameters of the group's range times `steps` factors
/// from 1.25 (NVFP4: 1.5) down to 0.4. Losses are those of the stored parameters: scales in their
/// stored type, integer zeros.
///
/// One object serves one thread.
class GroupSearch {
 public:
  explicit GroupSearch(int steps) : steps_(steps) {}

  /// Never loses more than format.fit(weights) does. `importance` has as many elements, none
  /// negative.
  GroupFit search(const formats::Format& format, std::span<const float> weights,
                  std::span<const float> importance);

  /// The same with `known` as one more start.
  GroupFit search_from(const formats::Format& format, std::span<const float> weights,
                       std::span<const float> importance, const formats::GroupParameters& known);

  /// What rounding to nearest with these parameters costs.
  double loss(const formats::Format& format, std::span<const float> weights,
              std::span<const float> importance, const formats::GroupParameters& parameters);

 private:
  void descend(const formats::Format& format, std::span<const float> weights,
               std::span<const float> importance, formats::GroupParameters parameters,
               GroupFit& best);
  formats::GroupParameters refit(const formats::Format& format, std::span<const float> weights,
                                 std::span<const float> importance,
                                 const formats::GroupParameters& parameters);

  int steps_;
  std::vector<std::uint8_t> codes_;
  std::vector<float> values_;
};

}  // namespace nibble::compress
