#include <algorithm>
#include <cmath>
#include <exception>
#include <iterator>
#include <utility>

#include "core/error.h"
#include "engine/engine.h"

namespace nibble::engine {

using core::ErrorKind;
using std::ssize;

class Engine::Embedding {
 public:
  Embedding(PagePool& pool, std::vector<std::int32_t> text) : tokens(std::move(text)), pool_(pool) {
    const std::int64_t wanted = ops::pages_for(ssize(tokens));
    pages.reserve(static_cast<std::size_t>(wanted));
    while (ssize(pages) < wanted) {
      const std::optional<PageId> page = pool.take();
      if (!page) {
        give_back();
        core::fail(ErrorKind::kOutOfMemory,
                   "the KV cache has too few free pages for {} tokens; try again later",
                   tokens.size());
      }
      pages.push_back(*page);
    }
  }
  ~Embedding() { give_back(); }
  Embedding(const Embedding&) = delete;
  Embedding& operator=(const Embedding&) = delete;

  std::vector<std::int32_t> tokens;
  std::vector<PageId> pages;
  std::int64_t computed = 0;  // tokens
  std::vector<double> sum;    // of their hidden states

 private:
  void give_back() {
    for (const PageId page : pages) {
      pool_.release(page);
    }
  }

  PagePool& pool_;
};

namespace {

std::vector<float> unit_vector(const std::vector<double>& sum) {
  double square = 0;
  for (const double value : sum) {
    square += value * value;
  }
  core::require(std::isfinite(square), ErrorKind::kFailed,
                "the model computed NaN; its weights may be damaged");
  std::vector<float> result;
  result.reserve(sum.size());
  for (const double value : sum) {
    result.push_back(static_cast<float>(square > 0 ? value / std::sqrt(square) : 0.0));
  }
  return result;
}

}  // namespace

std::shared_ptr<Engine::Embedding> Engine::begin_embedding(std::vector<std::int32_t> tokens) {
  check_prompt(tokens);
  return std::make_shared<Embedding>(pages_, std::move(tokens));
}

std::optional<std::vector<float>> Engine::advance(Embedding& embedding) {
  const std::span<const std::int32_t> tokens = embedding.tokens;
  const std::int64_t rows = std::min(options_.prefill_rows, ssize(tokens) - embedding.computed);
  std::vector<float> part;
  try {
    part =
        runner_->hidden_sum({.pages = embedding.pages,
                             .position = embedding.computed,
                             .tokens = tokens.subspan(static_cast<std::size_t>(embedding.computed),
                                                      static_cast<std::size_t>(rows)),
                             .prompt_tokens = rows});
    failed_steps_ = 0;
  } catch (...) {
    note_failure(std::current_exception());
    throw;
  }
  embedding.sum.resize(part.size());
  for (std::size_t i = 0; i < part.size(); ++i) {
    embedding.sum[i] += part[i];
  }
  embedding.computed += rows;
  if (embedding.computed < ssize(tokens)) {
    return std::nullopt;
  }
  return unit_vector(embedding.sum);
}

std::vector<float> Engine::embed(std::span<const std::int32_t> tokens) {
  const auto embedding = begin_embedding({tokens.begin(), tokens.end()});
  for (;;) {
    if (auto result = advance(*embedding)) {
      return *std::move(result);
    }
  }
}

}  // namespace nibble::engine
