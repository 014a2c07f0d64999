#pragma once

#include <cstdint>

#include "ops/cuda/device_code/barrier.cuh"
#include "ops/cuda/device_code/reduce.cuh"
#include "ops/cuda/layer_chain/chain_arguments.h"

/// Which weights each warp multiplies, and which pages it attends to, in their order, and the warps
/// that copy them into shared memory. A warp has a part of the inputs of every phase, in groups of
/// 128, and all rows of the thread block. A portion is what of these rows lies in one unit
/// (unit_format.h): four tiles at the most. A piece is one group of a portion of three or four
/// tiles, or two groups of a portion of one or two. A page of keys and values is one piece or two.
namespace nibble::ops::cuda {

#if __CUDA_ARCH__ >= 900

/// What is true for all lanes of the warp or for none, and the number that all lanes have: so the
/// compiler knows, and loops take fewer instructions where lanes can't part.
__device__ __forceinline__ bool of_warp(bool condition) {
  return __any_sync(kAllLanes, condition) != 0;
}
__device__ __forceinline__ int of_warp(int number) {
  return __shfl_sync(kAllLanes, number, 0);
}

/// The groups of a warp: every kChainWarps-th, so that each warp reads results of the first thread
/// blocks first.
struct WarpGroups {
  int count;
  __device__ WarpGroups(int blocks, int warp)
      : count((blocks - warp + kChainWarps - 1) / kChainWarps), warp_(warp) {}
  /// The warp's g-th.
  __device__ int group(int g) const { return g * kChainWarps + warp_; }

 private:
  int warp_;
};

/// Tiles of the portion that begins with `tile`, in a share that ends with `end`.
__device__ __forceinline__ int portion_tiles(int tile, int end) {
  return min(kPieceTiles - tile % kPieceTiles, end - tile);
}
/// Groups of a piece of a portion of so many tiles.
__device__ __forceinline__ int groups_at_once(int tiles) {
  return tiles > kPieceTiles / 2 ? 1 : 2;
}

/// Goes through the pieces of a warp.
template <int kTileBytes>
class PieceCursor {
 public:
  __device__ PieceCursor(const ChainArguments& a, const ChainTokens& tokens, int warp)
      : a_(a), tokens_(tokens), warp_(warp) {
    enter(0);
  }

  __device__ bool has_ended() const { return phase_ == a_.count; }
  /// Where the piece lies, or its first group; the second one lies kNextGroup behind.
  __device__ const std::byte* at() const {
    const ChainPhase& phase = a_.phases[phase_];
    if (phase.pages != nullptr) {
      return block_ + (is_rest_ ? a_.attention.first_bytes : 0);
    }
    const long long unit = static_cast<long long>(tile_ / kPieceTiles) * phase.blocks +
                           WarpGroups(phase.blocks, warp_).group(group_);
    return phase.units + (unit * kPieceTiles + tile_ % kPieceTiles) * kTileBytes;
  }
  static constexpr int kNextGroup = kChainWarps * kPieceTiles * kTileBytes;
  __device__ bool has_two_groups() const {
    return groups_at_once(tiles_) == 2 && group_ + 1 < groups_;
  }
  /// Of the piece, or of one group.
  __device__ std::uint32_t bytes() const {
    if (a_.phases[phase_].pages != nullptr) {
      return is_rest_ ? a_.attention.rest_bytes : a_.attention.first_bytes;
    }
    return tiles_ * kTileBytes;
  }

  __device__ void advance() {
    if (a_.phases[phase_].pages != nullptr) {
      if (!is_rest_ && a_.attention.rest_bytes > 0) {
        is_rest_ = true;
      } else {
        page_ += page_stride_;
        page_ < tokens_.pages ? go_to_page() : enter(phase_ + 1);
      }
      return;
    }
    group_ += groups_at_once(tiles_);
    if (group_ < groups_) {
      return;
    }
    group_ = 0;
    tile_ += tiles_;
    if (tile_ < last_tile_) {
      tiles_ = portion_tiles(tile_, last_tile_);
      return;
    }
    enter(phase_ + 1);
  }

