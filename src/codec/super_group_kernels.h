// Loops over whole super-groups: their statistics, and the messages of codecs that draw per
// encoder.
#pragma once

#include "base/random.h"
#include "codec/isa.h"
#include "codec/super_group.h"

namespace nf {

struct SuperGroupKernels {
  void (*statistics)(const float* values, std::size_t super_groups, std::byte* out);
};

// The messages of waterfill and rotated.
struct MessageKernels {
  using In = SuperGroupWire<const std::byte>;
  using Out = SuperGroupWire<std::byte>;

  // `contributions` is the number of ranks in the values, `draws` the draws of the message's
  // encoder.
  void (*encode)(const SuperGroups& groups, const DrawStream& draws, float contributions,
                 const float* values, Out wire);
  void (*decode)(const SuperGroups& groups, const DrawStream& draws, float contributions, In wire,
                 float* values);
  void (*decode_add)(const SuperGroups& groups, const DrawStream& draws, float contributions,
                     In wire, float* values);
  // `contributions` is the number of ranks in the incoming message, `total` in the outgoing one.
  void (*decode_add_encode)(const SuperGroups& groups, const DrawStream& draws_in,
                            const DrawStream& draws_out, float contributions, float total, In wire,
                            const float* values, Out out);
};

const SuperGroupKernels& super_group_kernels(Isa isa);
// Precondition: isa is one of available_isas() other than kScalar.
const SuperGroupKernels& super_group_simd(Isa isa);

}  // namespace nf
