// Every codec and variant of tests/support/spellings.h on every ISA, created once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codec/isa.h"
#include "neuron_fabric/codec.h"

namespace nf::fuzz {

struct Form {
  Isa isa;
  std::unique_ptr<Codec> codec;
};

struct Forms {
  std::string spelling;
  std::vector<Form> forms;           // the scalar form first
  std::vector<std::uint8_t> widths;  // valid for its super-groups; empty if it chooses none
};

std::span<const Forms> all_forms();

// Bitwise equality; all NaNs are equal.
bool same_values(std::span<const std::byte> a, std::span<const std::byte> b, DataType type);

}  // namespace nf::fuzz
