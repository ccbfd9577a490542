#include "cxl/model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace nf::cxl {
namespace {

constexpr Picoseconds kNever = std::numeric_limits<Picoseconds>::max();
constexpr std::uint64_t kOutsideRecord = std::uint64_t{1}
                                         << 63;  // user of a write: a slot or a sum

bool is_miss(const HostOptions& host, std::uint64_t number) {
  const std::uint64_t draw = mix64(host.seed + kGolden64 * (number + 1)) >> 11;
  return static_cast<double>(draw) * 0x1p-53 < host.miss_rate;
}

}  // namespace

Model::Model(const Timing& timing, const HostOptions& host, const Workload& workload,
             Observer* observer)
    : timing_(timing),
      host_(host),
      workload_(workload),
      layout_(workload.options().mode, workload.options().workers, workload.options().lines),
      observer_(observer),
      reducer_({.records = workload.options().lines}),
      pipeline_(reducer_, timing.stages == 0 ? kStages : timing.stages),
      memory_(timing, observer),
      arrivals_(workload.options().lines),
      users_(workload.options().lines),
      queued_(workload.options().lines) {
  reducer_.enable(0, workload.config());
  for (std::uint32_t access = 0; access < host.outstanding; ++access) free_.push(0);
}

Picoseconds Model::now() const {
  return static_cast<Picoseconds>(static_cast<double>(cycle_) * timing_.period());
}

std::uint64_t Model::cycles() const {
  return static_cast<std::uint64_t>(std::ceil(static_cast<double>(finished_) / timing_.period()));
}

void Model::tick() {
  const Picoseconds at = now();
  send(at);                  // hosts send while accesses and credits are free
  accept(at);                // requests that arrived are queued; their records are looked up
  fetch(at);                 // lines of records are requested
  memory_.tick(at, lines_);  // memory starts the accesses that its timing allows
  take_lines();              // ... and reports when the lines will be available
  reduce(at);                // the next request enters the datapath; an answer may leave it
  ++cycle_;
}

void Model::run() {
  while (!is_done()) {
    tick();
    skip_idle_cycles();
  }
}

void Model::send(Picoseconds at) {
  while (sent_ < workload_.requests() && !free_.empty() && free_.top() <= at &&
         on_device_ < timing_.queue) {
    const Workload::Step step = workload_.step(sent_);
    if (!step.is_write && answered_ < workload_.writes()) return;  // results are not complete yet
    const Picoseconds begin = std::max(free_.top(), out_free_);
    free_.pop();
    out_free_ = begin + timing_.link.time(step.is_write ? timing_.link.data_slots
                                                        : timing_.link.request_slots);
    const bool is_posted = !is_miss(host_, sent_);
    if (is_posted) free_.push(begin + timing_.cache_hit);
    jobs_.push_back({.number = sent_,
                     .step = step,
                     .is_posted = is_posted,
                     .arrives = out_free_ + timing_.one_way()});
    if (observer_ != nullptr) observer_->on_request(sent_, begin);
    ++sent_;
    ++on_device_;
  }
}

void Model::accept(Picoseconds at) {
  for (; accepted_ < jobs_.size() && jobs_[accepted_].arrives <= at; ++accepted_) {
    Job& job = jobs_[accepted_];
    const std::uint32_t line = job.step.line;
    if (job.step.is_write) ++arrivals_[line];
    const bool is_last = job.step.is_write && arrivals_[line] == workload_.options().workers;
    job.accesses = layout_.accesses(job.step, is_last);
    job.ready = job.arrives;
    job.folds = job.accesses.fold.count > 0;
    const bool is_here = users_[line] > 0 || queued_[line] > 0;
    job.to_push = job.to_read =
        job.accesses.lines_read() - (is_here ? job.accesses.reads[0].count : 0);
    if (job.folds) folding_.push_back(first_job_ + accepted_);
    ++users_[line];
  }
}

void Model::fetch(Picoseconds at) {
  // Slots to be folded go first: they depend on no other access.
  std::erase_if(folding_, [&](std::uint64_t sequence) {
    Job& job = jobs_[sequence - first_job_];
    if (job.folds && job.to_read == 0 && job.ready <= at) {
      job.folds = false;
      job.accesses.reads = {job.accesses.fold};
      job.to_push = job.to_read = job.accesses.lines_read();
    }
    return !job.folds && push_reads(sequence);
  });
  while (fetched_ < accepted_ && push_reads(first_job_ + fetched_)) ++fetched_;
}

