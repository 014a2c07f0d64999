#pragma once

namespace nibble::ops::cuda {

/// How results of a warpgroup, 64 rows x all tokens of a tile, leave through shared memory: some
/// tokens at a time, two such pieces side by side.
struct StagedShape {
  bool pays = false;     // else results are written at once
  int piece_bytes = 0;   // a multiple of 1024
  int float_tokens = 0;  // of a piece, where results are float32: two boxes of 32 rows
  int half_tokens = 0;   // where they are float16: a box of 64 rows, or of 32 pairs of rows
};

/// For results of `tokens`, where a warpgroup has so many bytes of its own.
constexpr StagedShape own_staged_shape(int tokens, int bytes) {
  constexpr int kFloatBytes = 64 * 4;  // of a token
  constexpr int kHalfBytes = 64 * 2;
  constexpr int kMostHalfTokens = 64;  // whose results fit the registers at a time
  StagedShape shape;
  shape.float_tokens = 8;
  while (2 * 2 * shape.float_tokens * kFloatBytes <= bytes && 4 * shape.float_tokens <= tokens) {
    shape.float_tokens *= 2;
  }
  shape.pays = true;
  shape.piece_bytes = shape.float_tokens * kFloatBytes;
  shape.half_tokens = shape.piece_bytes / kHalfBytes;
  if (shape.half_tokens > kMostHalfTokens) {
    shape.half_tokens = kMostHalfTokens;
  }
  return shape;
}

/// The same where the bytes are those of a stage, which few tokens or small pieces do not repay.
constexpr StagedShape staged_shape(int tokens, int bytes) {
  StagedShape shape = own_staged_shape(tokens, bytes);
  shape.pays = tokens >= 128 && shape.float_tokens >= 16;
  return shape;
}

}  // namespace nibble::ops::cuda
