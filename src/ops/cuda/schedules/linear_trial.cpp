#include "ops/cuda/schedules/linear_trial.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "device/cuda/check.h"
#include "device/cuda/event.h"
#include "device/cuda/graph.h"
#include "device/cuda_devices.h"
#include "ops/cuda/linear/linear_kernels.h"
#include "ops/cuda/schedules/schedules.h"

namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;

constexpr std::int64_t kL2Caches = 8;           // that all copies of the weights would fill
constexpr std::int64_t kPattern = 256;          // different units
constexpr std::size_t kInputPattern = 1 << 20;  // different bytes of inputs
constexpr int kFloat = sizeof(float);
constexpr std::int64_t kMostScales = 8;  // of 128 inputs of a token

// Large products are bound by power: their clocks settle in this time.
constexpr double kWorkOfLarge = 2e11;
constexpr double kSecondsOfLarge = 0.1;
constexpr double kSecondsOfSmall = 0.02;
constexpr std::size_t kLeastReadings = 4;

// Clears the highest bit of the exponent of a number of 8 bits, which is below 2 then.
constexpr std::uint8_t kBelowTwo = 0xbf;

// Random codes, scales of 2^-7, zeros of 7, shifts near 0.
std::vector<std::byte> random_units(const UnitFormat& format, std::int64_t count) {
  std::vector<std::byte> units(static_cast<std::size_t>(count * format.bytes()));
  core::Random random(1);
  const std::byte mask{format.codes == CodeKind::kBytes ? kBelowTwo : std::uint8_t{0xff}};
  for (std::byte& byte : units) {
    byte = static_cast<std::byte>(random.below(256)) & mask;
  }
  const auto tile_bytes = static_cast<std::size_t>(format.tile_bytes());
  const auto zeros = static_cast<std::size_t>(format.zero_offset());
  for (std::size_t tile = 0; tile < units.size(); tile += tile_bytes) {
    for (auto i = static_cast<std::size_t>(format.code_bytes()); i < tile_bytes; ++i) {
      units[tile + i] = static_cast<std::byte>(i >= zeros ? 7 : i % 2 == 0 ? 0 : 0x20);
    }
  }
  return units;
}

// `bytes` of random units, which are the same again and again.
Buffer repeated_units(const UnitFormat& format, std::int64_t bytes) {
  const auto pattern = random_units(format, std::min(kPattern, bytes / format.bytes()));
  Buffer buffer(bytes);
  buffer.upload(pattern.data(), std::min(bytes, static_cast<std::int64_t>(pattern.size())));
  for (auto done = static_cast<std::int64_t>(pattern.size()); done < bytes; done *= 2) {
    device::cuda::check(cudaMemcpy(buffer.data() + done, buffer.data(),
                                   static_cast<std::size_t>(std::min(done, bytes - done)),
                                   cudaMemcpyDeviceToDevice),
                        "cudaMemcpy on the device");
  }
  device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  return buffer;
}

// Bytes for any kind of inputs: as float16, magnitudes from 2^-3 to 2; as INT8, any but -128; for
// scales by group, which come with 4 bits, from -8 to 7; as other numbers of 8 bits, below 2.
std::vector<std::uint8_t> random_inputs(std::int64_t bytes, GemmInputs inputs) {
  std::vector<std::uint8_t> values(static_cast<std::size_t>(bytes));
  core::Random random(2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i >= kInputPattern) {
      values[i] = values[i - kInputPattern];
      continue;
    }
    const auto byte = static_cast<std::uint8_t>(random.below(256));
    if (inputs == GemmInputs::kHalf) {
      values[i] =
          i % 2 == 0 ? byte : static_cast<std::uint8_t>((byte & 0x83) | 0x30 | (byte & 0x0c));
    } else if (inputs == GemmInputs::kInt8ScaledByGroup) {
      values[i] = static_cast<std::uint8_t>((byte & 15) - 8);
    } else if (inputs == GemmInputs::kBytes) {
      values[i] = byte & kBelowTwo;
    } else {
      values[i] = byte == 0x80 ? 0 : byte;
    }
  }
  return values;
}

Buffer repeated(std::int64_t count, float value) {
  return Buffer::of<float>(std::vector<float>(static_cast<std::size_t>(count), value));
}

std::int64_t padded(std::int64_t inputs) {
  return (inputs + kUnitInputs - 1) / kUnitInputs * kUnitInputs;
}

}  // namespace

LinearTrial::LinearTrial(const LinearShape& shape, std::int64_t most_tokens,
                         const Epilogue& epilogue)
    : shape_(shape),
      epilogue_(epilogue),
      bytes_(unit_grid(shape.n, shape.k).count() * shape.format.bytes()),
      row_inputs_(padded(shape.k) + padded(shape.tail)) {
  const std::int64_t cache = kL2Caches * device::current_cuda_device().l2_bytes;
  units_ = repeated_units(shape.format, std::max<std::int64_t>(1, cache / bytes_) * bytes_);
  if (shape.tail > 0) {
    const UnitFormat tail{CodeKind::kInt8};
    tail_units_ = repeated_units(tail, unit_grid(shape.n, shape.tail).count() * tail.bytes());
  }
  const std::int64_t rows = unit_grid(shape.n, shape.k).row_groups * kUnitRows;
  if (is_book(shape.format.codes)) {
    const auto tables = random_inputs(rows * 16, GemmInputs::kInt8);
    tables_ = Buffer::of<std::int8_t>(
        {reinterpret_cast<const std::int8_t*>(tables.data()), tables.size()});
    factors_ = repeated(rows, 1.0f);
  }
  const std::int64_t input_bytes = most_tokens * row_inputs_ * shape.digits();
  inputs_ = Buffer::of<std::uint8_t>(random_inputs(input_bytes, shape.inputs));
  scales_ = repeated(
      std::max(most_tokens * kMostScales, sum_stride_of(most_tokens)) * row_inputs_ / kUnitInputs,
      0.01f);
  y_ = Buffer(most_tokens * shape.n * kFloat);
}

