#include "nf/support/usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <utility>
#include <vector>

#include "neuron_fabric/codec_spec.h"

namespace nf::cli {
namespace {

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  const std::string_view hint = nearest(word, views);
  return hint.empty() ? "" : fmt::format("; did you mean '{}'?", hint);
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> items_of(const std::string& list) {
  std::vector<std::string> items;
  std::size_t at = 0;
  for (std::size_t comma; (comma = list.find(',', at)) != std::string::npos; at = comma + 1) {
    items.push_back(list.substr(at, comma - at));
  }
  items.push_back(list.substr(at));
  return items;
}

}  // namespace

std::string full_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : full_name(*parent) + " " + app.get_name();
}

const CLI::App& selected_command(const CLI::App& app) {
  const std::vector<CLI::App*> selected = app.get_subcommands();
  return selected.empty() ? app : selected_command(*selected.front());
}

Expected<const CLI::App*> find_command(const CLI::App& app, const std::string& word) {
  for (const CLI::App* command : commands_of(app)) {
    if (command->get_name() == word) return command;
  }
  return Status(ErrorCode::kBadConfig, fmt::format("'{}' has no command '{}'{}", full_name(app),
                                                   word, did_you_mean(word, command_names(app))));
}

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& at = selected_command(app);
  const std::vector<std::string> unknown = app.remaining(true);
  const std::vector<std::string> commands = command_names(at);
  if (unknown.empty()) {
    if (commands.empty()) return error.what();
    return fmt::format("'{}' needs a command: {}", full_name(at), fmt::join(commands, ", "));
  }
  const std::string word = unknown.front().substr(0, unknown.front().find('='));
  if (word.starts_with('-')) {
    return fmt::format("'{}' has no option '{}'{}", full_name(at), word,
                       did_you_mean(word, option_names(at)));
  }
  if (commands.empty()) return fmt::format("'{}' takes no argument '{}'", full_name(at), word);
  return find_command(at, word).status().message();
}

CLI::Option* add_choice(CLI::App& command, const std::string& name, std::string& value,
                        const std::vector<std::string>& choices, const std::string& description) {
  return command.add_option(name, value, description)
      ->type_name(fmt::format("{}", fmt::join(choices, "|")))
      ->check(CLI::IsMember(choices).description(""))
      ->capture_default_str();
}

CLI::Option* add_list(CLI::App& command, const std::string& name,
                      const std::function<void(const std::vector<std::string>&)>& assign,
                      const std::function<std::string(const std::string&)>& error_of,
                      const std::string& description) {
  const auto assign_items = [assign](const std::vector<std::string>& lists) {
    std::vector<std::string> all;
    for (const std::string& list : lists) {
      for (std::string& item : items_of(list)) all.push_back(std::move(item));
    }
    assign(all);
  };
  const auto error_of_list = [error_of](const std::string& list) -> std::string {
    for (const std::string& item : items_of(list)) {
      if (item.empty()) return fmt::format("'{}' has an empty item", list);
      if (std::string error = error_of(item); !error.empty()) return error;
    }
    return {};
  };
  return command.add_option_function<std::vector<std::string>>(name, assign_items, description)
      ->allow_extra_args(false)
      ->check(error_of_list);
}

CLI::Option* add_names(CLI::App& command, const std::string& name, std::vector<std::string>& names,
                       const std::string& description) {
  const auto assign = [&names](const std::vector<std::string>& items) { names = items; };
  const auto accept = [](const std::string&) { return std::string(); };
  return add_list(command, name, assign, accept, description)
      ->type_name("A,B...")
      ->default_str(fmt::format("{}", fmt::join(names, ",")));
}

void add_json_flag(CLI::App& command, bool& as_json) {
  command.add_flag("--json", as_json, "print one JSON object per line instead of a table");
}

}  // namespace nf::cli
