// A whole small file as text.
#pragma once

#include <cstddef>
#include <string>

#include "neuron_fabric/status.h"

namespace nf {

// Fails with kBadConfig, naming the file, where it cannot be read or is larger than `most_bytes`.
Expected<std::string> read_text_file(const std::string& path, std::size_t most_bytes);

}  // namespace nf
