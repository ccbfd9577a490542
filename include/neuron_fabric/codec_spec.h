// A codec spec names a codec and its settings on the command line, in profiles and in JSON:
// `name[:value][+option[=value]]...`, for example `waterfill:4`, `g_binary+majority`,
// `waterfill+width=4`.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "neuron_fabric/status.h"

namespace nf {

struct CodecSpec {
  std::string name;
  std::optional<double> value;                 // after the colon
  std::map<std::string, std::string> options;  // after each plus; a bare option has an empty value

  static Expected<CodecSpec> parse(std::string_view text);

  // The canonical text of this spec: parse(spec.to_string()) == spec.
  std::string to_string() const;

  // Fails if there is a value although the codec takes none, or an option that is not in `known`;
  // suggests the nearest known option.
  Status allow(bool takes_value, std::span<const std::string_view> known) const;

  // The value of an option, or `fallback` if it is absent. Fails if it is not a number in
  // [min, max].
  Expected<double> number(std::string_view option, double fallback, double min, double max) const;
  // Whether a bare option is present. Fails if it has a value.
  Expected<bool> flag(std::string_view option) const;

  friend bool operator==(const CodecSpec&, const CodecSpec&) = default;
};

// The word of `known` nearest to `word` by edit distance, for "did you mean" hints. Empty if no
// word is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

}  // namespace nf
