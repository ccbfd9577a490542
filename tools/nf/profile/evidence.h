// What a calibration found out, as `nf calibrate` leaves it in a profile's provenance.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace nf::cli {

// Keys of the provenance that evidence_tables() shows, or that hold what its tables were made of.
bool is_evidence(const std::string& key);

// Tables of routes by region and of branches. Empty where there is no evidence; a provenance may
// hold anything, so what does not look like evidence is passed over.
std::string evidence_tables(const nlohmann::ordered_json& provenance);

}  // namespace nf::cli
