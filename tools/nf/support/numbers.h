// Options that accept decimal numbers. A number outside of the range of its option, NaN, Inf and an
// empty item of a list are errors.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "nf/support/usage.h"

namespace nf::cli {

// Both ends belong to the range.
template <typename Number>
struct NumberRange {
  Number min = std::numeric_limits<Number>::lowest();
  Number max = std::numeric_limits<Number>::max();

  // nullopt if `text` is not a number of this range.
  std::optional<Number> parse(std::string_view text) const {
    Number number{};
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    const bool is_number = error == std::errc() && rest == end;
    // Both comparisons are false for NaN.
    return is_number && number >= min && number <= max ? std::optional(number) : std::nullopt;
  }

  // An error message, or an empty string if parse() succeeds.
  std::string error_of(std::string_view text) const {
    if (parse(text)) return {};
    return fmt::format("'{}' is not {} from {} to {}", text,
                       std::is_integral_v<Number> ? "an integer" : "a number", min, max);
  }
};

// An option that accepts one number. The help shows no default.
template <typename Number>
CLI::Option* add_number(CLI::App& command, const std::string& name, std::optional<Number>& value,
                        const std::type_identity_t<NumberRange<Number>>& range,
                        const std::string& description) {
  const auto assign = [&value, range](const std::string& text) { value = range.parse(text); };
  return command.add_option_function<std::string>(name, assign, description)
      ->type_name(std::is_integral_v<Number> ? "N" : "X")
      ->check([range](const std::string& text) { return range.error_of(text); });
}

// The same with the current value as the default.
template <typename Number>
requires std::is_arithmetic_v<Number> CLI::Option* add_number(
    CLI::App& command, const std::string& name, Number& value,
    const std::type_identity_t<NumberRange<Number>>& range, const std::string& description) {
  const auto assign = [&value, range](const std::string& text) { value = *range.parse(text); };
  return command.add_option_function<std::string>(name, assign, description)
      ->type_name(std::is_integral_v<Number> ? "N" : "X")
      ->default_str(fmt::format("{}", value))
      ->check([range](const std::string& text) { return range.error_of(text); });
}

// An option that accepts a list of numbers, separated by commas.
template <typename Number>
CLI::Option* add_numbers(CLI::App& command, const std::string& name, std::vector<Number>& values,
                         const std::type_identity_t<NumberRange<Number>>& range,
                         const std::string& description) {
  const auto assign = [&values, range](const std::vector<std::string>& items) {
    values.clear();
    for (const std::string& item : items) values.push_back(*range.parse(item));
  };
  const auto error_of = [range](const std::string& item) { return range.error_of(item); };
  return add_list(command, name, assign, error_of, description)
      ->type_name(std::is_integral_v<Number> ? "N,..." : "X,...")
      ->default_str(fmt::format("{}", fmt::join(values, ",")));
}

}  // namespace nf::cli
