#include "formats/exchange/compressed_tensors/activation_rule.h"

#include <fmt/format.h>

#include "core/json.h"
#include "formats/exchange/exchange.h"
#include "formats/fp8/fp8_codes.h"

namespace nibble::formats::exchange {
namespace {

constexpr std::string_view kWhat = "config.json quantization_config input_activations";

// What is asked for, in the checkpoint's own words.
struct Asked {
  std::int64_t bits = 8;
  bool integers = true;
  bool symmetric = true;
  bool dynamic = false;  // true and not "local"
  std::string strategy;
};

Asked read(const core::Json& arguments) {
  Asked asked;
  asked.bits = core::find_integer(arguments, "num_bits", kWhat, 1, 64).value_or(8);
  asked.integers = core::find_string(arguments, "type", kWhat).value_or("int") == "int";
  asked.symmetric = core::find_bool(arguments, "symmetric", kWhat).value_or(true);
  const auto dynamic = arguments.find("dynamic");
  asked.dynamic = dynamic != arguments.end() && dynamic->is_boolean() && dynamic->get<bool>();
  asked.strategy = core::find_string(arguments, "strategy", kWhat).value_or("tensor");
  return asked;
}

ActivationRule dynamic_integers(const Asked& asked) {
  ActivationRule rule;
  rule.activation.bits = static_cast<int>(asked.bits);
  rule.activation.symmetric = asked.symmetric;
  if (asked.symmetric && asked.bits == 4) {
    rule.activation.clip = 7.0f / 7.5f;
  }
  if (asked.symmetric && asked.bits == 8) {
    rule.remark = "the scale of activations is max|x| / 127, where compressed-tensors has 127.5";
  }
  return rule;
}

}  // namespace

ActivationRule read_activation_rule(const core::Json& arguments, bool fp8) {
  if (arguments.is_null()) {
    return {};
  }
  const Asked asked = read(arguments);
  const bool each_token = asked.dynamic && asked.strategy == "token";
  if (!fp8 && asked.integers && each_token && (asked.bits == 8 || asked.bits == 4)) {
    return dynamic_integers(asked);
  }
  ActivationRule rule;
  if (!fp8 && asked.integers && asked.bits == 8 && asked.symmetric && !asked.dynamic &&
      asked.strategy == "tensor") {
    rule.activation.bits = 8;
    rule.activation.stored_scale = true;
    rule.remark = "activations that compressed-tensors rounds to -128 become -127";
    return rule;
  }
  if (fp8 && !asked.integers && each_token && asked.bits == 8) {
    rule.activation.bits = 8;
    rule.activation.type = &kFp8Codes;
    return rule;
  }
  rule.remark = fmt::format("activations stay float: rounding to {}{} of {} bits ({}) is not built",
                            asked.dynamic ? "" : "static ", asked.integers ? "integers" : "floats",
                            asked.bits, core::printable(asked.strategy));
  return rule;
}

}  // namespace nibble::formats::exchange
