// Tests of dynamiq: groups far below the peak of their super-group.
#include <gtest/gtest.h>

#include <vector>

#include "neuron_fabric/codec.h"
#include "support/codec_cases.h"
#include "support/codec_context.h"

namespace nf::test {
namespace {

// 127 / 2^-122 overflows FP32, and the draw of this step rounds the scale of that group up to 1.
TEST(Dynamiq, KeepsTheZerosOfAGroupWhosePeakHasNoReciprocal) {
  std::vector<float> values(256, 0.0f);
  values[0] = 0x1p-100f;
  values[1] = -0x1p-100f;
  values[16] = 0x1p-122f;
  values[17] = -0x1p-122f;
  const std::vector<TypedValues> by_rank = {TypedValues(DataType::kFloat32, values)};
  Message first;
  for (const Isa isa : available_isas()) {
    SCOPED_TRACE(to_string(isa));
    const std::unique_ptr<Codec> codec = make_for(isa, "dynamiq+width=8");
    CodecContext context(*codec, by_rank);
    context.seed = 0;
    context.step = 66695;
    context.parameter = 0;
    const Message message = encode(*codec, context.whole(), {0, 1}, by_rank[0].view());
    EXPECT_EQ(std::to_integer<int>(message[2 + 1]), 1) << "the scale of the second group";
    const std::vector<float> decoded = decode(*codec, context.whole(), {0, 1}, message);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(decoded[i] == 0, values[i] == 0) << "value " << i;
    }
    if (first.empty()) first = message;
    EXPECT_EQ(message, first);
  }
}

}  // namespace
}  // namespace nf::test