 private:
  /// The first piece of a phase, or of the next one that has any.
  __device__ void enter(int phase) {
    for (phase_ = phase; phase_ < a_.count; ++phase_) {
      if (a_.phases[phase_].pages != nullptr ? enter_pages() : enter_weights()) {
        return;
      }
    }
  }

  __device__ bool enter_weights() {
    const ChainPhase& phase = a_.phases[phase_];
    const ChainShare share(phase, static_cast<int>(blockIdx.x));
    groups_ = WarpGroups(phase.blocks, warp_).count;
    tile_ = share.begin;
    last_tile_ = share.end;
    tiles_ = portion_tiles(tile_, last_tile_);
    group_ = 0;
    return share.begin < share.end && groups_ > 0;
  }

  __device__ bool enter_pages() {
    const HeadShare share(a_.attention, tokens_, static_cast<int>(blockIdx.x));
    page_ = share.first_page(warp_);
    page_stride_ = share.page_stride();
    if (!share.attends() || page_ >= tokens_.pages) {
      return false;
    }
    tiles_ = kPieceTiles;  // no second group
    kv_head_ = share.head / a_.attention.group;
    next_id_ = id_of(page_);
    go_to_page();
    return true;
  }
  __device__ void go_to_page() {
    const long long block =
        static_cast<long long>(next_id_) * static_cast<int>(a_.attention.layer.layout.kv_heads) +
        kv_head_;
    block_ = a_.phases[phase_].pages + block * a_.attention.block_bytes;
    is_rest_ = false;
    next_id_ = id_of(min(page_ + page_stride_, tokens_.pages - 1));  // long before it is needed
  }
  __device__ int id_of(int page) const { return __ldg(a_.attention.table + tokens_.table + page); }

  const ChainArguments& a_;
  const ChainTokens& tokens_;
  int warp_;
  int phase_ = 0;
  // Of a layer:
  int tile_ = 0;  // of the portion, the first one
  int last_tile_ = 0;
  int tiles_ = 0;
  int group_ = 0;  // of the warp's
  int groups_ = 0;
  // Of an attention:
  int page_ = 0;
  int page_stride_ = 0;
  int kv_head_ = 0;
  int next_id_ = 0;
  bool is_rest_ = false;
  const std::byte* block_ = nullptr;
};

__device__ __forceinline__ bool barrier_has_ended(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t ended;
  asm volatile(
      "{ .reg .pred ended;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
      "selp.u32 %0, 1, 0, ended; }"
      : "=r"(ended)
      : "r"(barrier), "r"(parity)
      : "memory");
  return ended != 0;
}

/// Makes the barriers of the rings; by one warp.
__device__ __forceinline__ void init_rings(std::byte* shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int i = lane; i < kChainWarps * ChainMemory::kBarrierBytes / 8; i += kWarp) {
    init_barrier(shared_address(shared + i * 8), 1);
  }
  publish_barriers();
}

