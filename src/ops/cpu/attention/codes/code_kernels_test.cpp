#include "ops/cpu/attention/codes/code_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "core/random.h"
#include "core/random_values_for_tests.h"

namespace nibble::ops::cpu {
namespace {

constexpr std::int64_t kDims[] = {2, 8, 16, 20, 24, 40, 64, 80, 128, 256};
constexpr std::int64_t kLd = 40;

std::vector<const CodeKernels*> runnable() {
  std::vector<const CodeKernels*> found;
  for (const CodeKernels* kernels : all_code_kernels()) {
    if (kernels->runs_here()) {
      found.push_back(kernels);
    }
  }
  return found;
}

// A page of random codes and ranges.
struct Page {
  Page(std::int64_t bytes, std::uint64_t seed) : codes(static_cast<std::size_t>(bytes)) {
    core::Random random(seed);
    for (std::uint8_t& byte : codes) {
      byte = static_cast<std::uint8_t>(random.below(256));
    }
    for (int t = 0; t < 16; ++t) {
      steps.push_back(core::to_fp16(0.01f + 0.05f * static_cast<float>(random.uniform())));
      smallest.push_back(core::to_fp16(random.normal()));
    }
  }
  std::vector<std::uint8_t> codes;
  std::vector<core::Fp16> steps;
  std::vector<core::Fp16> smallest;
};

struct Scores {
  std::vector<float> out;
  std::vector<std::int64_t> sums;
};

// Four rows of queries and a page of keys; queries are multiples of 1/64, so that the integers
// 64 q are known.
Scores score(const CodeKernels& kernels, int bits, std::int64_t dim, std::int64_t rows,
             const Page& page, const std::vector<float>& q) {
  const std::int64_t padded = rounded_up(dim, 16);
  std::vector<std::int32_t> words(static_cast<std::size_t>(rows * padded / 2));
  std::vector<float> factors;
  std::vector<float> sums;
  Scores scores;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::vector<float> row(static_cast<std::size_t>(padded));
    std::copy_n(q.begin() + r * dim, dim, row.begin());
    scores.sums.push_back(kernels.pack(row.data(), padded, 64.0f, words.data() + r * padded / 2));
    sums.push_back(static_cast<float>(scores.sums.back()));
    factors.push_back(0.5f + static_cast<float>(r));
  }
  scores.out.assign(static_cast<std::size_t>(rows * kLd), 7.0f);
  const KeyPage problem = {
      page.codes.data(),    page.codes.data(), page.steps.data(), page.smallest.data(),
      key_quads(bits, dim), words.data(),      padded / 2,        rows,
      factors.data(),       sums.data(),       scores.out.data(), kLd};
  (bits == 8 ? kernels.score8 : kernels.score4)(problem);
  return scores;
}

// Integers of both signs to the ends of their range.
std::vector<float> queries(std::int64_t count) {
  core::Random random(5);
  std::vector<float> q;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t integer = random.below(2 * kLargestInteger + 1) - kLargestInteger;
    q.push_back(static_cast<float>(integer) / 64.0f);
  }
  q[0] = kLargestInteger / 64.0f;
  q[1] = -kLargestInteger / 64.0f;
  return q;
}

TEST(CodeKernels, ScoresAreThoseOfPlainLoops) {
  for (const std::int64_t dim : kDims) {
    for (const int bits : {8, 4}) {
      const Page page(key_code_bytes(bits, dim), 3);
      const std::vector<float> q = queries(kCodeRows * dim);
      for (std::int64_t rows = 1; rows <= kCodeRows; ++rows) {
        const Scores plain = score(code_kernels_plain(), bits, dim, rows, page, q);
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t t = 0; t < kLd; ++t) {
            const float out = plain.out[static_cast<std::size_t>(r * kLd + t)];
            if (t >= 16) {
              EXPECT_EQ(out, 7.0f) << "nothing is written behind a page";
              continue;
            }
            const auto token = static_cast<std::size_t>(t);
            double product = 0;
            double sum = 0;
            for (std::int64_t d = 0; d < dim; ++d) {
              const double integer = 64.0 * q[static_cast<std::size_t>(r * dim + d)];
              product += integer * code_at(page.codes.data(), key_code_place(bits, t, d), bits);
              sum += integer;
            }
            const double step = core::to_float(page.steps[token]);
            const double smallest = core::to_float(page.smallest[token]);
            const double right = (0.5 + static_cast<double>(r)) * (step * product + smallest * sum);
            const double size = std::fabs(step * product) + std::fabs(smallest * sum);
            EXPECT_NEAR(out, right, 1e-6 * (1.0 + static_cast<double>(r)) * size);
            EXPECT_EQ(static_cast<double>(plain.sums[static_cast<std::size_t>(r)]), sum);
          }
        }
        for (const CodeKernels* kernels : runnable()) {
          const Scores scores = score(*kernels, bits, dim, rows, page, q);
          EXPECT_EQ(scores.out, plain.out) << kernels->isa << ' ' << dim << ' ' << bits;
          EXPECT_EQ(scores.sums, plain.sums) << kernels->isa;
        }
      }
    }
  }
}

