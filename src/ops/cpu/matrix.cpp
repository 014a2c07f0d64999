#include "ops/cpu/matrix.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include <sys/mman.h>

#include "core/error.h"
#include "core/memory.h"

namespace nibble::ops::cpu {
namespace {

// Rows of a large matrix that are written a few lines at a time lie in a page of 4 KiB each, and
// every one of them misses the TLB.
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Null where the system gives none. On the border of a huge page where there is room for one.
float* allocate(std::size_t bytes) {
  void* data = nullptr;
  if (posix_memalign(&data, bytes < kHugePage ? 64 : kHugePage, bytes) != 0) {
    return nullptr;
  }
  if (bytes >= kHugePage) {
    madvise(data, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // advice: small pages work too
  }
  return static_cast<float*>(data);
}

}  // namespace

BufferPool::~BufferPool() {
  for (const Buffer& buffer : free_) {
    std::free(buffer.data);
  }
}

BufferPool::Buffer BufferPool::take(std::int64_t floats) {
  std::size_t best = free_.size();
  for (std::size_t i = 0; i < free_.size();
       ++i) {  // the smallest that fits and is not far too large
    const bool fits = free_[i].capacity >= floats && free_[i].capacity <= 4 * floats + 4096;
    if (fits && (best == free_.size() || free_[i].capacity < free_[best].capacity)) {
      best = i;
    }
  }
  if (best < free_.size()) {
    const Buffer buffer = free_[best];
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(best));
    count_use(buffer.capacity);
    return buffer;
  }
  const std::int64_t capacity = (floats + 16) / 16 * 16;
  make_room(capacity);
  const std::int64_t bytes = capacity * static_cast<std::int64_t>(sizeof(float));
  float* const data =
      core::machine_has(bytes) ? allocate(static_cast<std::size_t>(bytes)) : nullptr;
  core::require(
      data != nullptr, core::ErrorKind::kOutOfMemory,
      "cannot allocate {} bytes for activations; use a shorter context or a smaller batch", bytes);
  owned_ += capacity;
  peak_ = std::max(peak_, owned_);
  count_use(capacity);
  return {data, capacity};
}

void BufferPool::count_use(std::int64_t floats) {
  in_use_ += floats;
  most_in_use_ = std::max(most_in_use_, in_use_);
}

void BufferPool::make_room(std::int64_t floats) {
  const std::int64_t used = std::max(most_in_use_, in_use_ + floats);
  const std::int64_t most = std::max(used + used / 4, kSpareFloats);
  std::size_t freed = 0;
  for (; freed < free_.size() && owned_ + floats > most; ++freed) {
    std::free(free_[freed].data);
    owned_ -= free_[freed].capacity;
  }
  free_.erase(free_.begin(), free_.begin() + static_cast<std::ptrdiff_t>(freed));
}

void BufferPool::give_back(Buffer buffer) {
  in_use_ -= buffer.capacity;
  free_.push_back(buffer);
}

Matrix::Matrix(std::shared_ptr<BufferPool> pool, std::int64_t rows, std::int64_t columns)
    : pool_(std::move(pool)),
      buffer_(pool_->take(rows * columns)),
      rows_(rows),
      columns_(columns) {}

Matrix::Matrix(Matrix&& other) noexcept
    : pool_(std::move(other.pool_)),
      buffer_(std::exchange(other.buffer_, {})),
      rows_(std::exchange(other.rows_, 0)),
      columns_(std::exchange(other.columns_, 0)) {}

Matrix& Matrix::operator=(Matrix&& other) noexcept {
  if (this != &other) {
    release();
    pool_ = std::move(other.pool_);
    buffer_ = std::exchange(other.buffer_, {});
    rows_ = std::exchange(other.rows_, 0);
    columns_ = std::exchange(other.columns_, 0);
  }
  return *this;
}

Matrix::~Matrix() {
  release();
}

void Matrix::release() {
  if (buffer_.data != nullptr) {
    pool_->give_back(buffer_);
    buffer_ = {};
  }
}

}  // namespace nibble::ops::cpu
