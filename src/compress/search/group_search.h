#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "compress/search/seen_codes.h"
#include "compress/search/weighted_group.h"
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
/// A descent ends where it comes to codes from which an earlier one went on, since both would go on
/// alike. What is found is what all descents would find.
///
/// One object serves one thread.
class GroupSearch {
 public:
  explicit GroupSearch(int steps, core::VectorLevel level = core::vector_level())
      : steps_(steps), group_(level) {}

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
  // Parameters, and what the group's weights are rounded to with them.
  struct Rounding {
    formats::GroupParameters parameters;
    WeightedGroup::Rounded sums;
    std::vector<std::uint8_t> codes;  // Kind::kOther alone
    std::vector<float> values;        // [padded]: codes as WeightedGroup has them, or decoded
  };
  // Who rounds: WeightedGroup, or the format itself.
  enum class Kind { kSteps, kBook, kOther };
  using Book = std::array<float, formats::BookOrder::kSize>;

  void take(const formats::Format& format, std::span<const float> weights,
            std::span<const float> importance);
  void add_starts(const formats::GroupParameters& known);
  void round(const formats::GroupParameters& parameters, Rounding& rounding);
  formats::GroupParameters refit(Rounding& rounding);
  SeenCodes::Visit* visit(const Rounding& rounding, int refits);
  void descend(Rounding& rounding, GroupFit& best);

  int steps_;

  // The group.
  const formats::Format* format_ = nullptr;
  std::span<const float> floats_;
  WeightedGroup group_;
  Kind kind_ = Kind::kOther;
  formats::StepCodes step_codes_;
  WeightedGroup::Fit fit_ = WeightedGroup::Fit::kScale;
  Book book_{};
  std::optional<formats::BookOrder> order_;  // of book_

  // Its search.
  std::vector<formats::GroupParameters> starts_;
  std::array<Rounding, 8> roundings_;  // of starts: processors have them in work together
  SeenCodes seen_;
};

}  // namespace nibble::compress
