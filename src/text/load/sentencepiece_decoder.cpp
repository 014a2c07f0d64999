#include "text/load/loaders.h"
#include "text/model/space_chunks.h"

namespace nibble::text {

Decoder make_sentencepiece_decoder(bool drops_first_space) {
  std::vector<DecodeStagePtr> stages;
  stages.push_back(make_replace_stage(std::string(kVisibleSpace), " "));
  stages.push_back(make_byte_fallback_stage());
  stages.push_back(make_fuse_stage());
  if (drops_first_space) {
    stages.push_back(make_strip_stage(" ", 1, 0));
  }
  return Decoder(std::move(stages));
}

}  // namespace nibble::text
