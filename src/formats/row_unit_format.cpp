#include "formats/row_unit_format.h"

#include <utility>

#include "formats/row_unit.h"

namespace nibble::formats {
namespace {

class RowUnitFormat final : public Format {
 public:
  RowUnitFormat(std::unique_ptr<const Format> inner, std::uint8_t unit)
      : Format(inner->scheme()), inner_(std::move(inner)), unit_(unit_value(unit)) {}

  GroupParameters fit(std::span<const float> group) const override {
    GroupParameters parameters = inner_->fit(group);
    parameters.scale = stored_scale(parameters.scale);
    return parameters;
  }
  std::uint8_t encode(float weight, const GroupParameters& parameters) const override {
    return inner_->encode(weight, parameters);
  }
  void encode_group(std::span<const float> weights, const GroupParameters& parameters,
                    std::span<std::uint8_t> codes) const override {
    inner_->encode_group(weights, parameters, codes);
  }
  float decode(std::uint8_t code, const GroupParameters& parameters) const override {
    return inner_->decode(code, parameters);
  }
  void decode_group(std::span<const std::uint8_t> codes, const GroupParameters& parameters,
                    std::span<float> values) const override {
    inner_->decode_group(codes, parameters, values);
  }
  float stored_scale(double scale) const override {
    return scale_of_units(units_of(scale, unit_), unit_);
  }

 private:
  std::unique_ptr<const Format> inner_;
  float unit_;
};

}  // namespace

std::unique_ptr<const Format> make_row_unit_format(std::unique_ptr<const Format> format,
                                                   std::uint8_t unit) {
  return std::make_unique<RowUnitFormat>(std::move(format), unit);
}

}  // namespace nibble::formats
