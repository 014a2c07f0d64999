#include "models/bert/bert.h"

#include "core/json.h"
#include "models/bert/encoder_config.h"
#include "models/config_reader.h"

namespace nibble::models::bert {
namespace {

constexpr std::int64_t kMaxTypes = 1024;

Architecture read_bert(const core::Json& json) {
  const ConfigReader reader(json);
  NetworkConfig config = read_sizes(
      reader, {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"});
  config.norm_eps = reader.positive("layer_norm_eps", 1e-12);
  config.activation = reader.activation("hidden_act", "gelu");
  reader.only("position_embedding_type", "absolute");
  reader.only("is_decoder", false);
  reader.only("add_cross_attention", false);
  Architecture architecture = encoder(reader, std::move(config));
  architecture.token_types = reader.size_or("type_vocab_size", 2, kMaxTypes);
  return architecture;
}

Architecture read_roberta(const core::Json& json) {
  Architecture architecture = read_bert(json);
  NetworkConfig& config = architecture.config;
  config.position_offset =
      core::find_integer(json, "pad_token_id", "config.json", 0, config.vocabulary - 1)
          .value_or(1) +
      1;
  core::require(config.position_offset < config.max_positions, core::ErrorKind::kInvalidModel,
                "config.json: {} positions, of which the first {} stand for padding",
                config.max_positions, config.position_offset);
  config.max_positions -= config.position_offset;
  return architecture;
}

Architecture read_distilbert(const core::Json& json) {
  const ConfigReader reader(json);
  NetworkConfig config = read_sizes(reader, {"dim", "n_layers", "n_heads", "hidden_dim"});
  config.norm_eps = 1e-12f;
  config.activation = reader.activation("activation", "gelu");
  return encoder(reader, std::move(config));
}

// Checkpoints exist with and without the name of the model before their names. Poolers that no head
// reads, and copies of what is shared, are left alone.
TensorNames bert_names() {
  return {.roots = {"bert.", ""},
          .embedding = "embeddings.word_embeddings",
          .positions = "embeddings.position_embeddings",
          .token_types = "embeddings.token_type_embeddings",
          .embedding_norm = "embeddings.LayerNorm",
          .block = "encoder.layer.{}",
          .attention_norm = "attention.output.LayerNorm",
          .mlp_norm = "output.LayerNorm",
          .qkv = {"attention.self.query", "attention.self.key", "attention.self.value"},
          .attention_out = "attention.output.dense",
          .mlp = {.up = "intermediate.dense", .down = "output.dense"},
          .heads = {.texts = {.dense = "{}pooler.dense",
                              .activation = ops::MlpActivation::kTanh,
                              .out = "classifier"},
                    .tokens = {.out = "classifier"},
                    .masked_lm = {.dense = "cls.predictions.transform.dense",
                                  .norm = "cls.predictions.transform.LayerNorm",
                                  .out = "cls.predictions.decoder",
                                  .out_bias = "cls.predictions.bias"}},
          .biases = Biases::kAll,
          .harmless = {"embeddings.position_ids", "embeddings.token_type_ids", "pooler.dense.",
                       "cls.predictions.decoder.", "cls.seq_relationship."}};
}

TensorNames roberta_names() {
  TensorNames names = bert_names();
  names.roots = {"roberta.", ""};
  names.heads.texts = {.dense = "classifier.dense",
                       .activation = ops::MlpActivation::kTanh,
                       .out = "classifier.out_proj"};
  names.heads.masked_lm = {.dense = "lm_head.dense",
                           .activation = ops::MlpActivation::kGelu,
                           .norm = "lm_head.layer_norm",
                           .out = "lm_head.decoder",
                           .out_bias = "lm_head.bias"};
  names.harmless = {"embeddings.position_ids", "embeddings.token_type_ids", "pooler.dense.",
                    "lm_head.decoder."};
  return names;
}

TensorNames distilbert_names() {
  return {.roots = {"distilbert.", ""},
          .embedding = "embeddings.word_embeddings",
          .positions = "embeddings.position_embeddings",
          .embedding_norm = "embeddings.LayerNorm",
          .block = "transformer.layer.{}",
          .attention_norm = "sa_layer_norm",
          .mlp_norm = "output_layer_norm",
          .qkv = {"attention.q_lin", "attention.k_lin", "attention.v_lin"},
          .attention_out = "attention.out_lin",
          .mlp = {.up = "ffn.lin1", .down = "ffn.lin2"},
          .heads = {.texts = {.dense = "pre_classifier",
                              .activation = ops::MlpActivation::kRelu,
                              .out = "classifier"},
                    .tokens = {.out = "classifier"},
                    .masked_lm = {.dense = "vocab_transform",
                                  .norm = "vocab_layer_norm",
                                  .out = "vocab_projector",
                                  .out_bias = "vocab_projector.bias"}},
          .biases = Biases::kAll,
          .harmless = {"embeddings.position_ids", "vocab_projector.weight"}};
}

}  // namespace

Family bert() {
  return {"bert", read_bert, bert_names()};
}
Family roberta() {
  return {"roberta", read_roberta, roberta_names()};
}
Family xlm_roberta() {
  return {"xlm-roberta", read_roberta, roberta_names()};
}
Family distilbert() {
  return {"distilbert", read_distilbert, distilbert_names()};
}

}  // namespace nibble::models::bert
