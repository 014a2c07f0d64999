#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace nibble::text {

/// A special token of a frame.
struct FrameToken {
  std::int32_t id = 0;
  std::int32_t type = 0;  // the token type (segment) that the model gets with it
};

/// What a tokenizer puts around a text, or around the two texts of a pair.
struct Frame {
  std::vector<FrameToken> before;   // the first text
  std::vector<FrameToken> between;  // the texts of a pair
  std::vector<FrameToken> behind;   // the last text
  std::int32_t first_type = 0;      // of the tokens of the first text
  std::int32_t second_type = 1;

  std::size_t tokens() const { return before.size() + between.size() + behind.size(); }
};

/// The frames of a tokenizer.
struct Frames {
  Frame single;
  std::optional<Frame> pair = Frame();  // none: the tokenizer frames pairs in another way
};

/// A pair as two single texts one behind the other, of token types 0 and 1.
Frame frame_twice(const Frame& single);

}  // namespace nibble::text