// Returns whether the memory's queues have taken all lines.
bool Model::push_reads(std::uint64_t sequence) {
  Job& job = jobs_[sequence - first_job_];
  for (; job.to_push > 0; --job.to_push) {
    const std::uint32_t next = job.accesses.lines_read() - job.to_push;
    const auto& [first, second] = job.accesses.reads;
    const std::uint64_t line =
        next < first.count ? first.first + next : second.first + next - first.count;
    if (!memory_.has_room(false, line, 1)) return false;
    memory_.push(false, line, sequence, job.ready);
  }
  return true;
}

void Model::take_lines() {
  for (const DeviceMemory::Done& line : lines_) {
    if (line.is_write) {
      if ((line.user & kOutsideRecord) == 0) --queued_[line.user];
    } else {
      Job& job = jobs_[line.user - first_job_];
      --job.to_read;
      job.ready = std::max(job.ready, line.at);
    }
  }
  lines_.clear();
}

bool Model::can_retire() const {
  for (const Run& run : jobs_.front().accesses.writes) {
    if (!memory_.has_room(true, run.first, run.count)) return false;
  }
  return true;
}

void Model::reduce(Picoseconds at) {
  if (timing_.stages == 0) {
    if (accepted_ > 0 && is_ready(jobs_.front(), at) && can_retire()) {
      retire(reducer_.handle(workload_.request(jobs_.front().step)), at);
    }
    return;
  }
  const bool is_offered = in_pipeline_ < accepted_ && is_ready(jobs_[in_pipeline_], at);
  if (!is_offered && pipeline_.is_empty()) return;
  Request request;
  if (is_offered) request = workload_.request(jobs_[in_pipeline_].step);
  const bool is_free = in_pipeline_ == 0 || can_retire();
  const Pipeline::TickResult result = pipeline_.tick(is_offered ? &request : nullptr, is_free);
  if (result.taken) ++in_pipeline_;
  if (result.answered) {
    --in_pipeline_;
    retire(*result.answered, at);
  }
}

// A record that another request on the controller uses, or that is still completely queued for
// writing, is written only once, with its final content. Slots and sums are always written.
void Model::write_back(const Job& job, Picoseconds at) {
  const std::uint32_t line = job.step.line;
  const auto& [record, slot, sum] = job.accesses.writes;
  if (users_[line] == 0 && queued_[line] < record.count) {
    for (std::uint32_t i = 0; i < record.count; ++i) memory_.push(true, record.first + i, line, at);
    queued_[line] += record.count;
  }
  for (const Run& run : {slot, sum}) {
    for (std::uint32_t i = 0; i < run.count; ++i) {
      memory_.push(true, run.first + i, kOutsideRecord, at);
    }
  }
}

// Called with the answer of the oldest job.
void Model::retire(const Answer& answer, Picoseconds at) {
  const Job& job = jobs_.front();
  --users_[job.step.line];
  write_back(job, at);
  back_free_ =
      std::max(at, back_free_) +
      timing_.link.time(job.step.is_write ? timing_.link.answer_slots : timing_.link.data_slots);
  const Picoseconds received = back_free_ + timing_.one_way();
  finished_ = std::max(finished_, received);
  if (!job.is_posted) free_.push(received);
  if (observer_ != nullptr) observer_->on_answer(job.number, answer, received);
  --on_device_;
  --accepted_;
  --fetched_;
  ++answered_;
  ++first_job_;
  jobs_.pop_front();
}

// If the datapath is empty, nothing changes until memory can start another line, an access is free,
// a request arrives, or the lines of a request are available.
void Model::skip_idle_cycles() {
  if (!pipeline_.is_empty()) return;
  Picoseconds next = memory_.next_event();
  if (sent_ < workload_.requests() && !free_.empty()) next = std::min(next, free_.top());
  if (accepted_ < jobs_.size()) next = std::min(next, jobs_[accepted_].arrives);
  const auto wait_for = [&](const Job& job) {
    if (job.to_read == 0) next = std::min(next, job.ready);
  };
  if (accepted_ > 0) wait_for(jobs_.front());
  for (const std::uint64_t sequence : folding_) wait_for(jobs_[sequence - first_job_]);
  if (next == kNever) return;
  const auto target = static_cast<std::uint64_t>(
      std::max(0.0, std::floor(static_cast<double>(next) / timing_.period())));
  cycle_ = std::max(cycle_, target);
}

}  // namespace nf::cxl
