#include "ops/cuda/divided/lent_memory.h"

#include <array>
#include <cstring>
#include <fstream>
#include <span>

#include <fmt/format.h>

#include "device/cuda/check.h"

namespace nibble::ops::cuda {
namespace {

using device::cuda::check;

constexpr std::int64_t kFlagBytes = 256;

// What each rank tells the others of its memory.
struct Offer {
  cudaIpcMemHandle_t handle{};
  std::array<char, 64> host{};  // what no other host has
  bool lends = false;
};

std::array<char, 64> this_host() {
  std::array<char, 64> host{};
  std::ifstream("/proc/sys/kernel/random/boot_id").read(host.data(), host.size() - 1);
  return host;
}

// What every rank has, by rank.
template <typename T>
std::vector<T> of_all(const T& mine, ranks::Communicator& ranks) {
  std::vector<T> all(static_cast<std::size_t>(ranks.size()), mine);
  std::vector<std::span<std::byte>> places;
  for (T& each : all) {
    places.push_back(std::as_writable_bytes(std::span(&each, 1)));
  }
  ranks.all_gather(std::as_bytes(std::span(&mine, 1)), places);
  return all;
}

}  // namespace

LentMemory::LentMemory(ranks::Communicator& ranks, std::int64_t count, std::int64_t blocks,
                       std::int64_t input_bytes, const std::int32_t* ended) {
  memory_.rank = ranks.rank();
  memory_.size = ranks.size();
  memory_.packets = (count + 1) / 2;
  memory_.ended = pair_.ended = ended;
  pair_.rank = memory_.rank;
  pair_.blocks = ranks.size() == 2 ? blocks : 0;
  pair_.input_bytes = ranks.size() == 2 ? input_bytes : 0;
  Offer mine;
  mine.host = this_host();
  if (ranks.size() <= kMostPeers) {
    lent_ = device::cuda::Buffer(kFlagBytes + peer_bytes(ranks.size(), count) +
                                 pair_bytes(pair_.blocks) + pair_.input_bytes);
    sums_ = device::cuda::Buffer((kPeerBlocks + kPairBlocks) * std::int64_t{sizeof(std::uint32_t)});
    check(cudaMemset(lent_.data(), 0, static_cast<std::size_t>(lent_.bytes())), "cudaMemset");
    check(cudaMemset(sums_.data(), 0, static_cast<std::size_t>(sums_.bytes())), "cudaMemset");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    mine.lends = cudaIpcGetMemHandle(&mine.handle, lent_.data()) == cudaSuccess;
    cudaGetLastError();
    memory_.sums = sums_.as<std::uint32_t>();
    pair_.sums = memory_.sums + kPeerBlocks;
  } else {
    refusal_ = fmt::format("more than {} ranks", kMostPeers);
  }
  const std::vector<Offer> offers = of_all(mine, ranks);
  for (int rank = 0; rank < ranks.size() && refusal_.empty(); ++rank) {
    const Offer& offer = offers[static_cast<std::size_t>(rank)];
    if (offer.host != mine.host) {
      refusal_ = "they are of several hosts";
    } else if (!offer.lends) {
      refusal_ = fmt::format("rank {} cannot share memory with other processes", rank);
    } else {
      refusal_ = open(rank, offer.handle);
    }
  }
  const std::vector<std::int32_t> reach = of_all(std::int32_t{refusal_.empty()}, ranks);
  for (std::size_t rank = 0; rank < reach.size(); ++rank) {
    if (reach[rank] == 0 && refusal_.empty()) {
      refusal_ = fmt::format("rank {} does not reach the others", rank);
    }
  }
}

LentMemory::~LentMemory() {
  for (void* opened : opened_) {
    cudaIpcCloseMemHandle(opened);
  }
}

// Returns why it does not go.
std::string LentMemory::open(int rank, const cudaIpcMemHandle_t& handle) {
  if (rank == memory_.rank) {
    divide(rank, lent_.data());
    return "";
  }
  void* opened = nullptr;
  const cudaError_t status = cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess);
  if (status != cudaSuccess) {
    cudaGetLastError();
    return fmt::format("the memory of rank {} cannot be opened ({})", rank,
                       cudaGetErrorString(status));
  }
  opened_.push_back(opened);
  divide(rank, static_cast<std::byte*>(opened));
  return "";
}

// What a rank lends: a flag, packets, and blocks and inputs of two ranks behind them.
void LentMemory::divide(int rank, std::byte* lent) {
  const auto index = static_cast<std::size_t>(rank);
  auto* const flag = reinterpret_cast<std::uint32_t*>(lent);
  lent += kFlagBytes;
  memory_.of_rank[index] = reinterpret_cast<PeerPacket*>(lent);
  if (pair_.blocks > 0) {
    lent += peer_bytes(memory_.size, 2 * memory_.packets);
    pair_.of_rank[index] = reinterpret_cast<WireBlock*>(lent);
    pair_.inputs[index] = lent + pair_bytes(pair_.blocks);
    pair_.met[index] = flag;
  }
}

}  // namespace nibble::ops::cuda
