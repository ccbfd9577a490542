// Profiles for people.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "neuron_fabric/profile.h"

namespace nf::cli {

// Regions, routes by phase, limits, capacity and provenance, as tables.
std::string profile_tables(const Profile& profile);

struct NamedProfile {
  std::string_view file;
  const Profile* profile = nullptr;
};

// One line for each thing that differs; empty where nothing does.
std::string profile_difference(const NamedProfile& first, const NamedProfile& second);

// "1 region", "2 regions".
std::string counted(std::size_t count, std::string_view noun);

}  // namespace nf::cli
