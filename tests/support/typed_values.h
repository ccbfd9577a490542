// Buffers for tests: values of any type, and bytes between guard zones that detect stray writes.
// Values end at the end of their allocation, so that the address sanitizer detects stray reads.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "neuron_fabric/data_type.h"

namespace nf::test {

inline constexpr DataType kAllTypes[] = {DataType::kFloat32, DataType::kBfloat16,
                                         DataType::kFloat16};

// `size` bytes, `offset` bytes after a multiple of 64, between guard zones. All bytes start as
// `fill`.
class GuardedBytes {
 public:
  explicit GuardedBytes(std::size_t size, std::size_t offset = 0, unsigned char fill = 0xa5);

  std::span<std::byte> bytes() { return {start_, size_}; }
  std::vector<std::byte> copy() const { return {start_, start_ + size_}; }
  bool guards_intact() const;
  // Whether neither the bytes nor the guard zones have changed.
  bool untouched() const;

 private:
  std::vector<std::byte> memory_;
  std::size_t size_;
  std::byte fill_;
  std::byte* start_;
};

// Values of one type, `offset` bytes after the start of their allocation, up to its end.
class TypedValues {
 public:
  TypedValues(DataType type, std::span<const float> values, std::size_t offset = 0);
  // From the bits of a 16-bit type.
  TypedValues(DataType type, std::span<const std::uint16_t> bits);

  ConstValues view() const { return {data(), count_, type_}; }
  Values view() { return {memory_.data() + start_, count_, type_}; }
  const std::byte* data() const { return memory_.data() + start_; }
  std::size_t count() const { return count_; }
  DataType type() const { return type_; }
  // The values as FP32.
  std::vector<float> widened() const;

 private:
  DataType type_;
  std::size_t count_;
  std::size_t start_;
  std::vector<std::byte> memory_;
};

// `values` rounded to `type` and back to FP32.
std::vector<float> rounded_to(DataType type, std::span<const float> values);

// Bitwise equality; all NaNs are equal.
testing::AssertionResult same_bits(std::span<const float> actual, std::span<const float> expected);
testing::AssertionResult same_bytes(std::span<const std::byte> actual,
                                    std::span<const std::byte> expected);

}  // namespace nf::test
