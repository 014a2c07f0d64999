#include "models/build_heads.h"

#include <fmt/format.h>

namespace nibble::models {
namespace {

class HeadBuilder {
 public:
  HeadBuilder(const NetworkConfig& config, const std::string& root, WeightLoader& loader)
      : config_(config), root_(root), loader_(loader) {}

  // Of `outputs` rows.
  Head head(const HeadNames& names, std::int64_t outputs) {
    Head head = layers_before_output(names);
    head.out = loader_.set({loader_.linear(name(names.out), outputs, config_.hidden, true)});
    return head;
  }

  // Whose output has the rows of the embedding.
  Head tied_head(const HeadNames& names, const Embeddings& embeddings) {
    Head head = layers_before_output(names);
    ops::Linear out;
    out.name = name(names.out);
    out.weight = formats::dense_weight(
        config_.tied_output
            ? embeddings.tokens.plain()
            : loader_.matrix(out.name + ".weight", config_.vocabulary, config_.hidden));
    out.bias = loader_.vector(name(names.out_bias), config_.vocabulary);
    head.out = loader_.set({std::move(out)});
    return head;
  }

 private:
  Head layers_before_output(const HeadNames& names) {
    Head head;
    head.activation = names.activation.value_or(config_.activation);
    if (!names.dense.empty()) {
      head.dense =
          loader_.set({loader_.linear(name(names.dense), config_.hidden, config_.hidden, true)});
    }
    if (!names.norm.empty()) {
      head.norm = loader_.norm(name(names.norm), config_.norm, config_.hidden, config_.norm_eps);
    }
    return head;
  }

  std::string name(std::string_view pattern) const {
    return fmt::format(fmt::runtime(pattern), root_);
  }

  const NetworkConfig& config_;
  const std::string& root_;
  WeightLoader& loader_;
};

}  // namespace

void build_heads(const Architecture& architecture, const TensorNames& names,
                 const std::string& root, WeightLoader& loader, Network& network) {
  HeadBuilder builder(network.config, root, loader);
  const auto classifier = [&](const HeadNames& head) {
    network.classifier = {builder.head(head, std::ssize(architecture.labels)), architecture.problem,
                          architecture.labels};
  };
  switch (architecture.task) {
    case EncoderTask::kNone:
      return;
    case EncoderTask::kClassifyTexts:
      return classifier(names.heads.texts);
    case EncoderTask::kClassifyTokens:
      return classifier(names.heads.tokens);
    case EncoderTask::kMaskedLm:
      network.masked_lm = builder.tied_head(names.heads.masked_lm, network.embeddings);
      return;
  }
}

}  // namespace nibble::models
