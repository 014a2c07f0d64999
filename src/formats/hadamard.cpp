#include "formats/hadamard.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/error.h"
#include "formats/hadamard_loops.h"

namespace nibble::formats {
namespace {

using core::ErrorKind;
using core::require;

constexpr std::int64_t kMaxBase = 512;
constexpr std::int64_t kMaxSize = std::int64_t{1} << 30;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

bool is_prime(std::int64_t n) {
  for (std::int64_t divisor = 2; divisor * divisor <= n; ++divisor) {
    if (n % divisor == 0) {
      return false;
    }
  }
  return n > 1;
}

bool is_paley1(std::int64_t base) {
  return base % 4 == 0 && is_prime(base - 1);
}

bool is_paley2(std::int64_t base) {
  return base % 4 == 0 && (base / 2 - 1) % 4 == 1 && is_prime(base / 2 - 1);
}

// The smallest base that leaves a power of two; 0 when there is none.
std::int64_t base_of(std::int64_t size) {
  if (size < 1 || size > kMaxSize) {
    return 0;
  }
  std::int64_t base = size;
  while (base % 2 == 0) {
    base /= 2;
  }
  if (base == 1) {
    return 1;
  }
  while (!is_paley1(base) && !is_paley2(base)) {
    base *= 2;
    if (base > std::min(size, kMaxBase)) {
      return 0;
    }
  }
  return base;
}

// chi(0), ..., chi(q - 1) modulo the prime q.
std::vector<float> legendre_symbols(std::int64_t q) {
  std::vector<float> chi(index(q), -1.0f);
  chi[0] = 0.0f;
  for (std::int64_t x = 1; x < q; ++x) {
    chi[index(x * x % q)] = 1.0f;
  }
  return chi;
}

// [ 0 1^T ; corner Q ], [q + 1, q + 1].
std::vector<float> conference_matrix(std::int64_t q, float corner) {
  const std::vector<float> chi = legendre_symbols(q);
  const std::int64_t size = q + 1;
  std::vector<float> c(index(size * size));
  for (std::int64_t i = 1; i < size; ++i) {
    c[index(i)] = 1.0f;
    c[index(i * size)] = corner;
    for (std::int64_t j = 1; j < size; ++j) {
      c[index(i * size + j)] = chi[index((i - j + q) % q)];
    }
  }
  return c;
}

std::vector<float> paley1(std::int64_t base) {
  std::vector<float> b = conference_matrix(base - 1, -1.0f);
  for (std::int64_t i = 0; i < base; ++i) {
    b[index(i * base + i)] += 1.0f;
  }
  return b;
}

std::vector<float> paley2(std::int64_t base) {
  const std::int64_t half = base / 2;
  const std::vector<float> c = conference_matrix(half - 1, 1.0f);
  std::vector<float> b(index(base * base));
  for (std::int64_t i = 0; i < base; ++i) {
    for (std::int64_t j = 0; j < base; ++j) {
      const bool both_odd = i % 2 == 1 && j % 2 == 1;
      const float of_c = both_odd ? -1.0f : 1.0f;                  // [ 1 1 ; 1 -1 ]
      const float of_identity = i % 2 + j % 2 > 0 ? -1.0f : 1.0f;  // [ 1 -1 ; -1 -1 ]
      b[index(i * base + j)] =
          of_c * c[index(i / 2 * half + j / 2)] + (i / 2 == j / 2 ? of_identity : 0.0f);
    }
  }
  return b;
}

template <typename T>
void transform(std::span<T> row, std::int64_t base, std::int64_t width,
               const std::vector<float>& signs, bool transposed) {
  const std::int64_t size = base * width;
  const auto length = static_cast<std::int64_t>(row.size());
  require(length % size == 0, ErrorKind::kUsage,
          "a row of {} values can't be turned in Hadamard blocks of {}", length, size);
  std::vector<T> scratch(base > 1 ? index(size) : 0);
  const HadamardTurn turn = {base, width, base > 1 ? signs.data() : nullptr, transposed};
  turn_blocks(turn, row.data(), length / size, scratch.data());
}

}  // namespace

bool hadamard_exists(std::int64_t size) {
  return base_of(size) != 0;
}

Hadamard::Hadamard(std::int64_t size) : base_(base_of(size)) {
  require(base_ != 0, ErrorKind::kUsage,
          "there is no Hadamard matrix of size {}: sizes are 2^m and Paley's 12, 20, 24, 28, 36, "
          "44, ... times 2^m",
          size);
  butterflies_ = size / base_;
  if (base_ > 1) {
    symmetric_ = !is_paley1(base_);
    signs_ = is_paley1(base_) ? paley1(base_) : paley2(base_);
  }
}

void Hadamard::apply(std::span<float> row) const {
  transform(row, base_, butterflies_, signs_, false);
}

void Hadamard::apply(std::span<double> row) const {
  transform(row, base_, butterflies_, signs_, false);
}

void Hadamard::apply_transposed(std::span<float> row) const {
  transform(row, base_, butterflies_, signs_, true);
}

void Hadamard::apply_transposed(std::span<double> row) const {
  transform(row, base_, butterflies_, signs_, true);
}

void apply_hadamard(std::span<float> row, std::int64_t block) {
  Hadamard(block).apply(row);
}

void apply_hadamard_transposed(std::span<float> row, std::int64_t block) {
  Hadamard(block).apply_transposed(row);
}

}  // namespace nibble::formats
