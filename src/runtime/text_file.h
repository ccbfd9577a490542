// Reads small text files.
#pragma once

#include <cstddef>
#include <string>

#include "neuron_fabric/status.h"

namespace nf {

// If the file cannot be read or is larger than `max_bytes`, fails with kBadConfig and its name.
Expected<std::string> read_text_file(const std::string& path, std::size_t max_bytes);

}  // namespace nf
