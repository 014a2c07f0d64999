#pragma once

#include <concepts>
#include <memory>

#include <nlohmann/json_fwd.hpp>

/// JSON values for who passes them on. Sources that look into one include core/json.h or
/// core/ordered_json.h: every source that does so compiles half a second longer.
namespace nibble::core {

using Json = nlohmann::json;

/// JSON whose objects keep the order of their members.
using OrderedJson = nlohmann::ordered_json;

/// A member that is a JSON value.
class HeldJson {
 public:
  HeldJson();                          // null
  template <std::same_as<Json> Value>  // and no braces, of which Json makes what it likes
  HeldJson(const Value& value) : HeldJson(&value) {}
  HeldJson(const HeldJson& other);
  HeldJson& operator=(const HeldJson& other);
  ~HeldJson();
  static HeldJson object();

  Json& operator*() { return *value_; }
  const Json& operator*() const { return *value_; }
  Json* operator->() { return value_.get(); }
  const Json* operator->() const { return value_.get(); }

 private:
  explicit HeldJson(const Json* value);
  std::unique_ptr<Json> value_;
};

}  // namespace nibble::core
