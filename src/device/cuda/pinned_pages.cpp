#include "device/cuda/pinned_pages.h"

#include <utility>

#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include "core/error.h"
#include "core/memory.h"
#include "device/cuda/check.h"

namespace nibble::device::cuda {
namespace {

constexpr std::int64_t kPage = 4096;  // of the smallest that are
constexpr std::int64_t kGrain = (std::int64_t{2} << 20) / kPage;

}  // namespace

PinnedPages::PinnedPages(std::int64_t bytes, core::ThreadPool& pool)
    : data_(static_cast<std::byte*>(core::map_zeros(bytes))), bytes_(bytes) {
  core::require(data_ != nullptr, core::ErrorKind::kOutOfMemory,
                "the host has no {} bytes of memory", bytes);
  const auto size = static_cast<std::size_t>(bytes);
  madvise(data_, size, MADV_HUGEPAGE);
  pool.parallel_for((bytes + kPage - 1) / kPage, kGrain,
                    [this](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t page = begin; page < end; ++page) {
                        data_[page * kPage] = std::byte{0};
                      }
                    });
  const cudaError_t pinned = cudaHostRegister(data_, size, cudaHostRegisterDefault);
  if (pinned != cudaSuccess) {
    munmap(data_, size);
    (void)cudaGetLastError();
    core::fail(core::ErrorKind::kOutOfMemory,
               "{} bytes of the host's memory could not be pinned: {}", bytes,
               cudaGetErrorString(pinned));
  }
}

PinnedPages::~PinnedPages() {
  if (data_ != nullptr) {
    cudaHostUnregister(data_);
    munmap(data_, static_cast<std::size_t>(bytes_));
  }
}

PinnedPages::PinnedPages(PinnedPages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

PinnedPages& PinnedPages::operator=(PinnedPages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace nibble::device::cuda
