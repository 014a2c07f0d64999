#include "text/model/space_chunks.h"

namespace nibble::text {

bool spans_word_start(std::string_view token) {
  while (token.starts_with(kVisibleSpace)) {
    token.remove_prefix(kVisibleSpace.size());
  }
  return token.find(kVisibleSpace) != std::string_view::npos;
}

}  // namespace nibble::text
