// Every codec of the table and its variants in the form of every ISA, made once.
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
  std::vector<Form> forms;           // the scalar one first
  std::vector<std::uint8_t> widths;  // that its super-groups may have; none where it chooses none
};

std::span<const Forms> all_forms();

// Equal to the bit, where a NaN equals any other.
bool same_values(std::span<const std::byte> a, std::span<const std::byte> b, DataType type);

}  // namespace nf::fuzz