struct Mixture {
  std::vector<float> out;
  std::vector<float> offsets;
};

Mixture mix(const CodeKernels& kernels, int bits, std::int64_t dim, std::int64_t rows,
            const std::vector<Page>& pages, const std::vector<float>& weights) {
  ValueChunk chunk = {};
  chunk.pages = std::ssize(pages);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    chunk.codes[i] = pages[i].codes.data();
    chunk.steps[i] = pages[i].steps.data();
    chunk.smallest[i] = pages[i].smallest.data();
  }
  chunk.lanes = rounded_up(dim, 16);
  chunk.weights = weights.data();
  chunk.ldw = kChunkTokens;
  chunk.rows = rows;
  chunk.ldo = chunk.lanes;
  Mixture mixture = {std::vector<float>(static_cast<std::size_t>(rows * chunk.lanes), 0.25f),
                     std::vector<float>(static_cast<std::size_t>(rows * 16), 0.5f)};
  chunk.out = mixture.out.data();
  chunk.offsets = mixture.offsets.data();
  (bits == 8 ? kernels.mix8 : kernels.mix4)(chunk);
  return mixture;
}

// Tokens that are not seen have weight 0 and whatever range.
TEST(CodeKernels, MixturesAreThoseOfPlainLoops) {
  const float nan = std::nanf("");
  for (const std::int64_t dim : kDims) {
    for (const int bits : {8, 4}) {
      for (std::int64_t count = 1; count <= kChunkPages; ++count) {
        std::vector<Page> pages;
        for (std::int64_t i = 0; i < count; ++i) {
          pages.emplace_back(value_code_bytes(bits, dim), 20 + static_cast<std::uint64_t>(i));
        }
        std::vector<float> weights = core::normal_values(kCodeRows * kChunkTokens, 7);
        for (float& weight : weights) {
          weight = std::exp(3.0f * weight);
        }
        const std::int64_t seen = 16 * count - 5;
        for (std::int64_t r = 0; r < kCodeRows; ++r) {
          std::fill_n(weights.begin() + r * kChunkTokens + seen, kChunkTokens - seen, 0.0f);
        }
        for (int t = 11; t < 16; ++t) {
          pages.back().steps[static_cast<std::size_t>(t)] = core::to_fp16(nan);
          pages.back().smallest[static_cast<std::size_t>(t)] = core::to_fp16(INFINITY);
        }
        const std::int64_t rows = 1 + (count + dim / 2) % kCodeRows;
        const Mixture plain = mix(code_kernels_plain(), bits, dim, rows, pages, weights);
        const std::int64_t lanes = rounded_up(dim, 16);
        for (std::int64_t r = 0; r < rows; ++r) {
          double most = 0;
          for (std::int64_t t = 0; t < seen; ++t) {
            const Page& page = pages[static_cast<std::size_t>(t / 16)];
            most = std::max(most, double{weights[static_cast<std::size_t>(r * kChunkTokens + t)]} *
                                      core::to_float(page.steps[static_cast<std::size_t>(t % 16)]));
          }
          for (std::int64_t d = 0; d < dim; ++d) {
            double sum = 0.25;
            double codes = 0;
            for (std::int64_t t = 0; t < seen; ++t) {
              const Page& page = pages[static_cast<std::size_t>(t / 16)];
              const int code = code_at(page.codes.data(), value_code_place(bits, t % 16, d), bits);
              sum += double{weights[static_cast<std::size_t>(r * kChunkTokens + t)]} *
                     core::to_float(page.steps[static_cast<std::size_t>(t % 16)]) * code;
              codes += code;
            }
            const double rounding = 0.501 * most / kLargestInteger * codes;
            EXPECT_NEAR(plain.out[static_cast<std::size_t>(r * lanes + d)], sum,
                        rounding + 1e-6 * sum);
          }
          for (std::int64_t lane = 0; lane < 16; ++lane) {
            double sum = 0.5;
            double size = 0.5;
            for (std::int64_t t = lane; t < seen; t += 16) {
              const Page& page = pages[static_cast<std::size_t>(t / 16)];
              const double offset =
                  double{weights[static_cast<std::size_t>(r * kChunkTokens + t)]} *
                  core::to_float(page.smallest[static_cast<std::size_t>(lane)]);
              sum += offset;
              size += std::fabs(offset);
            }
            EXPECT_NEAR(plain.offsets[static_cast<std::size_t>(r * 16 + lane)], sum, 1e-6 * size);
          }
        }
        for (const CodeKernels* kernels : runnable()) {
          const Mixture mixture = mix(*kernels, bits, dim, rows, pages, weights);
          EXPECT_EQ(mixture.out, plain.out) << kernels->isa << ' ' << dim << ' ' << bits;
          EXPECT_EQ(mixture.offsets, plain.offsets) << kernels->isa;
        }
      }
    }
  }
}

