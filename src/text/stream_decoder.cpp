#include "text/stream_decoder.h"

#include "text/tokenizer_parts.h"

namespace nibble::text {

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)),
      skip_special_(skip_special),
      run_(std::make_unique<Decoder::Run>(tokenizer_->parts().decoder)) {}

std::string StreamDecoder::push(std::int32_t id) {
  const TokenizerParts& parts = tokenizer_->parts();
  const auto token = parts.decoder_input(id);
  if (token && !(skip_special_ && parts.is_special(id))) {
    run_->push(*token);
  }
  return run_->take();
}

std::string StreamDecoder::flush() {
  run_->finish();
  std::string rest = run_->take();
  run_ = std::make_unique<Decoder::Run>(tokenizer_->parts().decoder);
  return rest;
}

}  // namespace nibble::text
