#include "compress/calibration/encoder_texts.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "io/file_descriptor.h"
#include "text/model_input.h"

namespace nibble::compress {
namespace {

using core::ErrorKind;
using Tokens = std::vector<std::int32_t>;

// Columns of sentences in the files of GLUE (arXiv 1804.07461), the first and its second.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kSentences = {
    {{"sentence1", "sentence2"},
     {"question1", "question2"},
     {"premise", "hypothesis"},
     {"question", "sentence"},
     {"#1 String", "#2 String"},
     {"sentence", ""}}};

std::vector<std::string_view> columns_of(std::string_view line) {
  std::vector<std::string_view> columns;
  for (;;) {
    const std::size_t tab = line.find('\t');
    columns.push_back(line.substr(0, tab));
    if (tab == std::string_view::npos) {
      return columns;
    }
    line.remove_prefix(tab + 1);
  }
}

// A text, or a pair of texts.
struct Entry {
  std::string_view first;
  std::optional<std::string_view> second;
};

// The lines of one file.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {
    if (rest_.starts_with("\xef\xbb\xbf")) {
      rest_.remove_prefix(3);
    }
    take_header();
  }

  // The next line that is not empty; nothing behind the last.
  std::optional<Entry> next() {
    while (!rest_.empty()) {
      const std::vector<std::string_view> columns = columns_of(take_line(rest_));
      const std::string_view first = column(columns, first_).value_or("");
      if (!first.empty()) {
        return Entry{first, column(columns, second_)};
      }
    }
    return std::nullopt;
  }

  // Of the line that next() gave, from 1.
  std::int64_t line() const { return line_; }

 private:
  static std::optional<std::string_view> column(const std::vector<std::string_view>& columns,
                                                std::size_t i) {
    return i < columns.size() ? std::optional(columns[i]) : std::nullopt;
  }

  std::string_view take_line(std::string_view& text) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_;
    return line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
  }

  void take_header() {
    std::string_view behind = rest_;
    const std::vector<std::string_view> header = columns_of(take_line(behind));
    const auto place_of = [&](std::string_view name) {
      return static_cast<std::size_t>(std::find(header.begin(), header.end(), name) -
                                      header.begin());
    };
    for (const auto& [first, second] : kSentences) {
      if (header.size() > 1 && place_of(first) < header.size() &&
          (second.empty() || place_of(second) < header.size())) {
        first_ = place_of(first);
        second_ = second.empty() ? header.size() : place_of(second);
        rest_ = behind;
        return;
      }
    }
    line_ = 0;
  }

  std::string_view rest_;
  std::int64_t line_ = 0;
  std::size_t first_ = 0;
  std::size_t second_ = 1;
};

// A text as each stack reads it.
struct Sample {
  text::ModelInput source;
  Tokens target;  // of an encoder-decoder
};

class Sampler {
 public:
  Sampler(const models::Model& model, std::int64_t seq_len)
      : tokenizer_(*model.tokenizer),
        config_(model.network.config),
        ends_(model.end_tokens),
        pairs_(model.network.has_decoder()) {
    const core::Tensor& types = model.network.embeddings_of_encoder().types;
    has_types_ = !types.empty() && types.dim(0) > 1;
    most_ = std::min(seq_len, config_.max_positions);
    source_most_ = std::min(most_, text::longest_input(tokenizer_).value_or(most_));
  }

  std::int64_t most() const { return most_; }

  Sample read(const Entry& entry, std::int64_t line) const {
    core::require(!pairs_ || entry.second, ErrorKind::kUsage,
                  "line {} of the calibration text has no tab: an encoder-decoder is calibrated on "
                  "pairs, what it reads and what it should write with a tab between",
                  line);
    Sample sample;
    sample.source =
        text::encode_for_model(tokenizer_, entry.first, pairs_ ? std::nullopt : entry.second,
                               {.most_tokens = source_most_});
    if (!has_types_) {
      sample.source.types.assign(sample.source.ids.size(), 0);
    }
    if (pairs_) {
      sample.target = written(*entry.second);
    }
    return sample;
  }

