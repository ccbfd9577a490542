#include "base/buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

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

TEST(Buffer, TypedViewsDropTheRemainder) {
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

}  // namespace
}  // namespace nf
