// A call in four steps, with a barrier after the first and the second:
//
//   write    this rank's scales and digits as lines into its window
//   reduce   a share of all lines: this rank acts as the controller for them
//   check    whether the lines of any rank were rejected
//   read     the sums
//
// Two sets of windows alternate, so a rank may start the next call while others still read.
#include "neuron_fabric/shared_reducer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/checksum.h"
#include "codec/sign/sign_format.h"
#include "cxl/read_out.h"
#include "cxl/reducer.h"
#include "cxl/shared_plan.h"
#include "cxl/shared_record.h"
#include "cxl/shared_segment.h"

namespace nf {
namespace {

using cxl::kLineBytes;
using cxl::Line;
using cxl::Mode;

constexpr unsigned kSets = 2;
constexpr std::size_t kBlockLines = 256;
constexpr std::size_t kMaxWindows = 8;  // for 64 ranks

class Shared : public SharedReducer {
 public:
  explicit Shared(const SharedReducerOptions& options)
      : options_(options),
        window_(cxl::round_up_to_lines(options.capacity)),
        results_(window_ * result_factor(options.ranks)) {}

  Status join() {
    return segment_.join({.name = "nf_" + options_.name,
                          .rank = options_.rank,
                          .ranks = options_.ranks,
                          .bytes = kSets * set_bytes(),
                          .timeout = options_.timeout});
  }

  Status sum(const Codec& codec, std::span<const SharedMessage> messages) override {
    Status valid = check(codec);
    if (valid.ok()) valid = check_sizes(codec, messages);
    if (!valid.ok()) return segment_.fail(valid);
    const Mode mode = *cxl::shared_mode(codec);
    const cxl::SharedPlan plan = cxl::plan_shared(mode, messages);
    if (plan.lines * kLineBytes > window_ || plan.sum_bytes > results_) {
      return segment_.fail(
          {ErrorCode::kInvalidArgument,
           fmt::format("messages need {} bytes but a window has {}; join with a larger capacity",
                       plan.lines * kLineBytes, window_)});
    }
    set_ = (set_ + 1) % kSets;
    segment_.header().call_hash[options_.rank].store(hash_of(codec, messages));
    write(plan, messages);
    NF_RETURN_IF_ERROR(segment_.barrier());
    if (const Status same = check_agreement(); !same.ok()) return segment_.fail(same);
    Status reduced;
    if (record_.is_open()) reduced = record_lines(plan, messages);
    if (reduced.ok()) reduced = reduce(plan, messages);
    if (!reduced.ok()) return segment_.fail(reduced);
    NF_RETURN_IF_ERROR(segment_.barrier());
    read(mode, messages);
    return {};
  }

  Status record(const std::string& path, std::uint64_t max_lines) override {
    return options_.rank == 0 ? record_.open(path, options_.ranks, max_lines) : Status();
  }

  std::uint64_t bytes_written() const override { return written_; }
  std::uint64_t bytes_read() const override { return read_; }

 private:
  // In the sum a digit takes as many bits as its counter: at worst it grows from 1.6 bits, with
  // five digits per byte, to 8 bits, plus some padding.
  static std::size_t result_factor(std::uint32_t ranks) {
    return cxl::planes_of(Mode::kGTernary, ranks) + 1;
  }
  std::size_t set_bytes() const { return options_.ranks * window_ + results_; }
  std::byte* window(std::uint32_t rank) {
    return segment_.data() + set_ * set_bytes() + rank * window_;
  }
  std::byte* results() { return window(options_.ranks); }

  Status check_sizes(const Codec& codec, std::span<const SharedMessage> messages) const {
    for (const SharedMessage& message : messages) {
      const std::size_t own = codec.encoded_size(message.slice, 1);
      const std::size_t all = codec.encoded_size(message.slice, options_.ranks);
      if (message.slice.ranks != options_.ranks || message.first_rank >= options_.ranks) {
        return {
            ErrorCode::kInvalidArgument,
            fmt::format("a message has slice.ranks {} and first_rank {}, but the reducer has {} "
                        "ranks",
                        message.slice.ranks, message.first_rank, options_.ranks)};
      }
      if (message.own.size() != own || message.sum.size() != all) {
        return {ErrorCode::kInvalidArgument,
                fmt::format("own and sum of a message have {} and {} bytes, expected {} and {}",
                            message.own.size(), message.sum.size(), own, all)};
      }
    }
    return {};
  }