// Weights too small for a scale of their own, and none at all.
TEST(CodeKernels, TinyWeightsAddNothing) {
  const std::vector<Page> pages = {Page(value_code_bytes(8, 16), 4)};
  for (const float weight : {0.0f, 1e-38f, 1e-45f}) {
    const std::vector<float> weights(kChunkTokens, weight);
    for (const CodeKernels* kernels : runnable()) {
      EXPECT_EQ(mix(*kernels, 8, 16, 1, pages, weights).out, std::vector<float>(16, 0.25f))
          << kernels->isa;
    }
  }
}

TEST(CodeKernels, CodesAreThoseOfPlainLoops) {
  for (const std::int64_t n : {1, 2, 7, 8, 15, 16, 17, 31, 64, 100}) {
    for (const int levels : {255, 15}) {
      for (const float broken : {0.0f, std::nanf(""), INFINITY, -INFINITY}) {
        std::vector<float> x = core::normal_values(n, 6);
        if (broken != 0.0f) {
          x[static_cast<std::size_t>(n / 2)] = broken;
        }
        for (const CodeKernels* kernels : runnable()) {
          std::vector<std::uint8_t> codes(static_cast<std::size_t>(n), 99);
          core::Fp16 step;
          core::Fp16 from;
          kernels->encode(x.data(), n, levels, codes.data(), &step, &from);
          if (broken != 0.0f) {
            EXPECT_TRUE(std::isnan(core::to_float(from))) << kernels->isa;
            EXPECT_EQ(codes, std::vector<std::uint8_t>(static_cast<std::size_t>(n)));
            continue;
          }
          const auto [low, high] = std::minmax_element(x.begin(), x.end());
          EXPECT_EQ(from, core::to_fp16(*low));
          const float begin = core::to_float(from);
          EXPECT_EQ(step, core::to_fp16((*high - begin) / static_cast<float>(levels)));
          const float inverse = core::to_float(step) > 0 ? 1.0f / core::to_float(step) : 0.0f;
          for (std::size_t i = 0; i < x.size(); ++i) {
            const float code = std::nearbyint((x[i] - begin) * inverse);
            EXPECT_EQ(codes[i], std::clamp(code, 0.0f, static_cast<float>(levels)))
                << kernels->isa << ' ' << n << ' ' << i;
          }
        }
      }
    }
  }
}

TEST(CodeKernels, LastRunnableIsTaken) {
  EXPECT_EQ(&code_kernels(), runnable().back());
}

}  // namespace
}  // namespace nibble::ops::cpu
