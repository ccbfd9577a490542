#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <utility>

namespace nf {
namespace {

struct Sink {
  LogLevel level = LogLevel::kOff;
  std::function<void(LogLevel, std::string_view)> write;
};

Sink& sink() {
  static Sink instance;
  return instance;
}

constexpr std::array<std::pair<std::string_view, LogLevel>, 5> kNames{{
    {"debug", LogLevel::kDebug},
    {"info", LogLevel::kInfo},
    {"warn", LogLevel::kWarn},
    {"error", LogLevel::kError},
    {"off", LogLevel::kOff},
}};

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarn: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kOff: break;
  }
  return spdlog::level::off;
}

}  // namespace

void start_logging(std::string_view level) {
  LogLevel chosen = LogLevel::kWarn;
  bool known = false;
  for (const auto& [name, value] : kNames) {
    if (name == level) {
      chosen = value;
      known = true;
    }
  }
  auto logger = std::make_shared<spdlog::logger>(
      "neuron_fabric", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_level(spdlog::level::trace);
  set_log_sink(chosen, [logger](LogLevel at, std::string_view message) {
    logger->log(to_spdlog(at), message);
  });
  if (!known) {
    log(LogLevel::kWarn, "unknown log level '" + std::string(level) +
                             "'; use debug, info, warn, error or off (now: warn)");
  }
}

void set_log_sink(LogLevel level, std::function<void(LogLevel, std::string_view)> write) {
  const bool silent = !write;
  sink() = Sink{silent ? LogLevel::kOff : level, std::move(write)};
}

bool log_enabled(LogLevel level) { return level >= sink().level && level != LogLevel::kOff; }

void log(LogLevel level, std::string_view message) {
  if (log_enabled(level)) sink().write(level, message);
}

}  // namespace nf