  static std::uint64_t hash_of(const Codec& codec, std::span<const SharedMessage> messages) {
    std::uint64_t hash = checksum(codec.spec().to_string());
    for (const SharedMessage& message : messages) {
      const std::uint64_t facts[] = {message.slice.seed,      message.slice.step,
                                     message.slice.parameter, message.slice.first,
                                     message.slice.count,     message.first_rank};
      hash = checksum(std::as_bytes(std::span(facts)), hash);
    }
    return hash;
  }

  Status check_agreement() {
    const cxl::SegmentHeader& header = segment_.header();
    for (std::uint32_t rank = 1; rank < options_.ranks; ++rank) {
      if (header.call_hash[rank].load() != header.call_hash[0].load()) {
        return {ErrorCode::kDisagreement,
                fmt::format("shared reducer '{}': ranks 0 and {} sum different codecs or slices",
                            options_.name, rank)};
      }
    }
    return {};
  }

  void write(const cxl::SharedPlan& plan, std::span<const SharedMessage> messages) {
    std::byte* const own = window(options_.rank);
    for (const cxl::SharedPart& part : plan.parts) {
      const auto bytes = messages[part.message].own.subspan(part.at, part.bytes);
      for (std::size_t i = 0; i < part.lines; ++i) {
        const Line line = cxl::gradient_line(part.mode, bytes, i);
        std::memcpy(own + (part.line + i) * kLineBytes, &line, kLineBytes);
      }
    }
    written_ += plan.lines * kLineBytes;
  }

  Status record_lines(const cxl::SharedPlan& plan, std::span<const SharedMessage> messages) {
    std::vector<const std::byte*> workers(options_.ranks);
    for (const cxl::SharedPart& part : plan.parts) {
      for (std::uint32_t worker = 0; worker < options_.ranks; ++worker) {
        const std::uint32_t rank = (worker + messages[part.message].first_rank) % options_.ranks;
        workers[worker] = window(rank) + part.line * kLineBytes;
      }
      NF_RETURN_IF_ERROR(record_.add(part.mode, workers, part.lines));
    }
    return {};
  }

  // The lines of all parts are divided evenly among the ranks.
  Status reduce(const cxl::SharedPlan& plan, std::span<const SharedMessage> messages) {
    const std::size_t begin = plan.lines * options_.rank / options_.ranks;
    const std::size_t end = plan.lines * (options_.rank + 1) / options_.ranks;
    for (const cxl::SharedPart& part : plan.parts) {
      const std::size_t first = std::max(begin, part.line);
      const std::size_t last = std::min(end, part.line + part.lines);
      if (first >= last) continue;
      NF_RETURN_IF_ERROR(
          reduce_part(part, messages[part.message], first - part.line, last - part.line));
    }
    return {};
  }

  // Reduces in blocks whose records fit into a near cache.
  Status reduce_part(const cxl::SharedPart& part, const SharedMessage& message, std::size_t first,
                     std::size_t last) {
    for (; first < last; first += kBlockLines) {
      const std::size_t end = std::min(first + kBlockLines, last);
      NF_RETURN_IF_ERROR(reduce_block(records_of(part.mode), part, message, first, end));
    }
    return {};
  }

  // The records of a block of lines.
  struct Records {
    cxl::RegionMemory memory;
    std::uint32_t generation = 0;
  };
  Records& records_of(Mode mode) {
    Records& records = records_[static_cast<std::size_t>(mode)];
    constexpr std::uint32_t kLast = 0xffff'ffffu;
    if (records.generation == 0 || records.generation == kLast) {
      records = {.memory = cxl::RegionMemory(mode, options_.ranks, kBlockLines)};
    }
    ++records.generation;
    return records;
  }

  Status reduce_block(Records& records, const cxl::SharedPart& part, const SharedMessage& message,
                      std::size_t first, std::size_t last) {
    for (std::uint32_t worker = 0; worker < options_.ranks; ++worker) {
      const std::uint32_t rank = (worker + message.first_rank) % options_.ranks;
      const std::byte* lines = window(rank) + part.line * kLineBytes;
      for (std::size_t i = first; i < last; ++i) {
        const Line line = cxl::line_of({lines + i * kLineBytes, kLineBytes});
        bool complete = false;
        const cxl::Fault fault =
            records.memory.write(records.generation, worker, i - first, line, complete);
        if (fault != cxl::Fault::kOk) {
          return {ErrorCode::kCorruptFrame,
                  fmt::format("shared reducer '{}': line {} of rank {}: {}: {}", options_.name, i,
                              rank, cxl::to_string(fault), cxl::describe(fault))};
        }
      }
    }
    const unsigned windows = cxl::result_windows_of(part.mode, options_.ranks);
    Line planes[kMaxWindows];
    for (std::size_t i = first; i < last; ++i) {
      for (unsigned k = 0; k < windows; ++k) {
        records.memory.read(records.generation, options_.ranks + k, i - first, planes[k]);
      }
      put_sum(part, message, std::span(planes).first(windows), i);
    }
    return {};
  }

