#include "cxl/workload.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "base/random.h"
#include "codec/codes.h"
#include "cxl/read_out.h"
#include "neuron_fabric/codec.h"

namespace nf::cxl {
namespace {

constexpr std::uint64_t kBase = 0x10'0000'0000u;

// A line that a worker may write in this mode, from 512 random bits.
Line line_for(Mode mode, const Line& line) {
  std::array<std::byte, kLineBytes> bytes;
  std::copy(bytes_of(line).begin(), bytes_of(line).end(), bytes.begin());
  if (mode == Mode::kGTernary) {
    for (std::byte& byte : bytes) byte = std::byte(std::to_integer<unsigned>(byte) % 243);
  } else if (mode == Mode::kFp32) {
    for (std::size_t i = 3; i < kLineBytes; i += 4) {  // exponents near each other
      bytes[i] = (bytes[i] & std::byte{0x83}) | std::byte{0x3c};
    }
  } else {
    return line;
  }
  return line_of(bytes);
}

}  // namespace

Workload::Workload(const WorkloadOptions& options) : options_(options), data_(writes()) {
  config_ = {.mode = static_cast<std::uint64_t>(options.mode),
             .workers = options.workers,
             .base = kBase,
             .length = options.lines,
             .stride = kLineShift};
  while (std::uint64_t{1} << config_.stride < options.lines * kLineBytes) ++config_.stride;
  reads_of_line_ = options.mode == Mode::kIdentity
                       ? options.workers
                       : result_windows_of(options.mode, options.workers);
  std::uint64_t draw = mix64(options.seed + kGolden64);
  for (Line& line : data_) {
    for (std::uint64_t& word : line.words) word = mix64(draw += kGolden64);
    line = line_for(options.mode, line);
  }
}

Workload::Step Workload::step(std::uint64_t number) const {
  const std::uint64_t lines = options_.lines;
  if (number < writes()) {
    const std::uint64_t worker = number % options_.workers;
    const std::uint64_t begin = options_.order == WriteOrder::kApart ? mix64(worker) % lines : 0;
    return {.is_write = true,
            .window = static_cast<std::uint32_t>(worker),
            .line = static_cast<std::uint32_t>((number / options_.workers + begin) % lines)};
  }
  const std::uint64_t read = number - writes();
  const std::uint32_t first = options_.mode == Mode::kIdentity ? 0 : options_.workers;
  return {.window = first + static_cast<std::uint32_t>(read % reads_of_line_),
          .line = static_cast<std::uint32_t>(read / reads_of_line_)};
}

// In step, the last worker completes every line. Apart, workers start at different places of a
// circle, and a line is completed by the worker that started right after it: in its last steps each
// worker completes every line it writes, as many as there are between its start and the previous.
std::vector<Workload::Stretch> Workload::stretches() const {
  const auto all = static_cast<double>(writes());
  const double workers = options_.workers;
  if (options_.order == WriteOrder::kInStep) return {{.writes = all, .completing = 1 / workers}};
  std::vector<std::uint64_t> begins;
  for (std::uint64_t worker = 0; worker < options_.workers; ++worker) {
    begins.push_back(mix64(worker) % options_.lines);
  }
  std::sort(begins.begin(), begins.end());
  std::vector<std::uint64_t> gaps{begins.front() + options_.lines - begins.back()};
  for (std::size_t i = 1; i < begins.size(); ++i) gaps.push_back(begins[i] - begins[i - 1]);
  std::sort(gaps.begin(), gaps.end());
  std::vector<Stretch> stretches;
  double from_end = 0;  // steps of all workers
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    const auto gap = static_cast<double>(gaps[i]);
    stretches.push_back({.writes = workers * (gap - from_end),
                         .completing = (workers - static_cast<double>(i)) / workers});
    from_end = gap;
  }
  stretches.push_back({.writes = all - workers * from_end, .completing = 0});
  return stretches;
}

Request Workload::request(const Step& step) const {
  Request request{.is_write = step.is_write,
                  .address = config_.base + (std::uint64_t{step.window} << config_.stride) +
                             step.line * kLineBytes};
  if (step.is_write) request.data = written(step.window, step.line);
  return request;
}

