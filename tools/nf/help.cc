// nf help: `nf help bench codec` prints the same as `nf bench codec --help`.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "nf/support/command.h"
#include "nf/support/helper.h"
#include "nf/support/usage.h"

namespace nf::cli {
namespace {

Status run(const CLI::App& root, const std::vector<std::string>& words) {
  if (const Helper* helper = words.size() == 1 ? find_helper(words[0]) : nullptr) {
    const char* const arguments[] = {"--help", nullptr};
    return start_helper(*helper, arguments);
  }
  const CLI::App* at = &root;
  for (const std::string& word : words) {
    const Expected<const CLI::App*> command = find_command(*at, word);
    if (!command) return command.status();
    at = *command;
  }
  // App::help() would print the help of the selected command, which is `nf help`.
  fmt::print("{}", at->get_formatter()->make_help(at, full_name(*at), CLI::AppFormatMode::Normal));
  return {};
}

}  // namespace

void add_help(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("help", "show the help of a command");
  auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("command", *words, "a command, for example `bench codec`")
      ->type_name("COMMAND");
  command->callback(
      [&parent, &action, words] { action = [&parent, words] { return run(parent, *words); }; });
}

}  // namespace nf::cli
