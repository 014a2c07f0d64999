#include "ops/cuda/device_input.h"

#include "ops/cuda/activation_codes/activation_codes.h"
#include "ops/cuda/elementwise/elementwise.h"
#include "ops/cuda/elementwise/int4_tiles.h"
#include "ops/cuda/elementwise/ordered_rows.h"

namespace nibble::ops::cuda {
namespace {

constexpr std::int64_t kFloat = sizeof(float);
constexpr int kTailBits = 8;

}  // namespace

DeviceInput::DeviceInput(const std::shared_ptr<DevicePool>& pool, const InputKey& key,
                         std::int64_t m, std::int64_t k)
    : key_(key), m_(m), k_(k) {
  if (has_values(key.form)) {
    values_ = PooledBuffer(pool, m * padded_columns(k) * 2);
    if (key.form == InputForm::kFloat16Summed) {
      sums_ = PooledBuffer(pool, padded_columns(k) / kInputPadding * sum_stride_of(m) * kFloat);
    }
    return;
  }
  values_ = PooledBuffer(pool, m * key.digits() * row_bytes());
  scales_ = PooledBuffer(pool, m * scales_each() * kFloat);
  if (key.has_int4_zeros()) {
    zeros_ =
        PooledBuffer(pool, m * scales_each() * static_cast<std::int64_t>(sizeof(std::int32_t)));
  }
  if (key.carries_zeros()) {
    shifts_ = PooledBuffer(pool, m * scales_each() * kFloat);
  }
  if (key.tail > 0 && !key.joins_tail()) {
    tail_codes_ = PooledBuffer(pool, m * padded_columns(key.tail));
    tail_scales_ = PooledBuffer(pool, m * kFloat);
  }
  if (key.keeps_outliers) {
    outlier_columns_ = PooledBuffer(pool, m * k * kFloat);
    outlier_values_ = PooledBuffer(pool, m * k * kFloat);
    outlier_counts_ = PooledBuffer(pool, m * kFloat);
  }
}

std::int64_t DeviceInput::row_columns() const {
  return padded_columns(head()) + (key_.joins_tail() ? padded_columns(key_.tail) : 0);
}

std::int64_t DeviceInput::row_bytes() const {
  return key_.form == InputForm::kInt4Tiles ? row_columns() / kInt4PerByte : row_columns();
}

std::int64_t DeviceInput::scales_each() const {
  return key_.scale_step == 0 ? 1 : row_columns() / key_.scale_step;
}

InputBytes plain_input_bytes(const InputKey& key, std::int64_t m, std::int64_t k) {
  const std::int64_t columns = padded_columns(k);
  if (has_values(key.form)) {
    return {2 * m * columns, 0};
  }
  return {m * key.digits() * (key.form == InputForm::kInt4Tiles ? columns / kInt4PerByte : columns),
          m * (key.scale_step == 0 ? 1 : columns / key.scale_step) * kFloat};
}

InputTarget plain_target(const InputKey& key, std::byte* values, float* scales) {
  InputTarget target;
  target.form = key.form;
  if (has_values(target.form)) {
    target.values = reinterpret_cast<core::Fp16*>(values);
    return target;
  }
  target.codes = reinterpret_cast<std::int8_t*>(values);
  target.scales = scales;
  target.type = key.type;
  target.bits = key.bits;
  target.group = key.scale_step;
  target.clip = key.clip;
  target.scale = key.scale;
  return target;
}

InputTarget DeviceInput::target() const {
  InputTarget target = plain_target(key_, values_.as<std::byte>(), scales_.as<float>());
  if (target.form == InputForm::kFloat16Summed) {
    target.sums = sums_.empty() ? nullptr : sums_.as<float>();
    target.sum_stride = sum_stride_of(m_);
  }
  if (key_.has_int4_zeros()) {
    target.zeros = zeros_.as<std::int32_t>();
    target.symmetric = false;
  }
  return target;
}

void DeviceInput::round(const float* x, cudaStream_t stream) {
  if (has_values(key_.form) || key_.is_plain()) {
    return input(x, target(), m_, k_, stream);
  }
  ActivationCodes codes;
  codes.form = key_.form;
  codes.type = key_.type;
  codes.bits = key_.bits;
  codes.symmetric = key_.symmetric;
  codes.clip = key_.clip;
  codes.scale = key_.scale;
  codes.keeps_outliers = key_.keeps_outliers;
  codes.group = key_.group;
  codes.scale_step = key_.scale_step;
  codes.codes = values_.as<std::int8_t>();
  codes.row_bytes = row_bytes();
  codes.scales = scales_.as<float>();
  codes.scale_stride = scales_each();
  codes.shifts = key_.carries_zeros() ? shifts_.as<float>() : nullptr;
  codes.zeros = key_.has_int4_zeros() ? zeros_.as<std::int32_t>() : nullptr;
  activation_codes(x, k_, m_, head(), codes, stream);
  if (key_.keeps_outliers) {
    find_outliers(x, m_, k_, view().outliers, stream);
  }
  if (key_.tail == 0) {
    return;
  }
  ActivationCodes tail;
  tail.form = key_.form;
  tail.bits = kTailBits;
  if (key_.joins_tail()) {
    const std::int64_t padded = padded_columns(head());
    tail.codes = codes.codes + padded;
    tail.row_bytes = row_bytes();
    tail.scales = codes.scales + padded / key_.scale_step;
    tail.scale_stride = codes.scale_stride;
    tail.scale_step = key_.scale_step;
  } else {
    tail.codes = tail_codes_.as<std::int8_t>();
    tail.row_bytes = padded_columns(key_.tail);
    tail.scales = tail_scales_.as<float>();
  }
  activation_codes(x + head(), k_, m_, key_.tail, tail, stream);
}

void DeviceInput::round_in_order(const float* x, cudaStream_t stream) {
  ordered_input(x, key_.transform->order_alone(), target(), m_, k_, stream);
}

LinearInput DeviceInput::view() const {
  LinearInput x;
  x.m = m_;
  x.target = target();
  if (key_.carries_zeros()) {
    x.shifts = shifts_.as<float>();
  }
  if (key_.tail > 0 && !key_.joins_tail()) {
    x.tail.form = key_.form;
    x.tail.codes = tail_codes_.as<std::int8_t>();
    x.tail.scales = tail_scales_.as<float>();
    x.tail.bits = kTailBits;
  }
  if (key_.keeps_outliers) {
    x.outliers = {outlier_columns_.as<std::int32_t>(), outlier_values_.as<float>(),
                  outlier_counts_.as<std::int32_t>()};
  }
  return x;
}

}  // namespace nibble::ops::cuda
