#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "text/decode/decoder.h"
#include "text/tokenizer.h"

namespace nibble::text {

/// Decodes ids one by one, as a model generates them. What push and flush return, put together, is
/// Tokenizer::decode of all ids, and every part is whole characters.
///
/// Text is held back only as long as a later id could still change it: an incomplete character, and
/// in vocabularies with "<0xHH>" tokens a run of those until it ends.
class StreamDecoder {
 public:
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special = true);

  /// The text that this id makes certain; may be empty.
  std::string push(std::int32_t id);
  /// The rest, at the end of the ids; the decoder is then ready for another stream.
  std::string flush();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_;
  std::unique_ptr<Decoder::Run> run_;
};

}  // namespace nibble::text
