// Profiles from untrusted sources: any text is rejected with a printable reason, or has one
// canonical text that parses back. A valid profile binds to a model or is rejected with a reason.
#include <cstdint>
#include <string>
#include <string_view>

#include "check.h"
#include "neuron_fabric/binding.h"
#include "neuron_fabric/profile.h"

namespace nf::fuzz {
namespace {

// Messages are shown in terminals and raised as Python exceptions: one line of UTF-8.
void check_message(const Status& status) {
  const std::string& message = status.message();
  NF_FUZZ_CHECK(status.code() == ErrorCode::kBadConfig, "%d", static_cast<int>(status.code()));
  NF_FUZZ_CHECK(!message.empty() && message.size() < 2000, "%zu bytes", message.size());
  int missing = 0;  // bytes of the current character
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_continuation = (byte & 0xc0) == 0x80;
    NF_FUZZ_CHECK(byte >= 0x20 && byte != 0x7f, "a control character: %s", message.c_str());
    NF_FUZZ_CHECK(is_continuation == (missing > 0), "not UTF-8: %s", message.c_str());
    if (is_continuation) {
      --missing;
    } else {
      missing = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc0 ? 1 : 0;
    }
  }
  NF_FUZZ_CHECK(missing == 0, "not UTF-8: %s", message.c_str());
}

void parse(std::string_view text) {
  const Expected<Profile> profile = Profile::parse(text);
  if (!profile) return check_message(profile.status());

  const std::string printed = profile->print();
  const Expected<Profile> again = Profile::parse(printed);
  NF_FUZZ_CHECK(again, "%s: %s", to_string(again.status()).c_str(), printed.c_str());
  NF_FUZZ_CHECK(*again == *profile, "parses back differently: %s", printed.c_str());
  NF_FUZZ_CHECK(again->print() == printed, "has two texts: %s", printed.c_str());

  const Expected<Binding> binding = Binding::make(*profile, {{"layer.weight", "Conv2d", 4096, 64},
                                                             {"layer.norm", "BatchNorm2d", 64, 0},
                                                             {"fc.weight", "Linear", 2048, 32}});
  if (!binding) return check_message(binding.status());
  NF_FUZZ_CHECK(
      Binding::make(*again, {binding->parameters().begin(), binding->parameters().end()})->hash() ==
          binding->hash(),
      "has two hashes: %s", printed.c_str());
  for (const std::uint64_t step : {std::uint64_t{0}, std::uint64_t{1000}, ~std::uint64_t{0}}) {
    for (std::size_t i = 0; i < binding->parameters().size(); ++i) {
      NF_FUZZ_CHECK(!binding->route(binding->region_of(i), step).empty(), "no route");
    }
  }
}

}  // namespace
}  // namespace nf::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nf::fuzz::parse({reinterpret_cast<const char*>(data), size});
  return 0;
}