Expected<std::vector<Line>> Workload::expected_reads() const {
  if (counts_digits(options_.mode)) return expected_planes();
  std::vector<Line> all;
  for (std::uint32_t line = 0; line < options_.lines; ++line) {
    if (options_.mode == Mode::kFp32) {
      all.push_back(added(line));
    } else {
      for (std::uint32_t k = 0; k < options_.workers; ++k) all.push_back(written(k, line));
    }
  }
  return all;
}

// Shares no code with the reducer, which it checks. Precondition: all values are finite.
Line Workload::added(std::uint32_t line) const {
  constexpr std::size_t kValues = kLineBytes / sizeof(float);
  std::array<float, kValues> sums;
  std::memcpy(sums.data(), bytes_of(written(0, line)).data(), kLineBytes);
  for (std::uint32_t worker = 1; worker < options_.workers; ++worker) {
    for (std::size_t i = 0; i < kValues; ++i) {
      float value = 0;
      std::memcpy(&value, bytes_of(written(worker, line)).data() + i * sizeof(float),
                  sizeof(value));
      sums[i] += value;
    }
  }
  return line_of(std::as_bytes(std::span(sums)));
}

// The codec merges the messages of all workers; its codes are converted back to planes.
Expected<std::vector<Line>> Workload::expected_planes() const {
  const Expected<std::unique_ptr<Codec>> codec = make_codec(to_string(options_.mode));
  if (!codec) return codec.status();
  const Slice slice{.count = std::size_t{options_.lines} * elements_of(options_.mode),
                    .ranks = options_.workers};
  const auto message_of = [&](std::uint32_t worker) {
    std::vector<std::byte> message(sign_codes_at(slice.count));
    const auto bytes = std::as_bytes(
        std::span(data_).subspan(std::size_t{worker} * options_.lines, options_.lines));
    message.insert(message.end(), bytes.begin(), bytes.end());
    return message;
  };
  std::vector<std::byte> sum = message_of(0);
  for (std::uint32_t k = 1; k < options_.workers; ++k) {
    std::vector<std::byte> merged((*codec)->encoded_size(slice, k + 1));
    NF_RETURN_IF_ERROR((*codec)->merge(slice, {.encoder = 0, .contributions = k}, sum,
                                       {.encoder = k}, message_of(k), 0, merged));
    sum = std::move(merged);
  }
  const std::span<const std::byte> codes = std::span(sum).subspan(sign_codes_at(slice.count));
  const unsigned planes = planes_of(options_.mode, options_.workers);
  const std::size_t elements = elements_of(options_.mode);
  std::vector<Line> all(std::size_t{options_.lines} * planes);
  if (options_.workers == 1 && options_.mode == Mode::kGTernary) {  // five digits per byte
    for (std::uint32_t line = 0; line < options_.lines; ++line) {
      const std::uint32_t powers[] = {1, 3, 9, 27, 81};
      for (std::size_t e = 0; e < elements; ++e) {
        const auto byte =
            std::to_integer<std::uint32_t>(codes[line * kLineBytes + e / 160 * 32 + e % 32]);
        const std::uint64_t digit = byte / powers[e % 160 / 32] % 3;
        for (unsigned k = 0; k < planes; ++k) {
          all[line * planes + k].words[e / 64] |= (digit >> k & 1) << (e % 64);
        }
      }
    }
    return all;
  }
  for (std::size_t p = 0; p < slice.count / kPack; ++p) {
    std::uint32_t pack[kPack];
    unpack_codes(codes.data() + p * pack_bytes(planes), planes, pack);
    const std::size_t line = p * kPack / elements;
    for (std::size_t i = 0; i < kPack; ++i) {
      const std::size_t e = p * kPack % elements + i;
      for (unsigned k = 0; k < planes; ++k) {
        all[line * planes + k].words[e / 64] |= std::uint64_t{pack[i] >> k & 1} << (e % 64);
      }
    }
  }
  return all;
}

}  // namespace nf::cxl
