#include "ops/cuda/packed/unit_packer.h"

#include <algorithm>

#include "device/cuda/check.h"
#include "ops/cuda/packed/raw_rows.h"
#include "ops/cuda/packed/unit_kernels.h"

namespace nibble::ops::cuda {
namespace {

using device::cuda::Buffer;
using device::cuda::PinnedBuffer;

constexpr std::int64_t kRowsOfTask = 16;        // that a thread reads at a time
constexpr std::int64_t kMostRowGroups = 65535;  // of a launch

}  // namespace

void UnitPacker::require_room(std::int64_t bytes) {
  for (Slot& slot : slots_) {
    if (slot.host.bytes() < bytes) {
      slot.device = Buffer(bytes);
      slot.host = PinnedBuffer(bytes);  // the last, since its size is asked
    }
  }
}

void UnitPacker::pack(const UnitRows& rows, const UnitFormat& format, std::byte* units) {
  RawRows raw = raw_layout(rows);
  const std::int64_t all = rows.count();
  const std::int64_t group_units = unit_grid(all, raw.k).blocks * format.bytes();
  const std::int64_t step =
      kUnitRows *
      std::clamp<std::int64_t>(staging_bytes_ / (kUnitRows * raw.stride), 1, kMostRowGroups);
  require_room(std::max(staging_bytes_, std::min(step, all) * raw.stride));
  std::size_t next = 0;
  for (std::int64_t first = 0; first < all; first += step) {
    Slot& slot = slots_[next++ % slots_.size()];
    slot.stream.synchronize();  // its buffers are free again
    raw.count = std::min(step, all - first);
    pool_.parallel_for(raw.count, kRowsOfTask, [&](std::int64_t begin, std::int64_t end) {
      read_raw_rows(rows, raw, first + begin, end - begin, slot.host.data() + begin * raw.stride);
    });
    device::cuda::check(cudaMemcpyAsync(slot.device.data(), slot.host.data(),
                                        static_cast<std::size_t>(raw.count * raw.stride),
                                        cudaMemcpyHostToDevice, slot.stream.get()),
                        "cudaMemcpyAsync to the device");
    raw.bytes = slot.device.as<std::uint8_t>();
    pack_units(raw, format, units + first / kUnitRows * group_units, slot.stream.get());
  }
  for (const Slot& slot : slots_) {
    slot.stream.synchronize();
  }
}

}  // namespace nibble::ops::cuda
