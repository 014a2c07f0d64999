#include "ops/cuda/sparse/sparse_packer.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "core/error.h"
#include "formats/block_sparse.h"
#include "ops/cpu/sparse/sparse_weights_for_tests.h"

// The layout of block-sparse rows, read back as the kernels read it.
namespace nibble::ops::cuda {
namespace {

using cpu::testing::sparse_weight;
using formats::PackedWeight;

/// A block of 16 weights as a lane has it.
struct ReadBlock {
  std::int64_t place = 0;
  std::array<float, kSparseInputs> values{};
  float scale = 0.0f;
  bool ends = false;
};

ReadBlock read_block(const PackedSparse& packed, std::int64_t unit, std::int64_t lane,
                     std::int64_t half) {
  const std::byte* const from = packed.units.data() + unit * kSparseUnitBytes;
  std::uint32_t word = 0;
  std::memcpy(&word, from + 512 + 8 * lane + 4 * half, 4);
  ReadBlock block;
  block.place = word & 2047u;
  const int zero = static_cast<int>(word >> 11 & 15u);
  block.ends = (word >> 15 & 1u) != 0;
  block.scale = core::to_float(core::Fp16{static_cast<std::uint16_t>(word >> 16)});
  for (std::int64_t i = 0; i < kSparseInputs; ++i) {
    const auto byte = static_cast<unsigned>(from[16 * lane + 8 * half + i / 2]);
    const int code = static_cast<int>(byte >> (4 * (i % 2)) & 15u);
    block.values[static_cast<std::size_t>(i)] = block.scale * static_cast<float>(code - zero);
  }
  return block;
}

/// What the kernels make of the layout: dense rows, and for each how many of its pieces streams
/// left.
struct Walked {
  std::vector<float> values;  // [n][k]
  std::vector<int> pieces;    // [n]
  std::int64_t octets = 0;
  std::int64_t conflicts = 0;  // reads of one bank beyond the first in an octet
};

class Walk {
 public:
  explicit Walk(const PackedSparse& packed) : packed_(packed) {
    walked_.values.resize(static_cast<std::size_t>(packed.n * packed.k));
    walked_.pieces.resize(static_cast<std::size_t>(packed.n));
  }

  Walked run() {
    const int log2 = std::countr_zero(static_cast<unsigned>(packed_.plan.warps));
    for (std::int64_t block = 0; block < packed_.plan.blocks; ++block) {
      const SparseShare& share = packed_.shares[static_cast<std::size_t>(block)];
      const std::int64_t streams = packed_.plan.warps * 4;
      left_.assign(static_cast<std::size_t>(streams + packed_.most_rows + 1), 0);
      for (std::int64_t stream = 0; stream < streams; ++stream) {
        const std::int32_t units = warp_units(share.units, static_cast<int>(stream / 4), log2);
        if (units > 0) {
          first_unit_ = (block * packed_.plan.warps + stream / 4) * packed_.stride;
          walk_stream(share, stream, units,
                      packed_.stream_rows[static_cast<std::size_t>(block * streams + stream)]);
        }
      }
      count_pieces(share);
    }
    return walked_;
  }

 private:
  void walk_stream(const SparseShare& share, std::int64_t stream, std::int64_t units,
                   std::int64_t row) {
    for (std::int64_t octet = 0; octet < 2 * units; ++octet) {
      ++walked_.octets;
      std::array<std::set<std::int64_t>, 8> banks;
      bool ends = false;
      for (std::int64_t lane = 0; lane < 8; ++lane) {
        const ReadBlock block =
            read_block(packed_, first_unit_ + octet / 2, stream % 4 * 8 + lane, octet % 2);
        EXPECT_TRUE(lane == 0 || ends == block.ends);
        ends = block.ends;
        banks[static_cast<std::size_t>(block.place % 8)].insert(block.place);
        add(share.first_row + row, row < share.rows, block);
      }
      std::size_t most = 0;
      for (const auto& bank : banks) {
        most = std::max(most, bank.size());
      }
      walked_.conflicts += static_cast<std::int64_t>(most) - 1;
      EXPECT_TRUE(ends || octet + 1 < 2 * units) << "a stream ends without leaving its piece";
      if (ends) {
        ++left_[static_cast<std::size_t>(stream + row)];
        ++row;
      }
    }
  }

  void add(std::int64_t row, bool exists, const ReadBlock& block) {
    if (block.scale == 0.0f) {
      return;
    }
    ASSERT_TRUE(exists);
    for (std::int64_t i = 0; i < kSparseInputs; ++i) {
      const auto at = static_cast<std::size_t>(row * packed_.k + block.place * kSparseInputs + i);
      walked_.values[at] += block.values[static_cast<std::size_t>(i)];
    }
  }

