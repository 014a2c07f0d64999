#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace nibble::ops::cpu {

/// Keeps the memory of matrices that are no longer used, so that a decode step allocates nothing.
/// Where a size is asked for that nothing kept serves, what was given back longest ago is freed:
/// all that is in use or kept is at most a quarter more than was ever in use at a time, or
/// kSpareFloats. One thread at a time.
class BufferPool {
 public:
  struct Buffer {
    float* data = nullptr;
    std::int64_t capacity = 0;  // floats
  };

  BufferPool() = default;
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  Buffer take(std::int64_t floats);  // 64-byte aligned, not initialised
  void give_back(Buffer buffer);

  /// In use or kept.
  std::int64_t bytes() const { return owned_ * static_cast<std::int64_t>(sizeof(float)); }
  /// The most of that at a time.
  std::int64_t peak_bytes() const { return peak_ * static_cast<std::int64_t>(sizeof(float)); }

  static constexpr std::int64_t kSpareFloats = std::int64_t{1} << 24;  // 64 MiB

 private:
  void make_room(std::int64_t floats);
  void count_use(std::int64_t floats);

  std::int64_t owned_ = 0;  // floats of all buffers
  std::int64_t in_use_ = 0;
  std::int64_t most_in_use_ = 0;
  std::int64_t peak_ = 0;     // of owned_
  std::vector<Buffer> free_;  // in the order in which they were given back
};

/// Float matrix [rows, columns], row-major, from a pool. Move-only.
class Matrix {
 public:
  Matrix() = default;
  Matrix(std::shared_ptr<BufferPool> pool, std::int64_t rows, std::int64_t columns);
  Matrix(Matrix&& other) noexcept;
  Matrix& operator=(Matrix&& other) noexcept;
  ~Matrix();

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  bool empty() const { return buffer_.data == nullptr; }
  float* data() { return buffer_.data; }
  const float* data() const { return buffer_.data; }
  float* row(std::int64_t i) { return buffer_.data + i * columns_; }
  const float* row(std::int64_t i) const { return buffer_.data + i * columns_; }
  std::span<const float> values() const {
    return {buffer_.data, static_cast<std::size_t>(rows_ * columns_)};
  }

 private:
  void release();

  std::shared_ptr<BufferPool> pool_;
  BufferPool::Buffer buffer_;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
};

}  // namespace nibble::ops::cpu
