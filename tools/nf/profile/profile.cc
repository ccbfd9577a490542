// nf profile: what a profile says, whether it fits, and how two of them differ.
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
  std::string what = fmt::format("{}, {}", counted(profile->regions.size(), "region"),
                                 counted(profile->phases.size(), "phase"));
  if (!options.shapes.empty()) {
    const Expected<ModelShapes> model = read_shapes(options.shapes);
    if (!model) return model.status();
    const Expected<Binding> binding = Binding::make(std::move(*profile), model->bindable());
    if (!binding) {
      return {binding.status().code(),
              fmt::format("{}: {}", options.file, binding.status().message())};
    }
    what += fmt::format(", fits the {} of {}", counted(model->parameters.size(), "parameter"),
                        printable(model->name));
  }
  fmt::print("{}: ok, {}\n", options.file, what);
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

// A command about one file, whose work is `run`.
CLI::App* add_command(CLI::App& parent, Action& action, const std::shared_ptr<Options>& options,
                      const std::string& name, const std::string& what,
                      Status (*run)(const Options&)) {
  auto* command = parent.add_subcommand(name, what);
  command->add_option("file", options->file, "a profile")->required()->type_name("FILE");
  command->callback([&action, options, run] { action = [options, run] { return run(*options); }; });
  return command;
}

}  // namespace

void add_profile(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("profile", "show, check and compare profiles");
  command->require_subcommand(1);
  auto options = std::make_shared<Options>();

  auto* one = add_command(*command, action, options, "show", "what a profile says", show);
  one->add_flag("--json", options->as_json,
                "as JSON, with everything that FILE leaves to defaults");

  one = add_command(*command, action, options, "check", "whether a profile is sound", check);
  one->add_option("--shapes", options->shapes, "a model that it must fit, as `nf plan` reads it")
      ->type_name("SHAPES");

  one = add_command(*command, action, options, "diff", "what differs between two profiles", diff);
  one->add_option("other", options->other, "another profile")->required()->type_name("OTHER");
  one->footer("Exits with 0 where they are the same and with 1 where they differ.");
}

}  // namespace nf::cli
