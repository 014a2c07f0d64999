#pragma once

/// Where the right operands of warp products lie in shared memory, and which lane asks for which of
/// them (gemm_mma.cuh).
namespace nibble::ops::cuda {

/// Sixteen bytes number `piece` of a token's kTokenBytes (64 or 128). They change places so that
/// eight tokens' pieces of the same number lie in different banks.
template <int kTokenBytes>
constexpr int piece_place(int token, int piece) {
  constexpr int kTokensOfLine = 128 / kTokenBytes;
  constexpr int kPieces = kTokenBytes / 16;
  return token * kTokenBytes + (piece ^ (token / kTokensOfLine % kPieces)) * 16;
}

/// Sixteen bytes of a token.
struct RightRow {
  int token;
  int piece;
};

/// Those whose address a lane gives to ldmatrix, for 32 bytes of 16 tokens number `pair`: four
/// matrices of [8 tokens][16 bytes].
constexpr RightRow right_row(int lane, int pair, int product) {
  const int matrix = lane / 8;
  return {pair * 16 + matrix / 2 * 8 + lane % 8, 2 * product + matrix % 2};
}

}  // namespace nibble::ops::cuda
