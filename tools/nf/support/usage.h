// Options that several commands share, and the messages for invalid command lines.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "neuron_fabric/status.h"

namespace nf::cli {

// "nf bench codec".
std::string full_name(const CLI::App& app);

// The innermost command that the command line selected.
const CLI::App& selected_command(const CLI::App& app);

// The command `word` of `app`. Fails with a hint to the nearest name.
Expected<const CLI::App*> find_command(const CLI::App& app, const std::string& word);

// The message for a command line that `app` failed to parse.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

// to_string() of each item, for help texts and checks.
template <typename Range>
std::vector<std::string> names_of(const Range& items) {
  std::vector<std::string> names;
  for (const auto& item : items) names.emplace_back(to_string(item));
  return names;
}

// An option that accepts one of `choices`, which the help shows as "a|b|c".
CLI::Option* add_choice(CLI::App& command, const std::string& name, std::string& value,
                        const std::vector<std::string>& choices, const std::string& description);

// An option that accepts a list, separated by commas. Given several times, the lists are joined.
// `error_of` returns the error of an item, or an empty string. Empty items are errors.
CLI::Option* add_list(CLI::App& command, const std::string& name,
                      const std::function<void(const std::vector<std::string>&)>& assign,
                      const std::function<std::string(const std::string&)>& error_of,
                      const std::string& description);

// A list of names.
CLI::Option* add_names(CLI::App& command, const std::string& name, std::vector<std::string>& names,
                       const std::string& description);

// --json.
void add_json_flag(CLI::App& command, bool& as_json);

}  // namespace nf::cli
