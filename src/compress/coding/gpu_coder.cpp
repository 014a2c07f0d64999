#include "compress/coding/gpu_coder.h"

namespace nibble::compress {

bool has_gpu_coder(const formats::Scheme& scheme) {
  return scheme.scale.type == formats::ScaleType::kF16 && scheme.inputs.tail == 0 &&
         scheme.code.used_bits == 0 && !formats::has_minima(scheme) &&
         (formats::is_integer(scheme) || formats::has_book(scheme));
}

bool has_gpu_coder_of_head(const formats::Scheme& scheme) {
  formats::Scheme head = scheme;
  head.inputs.tail = 0;
  return has_gpu_coder(head);
}

}  // namespace nibble::compress
