#include "cli/text_lines.h"

#include <algorithm>

#include "cli/option.h"
#include "cli/output.h"
#include "cli/text_input.h"
#include "core/error.h"
#include "io/text_file.h"

namespace nibble::cli {
namespace {

constexpr std::size_t kShownBytes = 60;

engine::InputText split_line(std::string_view line) {
  const std::size_t tab = line.find('\t');
  if (tab == std::string_view::npos) {
    return {line, std::nullopt};
  }
  return {line.substr(0, tab), line.substr(tab + 1)};
}

}  // namespace

TextLines TextLines::read(const std::string& name) {
  TextLines lines;
  lines.name_ = io::shown_text(name);
  lines.content_ = std::make_unique<const std::string>(read_text(name));
  std::string_view rest = *lines.content_;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    line = line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
    lines.texts_.push_back(split_line(line));
    const auto& second = lines.texts_.back().second;
    core::require(!second || second->find('\t') == std::string_view::npos,
                  core::ErrorKind::kInvalidModel,
                  "{}: more than two texts, divided by tabs; a line holds a text or a pair",
                  core::lazily([&] { return lines.where(lines.size() - 1); }));
  }
  return lines;
}

std::string TextLines::where(std::size_t text) const {
  return fmt::format("{}, line {}", name_, text + 1);
}

std::string TextLines::shown(std::size_t text) const {
  const engine::InputText& line = texts_[text];
  std::string whole(line.first);
  if (line.second) {
    whole += " | " + std::string(*line.second);
  }
  return fmt::format("{}", core::printable(whole, kShownBytes));
}

void TextOptions::add(CLI::App& app) {
  add_option(app, "--texts", file,
             "Texts (UTF-8), one a line, the two of a pair divided by a tab: a file, a pipe, "
             "or - for standard input")
      ->required();
  add_max_length(app, max_length);
  add_flag(app, "--no-truncate", no_truncate,
           "Refuse texts that are too long, instead of cutting them");
  add_option(app, "--batch", batch_tokens, "Tokens that are computed together")
      ->in_range(1, 1 << 20)
      ->capture_default_str();
}

engine::InputOptions TextOptions::applied_to(engine::InputOptions options) const {
  shorten(options, max_length);
  options.truncate = !no_truncate;
  options.batch_tokens = batch_tokens;
  return options;
}

void add_max_length(CLI::App& app, std::int64_t& max_length) {
  add_option(app, "--max-length", max_length,
             "Tokens that texts are cut to (default, and at most: what the model takes)")
      ->positive();
}

void shorten(engine::InputOptions& options, std::int64_t max_length) {
  if (max_length > 0) {
    options.most_tokens = std::min(options.most_tokens, max_length);
  }
}

void note_truncated(std::int64_t truncated, std::size_t texts, std::int64_t most_tokens,
                    bool quiet) {
  if (truncated > 0 && !quiet) {
    print_note("nibble: warning: {} of {} texts have more than {} tokens and were cut\n", truncated,
               texts, most_tokens);
  }
}

}  // namespace nibble::cli
