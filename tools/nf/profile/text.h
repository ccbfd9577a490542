// Profiles as readable text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "neuron_fabric/profile.h"

namespace nf::cli {

// Tables of the regions, the routes per training phase, the limits, the capacity of the reducer and
// the provenance.
std::string profile_tables(const Profile& profile);

struct NamedProfile {
  std::string_view file;
  const Profile* profile = nullptr;
};

// One line per difference; empty if the profiles are equal.
std::string profile_difference(const NamedProfile& first, const NamedProfile& second);

// "1 region", "2 regions".
std::string counted(std::size_t count, std::string_view noun);

}  // namespace nf::cli