  // Each piece was left once, and is of one row.
  void count_pieces(const SparseShare& share) {
    for (std::int32_t row = 0; row < share.rows; ++row) {
      const auto at = static_cast<std::size_t>(share.first_row + row);
      const RowPieces pieces = pieces_of(packed_.rows[at]);
      for (std::uint32_t i = 0; i < pieces.count; ++i) {
        EXPECT_EQ(left_[pieces.first + i], 1) << "row " << at;
        left_[pieces.first + i] = 1000;
      }
      walked_.pieces[at] = static_cast<int>(pieces.count);
    }
    for (std::int64_t piece = 0; piece < std::ssize(left_); ++piece) {
      const int count = left_[static_cast<std::size_t>(piece)];
      EXPECT_TRUE(count == 0 || count == 1000 || piece >= share.rows) << "piece of no row";
    }
  }

  const PackedSparse& packed_;
  Walked walked_;
  std::vector<int> left_;
  std::int64_t first_unit_ = 0;
};

std::vector<float> rows_of(const std::vector<PackedWeight>& weights, const UnitRows& rows) {
  const std::int64_t k = weights.front().k;
  std::vector<float> values(static_cast<std::size_t>(rows.count() * k));
  for (std::int64_t row = 0; row < rows.count(); ++row) {
    const UnitRows::Place place = rows.place(row);
    formats::decode_row(
        weights[place.weight], place.row,
        std::span(values).subspan(static_cast<std::size_t>(row * k), static_cast<std::size_t>(k)));
  }
  return values;
}

UnitRows unit_rows(const std::vector<PackedWeight>& weights, bool pairs) {
  UnitRows rows{{}, pairs};
  for (const PackedWeight& weight : weights) {
    rows.weights.push_back(&weight);
  }
  return rows;
}

TEST(SparsePacker, KeepsEveryGroupOnce) {
  core::ThreadPool pool(2);
  struct Size {
    std::int64_t n, k;
    SparsePlan plan;
  };
  const Size sizes[] = {{1, 64, {1, 1}},      {3, 128, {2, 4}},     {17, 576, {5, 2}},
                        {40, 64, {7, 8}},     {64, 1536, {3, 16}},  {33, 1984, {33, 32}},
                        {20, 19200, {4, 16}}, {20, 32768, {1, 32}}, {96, 320, {4, 4, true}}};
  std::uint64_t seed = 1;
  for (const std::string scheme :
       {"int4-asym-g16-bsr", "int4-sym-g16-bsr", "int4-asym-g32-bsr", "int4-asym-g64-bsr",
        "int3-asym-g16-bsr", "int3-sym-g32-bsr", "int2-asym-g16-bsr", "int4-asym-g16-bsr-a8",
        "int4-asym-g16-s7-bsr", "int8-asym-g16-bsr", "int8-sym-g32-bsr"}) {
    for (const Size& size : sizes) {
      const std::vector<PackedWeight> weights = {sparse_weight(scheme, size.n, size.k, ++seed)};
      const UnitRows rows = unit_rows(weights, false);
      const PackedSparse packed = pack_sparse(rows, size.plan, pool);
      EXPECT_EQ(Walk(packed).run().values, rows_of(weights, rows))
          << scheme << " " << size.n << " x " << size.k;
    }
  }
}

TEST(SparsePacker, HasRowsOfSeveralWeights) {
  core::ThreadPool pool(1);
  for (const bool pairs : {false, true}) {
    const std::vector<PackedWeight> weights = {sparse_weight("int4-asym-g16-bsr", 24, 512, 3),
                                               sparse_weight("int4-asym-g16-bsr", 24, 512, 4)};
    const UnitRows rows = unit_rows(weights, pairs);
    EXPECT_EQ(Walk(pack_sparse(rows, {5, 4}, pool)).run().values, rows_of(weights, rows));
  }
}

TEST(SparsePacker, EmptyAndFullRowsTakeTheirPlace) {
  core::ThreadPool pool(1);
  for (const double share : {0.0, 1.0}) {
    const std::vector<PackedWeight> weights = {
        sparse_weight("int4-asym-g16-bsr", 50, 1024, 5, [&](std::int64_t) { return share; })};
    const UnitRows rows = unit_rows(weights, false);
    const Walked walked = Walk(pack_sparse(rows, {4, 8}, pool)).run();
    EXPECT_EQ(walked.values, rows_of(weights, rows));
    for (const int pieces : walked.pieces) {
      EXPECT_GE(pieces, 1);
    }
    // At least one octet for each row; a unit, of eight, is not always full.
    const std::int64_t wanted = 50 * (share == 0.0 ? 1 : 1024 / 16 / 8);
    EXPECT_GE(walked.octets, wanted);
    EXPECT_LT(walked.octets, wanted + 4 * 8);
  }
}

// Rows of very unequal length: a thread block has at most about one row more than its share.
TEST(SparsePacker, SharesOctetsEqually) {
  core::ThreadPool pool(1);
  const std::vector<PackedWeight> weights = {sparse_weight(
      "int4-asym-g16-bsr", 600, 2048, 6, [](std::int64_t row) { return row < 100 ? 1.0 : 0.1; })};
  const UnitRows rows = unit_rows(weights, false);
  const auto spread = [&](bool by_rows) {
    const PackedSparse packed = pack_sparse(rows, {20, 4, by_rows}, pool);
    std::int32_t most = 0;
    std::int64_t all = 0;
    for (const SparseShare& share : packed.shares) {
      most = std::max(most, share.units);
      all += share.units;
    }
    return static_cast<double>(most) * 20 / static_cast<double>(all);
  };
  EXPECT_LT(spread(false), 1.12);
  EXPECT_GT(spread(true), 2.0);
}

TEST(SparsePacker, BlocksOfAnOctetLieInOtherBanks) {
  core::ThreadPool pool(1);
  const std::vector<PackedWeight> weights = {
      sparse_weight("int4-asym-g16-bsr", 64, 4096, 7, [](std::int64_t) { return 0.5; })};
  const Walked walked = Walk(pack_sparse(unit_rows(weights, false), {2, 4}, pool)).run();
  EXPECT_LT(static_cast<double>(walked.conflicts) / static_cast<double>(walked.octets), 0.4);
}

TEST(SparsePacker, RefusesWhatDoesNotFit) {
  core::ThreadPool pool(1);
  const auto refusal = [](const char* scheme, std::int64_t k) {
    const Refusal refused = sparse_layout_refusal(formats::parse_scheme(scheme), k);
    return refused ? refused->text() : "";
  };
  EXPECT_EQ(refusal("int4-asym-g16-bsr", 32768), "");
  EXPECT_EQ(refusal("int4-asym-g16-bsr", 32784), "rows of 32784 inputs; it takes up to 32768");
  EXPECT_EQ(refusal("int8-asym-g16-bsr", 64), "");
  EXPECT_EQ(refusal("lut4-row-g16-bsr", 64),
            "codes are entries of a book; it takes integers of up to 8 bits");
  EXPECT_EQ(refusal("int4-asym-g8-bsr", 64), "groups of 8 inputs; it takes 16, 32 and 64");
  EXPECT_EQ(refusal("int4-asym-g16", 64), "weights are no block-sparse rows");
  EXPECT_EQ(refusal("f16-g16-bsr", 64), "weights are floats; it takes codes of up to 8 bits");
  std::vector<PackedWeight> weights = {sparse_weight("lut4-row-g16-bsr", 4, 64, 1)};
  EXPECT_THROW(pack_sparse(unit_rows(weights, false), {1, 1}, pool), core::Error);
  // 16 times a scale is a float16, too.
  for (const auto& [scale, fits] : {std::pair{4094.0f, true}, {4096.0f, false}}) {
    weights = {sparse_weight("int8-asym-g16-bsr", 4, 64, 1)};
    for (core::Fp16& value : weights[0].scales.mutable_data<core::Fp16>()) {
      value = core::to_fp16(scale);
    }
    const UnitRows rows = unit_rows(weights, false);
    if (fits) {
      EXPECT_EQ(Walk(pack_sparse(rows, {1, 1}, pool)).run().values, rows_of(weights, rows));
    } else {
      EXPECT_THROW(pack_sparse(rows, {1, 1}, pool), core::Error);
    }
  }
  const std::vector<PackedWeight> known = {sparse_weight("int4-asym-g16-bsr", 4, 64, 1)};
  for (const SparsePlan& plan : {SparsePlan{0, 4}, {kMostSparseBlocks + 1, 4}, {2, 3}, {2, 64}}) {
    EXPECT_THROW(pack_sparse(unit_rows(known, false), plan, pool), core::Error);
  }
}

TEST(SparsePlan, HasAThreadBlockForEachMultiprocessor) {
  EXPECT_EQ(sparse_plan(4096, 132).blocks, 132);
  EXPECT_EQ(sparse_plan(5, 132).blocks, 5);
  EXPECT_EQ(sparse_plan(4096, kMostSparseBlocks + 1).blocks, kMostSparseBlocks);
}

}  // namespace
}  // namespace nibble::ops::cuda
