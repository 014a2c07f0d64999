#include "compress/calibration/curvature_file.h"

#include <span>
#include <string>
#include <vector>

#include "compress/calibration/measure_curvature.h"
#include "core/error.h"
#include "core/hash.h"
#include "io/file_descriptor.h"
#include "io/fingerprint.h"
#include "io/safetensors.h"

namespace nibble::compress {
namespace {

using core::ErrorKind;
using Curvature = std::map<int, SetCurvature>;

constexpr const char* kFingerprint = "fingerprint";
constexpr const char* kContent = "content";

std::string layer_name(int set, std::size_t layer) {
  return fmt::format("{}.{}", set, layer);
}

std::string weights_name(int set) {
  return fmt::format("{}.token_weights", set);
}

std::string hash_of(std::span<const std::uint64_t> hashes) {
  return fmt::format("{:016x}", core::hash64(std::as_bytes(hashes)));
}

std::uint64_t hash_of(const core::Tensor& tensor) {
  return core::hash64({tensor.raw(), static_cast<std::size_t>(tensor.bytes())});
}

std::string fingerprint_of(const models::WeightSource& source, const CalibrationInputs& inputs,
                           std::uint64_t seed, bool of_output, core::ThreadPool& pool) {
  std::vector<std::uint64_t> hashes = {seed, of_output ? 1u : 0u};
  for (const auto* packs : {&inputs.encoder, &inputs.decoder}) {
    for (const CalibrationPack& pack : *packs) {
      hashes.push_back(pack.tokens.size());
      hashes.push_back(core::hash64(std::as_bytes(std::span(pack.tokens))));
      hashes.push_back(core::hash64(std::as_bytes(std::span(pack.lengths))));
    }
  }
  for (const auto& path : source.files()) {
    hashes.push_back(io::fingerprint(path, pool).content);
  }
  return hash_of(hashes);
}

// Views of the curvature, without copies.
std::vector<io::NamedTensor> tensors_of(const Curvature& curvature) {
  std::vector<io::NamedTensor> tensors;
  const auto add = [&](std::string name, std::span<const float> values) {
    tensors.push_back({std::move(name), core::Tensor::view(core::DType::kF32, {std::ssize(values)},
                                                           values.data(), nullptr)});
  };
  for (const auto& [id, set] : curvature) {
    for (std::size_t i = 0; i < set.layers.size(); ++i) {
      add(layer_name(id, i), set.layers[i].values());
    }
    add(weights_name(id), set.token_weights);
  }
  return tensors;
}

void write(const std::filesystem::path& path, const Curvature& curvature,
           const std::string& fingerprint) {
  const std::vector<io::NamedTensor> tensors = tensors_of(curvature);
  std::vector<std::uint64_t> hashes;
  for (const io::NamedTensor& tensor : tensors) {
    hashes.push_back(hash_of(tensor.tensor));
  }
  io::write_safetensors(path, tensors, {{kFingerprint, fingerprint}, {kContent, hash_of(hashes)}});
}

// Throws kIntegrity unless the file is what write() made with that fingerprint.
void require_own(const io::SafetensorsFile& file, const std::string& fingerprint) {
  const auto said = [&](const char* key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? std::string() : found->second;
  };
  core::require(said(kFingerprint) == fingerprint, ErrorKind::kIntegrity,
                "{} was measured on another model or other calibration text: one of them has "
                "changed since the job began; go on with what it began with, or remove the folder "
                "of this file",
                io::shown(file.path()));
  std::vector<std::uint64_t> hashes;
  for (const std::string& name : file.names()) {
    hashes.push_back(hash_of(file.tensor(name)));
  }
  core::require(said(kContent) == hash_of(hashes), ErrorKind::kIntegrity,
                "{} is damaged; remove it, and the curvature is measured again",
                io::shown(file.path()));
}

std::vector<float> values_of(const io::SafetensorsFile& file, const std::string& name,
                             std::int64_t size) {
  core::require(file.contains(name) && file.entry(name).type == "F32" &&
                    file.entry(name).shape == core::Shape{size},
                ErrorKind::kIntegrity,
                "{} has no {} values of '{}'; remove it, and the curvature is measured again",
                io::shown(file.path()), size, name);
  return core::to_float32(file.tensor(name));
}

SetCurvature read_set(const io::SafetensorsFile& file, const ops::LinearSet& linear,
                      std::int64_t tokens) {
  SetCurvature set;
  for (std::size_t i = 0; i < linear.parts.size(); ++i) {
    const std::int64_t n = linear.parts[i].weight.n;
    const std::int64_t size = OutputCurvature::bytes_for(n) / std::int64_t{sizeof(float)};
    set.layers.emplace_back(n, values_of(file, layer_name(linear.id, i), size));
  }
  set.token_weights = values_of(file, weights_name(linear.id), tokens);
  return set;
}

Curvature read(const io::SafetensorsFile& file, const models::Network& network, bool of_output,
               const CalibrationInputs& inputs) {
  Curvature curvature;
  const std::int64_t encoder = tokens_of(inputs.encoder);
  const std::int64_t decoder = tokens_of(inputs.decoder);
  const auto add = [&](const models::Stack& stack, std::int64_t tokens) {
    for (const models::Block& block : stack.blocks) {
      for (const ops::LinearSet* set : models::linear_sets(block)) {
        const bool reads_states = block.cross && set == &block.cross->kv;
        curvature.emplace(set->id, read_set(file, *set, reads_states ? encoder : tokens));
      }
    }
  };
  add(network.encoder, encoder);
  add(network.decoder, decoder);
  if (of_output) {
    curvature.emplace(network.output.id, read_set(file, network.output, decoder));
  }
  return curvature;
}

}  // namespace

std::map<int, SetCurvature> kept_or_measured_curvature(
    const std::filesystem::path& file, const models::WeightSource& source,
    const models::Network& network, const CalibrationInputs& inputs, std::uint64_t seed,
    ops::cpu::CpuOps& ops, core::ProgressSink& progress, bool of_output) {
  const std::string fingerprint = fingerprint_of(source, inputs, seed, of_output, ops.pool());
  if (std::filesystem::exists(file)) {
    const auto kept = io::SafetensorsFile::open(file);
    require_own(*kept, fingerprint);
    progress.message("the curvature is what the interrupted job has measured");
    return read(*kept, network, of_output, inputs);
  }
  Curvature measured = measure_curvature(network, inputs, seed, ops, progress, of_output);
  write(file, measured, fingerprint);
  return measured;
}

}  // namespace nibble::compress
