#include "text/frame.h"

namespace nibble::text {

Frame frame_twice(const Frame& single) {
  Frame pair = single;
  pair.second_type = 1;
  pair.between = single.behind;
  for (const FrameToken& token : single.before) {
    pair.between.push_back({token.id, 1});
  }
  for (FrameToken& token : pair.behind) {
    token.type = 1;
  }
  return pair;
}

}  // namespace nibble::text
