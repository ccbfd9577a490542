// Runs every operation of a codec on the CPU and on the device and compares all bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "cuda/device_inputs.h"
#include "neuron_fabric/data_type.h"

namespace nf::test {

// A piece of a parameter: granules before it, its values, and values after it (only if the piece
// ends at a granule).
struct TestPiece {
  std::size_t granules_before = 0;
  std::size_t count = 0;
  std::size_t after = 0;
};

struct DeviceCase {
  std::string codec;
  DataType type = DataType::kFloat32;
  Input input = Input::kMixture;
  std::uint32_t ranks = 3;
  std::uint64_t seed = 1;
  std::vector<TestPiece> pieces;
  // Whether batches are parts of a larger table of pieces, by bounds in device memory. Ignored
  // unless widths are chosen.
  bool has_bounds = false;
};
void PrintTo(const DeviceCase& device_case, std::ostream* out);  // NOLINT: gtest's name

// Adds a failure for every operation whose bytes differ from the CPU's, or that writes out of
// bounds. Precondition: has_device().
void check_on_device(const DeviceCase& device_case);

}  // namespace nf::test
