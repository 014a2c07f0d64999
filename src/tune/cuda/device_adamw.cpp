#include "tune/cuda/device_adamw.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "device/cuda/check.h"
#include "tune/cuda/weight_kernels.h"

namespace nibble::tune::cuda {
namespace {

using device::cuda::Buffer;
using device::cuda::check;

void wait(cudaStream_t stream) {
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

std::int64_t bytes_of(const Parameter& parameter) {
  return std::ssize(parameter.values) * static_cast<std::int64_t>(sizeof(float));
}

std::vector<double> downloaded(const double* values, std::int64_t count, cudaStream_t stream) {
  std::vector<double> result(static_cast<std::size_t>(count));
  check(cudaMemcpyAsync(result.data(), values, result.size() * sizeof(double),
                        cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync from the device");
  wait(stream);
  return result;
}

}  // namespace

double sum_of(const double* sums, std::int64_t count, cudaStream_t stream) {
  const std::vector<double> parts = downloaded(sums, count, stream);
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

DeviceAdamW::DeviceAdamW(const Parameters& parameters, const AdamWOptions& options,
                         cudaStream_t stream)
    : parameters_(parameters),
      options_(options),
      stream_(stream),
      sums_(std::ssize(parameters) * kPartialSums * static_cast<std::int64_t>(sizeof(double))) {
  for (const auto& parameter : parameters) {
    const std::int64_t bytes = bytes_of(*parameter);
    places_[parameter.get()] = numbers_.size();
    numbers_.push_back({Buffer::of(std::span<const float>(parameter->values)), zeros(bytes),
                        zeros(bytes), zeros(bytes), Buffer()});
  }
}

Buffer DeviceAdamW::zeros(std::int64_t bytes) const {
  Buffer buffer(bytes);
  check(cudaMemsetAsync(buffer.data(), 0, static_cast<std::size_t>(bytes), stream_),
        "cudaMemsetAsync");
  return buffer;
}

float* DeviceAdamW::values(const Parameter* parameter) const {
  return parameter == nullptr ? nullptr : numbers_[places_.at(parameter)].values.as<float>();
}

float* DeviceAdamW::gradient(const Parameter* parameter) const {
  return parameter == nullptr ? nullptr : numbers_[places_.at(parameter)].gradient.as<float>();
}

std::vector<double> DeviceAdamW::sums_of_squares() {
  for (std::size_t p = 0; p < numbers_.size(); ++p) {
    squares(numbers_[p].gradient.as<float>(), std::ssize(parameters_[p]->values),
            sums_.as<double>() + p * kPartialSums, stream_);
  }
  const auto parts = downloaded(
      sums_.as<double>(), std::ssize(numbers_) * static_cast<std::int64_t>(kPartialSums), stream_);
  std::vector<double> sums;
  for (auto first = parts.begin(); first != parts.end(); first += kPartialSums) {
    sums.push_back(std::accumulate(first, first + kPartialSums, 0.0));
  }
  return sums;
}

double DeviceAdamW::step(double loss, double learning_rate) {
  const std::vector<double> squares = sums_of_squares();
  require_finite(loss, parameters_, squares, steps_ + 1);
  const double norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
  ++steps_;
  for (std::size_t p = 0; p < numbers_.size(); ++p) {
    const Numbers& own = numbers_[p];
    adamw_step(step_of(options_, *parameters_[p], learning_rate, steps_, norm),
               {own.values.as<float>(), own.gradient.as<float>(), own.first.as<float>(),
                own.second.as<float>()},
               std::ssize(parameters_[p]->values), stream_);
  }
  return norm;
}

void DeviceAdamW::keep() {
  for (Numbers& own : numbers_) {
    if (own.kept.empty()) {
      own.kept = Buffer(own.values.bytes());
    }
    check(cudaMemcpyAsync(own.kept.data(), own.values.data(),
                          static_cast<std::size_t>(own.values.bytes()), cudaMemcpyDeviceToDevice,
                          stream_),
          "cudaMemcpyAsync on the device");
  }
}

void DeviceAdamW::return_kept() {
  wait(stream_);
  for (std::size_t p = 0; p < numbers_.size(); ++p) {
    numbers_[p].kept.download(parameters_[p]->values.data(), numbers_[p].kept.bytes());
  }
}

void DeviceAdamW::give(AdamW& host) const {
  wait(stream_);
  std::vector<AdamW::Moments> moments;
  for (std::size_t p = 0; p < numbers_.size(); ++p) {
    parameters_[p]->values = numbers_[p].values.values<float>();
    moments.push_back({numbers_[p].first.values<float>(), numbers_[p].second.values<float>()});
  }
  host.restore(steps_, std::move(moments));
}

void DeviceAdamW::take(const AdamW& host) {
  steps_ = host.steps();
  for (std::size_t p = 0; p < numbers_.size(); ++p) {
    const std::int64_t bytes = bytes_of(*parameters_[p]);
    numbers_[p].values.upload(parameters_[p]->values.data(), bytes);
    numbers_[p].first.upload(host.moments()[p].first.data(), bytes);
    numbers_[p].second.upload(host.moments()[p].second.data(), bytes);
  }
}

}  // namespace nibble::tune::cuda
