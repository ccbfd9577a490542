// nf info: the version, instruction sets, transports and codecs of this build.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "codec/isa.h"
#include "neuron_fabric/codec.h"
#include "neuron_fabric/version.h"
#include "nf/bench/codec_speed_cuda.h"
#include "nf/bench/nccl.h"
#include "nf/support/command.h"
#include "nf/support/python.h"
#include "nf/support/table.h"

namespace nf::cli {
namespace {

constexpr bool kHasMpi = NF_WITH_MPI != 0;

std::vector<std::string_view> missing_features(bool has_torch) {
  std::vector<std::string_view> features;
  if (!kHasCuda) features.push_back("cuda");
  if (!kHasMpi) features.push_back("mpi");
  if (!has_torch) features.push_back("torch");
  return features;
}

struct Info {
  std::string_view isa;
  std::vector<std::string_view> isas;
  std::vector<std::string_view> transports;
  std::string torch;  // version found by the helpers' Python; empty if there is none
};

Status print_json(const Info& info) {
  std::vector<std::string_view> codecs;
  for (const CodecEntry& entry : builtin_codecs()) codecs.push_back(entry.name);
  const nlohmann::ordered_json json{
      {"version", kVersion},
      {"isa", info.isa},
      {"isas", info.isas},
      {"codecs", codecs},
      {"transports", info.transports},
      {"cuda", kHasCuda},
      {"mpi", kHasMpi},
      {"torch",
       info.torch.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(info.torch)}};
  fmt::print("{}\n", json.dump());
  return {};
}

Status print_table(const Info& info) {
  Table codecs({{.title = "codec", .is_text = true},
                {.title = "example", .is_text = true},
                {.title = "kind", .is_text = true},
                {.title = "description", .is_text = true}});
  for (const CodecEntry& entry : builtin_codecs()) {
    const Expected<std::unique_ptr<Codec>> codec = make_codec(entry.example);
    if (!codec) return codec.status();
    codecs.add({std::string(entry.name), std::string(entry.example),
                std::string(to_string((*codec)->kind())), std::string(entry.summary)});
  }
  fmt::print("NEURON-Fabric {}\n\n", kVersion);
  fmt::print("instructions  {} (available: {}; select one with NF_FORCE_ISA)\n", info.isa,
             fmt::join(info.isas, ", "));
  fmt::print("transports    {}\n", fmt::join(info.transports, ", "));
  if (!info.torch.empty()) fmt::print("torch         {}\n", info.torch);
  if (const auto features = missing_features(!info.torch.empty()); !features.empty()) {
    fmt::print("without       {}\n", fmt::join(features, ", "));
  }
  fmt::print("\n{}", codecs.text());
  return {};
}

Status run(bool as_json) {
  const Expected<Isa> isa = active_isa();
  if (!isa) return isa.status();
  Info info{.isa = to_string(*isa), .isas = {}, .transports = {"inproc"}, .torch = {}};
  if (kHasMpi) info.transports.push_back("mpi");
  if (kHasNccl) info.transports.push_back("nccl");
  for (const Isa available : available_isas()) info.isas.push_back(to_string(available));
  if (const auto packages = python_packages(python_program(), ""); packages) {
    info.torch = packages->torch;
    if (packages->has_extension) info.transports.push_back("c10d");
  }
  return as_json ? print_json(info) : print_table(info);
}

}  // namespace

void add_info(CLI::App& parent, Action& action) {
  auto* command = parent.add_subcommand("info", "show the features of this build and this CPU");
  auto as_json = std::make_shared<bool>(false);
  command->add_flag("--json", *as_json, "print one JSON object instead of text");
  command->callback([&action, as_json] { action = [as_json] { return run(*as_json); }; });
}

}  // namespace nf::cli
