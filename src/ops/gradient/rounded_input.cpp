#include "ops/gradient/rounded_input.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "ops/cpu/packed/quantized_input.h"

namespace nibble::ops::gradient {
namespace {

constexpr std::int64_t kLayoutGroup = 256;  // inputs of a group of the layout, at the most
constexpr std::int64_t kRowsPerTask = 8;

// The largest group of the layout that divides what shares a scale.
std::int64_t layout_group(const formats::Activation& activation) {
  if (activation.group == 0) {
    return kLayoutGroup;
  }
  std::int64_t group = std::min(kLayoutGroup, activation.group);
  while (activation.group % group != 0) {
    --group;
  }
  return group;
}

void decode_row(const cpu::QuantizedInput& codes, std::int64_t row, float* out) {
  const float* const scales = codes.scales(row);
  const std::int32_t* const zeros = codes.zeros(row);
  for (std::int64_t g = 0; g < codes.groups(); ++g) {
    const std::int8_t* const group = codes.codes(row) + g * codes.group_stride();
    const std::int64_t first = g * codes.group();
    const std::int64_t count = std::min(codes.group(), codes.k() - first);
    const std::int32_t zero = zeros == nullptr ? 0 : zeros[g];
    for (std::int64_t i = 0; i < count; ++i) {
      out[first + i] = scales[g] * static_cast<float>(group[i] - zero);
    }
  }
  for (const cpu::Outlier& outlier : codes.outliers(row)) {
    out[outlier.input] = outlier.value;
  }
}

// What codes reach, of `count` values that share a scale: [low, high].
std::pair<float, float> kept_range(const float* x, std::int64_t count,
                                   const InputRounding& rounding) {
  const formats::Activation& activation = rounding.activation;
  const auto [least, most] = std::minmax_element(x, x + count);
  if (!activation.symmetric) {
    return {activation.clip * std::min(*least, 0.0f), activation.clip * std::max(*most, 0.0f)};
  }
  if (activation.type->is_recoded()) {
    const float reach = activation.clip * std::max(-*least, *most);
    return {-reach, reach};
  }
  const auto top = static_cast<float>((1 << (activation.bits - 1)) - 1);
  const float step =
      activation.stored_scale ? rounding.scale : activation.clip * std::max(-*least, *most) / top;
  return {step * (activation.bits == 8 ? -top : -top - 1), step * top};
}

}  // namespace

void require_rounded_on_gpu(std::string_view layer, const formats::Activation& activation) {
  core::require(activation.is_float() || activation.type == &formats::kIntegerCodes,
                core::ErrorKind::kUsage,
                "layer {} rounds its input to {}, which is not trained on a GPU; use --device cpu",
                core::printable(layer), activation.type->name);
}

std::optional<InputRounding> rounding_of(const LinearSet& set) {
  const auto of = [](const Linear& part) {
    const formats::Activation& activation = part.weight.scheme.activation;
    return std::pair(activation,
                     activation.stored_scale ? formats::input_scale_of(part.weight) : 0.0f);
  };
  const auto first = of(set.parts.front());
  for (const Linear& part : set.parts) {
    core::require(of(part) == first, core::ErrorKind::kFailed,
                  "gradients do not pass through layers {} and {}, which round one input in "
                  "different ways",
                  set.parts.front().name, part.name);
  }
  return first.first.is_float() ? std::nullopt
                                : std::optional(InputRounding{first.first, first.second});
}

cpu::Matrix rounded_input(const cpu::Matrix& x, const InputRounding& rounding, cpu::CpuOps& ops) {
  cpu::InputNeeds needs;
  needs.group = layout_group(rounding.activation);
  needs.activation = rounding.activation;
  needs.scale = rounding.scale;
  cpu::QuantizedInput codes;
  cpu::quantize_input(x.data(), x.rows(), x.columns(), x.columns(), needs, codes, ops.pool());
  cpu::Matrix y = ops.matrix(x.rows(), x.columns());
  ops.pool().parallel_for(x.rows(), kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      decode_row(codes, i, y.row(i));
    }
  });
  return y;
}

void cut_gradient(const cpu::Matrix& x, const InputRounding& rounding, cpu::Matrix& gradient,
                  core::ThreadPool& pool) {
  const std::int64_t k = x.columns();
  const std::int64_t group = rounding.activation.group == 0 ? k : rounding.activation.group;
  pool.parallel_for(x.rows(), kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t first = 0; first < k; first += group) {
        const std::int64_t count = std::min(group, k - first);
        const float* const values = x.row(i) + first;
        const auto [low, high] = kept_range(values, count, rounding);
        float* const slopes = gradient.row(i) + first;
        for (std::int64_t j = 0; j < count; ++j) {
          slopes[j] = values[j] < low || values[j] > high ? 0.0f : slopes[j];
        }
      }
    }
  });
}

}  // namespace nibble::ops::gradient
