#include "cxl/shared_plan.h"

#include "codec/sign/sign_format.h"
#include "cxl/read_out.h"

namespace nf::cxl {

std::optional<Mode> shared_mode(const Codec& codec) {
  const CodecSpec& spec = codec.spec();
  if (spec.name == "fp32") return Mode::kFp32;
  if (spec.name == "g_ternary") return Mode::kGTernary;
  if (spec.name == "g_binary" && !spec.options.contains("majority")) return Mode::kGBinary;
  return {};
}

SharedPlan plan_shared(Mode mode, std::span<const SharedMessage> messages) {
  SharedPlan plan;
  const auto add = [&](Mode part_mode, std::size_t message, std::size_t at, std::size_t bytes) {
    plan.parts.push_back({.mode = part_mode,
                          .message = message,
                          .line = plan.lines,
                          .lines = lines_of(bytes),
                          .at = at,
                          .bytes = bytes,
                          .sum_at = plan.sum_bytes + at});
    plan.lines += lines_of(bytes);
  };
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::size_t count = messages[i].slice.count;
    if (mode == Mode::kFp32) {
      add(mode, i, 0, messages[i].own.size());
    } else {
      const std::size_t blocks = (count + kSignBlock - 1) / kSignBlock;
      add(Mode::kFp32, i, 0, 4 * blocks);
      add(mode, i, sign_codes_at(count), code_bytes(mode, count, 1));
    }
    plan.sum_bytes += round_up_to_lines(messages[i].sum.size());
  }
  return plan;
}

}  // namespace nf::cxl
