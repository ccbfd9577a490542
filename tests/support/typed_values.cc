#include "support/typed_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <string>

#include "base/float16.h"

namespace nf::test {
namespace {

constexpr std::size_t kGuard = 64;

std::uint16_t narrow(DataType type, float value) {
  return type == DataType::kBfloat16 ? float_to_bfloat16(value) : float_to_float16(value);
}

float widen(DataType type, std::uint16_t bits) {
  return type == DataType::kBfloat16 ? bfloat16_to_float(bits) : float16_to_float(bits);
}

std::string hex(std::uint32_t number) {
  std::ostringstream text;
  text << "0x" << std::hex << number;
  return text.str();
}

}  // namespace

GuardedBytes::GuardedBytes(std::size_t size, std::size_t offset, unsigned char fill)
    : memory_(size + offset + 3 * kGuard, std::byte{fill}), size_(size), fill_(std::byte{fill}) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data() + kGuard);
  start_ = memory_.data() + kGuard + (kGuard - address % kGuard) % kGuard + offset;
}

bool GuardedBytes::guards_intact() const {
  const auto intact = [&](std::byte byte) { return byte == fill_; };
  return std::all_of(memory_.data(), static_cast<const std::byte*>(start_), intact) &&
         std::all_of(static_cast<const std::byte*>(start_) + size_, memory_.data() + memory_.size(),
                     intact);
}

bool GuardedBytes::untouched() const {
  return std::all_of(memory_.begin(), memory_.end(), [&](std::byte byte) { return byte == fill_; });
}

TypedValues::TypedValues(DataType type, std::span<const float> values, std::size_t offset)
    : type_(type),
      count_(values.size()),
      start_(offset),
      memory_(offset + values.size() * size_of(type)) {
  for (std::size_t i = 0; i < count_; ++i) {
    std::byte* to = memory_.data() + start_ + i * size_of(type);
    if (type == DataType::kFloat32) {
      std::memcpy(to, &values[i], sizeof(float));
    } else {
      const std::uint16_t bits = narrow(type, values[i]);
      std::memcpy(to, &bits, sizeof bits);
    }
  }
}

TypedValues::TypedValues(DataType type, std::span<const std::uint16_t> bits)
    : type_(type), count_(bits.size()), start_(0), memory_(bits.size_bytes()) {
  std::memcpy(memory_.data(), bits.data(), bits.size_bytes());
}

std::vector<float> TypedValues::widened() const {
  std::vector<float> values(count_);
  for (std::size_t i = 0; i < count_; ++i) {
    const std::byte* from = data() + i * size_of(type_);
    if (type_ == DataType::kFloat32) {
      std::memcpy(&values[i], from, sizeof(float));
    } else {
      std::uint16_t bits = 0;
      std::memcpy(&bits, from, sizeof bits);
      values[i] = widen(type_, bits);
    }
  }
  return values;
}

std::vector<float> rounded_to(DataType type, std::span<const float> values) {
  return TypedValues(type, values).widened();
}

testing::AssertionResult same_bits(std::span<const float> actual, std::span<const float> expected) {
  if (actual.size() != expected.size()) {
    return testing::AssertionFailure() << actual.size() << " values, expected " << expected.size();
  }
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const auto have = std::bit_cast<std::uint32_t>(actual[i]);
    const auto want = std::bit_cast<std::uint32_t>(expected[i]);
    if (have == want || (std::isnan(actual[i]) && std::isnan(expected[i]))) continue;
    return testing::AssertionFailure()
           << "value " << i << " of " << actual.size() << " is " << actual[i] << " (" << hex(have)
           << "), expected " << expected[i] << " (" << hex(want) << ")";
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult same_bytes(std::span<const std::byte> actual,
                                    std::span<const std::byte> expected) {
  if (actual.size() != expected.size()) {
    return testing::AssertionFailure() << actual.size() << " bytes, expected " << expected.size();
  }
  const auto [at, _] = std::mismatch(actual.begin(), actual.end(), expected.begin());
  if (at == actual.end()) return testing::AssertionSuccess();
  const auto i = static_cast<std::size_t>(at - actual.begin());
  return testing::AssertionFailure() << "byte " << i << " of " << actual.size() << " is "
                                     << hex(std::to_integer<unsigned>(actual[i])) << ", expected "
                                     << hex(std::to_integer<unsigned>(expected[i]));
}

}  // namespace nf::test
