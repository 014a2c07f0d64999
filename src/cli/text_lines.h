#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/text_batches.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace nibble::cli {

/// Texts of a file, one a line; a pair has a tab between its texts.
class TextLines {
 public:
  /// Reads a file, a pipe, or standard input ("-"). A line may end in "\r\n", and the last one in
  /// nothing. Throws as read_text(), and kInvalidModel for a line with two tabs, naming it.
  static TextLines read(const std::string& name);

  std::size_t size() const { return texts_.size(); }
  const std::vector<engine::InputText>& texts() const { return texts_; }
  /// "'texts.txt', line 3", for messages.
  std::string where(std::size_t text) const;
  /// The line as a cell of a table: printable, and cut where it is long.
  std::string shown(std::size_t text) const;

 private:
  std::string name_;
  std::unique_ptr<const std::string> content_;  // what texts_ are views of
  std::vector<engine::InputText> texts_;
};

/// --texts, --max-length, --no-truncate and --batch of commands that encode texts.
struct TextOptions {
  std::string file;
  bool no_truncate = false;
  std::int64_t batch_tokens = 4096;
  std::int64_t max_length = 0;  // tokens of a text; 0: what the model takes
  void add(CLI::App& app);
  /// `options` of a model as they are in force.
  engine::InputOptions applied_to(engine::InputOptions options) const;
};

/// --max-length, of this command and others.
void add_max_length(CLI::App& app, std::int64_t& max_length);

/// Lets inputs have at most `max_length` tokens (0: any number), if the model takes more.
void shorten(engine::InputOptions& options, std::int64_t max_length);

/// Says on stderr how many texts were cut to `most_tokens`; nothing where there are none.
void note_truncated(std::int64_t truncated, std::size_t texts, std::int64_t most_tokens,
                    bool quiet);

}  // namespace nibble::cli
