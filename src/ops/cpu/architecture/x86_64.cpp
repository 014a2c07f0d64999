#include <cstdint>

#include <cpuid.h>

#include "ops/cpu/architecture/architecture.h"

// CPUID says what the CPU can do, XGETBV which registers the operating system saves.
namespace nibble::ops::cpu {
namespace {

// Register state that the operating system saves (XCR0).
constexpr std::uint64_t kYmmState = 0x6;       // SSE and AVX
constexpr std::uint64_t kZmmState = 0xe6;      // and opmask, upper halves of ZMM, ZMM16..31
constexpr std::uint64_t kTileState = 0x60000;  // configuration and data of AMX tiles

struct Leaf {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Leaf leaf(unsigned number, unsigned sub) {
  Leaf l;
  __get_cpuid_count(number, sub, &l.eax, &l.ebx, &l.ecx, &l.edx);
  return l;
}

// AMD's family 25, whose processors with AVX512 are Zen 4. (Zen 3 has no AVX512, Zen 5 is
// family 26.)
bool is_amd_family_25() {
  constexpr unsigned kAuth = 0x68747541;  // "AuthenticAMD"
  constexpr unsigned kEnti = 0x69746e65;
  constexpr unsigned kCAmd = 0x444d4163;
  constexpr unsigned kFamily = 15 + 10;
  const Leaf vendor = leaf(0, 0);
  const unsigned version = leaf(1, 0).eax;
  const unsigned family = (version >> 8 & 0xfu) + (version >> 20 & 0xffu);
  return vendor.ebx == kAuth && vendor.edx == kEnti && vendor.ecx == kCAmd && family == kFamily;
}

bool bit(unsigned value, int index) {
  return (value >> index & 1u) != 0;
}

std::uint64_t saved_state() {
  unsigned low = 0;
  unsigned high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

}  // namespace

CpuFeatures detect_cpu_features() {
  CpuFeatures features;
  const Leaf basic = leaf(1, 0);
  const bool osxsave = bit(basic.ecx, 27);
  if (!osxsave || (saved_state() & kYmmState) != kYmmState) {
    return features;
  }
  const Leaf extended = leaf(7, 0);
  const Leaf more = leaf(7, 1);
  const bool fma = bit(basic.ecx, 12);
  const bool f16c = bit(basic.ecx, 29);
  features.avx2 = bit(extended.ebx, 5) && fma && f16c;
  features.avxvnni = features.avx2 && bit(more.eax, 4);
  const bool avx512 = bit(extended.ebx, 16) && bit(extended.ebx, 17) && bit(extended.ebx, 30) &&
                      bit(extended.ebx, 31);  // F, DQ, BW, VL
  features.avx512 = features.avx2 && avx512 && (saved_state() & kZmmState) == kZmmState;
  features.avx512vnni = features.avx512 && bit(extended.ecx, 11);
  features.avx512vbmi = features.avx512vnni && bit(extended.ecx, 1);
  features.amxint8 = features.avx512vbmi && bit(extended.edx, 24) && bit(extended.edx, 25) &&
                     (saved_state() & kTileState) == kTileState;
  features.amxbf16 = features.amxint8 && bit(extended.edx, 22);
  features.halves512 = features.avx512 && is_amd_family_25();
  return features;
}

std::vector<Variant> architecture_variants() {
  return {avx2_variant(), avxvnni_variant(), avx512vnni_variant(), avx512vbmi_variant(),
          amxint8_variant()};
}

std::vector<SparseKernel> architecture_sparse_kernels() {
  return {avx2_sparse_kernel(), avx512vnni_sparse_kernel()};
}

std::vector<const CodeKernels*> architecture_code_kernels() {
  return {&code_kernels_avx2(), &code_kernels_avxvnni(), &code_kernels_avx512vnni()};
}

const FloatTiles* architecture_float_tiles() {
  return &float_tiles_amxbf16();
}

const AttentionTiles* architecture_attention_tiles() {
  return &attention_tiles_amxbf16();
}

std::vector<const VectorKernels*> architecture_vector_kernels() {
  std::vector<const VectorKernels*> kernels;
  if (cpu_features().avx2) {
    kernels.push_back(&vector_kernels_avx2());
  }
  if (cpu_features().avx512) {
    kernels.push_back(&vector_kernels_avx512());
  }
  if (cpu_features().avx512vbmi) {
    kernels.push_back(&vector_kernels_avx512vbmi());
  }
  return kernels;
}

}  // namespace nibble::ops::cpu
