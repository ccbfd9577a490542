// Orthonormalisation of the factors of low_rank.h, one thread block per matrix.
#include "base/float16.h"
#include "cuda/base/launch.h"
#include "cuda/collective/low_rank.h"
#include "cuda/device/orthonormal.cuh"

namespace nf::cuda {
namespace {

using device::ColumnDraws;
using device::kOrthonormalThreads;
using device::Orthonormal;

constexpr std::uint32_t kNanBits = 0x7fc00000u;

// Copies a factor to scratch memory in FP64. Returns to all threads whether all of it is finite.
__device__ bool widen(const float* factor, std::size_t count, double* work) {
  bool is_finite = true;
  for (std::size_t i = threadIdx.x; i < count; i += kOrthonormalThreads) {
    const float value = factor[i];
    is_finite &= magnitude_bits(value) < kInfinityBits;
    work[i] = value;
  }
  return __syncthreads_and(is_finite) != 0;
}

__device__ void narrow(const double* work, std::size_t count, float* factor) {
  for (std::size_t i = threadIdx.x; i < count; i += kOrthonormalThreads) {
    factor[i] = static_cast<float>(work[i]);
  }
}

__global__ void __launch_bounds__(kOrthonormalThreads, 1)
    make_orthonormal(const LowRankMatrix* matrices, std::uint32_t terms) {
  __shared__ Orthonormal::Shared shared;
  const LowRankMatrix matrix = matrices[blockIdx.x];
  const std::size_t count = std::size_t{terms} * matrix.rows;
  if (!widen(matrix.first, count, matrix.work)) {
    for (std::size_t i = threadIdx.x; i < count; i += kOrthonormalThreads) {
      matrix.first[i] = __uint_as_float(kNanBits);
    }
    return;
  }
  Orthonormal(shared, matrix.work, matrix.rows, terms).make(nullptr);
  narrow(matrix.work, count, matrix.first);
}

// Leaves the second factors in scratch memory for update().
__global__ void __launch_bounds__(kOrthonormalThreads, 1)
    check(const LowRankMatrix* matrices, std::uint32_t terms, std::uint32_t* is_finite,
          std::uint32_t* has_nonfinite) {
  const LowRankMatrix matrix = matrices[blockIdx.x];
  const bool is_usable = widen(matrix.second, std::size_t{terms} * matrix.cols, matrix.work);
  if (threadIdx.x != 0) return;
  is_finite[blockIdx.x] = is_usable ? 1 : 0;
  if (!is_usable) *has_nonfinite = 1;
}

// If `has_nonfinite` is null, starts from zeros, so that all columns are drawn.
__global__ void __launch_bounds__(kOrthonormalThreads, 1)
    update(const LowRankMatrix* matrices, std::uint32_t terms, std::uint64_t seed,
           const std::uint32_t* has_nonfinite) {
  __shared__ Orthonormal::Shared shared;
  const LowRankMatrix matrix = matrices[blockIdx.x];
  const std::size_t count = std::size_t{terms} * matrix.cols;
  if (has_nonfinite != nullptr) {
    if (*has_nonfinite != 0) return;
  } else {
    for (std::size_t i = threadIdx.x; i < count; i += kOrthonormalThreads) matrix.work[i] = 0;
    __syncthreads();
  }
  const ColumnDraws draws{seed, matrix.parameter};
  Orthonormal(shared, matrix.work, matrix.cols, terms).make(&draws);
  narrow(matrix.work, count, matrix.basis);
}

}  // namespace

Status make_first_orthonormal(const LowRankTables& tables, cudaStream_t stream) {
  return launch("low rank make_orthonormal", make_orthonormal, tables.matrix_count,
                kOrthonormalThreads, stream, tables.matrices, tables.terms);
}

Status check_second(const LowRankTables& tables, cudaStream_t stream) {
  return launch("low rank check_second", check, tables.matrix_count, kOrthonormalThreads, stream,
                tables.matrices, tables.terms, tables.is_finite, tables.has_nonfinite);
}

Status update_bases(const LowRankTables& tables, cudaStream_t stream) {
  return launch("low rank update_bases", update, tables.matrix_count, kOrthonormalThreads, stream,
                tables.matrices, tables.terms, tables.seed, tables.has_nonfinite);
}

Status init_bases(const LowRankMatrix* matrices, std::uint32_t count, std::uint32_t terms,
                  std::uint64_t seed, cudaStream_t stream) {
  return launch("low rank init_bases", update, count, kOrthonormalThreads, stream, matrices, terms,
                seed, nullptr);
}

}  // namespace nf::cuda
