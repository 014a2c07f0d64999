#include "compress/model_transform.h"

namespace nibble::compress {

models::Decoder with_ends(models::Decoder decoder, const ChangedEnds& ends) {
  decoder.embedding = ends.embedding;
  decoder.positions = ends.positions;
  decoder.final_norm = ends.final_norm;
  ops::Linear& output = decoder.output.parts.front();
  output.name = models::kOutputName;
  output.weight = formats::dense_weight(ends.output);
  decoder.config.tied_output = false;
  return decoder;
}

}  // namespace nibble::compress