  // The conversion that a host does after it has read the results of a line; here done once for
  // all.
  void put_sum(const cxl::SharedPart& part, const SharedMessage& message,
               std::span<const Line> planes, std::size_t line) {
    std::byte* const sums = results() + part.sum_at;
    if (part.mode == Mode::kFp32) {
      const std::size_t size = std::min(kLineBytes, part.bytes - line * kLineBytes);
      std::memcpy(sums + line * kLineBytes, planes.data(), size);
      return;
    }
    const std::size_t count = message.slice.count;
    cxl::put_codes(part.mode, options_.ranks, planes, line, count,
                   {sums, cxl::code_bytes(part.mode, count, options_.ranks)});
  }

  void read(Mode mode, std::span<const SharedMessage> messages) {
    const std::byte* from = results();
    for (const SharedMessage& message : messages) {
      std::memcpy(message.sum.data(), from, message.sum.size());
      from += cxl::round_up_to_lines(message.sum.size());
      read_ += cxl::round_up_to_lines(message.sum.size());
      if (mode != Mode::kFp32) finish_scales(message);
    }
  }

  // Gives non-finite scales their canonical form, and zeroes the bytes between scales and codes.
  static void finish_scales(const SharedMessage& message) {
    const std::size_t blocks = (message.slice.count + kSignBlock - 1) / kSignBlock;
    for (std::size_t b = 0; b < blocks; ++b) {
      float scale = 0;
      std::memcpy(&scale, &message.sum[4 * b], 4);
      scale = poison_unless_finite(scale);
      std::memcpy(&message.sum[4 * b], &scale, 4);
    }
    const std::size_t codes = sign_codes_at(message.slice.count);
    std::fill(message.sum.begin() + static_cast<std::ptrdiff_t>(4 * blocks),
              message.sum.begin() + static_cast<std::ptrdiff_t>(codes), std::byte{0});
  }

  const SharedReducerOptions options_;
  const std::size_t window_;
  const std::size_t results_;
  cxl::SharedSegment segment_;
  cxl::SharedRecord record_;  // open on rank 0 after record()
  std::size_t set_ = 0;
  std::array<Records, std::size(cxl::kModes)> records_;
  std::uint64_t written_ = 0;
  std::uint64_t read_ = 0;
};

Status check_options(const SharedReducerOptions& options) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  if (options.name.empty() || options.name.size() > 100 ||
      options.name.find_first_not_of(kAllowed) != std::string::npos) {
    return {ErrorCode::kBadConfig,
            fmt::format("shared reducer name '{}' is invalid; use 1 to 100 letters, digits, '_', "
                        "'-' or '.'",
                        options.name)};
  }
  if (options.ranks < 1 || options.ranks > cxl::kMaxSharedRanks || options.rank >= options.ranks) {
    return {ErrorCode::kBadConfig,
            fmt::format("rank {} of {} is invalid; a shared reducer has 1 to {} ranks",
                        options.rank, options.ranks, cxl::kMaxSharedRanks)};
  }
  if (options.capacity < kLineBytes || options.capacity > std::size_t{1} << 36) {
    return {ErrorCode::kBadConfig,
            fmt::format("capacity of {} bytes is out of range; use 64 bytes to 64 GiB",
                        options.capacity)};
  }
  return {};
}

}  // namespace

Status SharedReducer::check(const Codec& codec) {
  if (cxl::shared_mode(codec)) return {};
  return {ErrorCode::kUnsupported,
          fmt::format("a memory-side reducer does not support {}; it supports fp32, g_binary "
                      "(without +majority) and g_ternary",
                      codec.spec().to_string())};
}

Expected<std::unique_ptr<SharedReducer>> SharedReducer::join(const SharedReducerOptions& options) {
  if (const Status status = check_options(options); !status.ok()) return status;
  auto reducer = std::make_unique<Shared>(options);
  if (const Status status = reducer->join(); !status.ok()) return status;
  return std::unique_ptr<SharedReducer>(std::move(reducer));
}

}  // namespace nf
