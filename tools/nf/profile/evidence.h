// The evidence of a calibration, which `nf calibrate` stores in the provenance of a profile.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace nf::cli {

// Whether the key of the provenance is evidence: shown by evidence_tables(), or the raw data of its
// tables.
bool is_evidence(const std::string& key);

// Tables of routes per region and of branches; empty if there is no evidence. A provenance may
// contain anything, so entries of another form are skipped.
std::string evidence_tables(const nlohmann::ordered_json& provenance);

}  // namespace nf::cli
