// The testbench of the reducer.
//
//   nf_reducer_tb random MODES LINES [SEED [WORKERS]]   random traffic against the reference
//   nf_reducer_tb resets MODES ROUNDS [SEED]            the same, interrupted by resets
//   nf_reducer_tb concurrent MODES ROUNDS [SEED]        the same, with register accesses; no cycles
//   nf_reducer_tb registers PLANES WORKERS REGIONS RECORDS   the register map and its errors
//   nf_reducer_tb limits GENERATION ERRORS              a device with these limits
//   nf_reducer_tb faults                                flipped bits, distant regions, resets in
//   use nf_reducer_tb replay TRACE ANSWERS [WAVE]           a trace against the answers of the
//   model
//
// MODES are names separated by commas, one region each. LINES is the total of lines written,
// divided among 1 to 64 workers, or among WORKERS.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "concurrent_test.h"
#include "device.h"
#include "faults_test.h"
#include "limits_test.h"
#include "random_traffic.h"
#include "reference.h"
#include "register_test.h"
#include "replay.h"

#ifndef NF_LATENCY
#define NF_LATENCY 5
#endif

namespace nf::rtl {
namespace {

constexpr std::uint64_t kRoundWrites = 4000;

std::string hex(const Line& line) {
  std::string text;
  for (const std::uint8_t byte : line) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

void print(const char* who, const Answer& answer) {
  std::printf("  %s: taken %llu answered %llu code %u complete %d data %s\n", who,
              static_cast<unsigned long long>(answer.taken),
              static_cast<unsigned long long>(answer.answered), static_cast<unsigned>(answer.fault),
              answer.complete, hex(answer.data).c_str());
}

bool enable(Device& device, const Limits& limits, const Round& round) {
  for (unsigned r = 0; r < limits.regions; ++r) device.control(r, 0);
  for (unsigned r = 0; r < round.regions.size(); ++r) {
    if (const Fault fault = device.enable(r, round.regions[r]); fault != Fault::kOk) {
      std::printf("region %u was rejected: %u\n", r, static_cast<unsigned>(fault));
      return false;
    }
  }
  return true;
}

// Accesses of the backing memory in a round of one region: none if it counts. Otherwise every
// request reads, an accepted write writes, and the sum of an fp32 line reads the other slots.
bool check_memory(const Round& round, const std::vector<Answer>& answers, std::uint64_t reads,
                  std::uint64_t writes) {
  if (round.regions.size() != 1) return true;
  const RegionConfig& region = round.regions.front();
  const auto mode = static_cast<Mode>(region.mode);
  std::uint64_t expected_reads = 0, expected_writes = 0;
  if (mode == Mode::kIdentity || mode == Mode::kFp32) {
    expected_reads = answers.size();
    for (std::size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].fault == Fault::kOk && round.requests[i].is_write) ++expected_writes;
      if (answers[i].complete && mode == Mode::kFp32) expected_reads += region.workers - 1;
    }
  }
  if (reads == expected_reads && writes == expected_writes) return true;
  std::printf("the memory was read %llu times and written %llu times, expected %llu and %llu\n",
              static_cast<unsigned long long>(reads), static_cast<unsigned long long>(writes),
              static_cast<unsigned long long>(expected_reads),
              static_cast<unsigned long long>(expected_writes));
  return false;
}

bool play_round(Device& device, const Limits& limits, const Round& round) {
  if (!enable(device, limits, round)) return false;
  Reference reference(limits, NF_LATENCY);
  for (unsigned r = 0; r < round.regions.size(); ++r) reference.enable(r, round.regions[r]);
  const std::vector<Answer> expected = reference.play(round.requests, round.ready);
  std::size_t next = 0, answered = 0;
  bool is_correct = true;
  const std::uint64_t reads = device.line_reads(), writes = device.line_writes();
  Traffic traffic{.next = [&]() -> std::optional<Request> {
                    if (next == round.requests.size()) return {};
                    return round.requests[next++];
                  },
                  .answered =
                      [&](const Answer& answer) {
                        if (is_correct && answer != expected[answered]) {
                          is_correct = false;
                          std::printf(
                              "request %zu, address %llx:\n", answered,
                              static_cast<unsigned long long>(round.requests[answered].address));
                          print("expected", expected[answered]);
                          print("the RTL ", answer);
                        }
                        ++answered;
                      },
                  .ready = round.ready};
  if (!device.play(traffic) || answered != expected.size()) {
    std::printf("%zu of %zu requests were answered\n", answered, expected.size());
    return false;
  }
  return is_correct &&
         check_memory(round, expected, device.line_reads() - reads, device.line_writes() - writes);
}

std::uint64_t written(const Round& round) {
  std::uint64_t lines = 0;
  for (const RegionConfig& region : round.regions) lines += region.workers * region.length;
  return lines;
}

int random_traffic(const std::vector<Mode>& modes, std::uint64_t lines, std::uint64_t seed,
                   std::uint64_t workers) {
  Device device;
  const Limits limits = device.limits();
  std::mt19937_64 random(seed);
  std::uint64_t done = 0, requests = 0, n = 0;
  const auto started = std::chrono::steady_clock::now();
  while (done < lines) {
    // The first region takes each number of workers in turn, other regions a random number.
    n = n % limits.workers + 1;
    std::vector<std::uint64_t> counts{workers != 0 ? workers : n};
    while (counts.size() < modes.size()) counts.push_back(1 + random() % limits.workers);
    const std::uint64_t writes = std::min(kRoundWrites, lines / limits.workers + 1);
    const Round round = random_round(random, limits, modes, counts, writes);
    if (!play_round(device, limits, round)) {
      std::printf("FAILED: seed %llu, %llu lines before it\n",
                  static_cast<unsigned long long>(seed), static_cast<unsigned long long>(done));
      return 1;
    }
    done += written(round);
    requests += round.requests.size();
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  std::printf(
      "ok: %llu lines written, %llu requests, data and cycles as expected (%.0f per second)\n",
      static_cast<unsigned long long>(done), static_cast<unsigned long long>(requests),
      static_cast<double>(requests) / seconds);
  return 0;
}

int concurrent(const std::vector<Mode>& modes, std::uint64_t rounds, std::uint64_t seed) {
  Device device;
  const Limits limits = device.limits();
  std::mt19937_64 random(seed);
  std::uint64_t requests = 0;
  for (std::uint64_t i = 0; i < rounds; ++i) {
    std::vector<std::uint64_t> counts;
    while (counts.size() < modes.size()) counts.push_back(1 + random() % limits.workers);
    const Round round = random_round(random, limits, modes, counts, kRoundWrites);
    if (!enable(device, limits, round) || !play_with_accesses(device, limits, round, random)) {
      std::printf("FAILED: seed %llu, after %llu rounds\n", static_cast<unsigned long long>(seed),
                  static_cast<unsigned long long>(i));
      return 1;
    }
    requests += round.requests.size();
  }
  std::printf("ok: %llu requests beside register accesses, none lost\n",
              static_cast<unsigned long long>(requests));
  return 0;
}

// After each reset, replays the interrupted traffic with the same regions, generations and records.
int resets(const std::vector<Mode>& modes, std::uint64_t rounds, std::uint64_t seed) {
  Device device;
  const Limits limits = device.limits();
  std::mt19937_64 random(seed);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    std::vector<std::uint64_t> counts;
    while (counts.size() < modes.size()) counts.push_back(1 + random() % limits.workers);
    const Round round = random_round(random, limits, modes, counts, kRoundWrites);
    std::size_t next = 0;
    Traffic traffic{.next = [&] { return std::optional(round.requests[next++]); },
                    .answered = [](const Answer&) {},
                    .ready = round.ready,
                    .reset_at = random() % round.requests.size()};
    if (!enable(device, limits, round) || !device.play(traffic) ||
        !play_round(device, limits, round)) {
      std::printf("FAILED: seed %llu, after %llu rounds\n", static_cast<unsigned long long>(seed),
                  static_cast<unsigned long long>(i));
      return 1;
    }
  }
  std::printf("ok: %llu resets, no state survived\n", static_cast<unsigned long long>(rounds));
  return 0;
}

bool parse_modes(std::string text, std::vector<Mode>& modes) {
  text += ',';
  for (std::size_t at = 0, end; (end = text.find(',', at)) != std::string::npos; at = end + 1) {
    const std::string name = text.substr(at, end - at);
    std::size_t mode = 0;
    while (mode < std::size(kModeNames) && name != kModeNames[mode]) ++mode;
    if (mode == std::size(kModeNames)) return false;
    modes.push_back(static_cast<Mode>(mode));
  }
  return true;
}

bool parse_number(const char* text, std::uint64_t& value) {
  const char* end = text + std::strlen(text);
  return std::from_chars(text, end, value).ptr == end && end != text;
}

int usage() {
  std::fprintf(
      stderr,
      "usage: nf_reducer_tb random MODES LINES [SEED [WORKERS]] | resets MODES ROUNDS [SEED] | "
      "concurrent MODES ROUNDS [SEED] | registers PLANES WORKERS REGIONS RECORDS | "
      "limits GENERATION ERRORS | faults | replay TRACE ANSWERS [WAVE]\n");
  return 2;
}

int run(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "random" && argc >= 4 && argc <= 6) {
    std::vector<Mode> modes;
    std::uint64_t lines = 0, seed = 1, workers = 0;
    if (!parse_modes(argv[2], modes) || !parse_number(argv[3], lines) ||
        (argc > 4 && !parse_number(argv[4], seed)) ||
        (argc > 5 && !parse_number(argv[5], workers))) {
      return usage();
    }
    return random_traffic(modes, lines, seed, workers);
  }
  if ((command == "resets" || command == "concurrent") && (argc == 4 || argc == 5)) {
    std::vector<Mode> modes;
    std::uint64_t rounds = 0, seed = 1;
    if (!parse_modes(argv[2], modes) || !parse_number(argv[3], rounds) ||
        (argc > 4 && !parse_number(argv[4], seed))) {
      return usage();
    }
    return (command == "resets" ? resets : concurrent)(modes, rounds, seed);
  }
  if (command == "registers" && argc == 6) {
    std::uint64_t limits[4];
    for (int i = 0; i < 4; ++i) {
      if (!parse_number(argv[2 + i], limits[i])) return usage();
    }
    return test_registers({.planes = static_cast<std::uint32_t>(limits[0]),
                           .workers = static_cast<std::uint32_t>(limits[1]),
                           .regions = static_cast<std::uint32_t>(limits[2]),
                           .records = static_cast<std::uint32_t>(limits[3])});
  }
  if (command == "faults" && argc == 2) return test_faults();
  if (command == "limits" && argc == 4) {
    std::uint64_t generation = 0, errors = 0;
    if (!parse_number(argv[2], generation) || !parse_number(argv[3], errors)) return usage();
    return test_limits(generation, errors);
  }
  if (command == "replay" && (argc == 4 || argc == 5)) {
    Device device;
    if (argc == 5) device.write_wave(argv[4]);
    std::uint64_t compared = 0;
    const std::string error = replay(device, argv[2], argv[3], compared);
    if (!error.empty()) {
      std::printf("FAILED: %s\n", error.c_str());
      return 1;
    }
    std::printf("ok: %llu answers, data and cycles match the model\n",
                static_cast<unsigned long long>(compared));
    return 0;
  }
  return usage();
}

}  // namespace
}  // namespace nf::rtl

int main(int argc, char** argv) { return nf::rtl::run(argc, argv); }
