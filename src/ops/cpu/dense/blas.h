#pragma once

/// OpenBLAS as this program uses it.
namespace nibble::ops::cpu {

/// Makes every call run in the calling thread (each is one worker's part of a loop of the pool),
/// and puts right the choice of kernels: an OpenBLAS that is older than the CPU takes it for one
/// without AVX and runs ten times slower. OPENBLAS_CORETYPE in the environment keeps its say. Does
/// something the first time only; call it before the first product.
void prepare_blas();

}  // namespace nibble::ops::cpu
