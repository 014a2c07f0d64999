#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/float16.h"
#include "device/cuda/memory.h"

namespace nibble::ops::cuda {

/// Keeps device memory that is no longer used, so that a step allocates nothing: what it hands out
/// is used on one stream, in order.
class DevicePool {
 public:
  device::cuda::Buffer take(std::int64_t bytes);
  void give_back(device::cuda::Buffer buffer);

  /// Memory that is in use or kept; it never shrinks.
  std::int64_t bytes() const { return owned_; }

 private:
  std::int64_t owned_ = 0;
  std::map<std::int64_t, std::vector<device::cuda::Buffer>> free_;  // by size
};

/// Memory of a pool for as long as it lives. Move-only.
class PooledBuffer {
 public:
  PooledBuffer() = default;
  PooledBuffer(std::shared_ptr<DevicePool> pool, std::int64_t bytes)
      : pool_(std::move(pool)), buffer_(pool_->take(bytes)) {}
  ~PooledBuffer() { release(); }
  PooledBuffer(PooledBuffer&&) = default;
  PooledBuffer& operator=(PooledBuffer&& other) noexcept {
    if (this != &other) {
      release();
      pool_ = std::move(other.pool_);
      buffer_ = std::move(other.buffer_);
    }
    return *this;
  }

  bool empty() const { return buffer_.empty(); }
  template <typename T>
  T* as() const {
    return buffer_.as<T>();
  }

 private:
  void release() {
    if (!buffer_.empty()) {
      pool_->give_back(std::move(buffer_));
    }
  }

  std::shared_ptr<DevicePool> pool_;
  device::cuda::Buffer buffer_;
};

/// What the numbers of a matrix are: kBlocks are a rank's part of a sum over two GPUs that has yet
/// to be ended (divided/wire_block.h), of rows of eight numbers and more.
enum class MatrixType { kFloat32, kFloat16, kBlocks };

struct WireBlock;

/// Matrix [rows, columns] on the device, row-major. Move-only.
class DeviceMatrix {
 public:
  DeviceMatrix() = default;
  DeviceMatrix(std::shared_ptr<DevicePool> pool, std::int64_t rows, std::int64_t columns,
               MatrixType type = MatrixType::kFloat32)
      : buffer_(std::move(pool), rows * columns * (type == MatrixType::kFloat32 ? 4 : 2)),
        rows_(rows),
        columns_(columns),
        type_(type) {}

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t count() const { return rows_ * columns_; }
  MatrixType type() const { return type_; }
  bool is_half() const { return type_ == MatrixType::kFloat16; }
  bool is_blocks() const { return type_ == MatrixType::kBlocks; }
  /// Throw kFailed for a matrix of another type, or with rows on two GPUs.
  float* data() const;
  core::Fp16* halves() const;
  WireBlock* blocks() const;

  /// Whether each of two GPUs has one half of the rows alone.
  bool rows_divided() const { return rows_divided_; }
  void divide_rows(bool divided) { rows_divided_ = divided; }
  /// data() of a matrix that may be divided.
  float* divided_data() const;

  /// Whether columns are gate|up in pairs: eight of the first half, eight of the second, and so on.
  bool paired() const { return paired_; }
  void set_paired(bool paired) { paired_ = paired; }

 private:
  PooledBuffer buffer_;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  MatrixType type_ = MatrixType::kFloat32;
  bool paired_ = false;
  bool rows_divided_ = false;
};

}  // namespace nibble::ops::cuda
