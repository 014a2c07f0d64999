#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace nibble::tune {

/// Numbers that training changes, beside the gradient of the loss at them. Does not move:
/// optimizers and ops::gradient::ParameterGradients point to it.
struct Parameter {
  Parameter(std::string its_name, std::vector<float> start, float its_rate = 1.0f,
            bool does_decay = false)
      : name(std::move(its_name)),
        values(std::move(start)),
        gradient(values.size()),
        rate(its_rate),
        decays(does_decay) {}
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  std::string name;  // in messages and files: "model.layers.0.mlp.up_proj.weight"
  std::vector<float> values;
  std::vector<float> gradient;  // added up by backward passes; an optimizer's step empties it
  float rate;                   // times the learning rate
  bool decays;                  // whether weight decay applies
};

using Parameters = std::vector<std::unique_ptr<Parameter>>;

std::int64_t count_of(const Parameters& parameters);

/// Throws kFailed, naming the step and the parameter, when the loss or a gradient is not finite.
void require_finite(double loss, const Parameters& parameters, std::int64_t step);

/// The same where the sum of squares of each parameter's gradient is known.
void require_finite(double loss, const Parameters& parameters, std::span<const double> squares,
                    std::int64_t step);

}  // namespace nibble::tune
