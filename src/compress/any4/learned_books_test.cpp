#include "compress/any4/learned_books.h"

#include <algorithm>
#include <utility>

#include <gtest/gtest.h>

#include "compress/block/layer_for_tests.h"
#include "compress/gptq/gptq.h"
#include "compress/refine/refine.h"
#include "compress/search/group_search.h"
#include "formats/block_sparse.h"

namespace nibble::compress {
namespace {

constexpr std::int64_t kOutputs = 12;
constexpr std::int64_t kInputs = 320;

// sum over j of E[x_j^2] (w - decoded)^2
double diagonal_loss(const std::vector<float>& w, const formats::PackedWeight& packed,
                     const std::vector<float>& mean_squares) {
  std::vector<float> row(static_cast<std::size_t>(packed.k));
  double total = 0;
  for (std::int64_t i = 0; i < packed.n; ++i) {
    formats::decode_row(packed, i, row);
    for (std::size_t j = 0; j < row.size(); ++j) {
      const double error = w[static_cast<std::size_t>(i * packed.k) + j] - row[j];
      total += mean_squares[j] * error * error;
    }
  }
  return total;
}

std::vector<float> uneven_energies() {
  std::vector<float> energies = core::normal_values(kInputs, 9);
  for (float& energy : energies) {
    energy = energy * energy + 0.01f;
  }
  return energies;
}

formats::PackedWeight any4(const std::vector<float>& w, const char* scheme_text,
                           const std::vector<float>& mean_squares, const BookOptions& options,
                           int threads = 2) {
  core::ThreadPool pool(threads);
  const Backend backend(pool);
  const formats::Scheme scheme = formats::parse_scheme(scheme_text);
  const auto n = static_cast<std::int64_t>(w.size()) / kInputs;
  return pack(round_with(w, n, kInputs, scheme,
                         learn_books(w, n, kInputs, scheme, mean_squares, options, backend), pool),
              n, kInputs, scheme);
}

TEST(LearnedBooks, AreExactForWeightsOfFewValues) {
  std::vector<float> w(kOutputs * kInputs);
  for (std::size_t i = 0; i < w.size(); ++i) {
    w[i] = static_cast<float>(static_cast<int>(i * 7 % 15) - 8) / 8.0f;
  }
  const std::vector<float> ones(kInputs, 1.0f);
  for (const char* scheme : {"lut4-row-g64", "lut4-matrix-row"}) {
    EXPECT_LT(diagonal_loss(w, any4(w, scheme, ones, {}), ones), 1e-9) << scheme;
  }
}

TEST(LearnedBooks, OfEightAndFourValuesAreExactForThatManyValues) {
  const std::vector<float> ones(kInputs, 1.0f);
  for (const int bits : {3, 2}) {
    const int most = (1 << bits) - 1;
    std::vector<float> w(kOutputs * kInputs);
    for (std::size_t i = 0; i < w.size(); ++i) {
      const int value = static_cast<int>(i * 5 % static_cast<std::size_t>(most)) - (most + 1) / 2;
      w[i] = static_cast<float>(value) / 8.0f;
    }
    for (const char* rest : {"row-g64", "matrix-row"}) {
      const std::string scheme = fmt::format("lut{}-{}", bits, rest);
      const auto packed = any4(w, scheme.c_str(), ones, {});
      EXPECT_LT(diagonal_loss(w, packed, ones), 1e-9) << scheme;
      EXPECT_EQ(packed.book.dim(1), 1 << bits);
    }
  }
}

// In the same number of bits they lose less than integers whose scales were searched.
TEST(LearnedBooks, OfEightAndFourValuesLoseLessThanIntegers) {
  const auto w = core::normal_values(kOutputs * kInputs, 4);
  const auto energies = uneven_energies();
  double last = diagonal_loss(w, any4(w, "lut4-row-g64", energies, {}), energies);
  for (const int bits : {3, 2}) {
    const std::string integers = fmt::format("int{}-sym-g64", bits);
    const std::string book = fmt::format("lut{}-row-g64", bits);
    const auto format = formats::make_format(formats::parse_scheme(integers));
    GroupSearch search(32);
    double searched = 0;
    for (std::size_t at = 0; at < w.size(); at += 64) {
      searched += search
                      .search(*format, std::span(w).subspan(at, 64),
                              std::span(energies).subspan(at % kInputs, 64))
                      .loss;
    }
    const double learned = diagonal_loss(w, any4(w, book.c_str(), energies, {}), energies);
    EXPECT_LT(learned, 0.9 * searched) << book;
    EXPECT_GT(learned, 2 * last) << book;
    last = learned;
  }
}

TEST(LearnedBooks, LoseLessThanFixedOnesAndLessWithEveryRound) {
  const auto w = core::normal_values(kOutputs * kInputs, 4);
  const auto energies = uneven_energies();
  const formats::Scheme nf4 = formats::parse_scheme("lut4-nf4-g64");
  const double fixed =
      diagonal_loss(w, formats::round_to_nearest(w, kOutputs, kInputs, nf4), energies);
  for (const char* scheme : {"lut4-row-g64", "lut4-matrix-g64"}) {
    double last = fixed;
    for (const int rounds : {0, 1, 3}) {
      BookOptions options;
      options.rounds = rounds;
      const double now = diagonal_loss(w, any4(w, scheme, energies, options), energies);
      EXPECT_LT(now, last * (rounds == 0 ? 0.95 : 1.0)) << scheme << " " << rounds;
      last = now;
    }
  }
}

TEST(LearnedBooks, ExactWeightsBeatFirstPowers) {
  const auto w = core::normal_values(kOutputs * kInputs, 5);
  const auto energies = uneven_energies();
  const BookOptions root{BookWeights::kRoot, 0, 1};
  const BookOptions exact{BookWeights::kExact, 0, 1};
  EXPECT_LT(diagonal_loss(w, any4(w, "lut4-row-g64", energies, exact), energies),
            diagonal_loss(w, any4(w, "lut4-row-g64", energies, root), energies));
}

// Half of the groups of most rows are pruned; row 3 is empty. What is learned of a row is what is
// learned of a row that has only its kept groups.
TEST(LearnedBooks, OfBlockSparseRowsAreThoseOfTheKeptGroups) {
  constexpr std::int64_t kGroup = 16;
  constexpr std::int64_t kGroups = kInputs / kGroup;
  const auto is_kept = [](std::int64_t row, std::int64_t g) {
    return row != 3 && (row == 5 || (row + g) % 2 == 0);
  };
  auto w = core::normal_values(kOutputs * kInputs, 12);
  for (std::int64_t at = 0; at < std::ssize(w); ++at) {
    w[static_cast<std::size_t>(at)] *= is_kept(at / kInputs, at % kInputs / kGroup) ? 1.0f : 0.0f;
  }
  const auto energies = uneven_energies();
  core::ThreadPool pool(2);
  const Backend backend(pool);
  const auto learned = [&](const char* scheme, std::span<const float> weights, std::int64_t n,
                           std::span<const float> mean_squares) {
    return learn_books(weights, n, std::ssize(mean_squares), formats::parse_scheme(scheme),
                       mean_squares, {}, backend);
  };
  for (const auto& [scheme, dense] : {std::pair{"lut4-row-g16-bsr", "lut4-row-g16"},
                                      {"lut3-matrix-g16-bsr", "lut3-matrix-g16"}}) {
    const Parameters parameters = learned(scheme, w, kOutputs, energies);
    for (std::int64_t at = 0; at < kOutputs * kGroups; ++at) {
      EXPECT_EQ(parameters.groups[static_cast<std::size_t>(at)].scale != 0,
                is_kept(at / kGroups, at % kGroups))
          << scheme << " " << at;
    }
    const auto packed = any4(w, scheme, energies, {});
    EXPECT_EQ(formats::stored_group_count(packed), (kOutputs - 2) * kGroups / 2 + kGroups);
    const auto size = static_cast<std::size_t>(packed.book.dim(1));
    for (std::int64_t row = 0; row < packed.book.dim(0); ++row) {
      const std::span book =
          std::span(parameters.books).subspan(static_cast<std::size_t>(row) * size, size);
      if (row == 3) {
        EXPECT_EQ(book.back(), 1.0f);
        continue;
      }
      if (packed.book.dim(0) == 1) {
        EXPECT_LE(diagonal_loss(w, packed, energies),
                  1.001 * diagonal_loss(w, any4(w, dense, energies, {}), energies));
        continue;
      }
      std::vector<float> weights;
      std::vector<float> mean_squares;
      for (std::int64_t j = 0; j < kInputs; ++j) {
        if (is_kept(row, j / kGroup)) {
          weights.push_back(w[static_cast<std::size_t>(row * kInputs + j)]);
          mean_squares.push_back(energies[static_cast<std::size_t>(j)]);
        }
      }
      const Parameters alone = learned(dense, weights, 1, mean_squares);
      EXPECT_TRUE(std::equal(book.begin(), book.end(), alone.books.begin())) << row;
    }
  }
}

TEST(LearnedBooks, TakeRowsOfZerosAndInputsWithoutEnergy) {
  auto w = core::normal_values(2 * kInputs, 6);
  std::fill(w.begin(), w.begin() + kInputs, 0.0f);
  std::vector<float> energies(kInputs, 0.0f);
  energies[3] = 2.0f;
  const auto packed = any4(w, "lut4-row-g64", energies, {});
  std::vector<float> row(kInputs);
  formats::decode_row(packed, 0, row);
  EXPECT_EQ(row, std::vector<float>(kInputs, 0.0f));
  EXPECT_LT(diagonal_loss(w, packed, energies), 1e-6);
}

// What is stored decodes to the values that GPTQ and refine reckoned with.
TEST(LearnedBooks, DecodeFromTheStoredFormToWhatTheMethodsSaw) {
  const auto w = core::normal_values(kOutputs * kInputs, 10);
  const auto hessian = correlated_hessian(kInputs, 400, 11);
  core::ThreadPool pool(2);
  const Backend backend(pool);
  for (const char* text : {"lut4-row-g64", "lut4-matrix-g64", "lut3-row-g64", "lut2-matrix-g64"}) {
    const formats::Scheme scheme = formats::parse_scheme(text);
    CodedWeight coded =
        gptq(w, kOutputs, kInputs, scheme,
             learn_books(w, kOutputs, kInputs, scheme, uneven_energies(), {}, backend),
             inverse_factor(hessian, kInputs, 0.01, true), pool);
    refine(coded, w, kOutputs, kInputs, scheme, symmetric_hessian(hessian, kInputs, 0.01), {},
           pool);
    const auto packed = pack(coded, kOutputs, kInputs, scheme);
    EXPECT_EQ(unpack(packed).codes, coded.codes);
    EXPECT_EQ(unpack(packed).parameters.books, coded.parameters.books);
    const RowFormats row_formats(scheme, coded.parameters);
    std::vector<float> row(kInputs);
    for (std::int64_t i = 0; i < kOutputs; ++i) {
      formats::decode_row(packed, i, row);
      for (std::int64_t j = 0; j < kInputs; ++j) {
        const auto& group = coded.parameters.groups[static_cast<std::size_t>(i * 5 + j / 64)];
        ASSERT_EQ(row[static_cast<std::size_t>(j)],
                  row_formats.of(i).decode(coded.codes[static_cast<std::size_t>(i * kInputs + j)],
                                           group));
      }
    }
  }
}

TEST(LearnedBooks, ThreadsDoNotChangeTheResult) {
  const auto w = core::normal_values(kOutputs * kInputs, 7);
  for (const char* scheme : {"lut4-row-g64", "lut4-matrix-g64"}) {
    const auto one = unpack(any4(w, scheme, uneven_energies(), {}, 1));
    const auto two = unpack(any4(w, scheme, uneven_energies(), {}, 2));
    EXPECT_EQ(one.codes, two.codes);
    EXPECT_EQ(one.parameters.books, two.parameters.books);
  }
}

TEST(LearnedBooks, RefuseWeightsThatAreNotFinite) {
  auto w = core::normal_values(kInputs, 8);
  w[17] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW((void)any4(w, "lut4-row-g64", uneven_energies(), {}), core::Error);
}

}  // namespace
}  // namespace nibble::compress
