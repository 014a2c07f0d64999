#include "compress/gptq/gptq.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "compress/coding/gpu_coder.h"
#include "compress/gptq/cuda_gptq.h"
#include "ops/cpu/dense/blas.h"

namespace nibble::compress {
namespace {

using formats::GroupParameters;

constexpr std::int64_t kBlock = 128;  // inputs between two updates of all later weights
constexpr std::int64_t kRows = 64;    // output rows of one task; rows do not influence one another

// One task: output rows [begin, end).
class RowSweep {
 public:
  RowSweep(const formats::Scheme& scheme, const RowFormats& row_formats,
           const InverseFactor& factor, std::int64_t k, std::int64_t first,
           std::span<const std::uint8_t> kept)
      : row_formats_(row_formats),
        factor_(factor),
        k_(k),
        head_(formats::head_inputs(scheme, k)),
        group_(formats::group_size(scheme, k)),
        groups_(parameter_groups(scheme, k)),
        first_(first),
        kept_(kept) {}

  // Codes [rows, k] of `rows` rows, in stored order. `parameters` are those of the whole layer.
  void run(const float* weights, std::int64_t rows, const std::vector<GroupParameters>& parameters,
           std::uint8_t* codes) {
    gather(weights, rows);
    error_.resize(static_cast<std::size_t>(rows * kBlock));
    for (std::int64_t begin = 0; begin < k_; begin += kBlock) {
      const std::int64_t end = std::min(k_, begin + kBlock);
      for (std::int64_t row = 0; row < rows; ++row) {
        round_block(row, begin, end, parameters, codes + row * k_);
      }
      update_later(rows, begin, end);
    }
  }

 private:
  std::int64_t input(std::int64_t i) const { return factor_.order[static_cast<std::size_t>(i)]; }
  bool keeps(std::int64_t row, std::int64_t input) const {
    return kept_.empty() || kept_[static_cast<std::size_t>((first_ + row) * k_ + input)] != 0;
  }
  float* ordered_row(std::int64_t row) { return ordered_.data() + row * k_; }

  void gather(const float* weights, std::int64_t rows) {
    ordered_.resize(static_cast<std::size_t>(rows * k_));
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < k_; ++i) {
        const bool dead = factor_.dead[static_cast<std::size_t>(input(i))];
        ordered_row(row)[i] = dead ? 0.0f : weights[row * k_ + input(i)];
      }
    }
  }

  void round_block(std::int64_t row, std::int64_t begin, std::int64_t end,
                   const std::vector<GroupParameters>& parameters, std::uint8_t* codes) {
    float* w = ordered_row(row);
    for (std::int64_t i = begin; i < end; ++i) {
      const float* u = factor_.upper.data() + i * k_;
      const bool tail = input(i) >= head_;
      const formats::Format& format = tail ? row_formats_.tail() : row_formats_.of(first_ + row);
      const std::int64_t at = tail ? groups_ - 1 : input(i) / group_;
      const GroupParameters& group =
          parameters[static_cast<std::size_t>((first_ + row) * groups_ + at)];
      const std::uint8_t code = format.encode(keeps(row, input(i)) ? w[i] : 0.0f, group);
      const float rounded = format.decode(code, group);
      const float error = (w[i] - rounded) / u[i];
      codes[input(i)] = code;
      w[i] = rounded;
      for (std::int64_t j = i + 1; j < end; ++j) {
        w[j] -= error * u[j];
      }
      error_[static_cast<std::size_t>(row * kBlock + i - begin)] = error;
    }
  }

  // w[:, end:] -= error[:, block] U[block, end:]
  void update_later(std::int64_t rows, std::int64_t begin, std::int64_t end) {
    if (end == k_) {
      return;
    }
    const auto ld = static_cast<int>(k_);
    ops::cpu::blas().sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(rows),
                           static_cast<int>(k_ - end), static_cast<int>(end - begin), -1.0f,
                           error_.data(), static_cast<int>(kBlock),
                           factor_.upper.data() + begin * k_ + end, ld, 1.0f, ordered_.data() + end,
                           ld);
  }

  const RowFormats& row_formats_;
  const InverseFactor& factor_;
  std::int64_t k_;
  std::int64_t head_;                   // inputs before the tail
  std::int64_t group_;                  // inputs of a group
  std::int64_t groups_;                 // of a row, with the tail
  std::int64_t first_;                  // the layer's row of row 0
  std::span<const std::uint8_t> kept_;  // of the whole layer
  std::vector<float> ordered_;          // [rows, k], inputs in processing order
  std::vector<float> error_;            // [rows, kBlock]
};

}  // namespace

CodedWeight gptq(std::span<const float> weights, std::int64_t n, std::int64_t k,
                 const formats::Scheme& scheme, Parameters parameters, const InverseFactor& factor,
                 core::ThreadPool& pool, std::span<const std::uint8_t> kept) {
  const RowFormats row_formats(scheme, parameters);
  CodedWeight coded{std::move(parameters),
                    std::vector<std::uint8_t>(static_cast<std::size_t>(n * k))};
  pool.parallel_for(n, kRows, [&](std::int64_t begin, std::int64_t end) {
    RowSweep(scheme, row_formats, factor, k, begin, kept)
        .run(weights.data() + begin * k, end - begin, coded.parameters.groups,
             coded.codes.data() + begin * k);
  });
  return coded;
}

CodedWeight gptq(std::span<const float> weights, std::int64_t n, std::int64_t k,
                 const formats::Scheme& scheme, Parameters parameters, const InverseFactor& factor,
                 const Backend& backend, std::span<const std::uint8_t> kept) {
  if (backend.has_gpu() && has_gpu_coder_of_head(scheme)) {
    return cuda::gptq(backend.gpu(), weights, n, k, scheme, std::move(parameters), factor, kept);
  }
  return gptq(weights, n, k, scheme, std::move(parameters), factor, backend.pool(), kept);
}

}  // namespace nibble::compress
