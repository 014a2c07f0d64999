#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/tool_format.h"

namespace nibble::serve {

/// A call that a model asks for.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // a JSON object, as the model wrote it
};

/// What a text says beside its calls, and these.
struct ToolText {
  std::string content;
  std::vector<ToolCall> calls;
};

/// How calls are found in a text.
struct ToolCallOptions {
  ToolFormat format = ToolFormat::kNone;  // kNone: nowhere
  std::vector<std::string> names;         // of the tools; others are not called
  bool parallel = true;                   // else calls behind the first are left out
};

/// Takes the text of a model apart while it comes. What is no call, in its form or by its name,
/// stays text; blanks and line breaks beside a call belong to neither. Text is held back only while
/// it may belong to a call, and what is found does not depend on how the text was cut.
class ToolCallReader {
 public:
  /// `id` begins those of the calls, and must be another one for each text.
  ToolCallReader(ToolCallOptions options, std::string id);

  /// What is known with this piece of text, and was not before.
  ToolText add(std::string_view piece);
  /// What is left at the end of the text. A last call may lack its end mark.
  ToolText finish();

 private:
  enum class State {
    kStart,  // of a text that may be one call (kLlama)
    kText,   // held_: blanks, and the beginning of a mark
    kCall,   // held_: all since the blanks before the call
    kPlain,  // no call comes any more
  };

  void read_start(char c, ToolText& text);
  void read_text(char c, ToolText& text);
  void read_call(char c, ToolText& text);
  void release(ToolText& text);
  void begin_call();
  void end_call(std::size_t end, ToolText& text);
  std::optional<ToolCall> parse_call(std::string_view json) const;

  ToolCallOptions options_;
  std::string id_;
  State state_;
  std::string held_;
  std::size_t matched_ = 0;   // bytes of a mark at the end of held_
  std::size_t begin_ = 0;     // of the call's JSON in held_
  bool quoted_ = false;       // inside of a JSON string
  bool escaped_ = false;      // behind its backslash
  bool behind_call_ = false;  // with nothing but blanks between
  std::size_t calls_ = 0;     // found so far
};

}  // namespace nibble::serve
