#include "compress/calibration/key_centre.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace nibble::compress {
namespace {

constexpr std::int64_t kPositions = 4096;

// Rows [begin, begin + out.size()) of the layers' outputs, side by side, for the input x.
void outputs(const ops::LinearSet& set, std::int64_t begin, std::span<const float> x,
             std::span<float> out) {
  std::vector<float> weights(x.size());
  std::int64_t first = 0;  // row of this layer
  for (const ops::Linear& part : set.parts) {
    const std::int64_t end = begin + std::ssize(out);
    for (std::int64_t row = std::max(begin, first); row < std::min(end, first + part.weight.n);
         ++row) {
      formats::decode_row(part.weight, row - first, weights);
      const double bias =
          part.bias.empty() ? 0.0 : part.bias[static_cast<std::size_t>(row - first)];
      out[static_cast<std::size_t>(row - begin)] =
          static_cast<float>(std::inner_product(weights.begin(), weights.end(), x.begin(), bias));
    }
    first += part.weight.n;
  }
}

// The mean turn of RoPE over positions [0, count).
class MeanTurn {
 public:
  MeanTurn(const ops::AttentionSpec& spec, std::int64_t count) {
    const double factor = spec.rope_factor / static_cast<double>(count);
    for (const float frequency : spec.inverse_frequency) {
      double cosine = 0;
      double sine = 0;
      for (std::int64_t position = 0; position < count; ++position) {
        const double angle = static_cast<double>(position) * frequency;
        cosine += std::cos(angle);
        sine += std::sin(angle);
      }
      turns_.push_back({cosine * factor, sine * factor});
    }
  }

  void apply(std::span<float> head) const {
    const std::size_t half = turns_.size();
    for (std::size_t i = 0; i < half; ++i) {
      const double a = head[i];
      const double b = head[i + half];
      head[i] = static_cast<float>(a * turns_[i].cosine - b * turns_[i].sine);
      head[i + half] = static_cast<float>(b * turns_[i].cosine + a * turns_[i].sine);
    }
  }

 private:
  struct Turn {
    double cosine;
    double sine;
  };
  std::vector<Turn> turns_;  // by frequency
};

}  // namespace

std::vector<float> key_centre(const models::NetworkConfig& config, const models::Block& block,
                              std::span<const float> mean_input) {
  const ops::AttentionSpec& spec = block.attention.spec;
  if (!spec.k_norm.empty() || spec.softcap > 0.0f) {
    return {};
  }
  std::vector<float> centre(static_cast<std::size_t>(spec.kv_heads * spec.head_dim));
  outputs(block.attention.qkv, spec.heads * spec.head_dim, mean_input, centre);
  const MeanTurn turn(spec, std::min(config.max_positions, kPositions));
  const auto dim = static_cast<std::size_t>(spec.head_dim);
  for (std::size_t head = 0; head < centre.size(); head += dim) {
    turn.apply(std::span(centre).subspan(head, dim));
  }
  return centre;
}

}  // namespace nibble::compress
