#include "ops/cuda/sparse/sparse_packer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "core/error.h"
#include "core/float16.h"
#include "formats/bit_packing.h"
#include "formats/block_sparse.h"

namespace nibble::ops::cuda {
namespace {

using formats::PackedWeight;

constexpr std::int64_t kBlockBytes = kSparseInputs / 2;
constexpr std::size_t kBanks = 8;  // of 16 bytes

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

/// A block as it stands in units.
struct Block {
  std::array<std::uint8_t, kBlockBytes> codes{};
  std::uint32_t word = 0;  // without the bit of the end
};
using Octet = std::array<Block, kOctet>;

/// Blocks of 16 inputs in a group of the weights.
std::int64_t blocks_of_group(const PackedWeight& weight) {
  return weight.scheme.scale.group / kSparseInputs;
}

std::int64_t octets_of(const PackedWeight& weight, std::int64_t row) {
  const auto [begin, end] = formats::stored_groups_of(weight, row);
  const std::int64_t blocks =
      (end - begin) * blocks_of_group(weight) * blocks_of_codes(weight.scheme.code.bits);
  return std::max<std::int64_t>(1, (blocks + kOctet - 1) / kOctet);
}

/// One row's blocks, each in the bank of its lowest three bits.
class RowBlocks {
 public:
  RowBlocks(const PackedWeight& weight, std::int64_t row)
      : weight_(weight), row_(row), all_(weight.k / kSparseInputs) {
    const std::int64_t each = blocks_of_group(weight);
    formats::for_each_stored_group(weight, row, [&](std::int64_t at, std::int64_t group) {
      for (std::int64_t part = 0; part < each; ++part) {
        const std::int64_t place = group * each + part;
        banks_[index(place) % kBanks].push_back({at * each + part, place});
      }
      left_ += each;
    });
  }

  /// Blocks of one place in each bank, as far as there are any; then others; then blocks of scale
  /// 0.
  Octet next() {
    Octet octet;
    std::array<bool, kBanks> used{};
    std::size_t count = 0;
    for (std::size_t bank = 0; bank < kBanks && count < octet.size(); ++bank) {
      if (!banks_[bank].empty()) {
        count = take(bank, octet, count);
        used[bank] = true;
      }
    }
    while (count < octet.size() && left_ > 0) {
      const auto fullest =
          std::max_element(banks_.begin(), banks_.end(),
                           [](const auto& a, const auto& b) { return a.size() < b.size(); });
      count = take(index(fullest - banks_.begin()), octet, count);
    }
    for (std::size_t bank = 0; count < octet.size(); ++bank) {
      if (bank >= kBanks || !used[bank]) {
        const auto place = static_cast<std::int64_t>(bank % kBanks);
        octet[count++].word = static_cast<std::uint32_t>(place < all_ ? place : 0);
      }
    }
    return octet;
  }

 private:
  struct Stored {
    std::int64_t at;     // among the stored blocks
    std::int64_t place;  // in the row
  };

  /// Puts the blocks of a place behind the `count` of the octet; returns how many it has then.
  std::size_t take(std::size_t bank, Octet& octet, std::size_t count) {
    const Stored stored = banks_[bank].back();
    banks_[bank].pop_back();
    --left_;
    for (int digit = 0; digit < blocks_of_codes(weight_.scheme.code.bits); ++digit) {
      octet[count++] = block(stored, digit);
    }
    return count;
  }

  /// 4 bits of each code, the lowest ones as digit 0.
  Block block(const Stored& stored, int digit) const {
    const formats::Scheme& scheme = weight_.scheme;
    const int bits = scheme.code.bits;
    const auto digit_of = [&](unsigned code) { return code >> (digit * kBlockBits) & 15u; };
    Block block;
    const auto codes = weight_.codes.data<std::uint8_t>();
    const std::int64_t bytes = kSparseInputs * bits / 8;
    if (bits == kBlockBits) {
      std::memcpy(block.codes.data(), codes.data() + stored.at * bytes, block.codes.size());
    } else {
      for (std::int64_t i = 0; i < kSparseInputs; ++i) {
        const auto code = digit_of(formats::get_code(codes.data() + stored.at * bytes, bits, i));
        block.codes[index(i / 2)] |= static_cast<std::uint8_t>(code << (i % 2 == 0 ? 0 : 4));
      }
    }
    const std::int64_t group = stored.at / blocks_of_group(weight_);
    const unsigned zero =
        digit_of(formats::has_zeros(scheme)
                     ? formats::get_code(weight_.zeros.data<std::uint8_t>().data(), bits, group)
                     : 1u << (bits - 1));
    const std::uint32_t scale = scale_of(digit, formats::stored_scale(weight_, group, row_)).bits;
    block.word =
        static_cast<std::uint32_t>(stored.place) | zero << kZeroShift | scale << kScaleShift;
    return block;
  }

