// The data types of gradients, and non-owning views of gradient values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace nf {

enum class DataType { kFloat32, kBfloat16, kFloat16 };

constexpr std::size_t size_of(DataType type) { return type == DataType::kFloat32 ? 4 : 2; }

// "fp32", "bf16", "fp16".
std::string_view to_string(DataType type);

// `count` values of one type, at any alignment. `data` holds the bit patterns of 16-bit types.
struct ConstValues {
  const void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::kFloat32;

  ConstValues() = default;
  ConstValues(std::span<const float> values) : data(values.data()), count(values.size()) {}
  ConstValues(const std::vector<float>& values) : ConstValues(std::span<const float>(values)) {}
  ConstValues(const void* values, std::size_t value_count, DataType value_type)
      : data(values), count(value_count), type(value_type) {}
};

struct Values {
  void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::kFloat32;

  Values() = default;
  Values(std::span<float> values) : data(values.data()), count(values.size()) {}
  Values(std::vector<float>& values) : Values(std::span<float>(values)) {}
  Values(void* values, std::size_t value_count, DataType value_type)
      : data(values), count(value_count), type(value_type) {}

  operator ConstValues() const { return {data, count, type}; }
};

}  // namespace nf
