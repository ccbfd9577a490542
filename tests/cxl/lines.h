// Random lines for tests of the reducer, and a region for them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "cxl/reducer.h"
#include "support/generator.h"

namespace nf::cxl::test {

using nf::test::Generator;

// A line that a worker may write in this mode: any bits, bytes below 243, or finite values.
inline Line random_line(Generator& generator, Mode mode) {
  Line line;
  if (mode == Mode::kFp32) {
    float values[16];
    for (float& value : values) value = static_cast<float>(generator.normal());
    return line_of(std::as_bytes(std::span(values)));
  }
  for (std::uint64_t& word : line.words) word = generator.bits();
  if (mode != Mode::kGTernary) return line;
  std::vector<std::byte> bytes(bytes_of(line).begin(), bytes_of(line).end());
  for (std::byte& byte : bytes) byte = std::byte(std::to_integer<unsigned>(byte) % 243);
  return line_of(bytes);
}

inline RegionConfig config_of(Mode mode, std::uint64_t workers, std::uint64_t lines) {
  RegionConfig config{.mode = static_cast<std::uint64_t>(mode),
                      .workers = workers,
                      .base = 0x10'0000'0000,
                      .length = lines,
                      .stride = kLineShift};
  while ((std::uint64_t{1} << config.stride) < lines * kLineBytes) ++config.stride;
  return config;
}

inline std::uint64_t address_of(const RegionConfig& config, std::uint64_t window,
                                std::uint64_t line) {
  return config.base + (window << config.stride) + line * kLineBytes;
}

inline Request write_of(const RegionConfig& config, std::uint64_t worker, std::uint64_t line,
                        const Line& data) {
  return {.is_write = true, .address = address_of(config, worker, line), .data = data};
}

inline Request read_of(const RegionConfig& config, std::uint64_t window, std::uint64_t line) {
  return {.is_write = false, .address = address_of(config, window, line)};
}

// The worker and line of a write.
struct WriteOrder {
  std::uint32_t worker;
  std::uint32_t line;
};

inline std::vector<WriteOrder> shuffled(Generator& generator, std::uint32_t workers,
                                        std::uint32_t lines) {
  std::vector<WriteOrder> order;
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    for (std::uint32_t line = 0; line < lines; ++line) order.push_back({worker, line});
  }
  std::mt19937_64 engine(generator.bits());
  std::shuffle(order.begin(), order.end(), engine);
  return order;
}

}  // namespace nf::cxl::test