  static core::Fp16 scale_of(int digit, core::Fp16 scale) {
    if (digit == 0) {
      return scale;
    }
    const float high = kHighScale * core::to_float(scale);
    core::require(std::abs(high) <= core::kFp16Max, core::ErrorKind::kUsage,
                  "block-sparse rows on a GPU: a scale of {}; with 8 bits it takes up to {}; use "
                  "--device cpu",
                  core::to_float(scale), core::kFp16Max / kHighScale);
    return core::to_fp16(high);
  }

  const PackedWeight& weight_;
  std::int64_t row_;
  std::int64_t all_;
  std::int64_t left_ = 0;
  std::array<std::vector<Stored>, kBanks> banks_;
};

/// The first row of each thread block, and n: rows with about as many octets, or as many rows.
std::vector<std::int64_t> cuts(const std::vector<std::int64_t>& octets, const SparsePlan& plan) {
  const auto n = static_cast<std::int64_t>(octets.size()) - 1;
  std::vector<std::int64_t> first(index(plan.blocks + 1));
  for (std::int64_t block = 0; block <= plan.blocks; ++block) {
    if (plan.by_rows) {
      first[index(block)] = n * block / plan.blocks;
      continue;
    }
    const std::int64_t wanted = octets.back() * block / plan.blocks;
    auto at = std::lower_bound(octets.begin(), octets.end(), wanted);
    if (at != octets.begin() && *at - wanted > wanted - *(at - 1)) {
      --at;
    }
    first[index(block)] = at - octets.begin();
  }
  return first;
}

/// Packs the share of one thread block.
class ShareWriter {
 public:
  ShareWriter(const UnitRows& rows, std::int64_t block, PackedSparse& packed)
      : rows_(rows),
        packed_(packed),
        share_(packed.shares[index(block)]),
        first_warp_(block * packed.plan.warps),
        streams_(packed.plan.warps * kWarpStreams),
        warps_log2_(std::countr_zero(static_cast<unsigned>(packed.plan.warps))),
        stream_rows_(
            std::span(packed.stream_rows).subspan(index(block * streams_), index(streams_))) {}

  void write() {
    for (std::int32_t row = 0; row < share_.rows; ++row) {
      const UnitRows::Place place = rows_.place(share_.first_row + row);
      const PackedWeight& weight = *rows_.weights[place.weight];
      RowBlocks blocks(weight, place.row);
      const std::int64_t count = octets_of(weight, place.row);
      const int first = stream_;
      for (std::int64_t i = 0; i < count; ++i) {
        put(blocks.next(), row, i + 1 == count);
      }
      const RowPieces pieces{static_cast<std::uint32_t>(first + row),
                             static_cast<std::uint32_t>(last_ - first + 1)};
      packed_.rows[index(share_.first_row + row)] = word_of(pieces);
    }
    while (stream_ < streams_) {
      if (!skip_empty()) {
        break;
      }
      put({}, share_.rows, false);
    }
  }

 private:
  std::int64_t octets_of_stream() const {
    return std::int64_t{2} * warp_units(share_.units, stream_ / kWarpStreams, warps_log2_);
  }

  /// To the next stream that has octets, if there is one.
  bool skip_empty() {
    while (stream_ < streams_ && octets_of_stream() == 0) {
      ++stream_;
    }
    return stream_ < streams_;
  }

  void put(const Octet& octet, std::int32_t row, bool ends_row) {
    if (at_ == 0) {
      stream_rows_[index(stream_)] = static_cast<std::uint16_t>(row);
    }
    const std::int64_t unit = (first_warp_ + stream_ / kWarpStreams) * packed_.stride + at_ / 2;
    const bool ends = ends_row || at_ + 1 == octets_of_stream();
    std::byte* const to = packed_.units.data() + unit * kSparseUnitBytes;
    for (std::int64_t i = 0; i < kOctet; ++i) {
      const std::int64_t lane = stream_ % kWarpStreams * kOctet + i;
      const Block& block = octet[index(i)];
      const std::uint32_t word = block.word | (ends ? kEndsBit : 0);
      std::memcpy(to + (2 * lane + at_ % 2) * kBlockBytes, block.codes.data(), block.codes.size());
      std::memcpy(
          to + kSparseUnitWords + (2 * lane + at_ % 2) * static_cast<std::int64_t>(sizeof(word)),
          &word, sizeof(word));
    }
    last_ = stream_;
    if (++at_ == octets_of_stream()) {
      at_ = 0;
      ++stream_;
      skip_empty();
    }
  }

