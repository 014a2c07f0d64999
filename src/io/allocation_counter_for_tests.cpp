#include "io/allocation_counter_for_tests.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> g_allocated_bytes{0};
std::atomic<std::int64_t> g_left_to_refusal{-1};

void* counted(std::size_t size) noexcept {
  g_allocated_bytes += size;
  if (g_left_to_refusal >= 0 && g_left_to_refusal-- == 0) {
    return nullptr;
  }
  return std::malloc(size == 0 ? 1 : size);
}

void* counted_or_throw(std::size_t size) {
  void* memory = counted(size);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

// All forms, so that what one of them allocates is never freed by another library's.
void* operator new(std::size_t size) {
  return counted_or_throw(size);
}
void* operator new[](std::size_t size) {
  return counted_or_throw(size);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

namespace nibble::io {

std::size_t allocated_bytes() {
  return g_allocated_bytes;
}

void refuse_allocation_after(std::int64_t count) {
  g_left_to_refusal = count;
}

bool refusal_is_pending() {
  return g_left_to_refusal >= 0;
}

}  // namespace nibble::io
