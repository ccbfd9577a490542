// What to say of a command line that asks for something there is not.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "neuron_fabric/status.h"

namespace nf::cli {

// "nf bench codec".
std::string full_name(const CLI::App& app);

// The command that the words so far have led to.
const CLI::App& deepest_chosen(const CLI::App& app);

// The command `word` of `app`. Fails with the nearest there is.
Expected<const CLI::App*> find_command(const CLI::App& app, const std::string& word);

// What is wrong with the command line that `app` failed to parse, in a sentence.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace nf::cli