  const UnitRows& rows_;
  PackedSparse& packed_;
  const SparseShare& share_;
  std::int64_t first_warp_;
  int streams_;
  int warps_log2_;
  std::span<std::uint16_t> stream_rows_;
  int stream_ = 0;
  int last_ = 0;         // the stream of the last octet
  std::int64_t at_ = 0;  // the next octet of the stream
};

void require_layout(const UnitRows& rows, const SparsePlan& plan) {
  core::require(
      plan.blocks >= 1 && plan.blocks <= kMostSparseBlocks && plan.warps >= 1 &&
          plan.warps <= kMostSparseWarps && std::has_single_bit(static_cast<unsigned>(plan.warps)),
      core::ErrorKind::kFailed, "no kernel of block-sparse rows has {} blocks of {} warps",
      plan.blocks, plan.warps);
  const PackedWeight& front = *rows.weights.front();
  if (const Refusal refused = sparse_layout_refusal(front.scheme, front.k)) {
    core::fail(core::ErrorKind::kUsage, "{} on a GPU: {}; use --device cpu", front.scheme,
               refused->text());
  }
}

}  // namespace

Refusal sparse_layout_refusal(const formats::Scheme& scheme, std::int64_t k) {
  if (!formats::is_block_sparse(scheme)) {
    return Reason("weights are no block-sparse rows");
  }
  if (!formats::has_codes(scheme)) {
    return Reason("weights are floats; it takes codes of up to {} bits",
                  std::int64_t{kMostSparseBits});
  }
  if (!formats::is_integer(scheme)) {
    return Reason("codes are {}; it takes integers of up to {} bits", scheme.code.type->name,
                  std::int64_t{kMostSparseBits});
  }
  if (scheme.scale.group % kSparseInputs != 0) {
    return Reason("groups of {} inputs; it takes 16, 32 and 64", scheme.scale.group);
  }
  if (k > kMostSparseInputs) {
    return Reason("rows of {} inputs; it takes up to {}", k, kMostSparseInputs);
  }
  return std::nullopt;
}

SparsePlan sparse_plan(std::int64_t n, int multiprocessors) {
  SparsePlan plan;
  plan.blocks = static_cast<int>(
      std::min<std::int64_t>({multiprocessors, n, std::int64_t{kMostSparseBlocks}}));
  return plan;
}

PackedSparse pack_sparse(const UnitRows& rows, const SparsePlan& plan, core::ThreadPool& pool) {
  require_layout(rows, plan);
  PackedSparse packed;
  packed.plan = plan;
  packed.n = rows.count();
  packed.k = rows.weights.front()->k;
  packed.code_blocks = blocks_of_codes(rows.weights.front()->scheme.code.bits);
  std::vector<std::int64_t> octets(index(packed.n + 1));
  for (std::int64_t row = 0; row < packed.n; ++row) {
    const UnitRows::Place place = rows.place(row);
    octets[index(row + 1)] = octets[index(row)] + octets_of(*rows.weights[place.weight], place.row);
  }
  const std::vector<std::int64_t> first = cuts(octets, plan);
  packed.shares.resize(index(plan.blocks));
  std::int32_t most_units = 0;
  for (std::int64_t block = 0; block < plan.blocks; ++block) {
    SparseShare& share = packed.shares[index(block)];
    const std::int64_t begin = first[index(block)];
    const std::int64_t end = first[index(block + 1)];
    share.units = static_cast<std::int32_t>(
        (octets[index(end)] - octets[index(begin)] + kUnitOctets - 1) / kUnitOctets);
    share.first_row = static_cast<std::int32_t>(begin);
    share.rows = static_cast<std::int32_t>(end - begin);
    most_units = std::max(most_units, share.units);
    packed.most_rows = std::max(packed.most_rows, end - begin);
  }
  core::require(packed.most_rows < (1 << 16), core::ErrorKind::kUsage,
                "block-sparse rows on a GPU: {} rows for a thread block; use --device cpu",
                packed.most_rows);
  packed.stride = (most_units + plan.warps - 1) / plan.warps;
  packed.units.resize(
      index(std::int64_t{plan.blocks} * plan.warps * packed.stride * kSparseUnitBytes));
  packed.rows.resize(index(packed.n));
  packed.stream_rows.resize(index(std::int64_t{plan.blocks} * plan.warps * kWarpStreams));
  pool.parallel_for(plan.blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      ShareWriter(rows, block, packed).write();
    }
  });
  return packed;
}

}  // namespace nibble::ops::cuda
