#include "compress/rotate/rotation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/random.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kRows = 16;     // rows of one task
constexpr std::int64_t kColumns = 32;  // columns of one task: what is read from a row at a time

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

}  // namespace

Rotation Rotation::hadamard(std::int64_t size) {
  return Rotation(size);
}

Rotation Rotation::random_hadamard(std::int64_t size, std::uint64_t seed) {
  Rotation rotation(size);
  core::Random random(seed);
  for (std::int64_t i = 0; i < size; ++i) {
    rotation.signs_.push_back(random.bits() >> 63 == 0 ? 1.0 : -1.0);
  }
  return rotation;
}

Rotation Rotation::random_keeping_ones(std::int64_t size, std::uint64_t seed) {
  Rotation rotation = random_hadamard(size, seed);
  std::vector<double> w(index(size), 1.0);
  rotation.apply(w);
  for (double& value : w) {
    value -= 1.0;
  }
  const double length = std::sqrt(std::inner_product(w.begin(), w.end(), w.begin(), 0.0));
  if (length > 1e-9) {  // else u S H = u already
    for (double& value : w) {
      value /= length;
    }
    rotation.mirror_ = std::move(w);
  }
  return rotation;
}

void Rotation::apply(std::span<double> row) const {
  const std::size_t size = index(hadamard_.size());
  if (!signs_.empty()) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] *= signs_[i % size];
    }
  }
  hadamard_.apply(row);
  for (std::size_t begin = 0; !mirror_.empty() && begin < row.size(); begin += size) {
    const auto block = row.subspan(begin, size);
    const double share = 2 * std::inner_product(block.begin(), block.end(), mirror_.begin(), 0.0);
    for (std::size_t i = 0; i < size; ++i) {
      block[i] -= share * mirror_[i];
    }
  }
}

void turn_inputs(std::vector<float>& w, std::int64_t k, std::span<const float> fold,
                 const Rotation& rotation, core::ThreadPool& pool) {
  const std::int64_t n = static_cast<std::int64_t>(w.size()) / k;
  pool.parallel_for(n, kRows, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> row(index(k));
    for (std::int64_t i = begin; i < end; ++i) {
      float* values = w.data() + i * k;
      std::copy_n(values, k, row.begin());
      for (std::size_t j = 0; j < fold.size(); ++j) {
        row[j] *= static_cast<double>(fold[j]);
      }
      rotation.apply(row);
      std::transform(row.begin(), row.end(), values,
                     [](double value) { return static_cast<float>(value); });
    }
  });
}

void turn_outputs(std::vector<float>& w, std::int64_t k, std::vector<float>& bias,
                  std::int64_t first, std::int64_t rows, const Rotation& rotation,
                  core::ThreadPool& pool) {
  pool.parallel_for(k, kColumns, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> columns(index((end - begin) * rows));
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = begin; j < end; ++j) {
        columns[index((j - begin) * rows + i)] = static_cast<double>(w[index((first + i) * k + j)]);
      }
    }
    rotation.apply(columns);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = begin; j < end; ++j) {
        w[index((first + i) * k + j)] = static_cast<float>(columns[index((j - begin) * rows + i)]);
      }
    }
  });
  if (!bias.empty()) {
    std::vector<double> row(bias.begin() + first, bias.begin() + first + rows);
    rotation.apply(row);
    std::transform(row.begin(), row.end(), bias.begin() + first,
                   [](double value) { return static_cast<float>(value); });
  }
}

}  // namespace nibble::compress
