#include "engine/write_texts.h"

#include <algorithm>
#include <memory>

namespace nibble::engine {
namespace {

// A text and its rows in a step.
struct Writer {
  std::unique_ptr<TextSearch> search;
  std::int64_t first_row = 0;
};

// The rows of all searches that are not done. Their parents are rows of the step before, where a
// search had others in front of it.
std::vector<DecoderRow> next_rows(std::vector<Writer>& writers) {
  std::vector<DecoderRow> rows;
  for (std::size_t text = 0; text < writers.size(); ++text) {
    Writer& writer = writers[text];
    if (writer.search->done()) {
      continue;
    }
    const std::int64_t before = writer.first_row;
    writer.first_row = std::ssize(rows);
    for (const SearchRow& row : writer.search->rows()) {
      rows.push_back(
          {static_cast<std::int64_t>(text), row.parent < 0 ? -1 : before + row.parent, row.token});
    }
  }
  return rows;
}

// The logits of a search's rows.
LogitsView rows_of(const LogitsView& logits, const Writer& writer) {
  const std::int64_t rows = std::ssize(writer.search->rows());
  return {logits.values.subspan(static_cast<std::size_t>(writer.first_row * logits.vocabulary),
                                static_cast<std::size_t>(rows * logits.vocabulary)),
          rows, logits.vocabulary};
}

// Each search by itself: some look at all logits of several rows.
void advance(std::vector<Writer>& writers, const LogitsView& logits, core::ThreadPool& pool) {
  pool.parallel_for(std::ssize(writers), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t text = begin; text < end; ++text) {
      const Writer& writer = writers[static_cast<std::size_t>(text)];
      if (!writer.search->done()) {
        writer.search->advance(rows_of(logits, writer));
      }
    }
  });
}

}  // namespace

std::vector<WrittenText> write_texts(TextToText& model,
                                     std::span<const std::span<const std::int32_t>> sources,
                                     const WritingOptions& options) {
  std::vector<Writer> writers;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    writers.push_back({make_text_search(options)});
  }
  model.read(sources, {std::ssize(sources) * options.beams, options.max_length - 1});
  for (auto rows = next_rows(writers); !rows.empty(); rows = next_rows(writers)) {
    advance(writers, model.step(rows), model.pool());
  }
  std::vector<WrittenText> texts;
  for (const Writer& writer : writers) {
    texts.push_back(writer.search->result());
  }
  return texts;
}

bool is_ended(const WrittenText& text, const WritingOptions& options) {
  const auto& ends = options.ends;
  return std::find(ends.begin(), ends.end(), text.tokens.back()) != ends.end();
}

std::string text_of(const WrittenText& text, const WritingOptions& options,
                    const text::Tokenizer& tokenizer) {
  const std::size_t behind = is_ended(text, options) ? 1 : 0;
  return tokenizer.decode(std::span(text.tokens).subspan(1, text.tokens.size() - 1 - behind));
}

}  // namespace nibble::engine
