// Factors of low_rank.h made orthonormal, one thread block a matrix.
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

// Copies a factor to where it is made orthonormal. Whether all of it is finite, for all threads.
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

// Leaves second factors where renew() looks for them.
__global__ void __launch_bounds__(kOrthonormalThreads, 1)
    check(const LowRankMatrix* matrices, std::uint32_t terms, std::uint32_t* is_finite,
          std::uint32_t* is_unsound) {
  const LowRankMatrix matrix = matrices[blockIdx.x];
  const bool is_usable = widen(matrix.second, std::size_t{terms} * matrix.cols, matrix.work);
  if (threadIdx.x != 0) return;
  is_finite[blockIdx.x] = is_usable ? 1 : 0;
  if (!is_usable) *is_unsound = 1;
}

// From zeros where `is_unsound` is null, so that all columns are drawn.
__global__ void __launch_bounds__(kOrthonormalThreads, 1)
    renew(const LowRankMatrix* matrices, std::uint32_t terms, std::uint64_t seed,
          const std::uint32_t* is_unsound) {
  __shared__ Orthonormal::Shared shared;
  const LowRankMatrix matrix = matrices[blockIdx.x];
  const std::size_t count = std::size_t{terms} * matrix.cols;
  if (is_unsound != nullptr) {
    if (*is_unsound != 0) return;
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
  return launch("orthonormal factors", make_orthonormal, tables.matrix_count, kOrthonormalThreads,
                stream, tables.matrices, tables.terms);
}

Status check_second(const LowRankTables& tables, cudaStream_t stream) {
  return launch("check of second factors", check, tables.matrix_count, kOrthonormalThreads, stream,
                tables.matrices, tables.terms, tables.is_finite, tables.is_unsound);
}

Status renew_bases(const LowRankTables& tables, cudaStream_t stream) {
  return launch("bases of the next step", renew, tables.matrix_count, kOrthonormalThreads, stream,
                tables.matrices, tables.terms, tables.seed, tables.is_unsound);
}

Status start_bases(const LowRankMatrix* matrices, std::uint32_t count, std::uint32_t terms,
                   std::uint64_t seed, cudaStream_t stream) {
  return launch("bases to start from", renew, count, kOrthonormalThreads, stream, matrices, terms,
                seed, nullptr);
}

}  // namespace nf::cuda
