#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "cuda/codec/draws.h"
#include "cuda/device_test.h"

namespace nf {
namespace {

class CudaDraws : public test::OnDevice<> {};

TEST_F(CudaDraws, MatchTheCpu) {
  constexpr std::uint64_t kFirst = 1000;  // inside a block of 256
  constexpr std::size_t kCount = 5'000'003;
  const DrawStream draws(1, 2, 3, 4, DrawPurpose::kDither);

  constexpr std::size_t kBytes = kCount * sizeof(std::uint16_t);
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, kBytes), cudaSuccess);
  const Status status =
      cuda::fill_draws(draws, kFirst, kCount, static_cast<std::uint16_t*>(memory), nullptr);
  ASSERT_TRUE(status.ok()) << to_string(status);
  std::vector<std::uint16_t> drawn(kCount);
  ASSERT_EQ(cudaMemcpy(drawn.data(), memory, kBytes, cudaMemcpyDeviceToHost), cudaSuccess);
  ASSERT_EQ(cudaFree(memory), cudaSuccess);

  for (std::size_t i = 0; i < kCount; ++i) {
    const std::uint64_t element = kFirst + i;
    const DrawKey key(draws, element / kDrawBlock);
    ASSERT_EQ(drawn[i], draw16(key, static_cast<std::uint32_t>(element % kDrawBlock))) << element;
  }
}

}  // namespace
}  // namespace nf
