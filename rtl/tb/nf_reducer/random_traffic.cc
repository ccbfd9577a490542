#include "random_traffic.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "reference.h"

namespace nf::rtl {
namespace {

using Random = std::mt19937_64;

constexpr unsigned kAddressBits = 48;

bool chance(Random& random, double probability) {
  return std::uniform_real_distribution<>(0, 1)(random) < probability;
}

std::uint64_t below(Random& random, std::uint64_t end) { return random() % end; }

Line random_line(Random& random, Mode mode) {
  Line line;
  for (std::size_t i = 0; i < line.size(); i += 8) {
    const std::uint64_t word = random();
    std::memcpy(&line[i], &word, 8);
  }
  if (mode == Mode::kGTernary) {
    for (std::uint8_t& byte : line) byte = static_cast<std::uint8_t>(byte % 243);
  }
  // FP32: half of the lines are arbitrary bits, including NaN and infinity; half have similar
  // values.
  if (mode == Mode::kFp32 && chance(random, 0.5)) {
    for (std::size_t i = 3; i < line.size(); i += 4) {
      line[i] = static_cast<std::uint8_t>((line[i] & 0x80) | 0x3f);
    }
  }
  // Lines of ones drive the counters to their maximum.
  if (mode == Mode::kGBinary && chance(random, 0.25)) line.fill(0xff);
  if (mode == Mode::kGTernary && chance(random, 0.25)) line.fill(242);
  return line;
}

Request request_of(Random& random, const RegionConfig& region, bool is_write, std::uint64_t window,
                   std::uint64_t line) {
  Request request{.is_write = is_write,
                  .address = region.base + (window << region.stride) + 64 * line};
  if (is_write) request.data = random_line(random, static_cast<Mode>(region.mode));
  return request;
}

// A request that is rejected or may come too early.
Request faulty_request(Random& random, const RegionConfig& region, std::uint64_t window,
                       std::uint64_t line) {
  const auto mode = static_cast<Mode>(region.mode);
  const std::uint64_t results = result_windows(mode, region.workers);
  const std::uint64_t any_window = below(random, region.workers + results);
  switch (below(random, 6)) {
    case 0: return request_of(random, region, false, any_window, line);
    case 1: return request_of(random, region, true, any_window, line);  // a result, or a duplicate
    case 2: {
      Request request = request_of(random, region, chance(random, 0.5), window, line);
      request.address += 1 + below(random, 63);
      return request;
    }
    case 3: return request_of(random, region, true, window, region.length);
    case 4: {
      Request request = request_of(random, region, chance(random, 0.5), window, line);
      if (chance(random, 0.5)) {
        request.address ^= std::uint64_t{1} << (6 + below(random, kAddressBits - 6));
      } else {
        request.address = random() & ((std::uint64_t{1} << kAddressBits) - 1);
      }
      return request;
    }
    default: {
      Request request = request_of(random, region, true, window, line);
      if (mode == Mode::kGTernary) request.data[below(random, 64)] = 243 + below(random, 13);
      return request;
    }
  }
}

// The writes of one region in a random order, then its reads.
std::vector<Request> region_requests(Random& random, const RegionConfig& region) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;  // line, worker
  for (std::uint64_t line = 0; line < region.length; ++line) {
    for (std::uint64_t worker = 0; worker < region.workers; ++worker) {
      places.emplace_back(line, worker);
    }
  }
  switch (below(random, 4)) {
    case 0: std::shuffle(places.begin(), places.end(), random); break;
    case 1: break;  // all workers on one line, then the next
    case 2:
      std::sort(places.begin(), places.end(), [](auto a, auto b) {
        return std::swap(a.first, a.second), std::swap(b.first, b.second), a < b;
      });
      break;
    default:  // a few lines at a time
      for (std::size_t i = 0; i < places.size(); i += 4 * region.workers) {
        const std::size_t end = std::min(places.size(), i + 4 * region.workers);
        std::shuffle(places.begin() + static_cast<std::ptrdiff_t>(i),
                     places.begin() + static_cast<std::ptrdiff_t>(end), random);
      }
  }
  std::vector<Request> requests;
  const double fault_rate = chance(random, 0.5) ? 0.0 : 0.05;
  for (const auto& [line, worker] : places) {
    if (chance(random, fault_rate))
      requests.push_back(faulty_request(random, region, worker, line));
    requests.push_back(request_of(random, region, true, worker, line));
    if (chance(random, fault_rate))
      requests.push_back(faulty_request(random, region, worker, line));
  }
  const auto mode = static_cast<Mode>(region.mode);
  const std::uint64_t first = mode == Mode::kIdentity ? 0 : region.workers;
  const std::uint64_t end = region.workers + result_windows(mode, region.workers);
  for (std::uint64_t window = first; window < end; ++window) {
    for (std::uint64_t line = 0; line < region.length; ++line) {
      requests.push_back(request_of(random, region, false, window, line));
    }
  }
  return requests;
}

std::string random_ready(Random& random) {
  const double densities[] = {1.0, 1.0, 0.9, 0.5, 0.1};
  const double density = densities[below(random, std::size(densities))];
  std::string ready(1 + below(random, 40), '1');
  for (char& c : ready) c = chance(random, density) ? '1' : '0';
  ready[below(random, ready.size())] = '1';
  return ready;
}

void spread(Random& random, std::vector<Request>& requests) {
  const double idle = chance(random, 0.5) ? 0.0 : chance(random, 0.5) ? 0.1 : 0.7;
  std::uint64_t cycle = 0;
  for (Request& request : requests) {
    if (chance(random, idle)) cycle += 1 + below(random, 9);
    request.cycle = cycle++;
  }
}

}  // namespace

Round random_round(Random& random, const Limits& limits, const std::vector<Mode>& modes,
                   const std::vector<std::uint64_t>& workers, std::uint64_t writes) {
  Round round;
  std::vector<std::vector<Request>> queues;
  // All regions together have less than 2^43 bytes.
  constexpr std::uint64_t kBases = (std::uint64_t{1} << kAddressBits) - (std::uint64_t{1} << 43);
  std::uint64_t store = 0, base = 64 * below(random, kBases / 64);
  for (std::size_t i = 0; i < modes.size(); ++i) {
    std::uint64_t count = workers[i];
    while (result_windows(modes[i], count) > limits.planes) --count;
    RegionConfig region{.mode = static_cast<std::uint64_t>(modes[i]),
                        .workers = count,
                        .base = base,
                        .length = std::clamp<std::uint64_t>(writes / modes.size() / count, 1,
                                                            limits.records / modes.size()),
                        .store = store};
    region.stride =
        6 + static_cast<std::uint64_t>(std::bit_width(region.length)) + below(random, 12);
    store += region.length;
    base += (region.workers + result_windows(modes[i], region.workers)) << region.stride;
    if (chance(random, 0.5)) base += 64 * below(random, 1000);
    round.regions.push_back(region);
    queues.push_back(region_requests(random, region));
    std::reverse(queues.back().begin(), queues.back().end());
  }
  // Interleave the regions, a few requests at a time.
  while (!queues.empty()) {
    auto& queue = queues[below(random, queues.size())];
    for (std::uint64_t n = 1 + below(random, 4); n > 0 && !queue.empty(); --n) {
      round.requests.push_back(queue.back());
      queue.pop_back();
    }
    std::erase_if(queues, [](const auto& q) { return q.empty(); });
  }
  spread(random, round.requests);
  round.ready = random_ready(random);
  return round;
}

}  // namespace nf::rtl
