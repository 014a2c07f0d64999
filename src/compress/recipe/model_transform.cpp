#include "compress/recipe/model_transform.h"

namespace nibble::compress {

models::Decoder with_ends(models::Decoder decoder, const ChangedEnds& ends) {
  decoder.embedding = ends.embedding;
  decoder.positions = ends.positions;
  decoder.final_norm = ends.final_norm;
  return with_output(std::move(decoder), formats::dense_weight(ends.output));
}

models::Decoder with_output(models::Decoder decoder, formats::PackedWeight weight) {
  ops::Linear& output = decoder.output.parts.front();
  output.name = models::kOutputName;
  output.weight = std::move(weight);
  decoder.config.tied_output = false;
  return decoder;
}

}  // namespace nibble::compress
