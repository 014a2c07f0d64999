#include "models/model.h"
#include "models/parameters.h"

namespace nibble::models {
namespace {

constexpr std::int64_t kVectorBytes = 4;  // norms and biases are held as float32

std::int64_t bytes_of(const std::vector<float>& values) {
  return kVectorBytes * static_cast<std::int64_t>(values.size());
}

std::int64_t bytes_of(const ops::Norm& norm) {
  return bytes_of(norm.weight) + bytes_of(norm.bias);
}

std::int64_t norm_bytes(const Network& network) {
  std::int64_t bytes = 0;
  for (const Block* block : all_blocks(network)) {
    bytes += bytes_of(block->attention_norm) + bytes_of(block->mlp_norm);
    bytes += block->cross ? bytes_of(block->cross->norm) : 0;
    for (const auto* norm : {&block->attention_out_norm, &block->mlp_out_norm}) {
      bytes += *norm ? bytes_of(**norm) : 0;
    }
  }
  for (const auto* norm :
       {&network.embeddings.norm, &network.encoder.final_norm, &network.decoder.final_norm}) {
    bytes += *norm ? bytes_of(**norm) : 0;
  }
  if (network.encoder_embeddings && network.encoder_embeddings->norm) {
    bytes += bytes_of(*network.encoder_embeddings->norm);
  }
  if (network.masked_lm && network.masked_lm->norm) {
    bytes += bytes_of(*network.masked_lm->norm);
  }
  return bytes;
}

}  // namespace

std::int64_t block_weight_bytes(const Network& network) {
  std::int64_t bytes = 0;
  for (const Block* block : all_blocks(network)) {
    for (const ops::LinearSet* set : linear_sets(*block)) {
      for (const ops::Linear& part : set->parts) {
        bytes += formats::stored_bytes(part.weight);
      }
    }
  }
  return bytes;
}

double block_bits_per_weight(const Network& network) {
  std::int64_t weights = 0;
  for (const Block* block : all_blocks(network)) {
    for (const ops::LinearSet* set : linear_sets(*block)) {
      weights += set->n() * set->k();
    }
  }
  return 8.0 * static_cast<double>(block_weight_bytes(network)) / static_cast<double>(weights);
}

std::int64_t total_weight_bytes(const Network& network) {
  const Embeddings& tables = network.embeddings;
  std::int64_t bytes =
      tables.tokens.bytes() + tables.positions.bytes() + tables.types.bytes() + norm_bytes(network);
  if (network.encoder_embeddings) {
    bytes += network.encoder_embeddings->positions.bytes();
  }
  for (const ops::LinearSet* set : linear_sets(network)) {
    for (const ops::Linear& part : set->parts) {
      bytes += shares_embedding(network, part) ? 0 : formats::stored_bytes(part.weight);
      bytes += bytes_of(part.bias) + ops::low_rank_bytes(part);
    }
  }
  return bytes;
}

std::int64_t parameters_of(const Network& network) {
  const Embeddings& tables = network.embeddings;
  std::int64_t count = tables.tokens.elements() + tables.positions.elements() +
                       tables.types.elements() + norm_bytes(network) / kVectorBytes;
  if (network.encoder_embeddings) {
    count += network.encoder_embeddings->positions.elements();
  }
  for (const ops::LinearSet* set : linear_sets(network)) {
    for (const ops::Linear& part : set->parts) {
      count += shares_embedding(network, part) ? 0 : part.weight.n * part.weight.k;
      count += std::ssize(part.bias);
    }
  }
  return count;
}

}  // namespace nibble::models
