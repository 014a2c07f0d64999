#include "tune/cuda/window_feed.h"

#include <algorithm>
#include <utility>

#include "device/cuda/check.h"

namespace nibble::tune::cuda {

void read_windows(const compress::WindowStore& store, std::span<const std::int64_t> windows,
                  std::span<float> to, core::ThreadPool& pool) {
  const auto size = static_cast<std::int64_t>(to.size()) / std::ssize(windows);
  pool.parallel_for(std::ssize(windows), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      store.read(static_cast<std::size_t>(windows[static_cast<std::size_t>(i)]),
                 to.data() + i * size);
    }
  });
}

void write_windows(std::span<const float> from, std::span<const std::int64_t> windows,
                   compress::WindowStore& store, ops::cpu::CpuOps& ops) {
  const auto size = static_cast<std::int64_t>(from.size()) / std::ssize(windows);
  std::vector<ops::cpu::Matrix> values;
  for (const std::int64_t window : windows) {
    values.push_back(store.read(static_cast<std::size_t>(window), ops));
  }
  ops.pool().parallel_for(std::ssize(windows), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::copy_n(from.data() + i * size, size, values[static_cast<std::size_t>(i)].data());
    }
  });
  for (std::size_t i = 0; i < windows.size(); ++i) {
    store.write(static_cast<std::size_t>(windows[i]), std::move(values[i]));
  }
}

WindowFeed::WindowFeed(const BlockTask& task, std::int64_t tokens, TrainingGpu& gpu,
                       core::ThreadPool& pool)
    : task_(task), tokens_(tokens), gpu_(gpu), pool_(pool) {}

WindowFeed::Batch WindowFeed::take(std::span<const std::int64_t> windows) {
  if (!std::equal(windows.begin(), windows.end(), idle().windows.begin(), idle().windows.end())) {
    send(windows);
  }
  used_ = 1 - used_;
  Slot& slot = slots_[used_];
  slot.windows.clear();
  slot.arrived.hold(gpu_.stream());
  const std::int64_t rows = tokens_ * std::ssize(windows);
  Batch batch{gpu_.operators().matrix(rows, task_.config.hidden), nullptr};
  const std::int64_t count = batch.inputs.count();
  device::cuda::check(cudaMemcpyAsync(batch.inputs.data(), slot.device.data(),
                                      static_cast<std::size_t>(count) * sizeof(float),
                                      cudaMemcpyDeviceToDevice, gpu_.stream()),
                      "cudaMemcpyAsync on the device");
  batch.targets = slot.device.as<float>() + count;
  return batch;
}

void WindowFeed::release() {
  slots_[used_].released.record(gpu_.stream());
}

void WindowFeed::send(std::span<const std::int64_t> windows) {
  if (windows.empty()) {
    return;
  }
  Slot& slot = idle();
  const std::int64_t count = tokens_ * std::ssize(windows) * task_.config.hidden;
  const auto size = static_cast<std::size_t>(count);
  slot.arrived.synchronize();  // the host's memory has been read
  const std::span<float> values(slot.host.room_for<float>(2 * count), 2 * size);
  read_windows(task_.inputs, windows, values.first(size), pool_);
  read_windows(task_.targets, windows, values.last(size), pool_);
  const auto bytes = static_cast<std::int64_t>(values.size_bytes());
  if (slot.device.bytes() < bytes) {
    slot.released.synchronize();
    slot.device = device::cuda::Buffer(bytes);
  }
  slot.released.hold(copies_.get());
  device::cuda::check(cudaMemcpyAsync(slot.device.data(), values.data(), values.size_bytes(),
                                      cudaMemcpyHostToDevice, copies_.get()),
                      "cudaMemcpyAsync to the device");
  slot.arrived.record(copies_.get());
  slot.windows.assign(windows.begin(), windows.end());
}

}  // namespace nibble::tune::cuda
