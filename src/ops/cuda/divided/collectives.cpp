#include "ops/cuda/divided/collectives.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "core/error.h"
#include "device/cuda/check.h"

namespace nibble::ops::cuda {
namespace {

using core::ErrorKind;
using device::cuda::NcclCommunicator;
using device::cuda::NcclId;
using std::chrono::milliseconds;

// Up to so many numbers packets are faster than blocks, or than NCCL where there are more than two
// ranks (docs/experiments/gpu-ranks.md).
constexpr std::int64_t kMostByPackets = std::int64_t{1} << 18;
constexpr std::int64_t kMostBesideNccl = std::int64_t{1} << 19;
// That a sum of two GPUs has at a time: of 2,048 tokens of a width of 6,656.
constexpr std::int64_t kBlocks = std::int64_t{2048} * 6656 / kWireBlock;
// Of an input that both ranks make: as many numbers of 16 bits, and scales.
constexpr std::int64_t kInputBytes = kBlocks * kWireBlock * 2 + (std::int64_t{1} << 20);
// More tokens than any kernel of few takes, so that all ranks have the same kernels.
constexpr std::int64_t kFewestDivided = 256;
constexpr int kLooks = 2000;  // at the stream, some milliseconds, before ranks are looked at
constexpr milliseconds kLastSteps{1500};  // for a step whose ranks may have ended behind it
constexpr milliseconds kEnding{3000};     // for what was told to end

// What the user asks for.
std::string_view wanted_sums() {
  const char* const value = std::getenv("NIBBLE_PEER_SUMS");
  return value == nullptr ? std::string_view() : std::string_view(value);
}

// Whether the stream ends, or fails, within the time.
bool ends(cudaStream_t stream, milliseconds within) {
  const auto until = std::chrono::steady_clock::now() + within;
  while (cudaStreamQuery(stream) == cudaErrorNotReady) {
    if (std::chrono::steady_clock::now() > until) {
      return false;
    }
  }
  return true;
}

// Nobody has to answer: the ranks are there, or why not is thrown.
void meet(ranks::Communicator& ranks) {
  const std::byte mine{1};
  std::vector<std::byte> all(static_cast<std::size_t>(ranks.size()));
  std::vector<std::span<std::byte>> places;
  for (std::byte& each : all) {
    places.emplace_back(&each, 1);
  }
  ranks.all_gather({&mine, 1}, places);
}

}  // namespace

Collectives::Collectives(std::shared_ptr<ranks::Communicator> ranks)
    : ranks_(std::move(ranks)), ended_(sizeof(std::int32_t)) {
  *ended_.as<std::int32_t>() = 0;
  make_communicator();
  const std::int64_t most =
      size() == 2 ? kMostByPackets : kMostBesideNccl / std::max(1, size() - 1);
  peers_ =
      std::make_unique<LentMemory>(*ranks_, most, kBlocks, kInputBytes, ended_.as<std::int32_t>());
  how_ = wanted_sums() != "0" ? peers_->refusal() : "NIBBLE_PEER_SUMS is 0";
  products_send_ = wanted_sums() != "kernels";
  divides_rows_ = all_alike() && products_send_ && wanted_sums() != "whole";
  if (!how_.empty()) {
    peers_.reset();
    how_ = fmt::format("by NCCL {}: {}", device::cuda::nccl_version(), how_);
  } else {
    how_ = "into the other GPUs' memory";
  }
}

// Whether all ranks want the same, on the same kind of GPU.
bool Collectives::all_alike() const {
  cudaDeviceProp properties{};
  int device = 0;
  device::cuda::check(cudaGetDevice(&device), "cudaGetDevice");
  device::cuda::check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  std::array<char, 256> mine{};
  fmt::format_to_n(mine.data(), mine.size() - 1, "{} {} {}.{} {}", wanted_sums(), properties.name,
                   properties.major, properties.minor, properties.multiProcessorCount);
  std::vector<std::array<char, 256>> all(static_cast<std::size_t>(size()));
  std::vector<std::span<std::byte>> places;
  for (auto& each : all) {
    places.push_back(std::as_writable_bytes(std::span(each)));
  }
  ranks_->all_gather(std::as_bytes(std::span(mine)), places);
  all[static_cast<std::size_t>(rank())] = mine;
  return std::all_of(all.begin(), all.end(), [&](const auto& each) { return each == mine; });
}

Collectives::~Collectives() {
  end();
}

// NCCL awaits the other ranks for ever, so a thread of its own does that, which is left behind
// where they do not come.
void Collectives::make_communicator() {
  std::vector<std::byte> message(sizeof(NcclId));
  (void)device::cuda::nccl_version();  // whether there is NCCL, on every rank
  if (rank() == 0) {
    const NcclId id = device::cuda::make_nccl_id();
    std::memcpy(message.data(), id.data(), id.size());
  }
  ranks_->broadcast(message);
  core::require(message.size() == sizeof(NcclId), ErrorKind::kFailed,
                "rank 0 has told something else than how to meet by NCCL");
  NcclId id;
  std::memcpy(id.data(), message.data(), id.size());
  meet(*ranks_);
  int device = 0;
  device::cuda::check(cudaGetDevice(&device), "cudaGetDevice");
  std::packaged_task<NcclCommunicator()> task([id, device, rank = rank(), size = size()] {
    device::cuda::check(cudaSetDevice(device), "cudaSetDevice");
    return NcclCommunicator(id, rank, size);
  });
  std::future<NcclCommunicator> made = task.get_future();
  std::thread(std::move(task)).detach();
  while (made.wait_for(milliseconds(20)) != std::future_status::ready) {
    if (ranks_->lost() && made.wait_for(kLastSteps) != std::future_status::ready) {
      meet(*ranks_);  // says which, and why
    }
  }
  nccl_ = made.get();
}

void Collectives::add(float* x, std::int64_t count, cudaStream_t stream) const {
  if (by_peers(count)) {
    add_by_peers(x, x, count, false, stream);
  } else {
    nccl_.add(x, count, stream);
  }
}

void Collectives::add_onto(float* x, const float* y, std::int64_t count,
                           cudaStream_t stream) const {
  core::require(by_peers(count), ErrorKind::kFailed, "a sum of {} numbers is NCCL's", count);
  add_by_peers(x, y, count, true, stream);
}

bool Collectives::by_products(std::int64_t count) const {
  return products_send_ && by_peers(count) && !by_packets(count) && count % kWireBlock == 0 &&
         count <= kBlocks * kWireBlock;
}

bool Collectives::divides_rows(std::int64_t tokens) const {
  return divides_rows_ && tokens >= kFewestDivided;
}

std::array<TokenRange, 2> Collectives::halves_of(std::int64_t tokens) {
  const auto all = static_cast<int>(tokens);
  const int first = (all + 1) / 2;
  return {TokenRange{0, first}, TokenRange{first, all}};
}

BlockOutput Collectives::begin_sum(WireBlock* mine, std::int64_t tokens, bool divided,
                                   cudaStream_t stream) {
  core::require(!std::exchange(begun_, true), ErrorKind::kFailed, "a sum has yet to be ended");
  const PairMemory& memory = peers_->pair();
  begin_over_pair(memory, stream);
  BlockOutput output{.here = mine,
                     .there = memory.of_rank[static_cast<std::size_t>(1 - rank())],
                     .place = memory.blocks,
                     .sum = memory.sums};
  output.kept = output.sent = {0, static_cast<int>(tokens)};
  if (divided) {
    output.kept = own_rows(tokens);
    output.sent = halves_of(tokens)[static_cast<std::size_t>(1 - rank())];
  }
  return output;
}

PairSum Collectives::end_sum(const WireBlock* mine) {
  core::require(std::exchange(begun_, false), ErrorKind::kFailed, "no sum was begun");
  const PairMemory& memory = peers_->pair();
  return {mine, memory.of_rank[static_cast<std::size_t>(rank())], memory.blocks, memory.sums,
          memory.ended};
}

Collectives::SharedInput Collectives::shared_input(std::int64_t bytes) const {
  const PairMemory& memory = peers_->pair();
  if (bytes > memory.input_bytes) {
    return {};
  }
  return {memory.inputs[static_cast<std::size_t>(rank())],
          memory.inputs[static_cast<std::size_t>(1 - rank())]};
}

void Collectives::meet_on(cudaStream_t stream) const {
  meet_over_pair(peers_->pair(), stream);
}

void Collectives::add_by_peers(float* x, const float* y, std::int64_t count, bool adds,
                               cudaStream_t stream) const {
  if (by_packets(count)) {
    add_over_peers(peers_->memory(), y, x, count, adds, stream);
  } else {
    core::require(!begun_, ErrorKind::kFailed, "a sum has yet to be ended");
    add_over_pair(peers_->pair(), y, x, count, adds, stream);
  }
}

void Collectives::gather(float* all, std::int64_t count, cudaStream_t stream) const {
  nccl_.gather(all + rank() * count, all, count, stream);
}

void Collectives::wait(cudaStream_t stream) {
  for (int looks = 0;; ++looks) {
    const cudaError_t status = cudaStreamQuery(stream);
    if (status == cudaSuccess) {
      return;
    }
    if (status != cudaErrorNotReady) {
      device::cuda::check(status, "cudaStreamQuery");
    }
    if (looks < kLooks) {
      continue;
    }
    looks = 0;
    const std::string failure = nccl_.failure();
    if (!ranks_->lost() && failure.empty()) {
      continue;
    }
    if (!ends(stream, kLastSteps)) {  // else they have ended behind this step
      fail(stream, failure);
    }
  }
}

void Collectives::fail(cudaStream_t stream, const std::string& why) {
  end();
  ends(stream, kEnding);
  if (ranks_->lost()) {
    meet(*ranks_);  // says which, and why
  }
  core::fail(ErrorKind::kFailed, "NCCL has failed: {} (NCCL_DEBUG=WARN says more)",
             why.empty() ? "a rank has ended" : why);
}

void Collectives::end() noexcept {
  *ended_.as<volatile std::int32_t>() = 1;
  nccl_.end();
}

}  // namespace nibble::ops::cuda
