// Codec specs: any text is rejected with a reason, or has one canonical text that parses back.
#include <string>
#include <string_view>

#include "check.h"
#include "input.h"
#include "neuron_fabric/codec.h"

namespace nf::fuzz {
namespace {

void parse(std::string_view text) {
  const Expected<CodecSpec> spec = CodecSpec::parse(text);
  const auto codec = make_codec(text);
  if (!spec) {
    NF_FUZZ_CHECK(spec.status().code() == ErrorCode::kBadConfig, "%d",
                  static_cast<int>(spec.status().code()));
    NF_FUZZ_CHECK(!spec.status().message().empty(), "no reason");
    NF_FUZZ_CHECK(!codec, "created a codec from an invalid spec");
    return;
  }
  const std::string spelling = spec->to_string();
  const Expected<CodecSpec> again = CodecSpec::parse(spelling);
  NF_FUZZ_CHECK(again, "%s: %s", spelling.c_str(), to_string(again.status()).c_str());
  NF_FUZZ_CHECK(*again == *spec, "%s parses back differently", spelling.c_str());
  NF_FUZZ_CHECK(again->to_string() == spelling, "%s has two canonical texts", spelling.c_str());
  if (!codec) {
    NF_FUZZ_CHECK(codec.status().code() == ErrorCode::kBadConfig, "%d",
                  static_cast<int>(codec.status().code()));
    return;
  }
  // Every valid codec has sizes.
  const std::size_t counts[] = {0, 1, 255, 100000};
  for (const std::size_t& count : counts) {
    NF_FUZZ_CHECK((*codec)->width_count(count) <= count, "%s of %zu values", spelling.c_str(),
                  count);
    NF_FUZZ_CHECK((*codec)->payload_capacity({&count, 1}) <= 8 * count + 4096, "%s of %zu values",
                  spelling.c_str(), count);
  }
}

}  // namespace
}  // namespace nf::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nf::fuzz::parse({reinterpret_cast<const char*>(data), size});
  return 0;
}