/// What a copying warp does until all pieces are on their way: each of its first lanes fills one
/// ring. A ring has one piece under way, or two where its warp has none left: what warps ask for
/// meanwhile (rows of other blocks) waits behind all that was asked for before.
template <int kTileBytes>
__device__ __forceinline__ void copy_pieces(const ChainArguments& a, const ChainTokens& tokens,
                                            const ChainMemory& memory, std::byte* shared) {
  constexpr int kRings = kChainWarps / kCopyingWarps;
  constexpr int kPieceBytes = kPieceTiles * kTileBytes;
  using Cursor = PieceCursor<kTileBytes>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int first = (static_cast<int>(threadIdx.x) / kWarp - kChainWarps) * kRings;
  const int warp = first + min(lane, kRings - 1);
  const std::uint32_t full = shared_address(shared + warp * ChainMemory::kBarrierBytes);
  const std::uint32_t empty = full + kMostChainStages * 8;
  const std::uint32_t ring = shared_address(shared + memory.ring(warp));
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  const auto copy = [&](std::uint32_t target, const std::byte* source, std::uint32_t bytes,
                        std::uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1], %2, [%3], %4;" ::"r"(target),
        "l"(source), "r"(bytes), "r"(barrier), "l"(policy)
        : "memory");
  };
  struct Place {
    int stage;
    std::uint32_t parity;
    __device__ void advance(int stages) {
      if (++stage == stages) {
        stage = 0;
        parity ^= 1;
      }
    }
  };
  Place next{0, 1};
  Place last{0, 0};    // the piece before
  Place before{0, 0};  // the one before that
  Cursor cursor(a, tokens, warp);
  const std::byte* at = nullptr;  // of the next piece, known before there is room for it
  std::uint32_t bytes = 0;
  bool two = false;
  bool is_left = false;
  const auto look = [&] {
    is_left = lane < kRings && !cursor.has_ended();
    if (is_left) {
      at = cursor.at();
      bytes = cursor.bytes();
      two = cursor.has_two_groups();
    }
  };
  look();
  for (int copied = 0; __any_sync(kAllLanes, is_left);) {
    const auto has_arrived = [&](const Place& piece) {
      return barrier_has_ended(full + 8 * piece.stage, piece.parity);
    };
    const auto was_multiplied = [&](const Place& piece) {
      return barrier_has_ended(empty + 8 * piece.stage, piece.parity);
    };
    if (is_left && was_multiplied(next) &&
        (copied < 1 || has_arrived(last) || (copied > 1 && was_multiplied(before)))) {
      const std::uint32_t barrier = full + 8 * next.stage;
      const std::uint32_t target = ring + next.stage * kPieceBytes;
      arrive_expecting(barrier, bytes * (two ? 2 : 1));
      copy(target, at, bytes, barrier);
      if (two) {
        copy(target + kPieceBytes / 2, at + Cursor::kNextGroup, bytes, barrier);
      }
      cursor.advance();
      before = last;
      last = {next.stage, next.parity ^ 1};
      next.advance(memory.stages);
      ++copied;
      look();
    }
    __syncwarp();
  }
}

/// Which piece of a ring is the next one.
struct RingPlace {
  int stage = 0;
  std::uint32_t parity = 0;
};

/// The pieces of a warp as they come.
class PieceRing {
 public:
  __device__ PieceRing(const ChainMemory& memory, std::byte* shared, int warp,
                       const RingPlace& place = {})
      : stages_(memory.stages),
        bytes_(memory.piece_bytes()),
        memory_(shared + memory.ring(warp)),
        full_(shared_address(shared + warp * ChainMemory::kBarrierBytes)) {
    go_to(place);
  }
  __device__ RingPlace place() const { return {stage_, parity_}; }
  __device__ void go_to(const RingPlace& place) {
    stage_ = place.stage;
    parity_ = place.parity;
  }

  /// Waits for the next one.
  __device__ std::byte* wait() const {
    wait_barrier(full_ + 8 * stage_, parity_);
    return memory_ + stage_ * bytes_;
  }
  /// Waits for the one behind the next one.
  __device__ std::byte* wait_second() const {
    const bool wraps = stage_ + 1 == stages_;
    const int stage = wraps ? 0 : stage_ + 1;
    wait_barrier(full_ + 8 * stage, wraps ? parity_ ^ 1 : parity_);
    return memory_ + stage * bytes_;
  }
  /// All lanes have read it.
  __device__ void release() {
    __syncwarp();
    if (threadIdx.x % kWarp == 0) {
      arrive(full_ + 8 * (kMostChainStages + stage_));
    }
    if (++stage_ == stages_) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  int stages_;
  int bytes_;  // of a piece
  std::byte* memory_;
  std::uint32_t full_;
  int stage_ = 0;
  std::uint32_t parity_ = 0;
};

#endif

}  // namespace nibble::ops::cuda
