#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace nibble::serve {

/// The body of an answer that is made while the client takes it, so that it never lies in memory as
/// a whole.
class BodySource {
 public:
  virtual ~BodySource() = default;

  /// Appends the next part of the body, some ten kilobytes or nothing; false when that was the
  /// last. On the I/O thread, which it must not hold up.
  virtual bool append(std::string& part) = 0;

  /// Memory that is kept for what is not made yet.
  virtual std::size_t held_bytes() const = 0;
};

/// A body of sections, which are made one after the other.
class BodySections final : public BodySource {
 public:
  using AppendItem = std::function<void(std::size_t index, std::string& part)>;

  /// A text as it is.
  BodySections& text(std::string text);
  /// What `append` writes for each index from 0 to `count` - 1; called once for each, in order.
  BodySections& each(std::size_t count, AppendItem append);
  /// Data of so many bytes to which sections refer.
  BodySections& keep(std::shared_ptr<const void> data, std::size_t bytes);

  bool append(std::string& part) override;
  std::size_t held_bytes() const override { return held_; }

 private:
  struct Section {
    std::string text;
    std::size_t count = 0;
    AppendItem append;
  };

  std::vector<std::shared_ptr<const void>> data_;
  std::vector<Section> sections_;
  std::size_t section_ = 0;  // that is made
  std::size_t item_ = 0;     // of it
  std::size_t held_ = 0;
};

}  // namespace nibble::serve
