// nf profile: shows, validates and compares profiles.
#include "neuron_fabric/profile.h"

#include <fmt/format.h>

#include <memory>
#include <string>

#include "neuron_fabric/binding.h"
#include "nf/plan/shapes.h"
#include "nf/profile/text.h"
#include "nf/support/command.h"
#include "nf/support/table.h"

namespace nf::cli {
namespace {

struct Options {
  std::string file;
  std::string other;
  std::string shapes;
  bool as_json = false;
};

Status show(const Options& options) {
  const Expected<Profile> profile = Profile::read(options.file);
  if (!profile) return profile.status();
  fmt::print("{}", options.as_json ? profile->print() : profile_tables(*profile));
  return {};
}

Status check(const Options& options) {
  Expected<Profile> profile = Profile::read(options.file);
  if (!profile) return profile.status();
  std::string summary = fmt::format("{}, {}", counted(profile->regions.size(), "region"),
                                    counted(profile->phases.size(), "phase"));
  if (!options.shapes.empty()) {
    const Expected<ModelShapes> model = read_shapes(options.shapes);
    if (!model) return model.status();
    const Expected<Binding> binding = Binding::make(std::move(*profile), model->bindable());
    if (!binding) {
      return {binding.status().code(),
              fmt::format("{}: {}", options.file, binding.status().message())};
    }
    summary += fmt::format(", fits the {} of {}", counted(model->parameters.size(), "parameter"),
                           printable(model->name));
  }
  fmt::print("{}: ok, {}\n", options.file, summary);
  return {};
}

Status diff(const Options& options) {
  const Expected<Profile> first = Profile::read(options.file);
  if (!first) return first.status();
  const Expected<Profile> second = Profile::read(options.other);
  if (!second) return second.status();
  const std::string lines = profile_difference({options.file, &*first}, {options.other, &*second});
  if (lines.empty()) return {};
  fmt::print("{}", lines);
  return {ErrorCode::kDisagreement, fmt::format("{} and {} differ", options.file, options.other)};
}

// Adds a command that takes a profile.
CLI::App* add_command(CLI::App& parent, Action& action, const std::shared_ptr<Options>& options,
                      const std::string& name, const std::string& description,
                      Status (*run)(const Options&)) {
  auto* command = parent.add_subcommand(name, description);
  command->add_option("file", options->file, "a profile")->required()->type_name("FILE");
  command->callback([&action, options, run] { action = [options, run] { return run(*options); }; });
  return command;
}

}  // namespace

void add_profile(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("profile", "show, check and compare profiles");
  command->require_subcommand(1);
  auto options = std::make_shared<Options>();

  auto* one = add_command(*command, action, options, "show", "show a profile as tables", show);
  one->add_flag("--json", options->as_json, "print JSON, including all defaults");

  one = add_command(*command, action, options, "check", "check a profile for errors", check);
  one->add_option("--shapes", options->shapes,
                  "a model that the profile must fit; see `nf plan --help` for the format")
      ->type_name("SHAPES");

  one =
      add_command(*command, action, options, "diff", "show the differences of two profiles", diff);
  one->add_option("other", options->other, "another profile")->required()->type_name("OTHER");
  one->footer("Exit status: 0 if the profiles are equal, 1 if they differ.");
}

}  // namespace nf::cli
