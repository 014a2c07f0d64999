#include "models/exchange/plain_weights.h"

#include <optional>
#include <span>

#include "formats/hadamard.h"

namespace nibble::models {
namespace {

constexpr std::int64_t kRows = 16;  // of one task

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// Undoes the Hadamards of a row, the last of which may be smaller.
class TurnBack {
 public:
  explicit TurnBack(const formats::PackedWeight& weight) {
    const std::int64_t size = formats::hadamard_size(weight.scheme, weight.k);
    if (size == 0) {
      return;
    }
    const std::int64_t head = formats::head_inputs(weight.scheme, weight.k);
    whole_ = index(head / size * size);
    last_size_ = index(head % size);
    turn_.emplace(size);
    if (last_size_ > 0) {
      last_.emplace(head % size);
    }
  }

  void apply(std::span<float> row) const {
    if (turn_) {
      turn_->apply_transposed(row.first(whole_));
    }
    if (last_) {
      last_->apply_transposed(row.subspan(whole_, last_size_));
    }
  }

 private:
  std::size_t whole_ = 0;
  std::size_t last_size_ = 0;
  std::optional<formats::Hadamard> turn_;
  std::optional<formats::Hadamard> last_;
};

}  // namespace

std::vector<float> plain_weights(const formats::PackedWeight& weight, core::ThreadPool& pool) {
  std::vector<float> values(index(weight.n * weight.k));
  const TurnBack turn(weight);
  pool.parallel_for(weight.n, kRows, [&](std::int64_t first, std::int64_t last) {
    std::vector<float> stored(index(weight.k));
    for (std::int64_t row = first; row < last; ++row) {
      const auto out = std::span(values).subspan(index(row * weight.k), index(weight.k));
      formats::decode_row(weight, row, stored);
      turn.apply(stored);
      for (std::size_t i = 0; i < stored.size(); ++i) {
        const std::size_t input =
            weight.permutation.empty() ? i : index(weight.permutation.data<std::int32_t>()[i]);
        out[input] = stored[i];
      }
    }
  });
  return values;
}

}  // namespace nibble::models
