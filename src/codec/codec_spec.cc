#include "neuron_fabric/codec_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <vector>

namespace nf {
namespace {

constexpr std::size_t kMaxLength = 200;  // much longer than any valid spec

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_';
  });
}

std::optional<double> parse_number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(number)) return std::nullopt;
  return number;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 2) + 1;
  for (const std::string_view candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

Expected<CodecSpec> CodecSpec::parse(std::string_view text) {
  const auto fail = [&](std::string_view why) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("codec spec '{}': {}; the format is name[:value][+option[=value]]...",
                              text.substr(0, kMaxLength), why));
  };
  const std::string too_long = fmt::format("longer than {} characters", kMaxLength);
  if (text.size() > kMaxLength) return fail(too_long);

  CodecSpec spec;
  const std::string_view head = text.substr(0, text.find('+'));
  const std::size_t colon = head.find(':');
  spec.name = head.substr(0, colon);
  if (!is_word(spec.name)) return fail("the name must consist of letters, digits and '_'");
  if (colon != std::string_view::npos) {
    spec.value = parse_number(head.substr(colon + 1));
    if (!spec.value) return fail("the value after ':' is not a number");
  }
  std::string_view rest = text.substr(head.size());
  while (!rest.empty()) {
    rest.remove_prefix(1);  // the plus
    const std::string_view option = rest.substr(0, rest.find('+'));
    rest.remove_prefix(option.size());
    const std::size_t equals = option.find('=');
    const std::string_view key = option.substr(0, equals);
    if (!is_word(key)) return fail("an option must consist of letters, digits and '_'");
    std::string value;
    if (equals != std::string_view::npos) {
      value = option.substr(equals + 1);
      if (value.empty()) return fail(fmt::format("option '{}' has no value after '='", key));
    }
    if (!spec.options.emplace(key, value).second) {
      return fail(fmt::format("option '{}' is given twice", key));
    }
  }
  // to_string() may be longer than `text` (1e3 becomes 1000) and must be accepted by parse().
  if (spec.to_string().size() > kMaxLength) return fail(too_long);
  return spec;
}

std::string CodecSpec::to_string() const {
  std::string text = name;
  if (value) {
    text += fmt::format(":{}", *value);
    std::erase(text, '+');  // 1e+20: a plus would start an option
  }
  for (const auto& [key, option] : options) {
    text += '+' + key;
    if (!option.empty()) text += '=' + option;
  }
  return text;
}

Status CodecSpec::allow(bool takes_value, std::span<const std::string_view> known) const {
  if (value && !takes_value) {
    return {ErrorCode::kBadConfig,
            fmt::format("codec '{}' takes no value; omit ':{}'", name, *value)};
  }
  for (const auto& [key, option] : options) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string_view hint = nearest(key, known);
    const std::string remedy = !hint.empty() ? fmt::format("did you mean '{}'?", hint)
                               : known.empty()
                                   ? "it takes no options"
                                   : fmt::format("its options are {}", fmt::join(known, ", "));
    return {ErrorCode::kBadConfig,
            fmt::format("codec '{}' has no option '{}'; {}", name, key, remedy)};
  }
  return {};
}

Expected<double> CodecSpec::number(std::string_view option, double fallback, double min,
                                   double max) const {
  const auto found = options.find(std::string(option));
  if (found == options.end()) return fallback;
  const std::optional<double> number = parse_number(found->second);
  if (!number || !(*number >= min && *number <= max)) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("codec '{}': option '{}={}' must be a number from {} to {}", name,
                              option, found->second, min, max));
  }
  return *number;
}

Expected<bool> CodecSpec::flag(std::string_view option) const {
  const auto found = options.find(std::string(option));
  if (found == options.end()) return false;
  if (!found->second.empty()) {
    return Status(ErrorCode::kBadConfig,
                  fmt::format("codec '{}': option '{}' takes no value; omit '={}'", name, option,
                              found->second));
  }
  return true;
}

}  // namespace nf