 private:
  // What the decoder has read when it writes the last token of `text`: the start token, then what
  // it should write but for the end.
  Tokens written(std::string_view text) const {
    const std::int32_t start = config_.decoder_start.value();
    Tokens tokens = text::encode_for_model(tokenizer_, text, std::nullopt).ids;
    while (!tokens.empty() && std::find(ends_.begin(), ends_.end(), tokens.back()) != ends_.end()) {
      tokens.pop_back();
    }
    if (tokens.empty() || tokens.front() != start) {
      tokens.insert(tokens.begin(), start);
    }
    tokens.resize(std::min(tokens.size(), static_cast<std::size_t>(most_)));
    return tokens;
  }

  const text::Tokenizer& tokenizer_;
  const models::NetworkConfig& config_;
  const std::vector<std::int32_t>& ends_;
  bool pairs_;
  bool has_types_ = false;
  std::int64_t most_ = 0;         // tokens of a text
  std::int64_t source_most_ = 0;  // of one that the encoder reads
};

// Fills packs of whole texts.
class Packer {
 public:
  Packer(std::int64_t packs, std::int64_t tokens, bool pairs)
      : packs_(packs), tokens_(tokens), pairs_(pairs) {}

  // Whether there was room.
  bool add(const Sample& sample) {
    const bool fits = !inputs_.encoder.empty() &&
                      has_room(inputs_.encoder.back(), sample.source.ids) &&
                      (!pairs_ || has_room(inputs_.decoder.back(), sample.target));
    if (!fits) {
      if (std::ssize(inputs_.encoder) == packs_) {
        return false;
      }
      inputs_.encoder.emplace_back();
      inputs_.decoder.resize(pairs_ ? inputs_.encoder.size() : 0);
    }
    append(inputs_.encoder.back(), sample.source.ids, sample.source.types);
    if (pairs_) {
      append(inputs_.decoder.back(), sample.target, Tokens(sample.target.size()));
    }
    return true;
  }

  CalibrationInputs take() { return std::move(inputs_); }

 private:
  bool has_room(const CalibrationPack& pack, const Tokens& tokens) const {
    return std::ssize(pack.tokens) + std::ssize(tokens) <= tokens_;
  }

  static void append(CalibrationPack& pack, const Tokens& tokens, const Tokens& types) {
    pack.tokens.insert(pack.tokens.end(), tokens.begin(), tokens.end());
    pack.types.insert(pack.types.end(), types.begin(), types.end());
    pack.lengths.push_back(std::ssize(tokens));
  }

  std::int64_t packs_;
  std::int64_t tokens_;
  bool pairs_;
  CalibrationInputs inputs_;
};

}  // namespace

CalibrationInputs read_encoder_texts(const models::Model& model,
                                     const CalibrationOptions& options) {
  const bool pairs = model.network.has_decoder();
  core::require(
      !options.texts.empty(), ErrorKind::kUsage,
      "{} has an encoder, which writes no calibration text: give some with --calib, {}",
      io::shown(model.path),
      pairs ? "each line what it reads, a tab, and what it should write" : "each line a text");
  core::require(options.seq_len >= 1 && options.samples >= 1, ErrorKind::kUsage,
                "calibration needs at least one sample of one token, got {} of {}", options.samples,
                options.seq_len);
  const Sampler sampler(model, options.seq_len);
  Packer packer(options.samples, sampler.most(), pairs);
  std::vector<Lines> files;
  for (const CalibrationText& text : options.texts) {
    files.emplace_back(*text);
  }
  bool room = true;
  for (bool found = true; found && room;) {
    found = false;
    for (Lines& lines : files) {
      const std::optional<Entry> entry = room ? lines.next() : std::nullopt;
      if (!entry) {
        continue;
      }
      found = true;
      const Sample sample = sampler.read(*entry, lines.line());
      room = sample.source.ids.empty() || packer.add(sample);
    }
  }
  CalibrationInputs inputs = packer.take();
  core::require(!inputs.encoder.empty(), ErrorKind::kUsage,
                "the calibration text has no line with a token");
  return inputs;
}

}  // namespace nibble::compress
