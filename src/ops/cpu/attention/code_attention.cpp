#include "ops/cpu/attention/code_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/cpu/attention/codes/code_kernels.h"

namespace nibble::ops::cpu {
namespace {

// The largest integer of a query: sums of products with codes fit 32 bits.
int largest_integer(std::int64_t head_dim) {
  constexpr std::int64_t kMostSum = std::numeric_limits<std::int32_t>::max();
  return static_cast<int>(std::min<std::int64_t>(kLargestInteger, kMostSum / (255 * head_dim)));
}

const std::uint8_t* codes_of(const KvView& view) {
  return static_cast<const std::uint8_t*>(view.data);
}

}  // namespace

void QueryCodes::start(std::int64_t rows, std::int64_t head_dim) {
  head_dim_ = head_dim;
  padded_ = rounded_up(head_dim, kCodeLanes);
  q_.assign(static_cast<std::size_t>(padded_), 0.0f);
  words_.resize(static_cast<std::size_t>(rows * padded_ / 2));
  factors_.resize(static_cast<std::size_t>(rows));
  sums_.resize(static_cast<std::size_t>(rows));
}

void QueryCodes::set(std::int64_t row, const float* q, float scale) {
  std::copy_n(q, head_dim_, q_.begin());
  float largest = 0.0f;
  bool finite = true;
  for (const float value : q_) {
    largest = std::max(largest, std::fabs(value));
    finite = finite && std::isfinite(value);
  }
  const auto levels = static_cast<float>(largest_integer(head_dim_));
  // Queries whose inverse is no number are as good as 0.
  const float inverse = finite && largest >= 1e-30f ? levels / largest : 0.0f;
  if (inverse == 0.0f) {
    std::fill(q_.begin(), q_.end(), 0.0f);
  }
  const std::int64_t sum =
      code_kernels().pack(q_.data(), padded_, inverse, words_.data() + row * padded_ / 2);
  const auto at = static_cast<std::size_t>(row);
  factors_[at] = finite ? largest / levels * scale : std::nanf("");
  sums_[at] = static_cast<float>(sum);
}

void QueryCodes::score(const KvPages& keys, std::int64_t row, std::int64_t rows, std::int64_t begin,
                       std::int64_t end, std::int64_t origin, float* scores,
                       std::int64_t ld) const {
  const int bits = code_bits(keys.type);
  const auto run = bits == 8 ? code_kernels().score8 : code_kernels().score4;
  KeyPage page{};
  page.quads = key_quads(bits, head_dim_);
  page.word_stride = padded_ / 2;
  page.ldo = ld;
  const std::int64_t last = (end - 1) / keys.page_tokens;
  for_each_page(keys, begin, end,
                [&](const KvView& view, std::int64_t at, std::int64_t from, std::int64_t) {
                  const std::int64_t index = at / keys.page_tokens;
                  page.codes = codes_of(view);
                  page.next = codes_of(keys.page(std::min(index + 1, last)));
                  page.steps = view.steps;
                  page.smallest = view.smallest;
                  for (std::int64_t r = row; r < row + rows; r += kCodeRows) {
                    page.rows = std::min(kCodeRows, row + rows - r);
                    page.words = words_.data() + r * page.word_stride;
                    page.factors = factors_.data() + r;
                    page.sums = sums_.data() + r;
                    page.out = scores + (r - row) * ld + at - from - origin;
                    run(page);
                  }
                });
}

void CodeMixture::start(std::int64_t rows, std::int64_t head_dim) {
  head_dim_ = head_dim;
  padded_ = rounded_up(head_dim, kCodeLanes);
  out_.assign(static_cast<std::size_t>(rows * padded_), 0.0f);
  offsets_.assign(static_cast<std::size_t>(rows * kCodeLanes), 0.0f);
}

void CodeMixture::add(const KvPages& values, std::int64_t row, std::int64_t rows,
                      const float* weights, std::int64_t ld, std::int64_t begin, std::int64_t end,
                      std::int64_t origin) {
  const auto run = code_bits(values.type) == 8 ? code_kernels().mix8 : code_kernels().mix4;
  ValueChunk chunk{};
  chunk.lanes = padded_;
  chunk.ldw = ld;
  chunk.ldo = padded_;
  const std::int64_t tokens = values.page_tokens;
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t chunk_end = std::min(end, (at / kChunkTokens + 1) * kChunkTokens);
    const std::int64_t first = at / tokens;
    chunk.pages = 0;
    for (std::int64_t page = first; page * tokens < chunk_end; ++page, ++chunk.pages) {
      const KvView view = values.page(page);
      chunk.codes[chunk.pages] = codes_of(view);
      chunk.steps[chunk.pages] = view.steps;
      chunk.smallest[chunk.pages] = view.smallest;
    }
    for (std::int64_t r = row; r < row + rows; r += kCodeRows) {
      chunk.rows = std::min(kCodeRows, row + rows - r);
      chunk.weights = weights + (r - row) * ld + first * tokens - origin;
      chunk.out = out_.data() + r * padded_;
      chunk.offsets = offsets_.data() + r * kCodeLanes;
      run(chunk);
    }
    at = chunk_end;
  }
}

void CodeMixture::put(std::int64_t row, float factor, float* out) const {
  const float* lanes = offsets_.data() + row * kCodeLanes;
  float sums[kCodeLanes];
  std::copy_n(lanes, kCodeLanes, sums);
  for (std::int64_t half = kCodeLanes / 2; half > 0; half /= 2) {
    for (std::int64_t i = 0; i < half; ++i) {
      sums[i] += sums[i + half];
    }
  }
  const float* mixture = out_.data() + row * padded_;
  for (std::int64_t d = 0; d < head_dim_; ++d) {
    out[d] = (mixture[d] + sums[0]) * factor;
  }
}

}  // namespace nibble::ops::cpu
