#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "formats/exchange/exchange.h"

namespace nibble::models {

/// What the layers of a folder became that another tool compressed.
class Imports {
 public:
  void add(const std::string& name, const formats::exchange::ReadLayer& layer);
  /// A table of embeddings, which becomes plain.
  void add_table(const std::string& name, const formats::exchange::ReadLayer& table);

  const std::map<std::string, formats::Scheme>& schemes() const { return schemes_; }
  /// What is not as the files have it, for people, a sentence each. Empty: everything is.
  std::vector<std::string> remarks() const;

 private:
  void add_changes(const formats::exchange::ReadLayer& layer);

  std::map<std::string, formats::Scheme> schemes_;  // by layer
  std::int64_t rounded_ = 0;                        // layers with scales that changed
  double largest_change_ = 0;                       // of a scale, relative
  std::int64_t moved_ = 0;                          // layers whose offsets changed
  double largest_move_ = 0;                         // of the weights of such a layer, relative
  std::vector<std::string> tables_;
  std::map<std::string, std::int64_t> remarks_;  // and how many layers have them
};

}  // namespace nibble::models
