#include "ops/cuda/attention/attention_plan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>

#include "core/error.h"
#include "ops/cuda/attention/kv_layout.h"

namespace nibble::ops::cuda {
namespace {

using core::ErrorKind;

std::int32_t narrow(std::int64_t value) {
  return static_cast<std::int32_t>(value);
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

void plan_row(const PlannedSequence& sequence, std::int64_t table, std::int64_t window,
              AttentionPlan& plan) {
  const std::int64_t end = sequence.position + 1;
  const std::int64_t begin = window > 0 ? std::max<std::int64_t>(0, end - window) : 0;
  const std::int64_t first_page = begin / kPageTokens;
  const std::int64_t last_page = divide_up(end, kPageTokens);
  const std::int64_t step = pages_of_split(last_page - first_page);
  const std::int64_t splits = divide_up(last_page - first_page, step);
  for (std::int64_t split = 0; split < splits; ++split) {
    const std::int64_t from = first_page + split * step;
    const std::int64_t to = std::min(from + step, last_page);
    DecodeItem item;
    item.row = narrow(sequence.row);
    item.table = narrow(table + from);
    item.pages = narrow(to - from);
    item.first = narrow(from * kPageTokens);
    item.begin = narrow(std::max(begin, from * kPageTokens));
    item.end = narrow(std::min(end, to * kPageTokens));
    item.splits = narrow(splits);
    item.partial = narrow(plan.partials);
    item.split = narrow(split);
    item.position = narrow(sequence.position);
    item.slot = plan.slots[static_cast<std::size_t>(sequence.row)];
    const auto run =
        sequence.pages.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(to - from));
    std::copy_n(run.begin(), std::min(run.size(), kLeadingPages), item.leading.begin());
    plan.decode.push_back(item);
  }
  plan.partials += splits > 1 ? splits : 0;
}

void plan_rows(const PlannedSequence& sequence, std::int64_t table, std::int64_t group,
               std::int64_t window, AttentionPlan& plan) {
  for (std::int64_t first = 0; first < sequence.rows * group; first += kPrefillRows) {
    plan.prefill.push_back({narrow(sequence.row), narrow(sequence.rows), narrow(first),
                            narrow(table), narrow(sequence.position), narrow(window)});
  }
}

}  // namespace

bool AttentionPlan::brief() const {
  return decode.empty() || decode.front().pages <= kBriefPages;  // longest first
}

// Few splits where many sequences share the device, but enough for one sequence alone.
std::int64_t pages_of_split(std::int64_t pages) {
  constexpr std::int64_t kShort = 128;
  return std::max(pages <= kShort ? std::int64_t{32} : std::int64_t{64},
                  divide_up(pages, kMostSplits));
}

void AttentionPlan::assign(std::span<const PlannedSequence> sequences, std::int64_t group,
                           std::int64_t window) {
  std::int64_t m = 0;
  for (const PlannedSequence& sequence : sequences) {
    m = std::max(m, sequence.row + sequence.rows);
  }
  positions.assign(static_cast<std::size_t>(m), 0);
  slots.assign(static_cast<std::size_t>(m), -1);
  starts.assign(static_cast<std::size_t>(m), 0);
  table.clear();
  decode.clear();
  prefill.clear();
  partials = 0;
  const std::int32_t* last = nullptr;  // whose pages stand at the end of the table
  std::int64_t listed = 0;
  for (const PlannedSequence& sequence : sequences) {
    const std::int64_t tokens = sequence.position + sequence.rows;
    const std::int64_t pages = divide_up(tokens, kPageTokens);
    core::require(pages <= static_cast<std::int64_t>(sequence.pages.size()), ErrorKind::kFailed,
                  "position {} does not fit the {} pages of its sequence", tokens - 1,
                  sequence.pages.size());
    const bool again = pages == listed && sequence.pages.data() == last;  // in the table already
    const std::int64_t first = std::ssize(table) - (again ? pages : 0);
    for (std::int64_t i = 0; i < sequence.rows; ++i) {
      const std::int64_t position = sequence.position + i;
      const auto row = static_cast<std::size_t>(sequence.row + i);
      const std::int32_t page = sequence.pages[static_cast<std::size_t>(position / kPageTokens)];
      positions[row] = narrow(position);
      slots[row] = narrow(page * kPageTokens + position % kPageTokens);
      starts[row] = narrow(first);
    }
    if (!again) {
      table.insert(table.end(), sequence.pages.begin(), sequence.pages.begin() + pages);
      last = sequence.pages.data();
      listed = pages;
    }
    if (sequence.rows == 1) {
      plan_row(sequence, first, window, *this);
    } else {
      plan_rows(sequence, first, group, window, *this);
    }
  }
  std::sort(decode.begin(), decode.end(), [](const DecodeItem& a, const DecodeItem& b) {
    return std::tuple(b.pages, a.row, a.split) < std::tuple(a.pages, b.row, b.split);
  });
  std::sort(prefill.begin(), prefill.end(), [](const PrefillItem& a, const PrefillItem& b) {
    return std::tuple(b.position + b.first, a.row, a.first) <
           std::tuple(a.position + a.first, b.row, b.first);
  });
}

AttentionPlan plan_attention(std::span<const PlannedSequence> sequences, std::int64_t group,
                             std::int64_t window) {
  AttentionPlan plan;
  plan.assign(sequences, group, window);
  return plan;
}

namespace {

constexpr std::int64_t kAlignment = 256;
static_assert(kAlignment % StepUpload::kAlignment == 0);

std::int64_t aligned(std::int64_t bytes) {
  return divide_up(bytes, kAlignment) * kAlignment;
}

// One part of the buffer after another.
struct Parts {
  std::int64_t counts, positions, slots, starts, decode, prefill, table, bytes;
  explicit Parts(const PlanBuffer::Limits& limits) {
    constexpr auto kWord = static_cast<std::int64_t>(sizeof(std::int32_t));
    std::int64_t at = 0;
    const auto place = [&](std::int64_t size) {
      const std::int64_t here = at;
      at += aligned(size);
      return here;
    };
    counts = place(2 * kWord);
    positions = place(limits.rows * kWord);
    slots = place(limits.rows * kWord);
    starts = place(limits.rows * kWord);
    decode = place(limits.items * static_cast<std::int64_t>(sizeof(DecodeItem)));
    prefill = place(limits.items * static_cast<std::int64_t>(sizeof(PrefillItem)));
    table = place(limits.pages * kWord);
    bytes = at;
  }
};

}  // namespace

PlanBuffer::PlanBuffer(const Limits& limits)
    : limits_(limits), host_(Parts(limits).bytes), device_(Parts(limits).bytes) {
  const Parts parts(limits);
  const auto at = [&](std::int64_t offset) { return device_.data() + offset; };
  const auto words = [&](std::int64_t offset) {
    return reinterpret_cast<const std::int32_t*>(at(offset));
  };
  plan_ = {words(parts.counts),
           words(parts.positions),
           words(parts.slots),
           words(parts.table),
           words(parts.starts),
           reinterpret_cast<const DecodeItem*>(at(parts.decode)),
           reinterpret_cast<const PrefillItem*>(at(parts.prefill)),
           limits.items,
           limits.partials,
           0,
           false};
}

void PlanBuffer::put(const AttentionPlan& plan, StepUpload& upload) {
  const auto fits = [](const auto& values, std::int64_t limit) {
    return static_cast<std::int64_t>(values.size()) <= limit;
  };
  core::require(fits(plan.positions, limits_.rows) && fits(plan.table, limits_.pages) &&
                    fits(plan.decode, limits_.items) && fits(plan.prefill, limits_.items) &&
                    plan.partials <= limits_.partials,
                ErrorKind::kFailed,
                "a plan of {} rows, {} pages, {} + {} items and {} partial results exceeds its "
                "buffer ({}, {}, {}, {})",
                plan.positions.size(), plan.table.size(), plan.decode.size(), plan.prefill.size(),
                plan.partials, limits_.rows, limits_.pages, limits_.items, limits_.partials);
  const Parts parts(limits_);
  const auto send = [&](std::int64_t offset, const auto& values) {
    const std::size_t bytes = values.size() * sizeof(values[0]);
    if (bytes > 0) {
      std::memcpy(host_.data() + offset, values.data(), bytes);
    }
    upload.add(host_.data() + offset, device_.data() + offset, static_cast<std::int64_t>(bytes));
  };
  const std::array counts = {narrow(std::ssize(plan.decode)), narrow(std::ssize(plan.prefill))};
  send(parts.counts, counts);
  send(parts.positions, plan.positions);
  send(parts.slots, plan.slots);
  send(parts.starts, plan.starts);
  send(parts.decode, plan.decode);
  send(parts.prefill, plan.prefill);
  send(parts.table, plan.table);
  plan_.decode_items = std::ssize(plan.decode);
  plan_.brief = plan.brief();
}

}  // namespace nibble::ops::cuda
