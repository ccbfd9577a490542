// What the library has to say while it runs. It says nothing until a program asks: the default is
// no sink at all, and the level comes from NF_LOG (off, error, warn, info, debug) when one is set.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace nf {

enum class LogLevel { kDebug, kInfo, kWarn, kError, kOff };

// Writes to standard error through spdlog from now on. `level` is a name as in NF_LOG; an unknown
// one counts as "warn" and is itself reported.
void start_logging(std::string_view level);

// Sends every message of at least `level` to `sink` instead; an empty sink goes back to silence.
// Not to be called while other threads log.
void set_log_sink(LogLevel level, std::function<void(LogLevel, std::string_view)> sink);

// Whether a message of this level would be seen: ask before building an expensive one.
bool log_enabled(LogLevel level);

void log(LogLevel level, std::string_view message);

}  // namespace nf
