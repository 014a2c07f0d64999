#include "compress/allocation/sensitivity.h"

#include <algorithm>
#include <numeric>

#include "compress/calibration/sampled_gradients.h"
#include "formats/format.h"
#include "ops/cpu/dense/blas.h"
#include "ops/cpu/vector/vector_kernels.h"

namespace nibble::compress {
namespace {

using formats::Scheme;
using ops::cpu::Matrix;

constexpr std::int64_t kRows = 32;  // rows that one task rounds

void add_squares(const float* values, std::int64_t count, double weight, double* sums) {
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = values[i];
    sums[i] += weight * value * value;
  }
}

// a a^T for the m rows of a [m, n], rows `ld` floats apart; [m, m], both triangles.
std::vector<float> products_of_rows(const float* a, std::int64_t m, std::int64_t n,
                                    std::int64_t ld) {
  std::vector<float> products(static_cast<std::size_t>(m * m));
  ops::cpu::blas().sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(m),
                         static_cast<int>(m), static_cast<int>(n), 1.0f, a, static_cast<int>(ld), a,
                         static_cast<int>(ld), 0.0f, products.data(), static_cast<int>(m));
  return products;
}

class Measurement {
 public:
  explicit Measurement(const models::Network& network) {
    for (const models::Block* block : models::all_blocks(network)) {
      for (const ops::LinearSet* set : models::linear_sets(*block)) {
        for (const ops::Linear& part : set->parts) {
          LayerSensitivity& layer = layers_[part.name];
          layer.outputs.resize(static_cast<std::size_t>(part.weight.n));
          layer.inputs.resize(static_cast<std::size_t>(part.weight.k));
        }
      }
    }
  }

  void observe(const ops::LinearSet& set, const Matrix& x, const Matrix& gradient) {
    const auto x_products = products_of_rows(x.data(), x.rows(), x.columns(), x.columns());
    std::int64_t column = 0;
    for (const ops::Linear& part : set.parts) {
      const auto found = layers_.find(part.name);
      if (found == layers_.end()) {
        return;  // the output layer
      }
      Sums& sums = sums_[part.name];
      sums.tokens += x.rows();
      for (std::int64_t i = 0; i < x.rows(); ++i) {
        const float* g = gradient.row(i) + column;
        const double square = ops::cpu::vector_kernels().sum_squares(g, part.weight.n);
        sums.weight += square;
        add_squares(g, part.weight.n, 1.0, found->second.outputs.data());
        add_squares(x.row(i), part.weight.k, square, found->second.inputs.data());
      }
      const auto g_products = products_of_rows(gradient.data() + column, gradient.rows(),
                                               part.weight.n, gradient.columns());
      for (std::int64_t i = 0; i < x.rows(); ++i) {
        const auto row = static_cast<std::size_t>(i * x.rows());
        sums.alone += static_cast<double>(g_products[row + static_cast<std::size_t>(i)]) *
                      x_products[row + static_cast<std::size_t>(i)];
        sums.together += std::inner_product(g_products.begin() + i * x.rows(),
                                            g_products.begin() + (i + 1) * x.rows(),
                                            x_products.begin() + i * x.rows(), 0.0);
      }
      column += part.weight.n;
    }
  }

  std::map<std::string, LayerSensitivity> finish() {
    for (auto& [name, layer] : layers_) {
      const Sums& sums = sums_[name];
      const double tokens = static_cast<double>(std::max<std::int64_t>(1, sums.tokens));
      const double shared = sums.alone > 0 ? sums.together / sums.alone : 1;
      for (double& output : layer.outputs) {
        output *= 0.5 * shared / tokens;
      }
      for (double& input : layer.inputs) {
        input = sums.weight > 0 ? input / sums.weight : 0;
      }
    }
    return std::move(layers_);
  }

 private:
  struct Sums {
    std::int64_t tokens = 0;
    double weight = 0;    // sum of |gradient|^2
    double alone = 0;     // sum over tokens of |g|^2 |x|^2
    double together = 0;  // sum over windows of |sum over tokens of g x^T|^2
  };

  std::map<std::string, LayerSensitivity> layers_;
  std::map<std::string, Sums> sums_;
};

Scheme rounded_as(const Scheme& scheme) {
  if (!formats::has_learned_book(scheme)) {
    return scheme;
  }
  Scheme integers = scheme;
  integers.code = {.type = &formats::kIntegerCodes, .bits = scheme.code.bits};
  integers.zero = formats::Zero::kInteger;
  return integers;
}

// Of rows first .. last.
double rows_loss(const LayerSensitivity& sensitivity, const formats::PackedWeight& weight,
                 const Scheme& scheme, std::int64_t first, std::int64_t last) {
  const auto k = static_cast<std::size_t>(weight.k);
  std::vector<float> original(static_cast<std::size_t>(last - first) * k);
  for (std::int64_t row = first; row < last; ++row) {
    formats::decode_row(weight, row, std::span(original).subspan((row - first) * k, k));
  }
  const auto rounded = formats::round_to_nearest(original, last - first, weight.k, scheme);
  std::vector<float> values(k);
  double loss = 0;
  for (std::int64_t row = first; row < last; ++row) {
    formats::decode_row(rounded, row - first, values);
    const float* before = original.data() + (row - first) * weight.k;
    double sum = 0;
    for (std::size_t j = 0; j < k; ++j) {
      const double error = static_cast<double>(before[j]) - values[j];
      sum += sensitivity.inputs[j] * error * error;
    }
    loss += sensitivity.outputs[static_cast<std::size_t>(row)] * sum;
  }
  return loss;
}

}  // namespace

std::map<std::string, LayerSensitivity> measure_sensitivity(const models::Network& network,
                                                            const CalibrationInputs& inputs,
                                                            std::uint64_t seed,
                                                            ops::cpu::CpuOps& ops,
                                                            core::ProgressSink& progress) {
  Measurement measurement(network);
  sample_gradients(
      network, inputs, seed, ops,
      [&](const ops::LinearSet& set, const Matrix& x, const Matrix& gradient) {
        measurement.observe(set, x, gradient);
      },
      "sensitivity", progress);
  return measurement.finish();
}

double predicted_loss(const LayerSensitivity& sensitivity, const formats::PackedWeight& weight,
                      const Scheme& scheme, core::ThreadPool& pool) {
  const Scheme rounded = rounded_as(scheme);
  const std::int64_t tasks = (weight.n + kRows - 1) / kRows;
  std::vector<double> losses(static_cast<std::size_t>(tasks));
  pool.parallel_for(tasks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) {
      losses[static_cast<std::size_t>(task)] = rows_loss(sensitivity, weight, rounded, task * kRows,
                                                         std::min(weight.n, (task + 1) * kRows));
    }
  });
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

}  // namespace nibble::compress
