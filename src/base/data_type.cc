#include "neuron_fabric/data_type.h"

namespace nf {

std::string_view to_string(DataType type) {
  switch (type) {
    case DataType::kFloat32: return "fp32";
    case DataType::kBfloat16: return "bf16";
    case DataType::kFloat16: return "fp16";
  }
  return "unknown";
}

}  // namespace nf