UnitsView LinearTrial::view(int turn) const {
  UnitsView view = weights_of(shape_).units;
  const std::int64_t copies = units_.bytes() / bytes_;
  view.units = units_.data() + turn % copies * bytes_;
  view.tables = tables_.empty() ? nullptr : tables_.as<std::int8_t>();
  view.factors = factors_.empty() ? nullptr : factors_.as<float>();
  return view;
}

GemmOutput LinearTrial::output() const {
  if (!epilogue_.half) {
    return {.y = y_.as<float>(), .stride = shape_.n};
  }
  return {.half = {.values = y_.data(),
                   .stride = shape_.n + shape_.n % 2,
                   .activation = epilogue_.activation}};
}

double LinearTrial::few_tokens(std::int64_t m, const SmallBatchSchedule& schedule) const {
  const std::int64_t most = max_small_batch(shape_.format, shape_.digits());
  return time(m, [&](int turn, cudaStream_t stream) {
    SmallBatchProblem problem;
    problem.weight = view(turn);
    problem.x = {shape_.digits(), inputs_.as<std::int8_t>(), scales_.as<float>(),
                 shape_.inputs == GemmInputs::kInt8};
    const GemmOutput to = output();
    problem.y = to.y;
    problem.ldy = shape_.n;
    problem.half = to.half;
    for (std::int64_t row = 0; row < m; row += most) {
      problem.m = std::min(most, m - row);
      small_batch(problem, schedule, stream);
    }
  });
}

double LinearTrial::medium(std::int64_t m, const MediumBatchSchedule& schedule) const {
  return time(m, [&](int turn, cudaStream_t stream) {
    MediumBatchProblem problem;
    problem.weight = view(turn);
    const InputForm form = medium_batch_input(shape_.format, m);
    if (shape_.inputs == GemmInputs::kHalf && is_half(form)) {
      problem.x.values = inputs_.as<core::Fp16>();
      problem.x.sums = form == InputForm::kFloat16Summed ? scales_.as<float>() : nullptr;
    } else {
      problem.x.digits = shape_.digits();
      problem.x.codes = inputs_.as<std::int8_t>();
      problem.x.scales = scales_.as<float>();
      problem.x.scale_of_token = shape_.inputs == GemmInputs::kInt8;
    }
    problem.m = m;
    problem.output = output();
    medium_batch(problem, schedule, stream);
  });
}

double LinearTrial::gemm(std::int64_t m, const GemmPlan& plan) const {
  const PlannedProduct* const product = planned_product(shape_);
  core::require(product != nullptr, core::ErrorKind::kFailed, "{}: no product takes plans",
                core::lazily([&] { return to_string(shape_); }));
  const GemmOutput to = output();
  UnitsView tail;
  tail.format.codes = CodeKind::kInt8;
  tail.n = shape_.n;
  tail.k = shape_.tail;
  tail.units = tail_units_.empty() ? nullptr : tail_units_.data();
  InputTarget x;
  x.form = product->input_form(shape_);
  x.values = inputs_.as<core::Fp16>();
  x.codes = inputs_.as<std::int8_t>();
  x.scales = scales_.as<float>();
  return time(m, [&](int turn, cudaStream_t stream) {
    const UnitWeights weights{view(turn), shape_.tail > 0 ? &tail : nullptr};
    product->run(shape_, plan, weights, x, m, to, stream);
  });
}

double LinearTrial::time(std::int64_t m, const Launch& launch) const {
  const double work =
      2.0 * static_cast<double>(m) * static_cast<double>(shape_.n) * static_cast<double>(shape_.k);
  const int turns = static_cast<int>(std::clamp(4e12 / work, 4.0, 200.0));
  launch(0, stream_.get());
  const auto graph = device::cuda::Graph::record(stream_.get(), [&] {
    for (int turn = 0; turn < turns; ++turn) {
      launch(turn, stream_.get());
    }
  });
  device::cuda::Event begin;
  device::cuda::Event end;
  std::vector<double> seconds;
  double total = 0.0;
  while (total < (work > kWorkOfLarge ? kSecondsOfLarge : kSecondsOfSmall) ||
         seconds.size() < kLeastReadings) {
    begin.record(stream_.get());
    graph.launch(stream_.get());
    end.record(stream_.get());
    end.synchronize();
    total += end.seconds_since(begin);
    seconds.push_back(end.seconds_since(begin) / turns);
  }
  seconds.erase(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 3));
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace nibble::ops::cuda
