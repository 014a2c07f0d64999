#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/cuda/memory.h"
#include "ops/cuda/step_upload.h"

/// What the attention kernels of one step have to do, made on the host: it lies in device memory at
/// fixed addresses, so that a recorded graph can be launched for every step.
namespace nibble::ops::cuda {

/// Rows [row, row + rows) of the batch continue a sequence at `position`.
struct PlannedSequence {
  std::span<const std::int32_t> pages;  // of the sequence, from its first token on
  std::int64_t position = 0;
  std::int64_t row = 0;
  std::int64_t rows = 0;
};

/// Pages of a run that its item names itself, beside the page table: as many as one step of a
/// kernel's warps takes.
inline constexpr std::size_t kLeadingPages = 16;

/// One row against a run of pages. The keys of a sequence are split by its own length alone, so
/// that its results do not depend on the batch; a sequence's splits are merged in their order.
struct alignas(16) DecodeItem {
  std::int32_t row = 0;
  std::int32_t table = 0;  // where the run begins in the page table
  std::int32_t pages = 0;
  std::int32_t first = 0;  // position of the run's first token
  std::int32_t begin = 0;  // positions that the row sees: [begin, end)
  std::int32_t end = 0;
  std::int32_t splits = 1;   // of the row
  std::int32_t partial = 0;  // of the row's first split; this split is number `split`
  std::int32_t split = 0;
  std::int32_t position = 0;                          // of the row
  std::int32_t slot = 0;                              // AttentionPlan::slots of the row
  std::array<std::int32_t, kLeadingPages> leading{};  // the run's first pages
};

/// Rows that follow one another against all keys that they see.
struct PrefillItem {
  std::int32_t row = 0;   // first row of the sequence in the batch
  std::int32_t rows = 0;  // of the sequence
  std::int32_t first =
      0;  // the item's first row, counted in query heads of a KV head (row * group)
  std::int32_t table = 0;     // of the sequence's first page
  std::int32_t position = 0;  // of the sequence's first row
  std::int32_t window = 0;    // 0: all
};

/// Query rows (times heads of a group) of a prefill item.
inline constexpr std::int64_t kPrefillRows = 128;

struct AttentionPlan {
  std::vector<std::int32_t> positions;  // [m]
  std::vector<std::int32_t> slots;      // [m], page * kPageTokens + token: where a row is kept
  std::vector<std::int32_t> table;      // page numbers
  std::vector<std::int32_t> starts;     // [m], where the row's sequence begins in the table
  std::vector<DecodeItem> decode;       // rows of sequences that have one row, longest first
  std::vector<PrefillItem> prefill;     // longest first
  std::int64_t partials = 0;            // results of splits to be merged

  /// Whether no row of a sequence with one row sees more than kBriefPages pages.
  bool brief() const;

  /// Becomes the plan of another step, in the memory that it has: what a step frees costs the next
  /// one more than planning does. `group` is heads / kv_heads; window 0: all. Every sequence must
  /// have pages for its rows (kFailed otherwise).
  void assign(std::span<const PlannedSequence> sequences, std::int64_t group, std::int64_t window);
};

/// What one warp reads without help, where there are many sequences.
inline constexpr std::int64_t kBriefPages = 16;

/// A row has at most so many splits.
inline constexpr std::int64_t kMostSplits = 32;

/// Pages of one split for a row that sees `pages` pages.
std::int64_t pages_of_split(std::int64_t pages);

/// A plan that is made anew, as AttentionPlan::assign() does.
AttentionPlan plan_attention(std::span<const PlannedSequence> sequences, std::int64_t group,
                             std::int64_t window);

/// A plan as the kernels see it.
struct DevicePlan {
  const std::int32_t* counts = nullptr;  // decode items, prefill items
  const std::int32_t* positions = nullptr;
  const std::int32_t* slots = nullptr;
  const std::int32_t* table = nullptr;
  const std::int32_t* starts = nullptr;
  const DecodeItem* decode = nullptr;
  const PrefillItem* prefill = nullptr;
  std::int64_t max_items = 0;     // of either kind
  std::int64_t max_partials = 0;  // 0: no row is ever split
  std::int64_t decode_items = 0;  // of the step
  bool brief = false;             // AttentionPlan::brief()
};

/// Device memory for plans up to some size.
class PlanBuffer {
 public:
  struct Limits {
    std::int64_t rows = 0;
    std::int64_t pages = 0;  // of all sequences together
    std::int64_t items = 0;  // of either kind
    std::int64_t partials = 0;
  };
  explicit PlanBuffer(const Limits& limits);

  const DevicePlan& plan() const { return plan_; }
  /// The plan goes to the device with `upload`, which the step has begun. Throws kFailed when it is
  /// too large.
  void put(const AttentionPlan& plan, StepUpload& upload);

 private:
  Limits limits_;
  device::cuda::PinnedBuffer host_;
  device::cuda::Buffer device_;
  DevicePlan plan_;
};

}  // namespace nibble::ops::cuda
