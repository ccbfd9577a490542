#include "base/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "support/generator.h"

namespace nf {
namespace {

TEST(Buffer, IsAlignedAtEverySize) {
  for (const std::size_t size : {1u, 63u, 64u, 65u, 100000u}) {
    Buffer buffer(size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % kBufferAlignment, 0u);
    EXPECT_EQ(buffer.size(), size);
    EXPECT_EQ(buffer.bytes().size(), size);
    buffer.bytes().front() = std::byte{1};
    buffer.bytes().back() = std::byte{2};
  }
}

TEST(Buffer, MayBeEmpty) {
  EXPECT_EQ(Buffer().size(), 0u);
  EXPECT_TRUE(Buffer().bytes().empty());
  EXPECT_TRUE(Buffer(0).bytes().empty());
}

TEST(Buffer, ViewsAsATypeLeaveOutARemainder) {
  Buffer buffer(11);
  EXPECT_EQ(buffer.as<float>().size(), 2u);
  EXPECT_EQ(static_cast<void*>(buffer.as<float>().data()), buffer.data());
}

TEST(Buffer, MovesItsMemory) {
  Buffer first(8);
  const std::byte* memory = first.data();
  const Buffer second = std::move(first);
  EXPECT_EQ(second.data(), memory);
  EXPECT_EQ(second.size(), 8u);
}

TEST(BufferPool, HandsOutWhatCameBack) {
  BufferPool pool;
  Buffer buffer = pool.take(1000);
  EXPECT_GE(buffer.size(), 1000u);
  EXPECT_EQ(pool.idle_bytes(), 0u);
  const std::byte* memory = buffer.data();
  pool.give_back(std::move(buffer));
  EXPECT_EQ(pool.idle_bytes(), 1000u);
  EXPECT_EQ(pool.take(900).data(), memory);
  EXPECT_EQ(pool.idle_bytes(), 0u);
}

TEST(BufferPool, TakesTheSmallestThatFits) {
  BufferPool pool;
  pool.give_back(Buffer(150));
  pool.give_back(Buffer(120));
  pool.give_back(Buffer(90));
  EXPECT_EQ(pool.take(100).size(), 120u);
}

TEST(BufferPool, WastesNoBufferMoreThanTwiceTooLarge) {
  BufferPool pool;
  pool.give_back(Buffer(1000));
  EXPECT_EQ(pool.take(500).size(), 1000u);
  pool.give_back(Buffer(1000));
  EXPECT_EQ(pool.take(499).size(), 499u);
}

TEST(BufferPool, KeepsNoEmptyBuffers) {
  BufferPool pool;
  pool.give_back(Buffer());
  pool.give_back(Buffer(0));
  EXPECT_EQ(pool.idle_bytes(), 0u);
  EXPECT_EQ(pool.take(0).size(), 0u);
}

TEST(BufferPool, StopsAllocatingOnceWarm) {
  test::Generator random(1);
  BufferPool pool;
  std::vector<std::size_t> sizes;
  for (int i = 0; i < 20; ++i) sizes.push_back(1 + random.below(5000));
  std::size_t after_first_step = 0;
  for (int step = 0; step < 10; ++step) {
    std::vector<Buffer> held;
    for (const std::size_t size : sizes) held.push_back(pool.take(size));
    for (Buffer& buffer : held) pool.give_back(std::move(buffer));
    if (step == 0) after_first_step = pool.idle_bytes();
    EXPECT_EQ(pool.idle_bytes(), after_first_step) << "step " << step;
  }
}

}  // namespace
}  // namespace nf
