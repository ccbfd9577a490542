// An upload does not make the host wait for the stream.
#include "cuda/base/upload.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "cuda/device_test.h"
#include "cuda/stuck_work.h"

namespace nf {
namespace {

using test::expect_cuda;
using test::expect_ok;

class Upload : public test::OnDevice<> {};

// More copies than fit into one slab, of several sizes, all of them on a blocked stream: each keeps
// its bytes although the source changes.
TEST_F(Upload, ReturnsWhileTheStreamIsBlocked) {
  constexpr std::size_t kSizes[] = {1, 4'096, 5'000, 300'000, 3'000'000};
  constexpr unsigned char kCopies = 60;
  cudaStream_t stream = nullptr;
  expect_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto bytes_of = [&](unsigned char copy) {
    return test::Bytes(kSizes[copy % std::size(kSizes)], std::byte{copy});
  };
  for (int repeat = 0; repeat < 2; ++repeat) {  // the second time in the memory of the first
    std::deque<test::DeviceCopy> copies;
    for (unsigned char i = 0; i < kCopies; ++i)
      copies.emplace_back(test::Bytes(bytes_of(i).size()));
    test::StuckWork stuck;
    expect_ok(stuck.put_on(stream), "blocking work");
    for (unsigned char i = 0; i < kCopies; ++i) {
      test::Bytes source = bytes_of(i);
      expect_ok(cuda::upload(copies[i].as<void>(), source, stream), "upload");
      std::fill(source.begin(), source.end(), std::byte{0xff});
    }
    EXPECT_FALSE(stuck.is_over());
    stuck.release();
    expect_cuda(cudaStreamSynchronize(stream));
    for (unsigned char i = 0; i < kCopies; ++i) {
      test::expect_same("uploaded bytes", copies[i].bytes(), bytes_of(i));
    }
  }
  expect_cuda(cudaStreamDestroy(stream));
}

TEST_F(Upload, OfNothingIsANoOp) { expect_ok(cuda::upload(nullptr, {}, nullptr), "upload"); }

}  // namespace
}  // namespace nf
