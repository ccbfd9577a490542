#include "collective/all_finite.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace nf {
namespace {

// NaN and Inf have all exponent bits set.
template <typename Bits>
bool none_has_exponent(Bits exponent, ConstValues values) {
  const auto* bytes = static_cast<const std::byte*>(values.data);
  Bits found = 0;  // not a bool, so that compilers vectorise the loop
  for (std::size_t i = 0; i < values.count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes + i * sizeof(Bits), sizeof(Bits));
    found |= static_cast<Bits>((bits & exponent) == exponent);
  }
  return found == 0;
}

}  // namespace

bool all_finite(ConstValues values) {
  switch (values.type) {
    case DataType::kFloat32: return none_has_exponent<std::uint32_t>(0x7f80'0000u, values);
    case DataType::kBfloat16: return none_has_exponent<std::uint16_t>(0x7f80u, values);
    case DataType::kFloat16: return none_has_exponent<std::uint16_t>(0x7c00u, values);
  }
  return false;
}

}  // namespace nf
