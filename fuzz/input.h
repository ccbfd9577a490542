// Reads a fuzzer's input from the front. Past its end everything is zero.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace nf::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}

  std::size_t size() const { return rest_.size(); }

  template <typename Number>
  Number number() {
    Number value = 0;
    const std::size_t held = std::min(sizeof value, rest_.size());
    if (held > 0) std::memcpy(&value, rest_.data(), held);
    rest_ = rest_.subspan(held);
    return value;
  }

  // A separate allocation, so that the sanitizer detects reads past its end.
  std::vector<std::byte> bytes(std::size_t size) {
    std::vector<std::byte> out(size);
    const std::size_t held = std::min(size, rest_.size());
    if (held > 0) std::memcpy(out.data(), rest_.data(), held);
    rest_ = rest_.subspan(held);
    return out;
  }

 private:
  std::span<const std::uint8_t> rest_;
};

}  // namespace nf::fuzz
