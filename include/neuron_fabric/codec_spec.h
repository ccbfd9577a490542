// How a codec is spelled on the command line, in a profile and in JSON:
// `name[:value][+option[=value]]...`, as in `waterfill:4`, `g_binary+majority`,
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

  // The one spelling of this codec: parse(to_string(spec)) == spec.
  std::string to_string() const;

  // Fails, naming the nearest known word, if there is a value where none is taken or an option
  // that is not in `known`.
  Status allow(bool takes_value, std::span<const std::string_view> known) const;

  // An option as a number. Fails if it is not one or lies outside [least, most].
  Expected<double> number(std::string_view option, double fallback, double least,
                          double most) const;
  // A bare option. Fails if it was given a value.
  Expected<bool> flag(std::string_view option) const;

  friend bool operator==(const CodecSpec&, const CodecSpec&) = default;
};

// The word of `known` nearest to `word` by edit distance, for "did you mean" hints; empty if none
// is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

}  // namespace nf
