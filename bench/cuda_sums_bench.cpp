// How long a sum over GPUs takes, by the kernel that writes into the others' memory and by NCCL: in
// recorded graphs of 100, as decode steps have them. Every rank is a process of its own:
//
//   mpirun -n 2 build/release/bench/cuda_sums_bench
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/error.h"
#include "device/cuda/check.h"
#include "device/cuda/graph.h"
#include "device/cuda/memory.h"
#include "device/cuda/stream.h"
#include "ops/cuda/divided/collectives.h"
#include "ranks/join.h"

namespace nibble::ops::cuda {
namespace {

constexpr int kSums = 100;
constexpr int kRepeats = 21;

double microseconds(Collectives& collectives, std::int64_t count) {
  const device::cuda::Stream stream;
  device::cuda::Buffer x(count * std::int64_t{sizeof(float)});
  device::cuda::check(cudaMemset(x.data(), 0, static_cast<std::size_t>(x.bytes())), "cudaMemset");
  device::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  collectives.add(x.as<float>(), count, stream.get());
  const auto graph = device::cuda::Graph::record(stream.get(), [&] {
    for (int i = 0; i < kSums; ++i) {
      collectives.add(x.as<float>(), count, stream.get());
    }
  });
  std::vector<double> times;
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    graph.launch(stream.get());
    collectives.wait(stream.get());
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - start;
    times.push_back(taken.count() / kSums);
  }
  std::nth_element(times.begin(), times.begin() + kRepeats / 2, times.end());
  return times[kRepeats / 2];
}

int run() {
  const ranks::RankPlace place = ranks::find_place();
  if (place.alone()) {
    std::fputs("start a process for each GPU: mpirun -n 2 cuda_sums_bench\n", stderr);
    return 2;
  }
  device::cuda::check(cudaSetDevice(place.local_rank), "cudaSetDevice");
  const std::shared_ptr<ranks::Communicator> communicator = ranks::join(place);
  Collectives by_peers(communicator);
  setenv("NIBBLE_PEER_SUMS", "0", 1);
  Collectives by_nccl(communicator);
  if (place.rank == 0) {
    std::printf("%d GPUs, %s; NCCL %s; microseconds of a sum\n", place.size, by_peers.how().c_str(),
                device::cuda::nccl_version().c_str());
    std::printf("%10s %10s %10s\n", "float32", "kernels", "NCCL");
  }
  for (std::int64_t count = 1024; count <= std::int64_t{1} << 24; count *= 2) {
    const bool small = by_peers.by_peers(count);
    const double kernel = small ? microseconds(by_peers, count) : 0.0;
    const double nccl = microseconds(by_nccl, count);
    if (place.rank == 0) {
      std::printf("%10lld %10.2f %10.2f\n", static_cast<long long>(count), kernel, nccl);
      std::fflush(stdout);
    }
  }
  communicator->leave(core::ErrorKind::kFailed, "");
  return 0;
}

}  // namespace
}  // namespace nibble::ops::cuda

int main() {
  try {
    return nibble::ops::cuda::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
