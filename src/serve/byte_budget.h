#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace nibble::serve {

/// Bytes that the server keeps for its clients: bounded for each of them, and for all together. Any
/// thread.
class ByteBudget {
 public:
  enum class Verdict { kTaken, kClientHasTooMany, kTooManyInAll };

  ByteBudget(std::size_t of_a_client, std::size_t in_all)
      : of_a_client_(of_a_client), in_all_(in_all) {}

  /// Nothing is taken unless all of it is.
  Verdict take(const std::string& client, std::size_t bytes);
  void give_back(const std::string& client, std::size_t bytes);
  std::size_t taken() const;

 private:
  std::size_t of_a_client_;
  std::size_t in_all_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::size_t> clients_;  // those that have some
  std::size_t taken_ = 0;
};

/// What was taken of a budget for one request; its end gives it back.
class ByteShare {
 public:
  ByteShare(std::shared_ptr<ByteBudget> budget, std::string client)
      : budget_(std::move(budget)), client_(std::move(client)) {}
  ~ByteShare() { budget_->give_back(client_, bytes_); }
  ByteShare(const ByteShare&) = delete;
  ByteShare& operator=(const ByteShare&) = delete;

  ByteBudget::Verdict add(std::size_t bytes);

 private:
  std::shared_ptr<ByteBudget> budget_;
  std::string client_;
  std::size_t bytes_ = 0;
};

}  // namespace nibble::serve
