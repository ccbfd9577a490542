// The path of a bucket through the fabric.
#include "runtime/fabric_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "runtime/link_probe.h"
#include "runtime/plan.h"
#include "runtime/topology_probe.h"

namespace nf {
namespace {

constexpr double kLineBytes = 64;  // the capacity of a reducer is counted in cache lines

AdmissionMode mode_of(Admit admit) {
  return admit == Admit::kForced ? AdmissionMode::kForced : AdmissionMode::kMonitored;
}

BucketRows rows_of(Collective collective, const Transport& transport) {
  if (collective == Collective::kAllReduce) return {};
  return {.count = transport.ranks(), .own = transport.rank()};
}

double seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

Expected<std::unique_ptr<FabricImpl>> FabricImpl::create(Transport& transport,
                                                         FabricOptions options,
                                                         const MakePath& make_path) {
  const Collective collective = options.collective;
  if (options.topology) NF_RETURN_IF_ERROR(check_topology(collective, *options.topology));
  Expected<Binding> binding =
      Binding::make(std::move(options.profile), std::move(options.parameters));
  if (!binding) return binding.status();
  std::optional<RecordedDecisions> recorded;
  if (options.decisions) {
    Expected<RecordedDecisions> made =
        RecordedDecisions::make(*options.decisions, binding->profile());
    if (!made) return made.status();
    recorded = std::move(*made);
  }
  options.timeout = bounded(options.timeout);
  StatisticsReducer reducer(transport, options.seed, options.timeout);
  Expected<TopologyChoice> choice = decide_topology(transport, reducer, options, *binding);
  if (!choice) return choice.status();
  std::unique_ptr<FabricImpl> fabric(new FabricImpl(transport, std::move(options),
                                                    std::move(*binding), std::move(reducer),
                                                    choice->topology, make_path));
  NF_RETURN_IF_ERROR(fabric->set_path());
  fabric->recorded_ = std::move(recorded);
  NF_RETURN_IF_ERROR(fabric->measure(choice->times));
  return fabric;
}

FabricImpl::FabricImpl(Transport& transport, FabricOptions options, Binding binding,
                       StatisticsReducer reducer, Topology topology, MakePath make_path)
    : transport_(transport),
      options_(std::move(options)),
      binding_(std::move(binding)),
      rows_(rows_of(options_.collective, transport)),
      make_path_(std::move(make_path)),
      statistics_reducer_(std::move(reducer)),
      topology_(topology),
      admission_(binding_, transport.ranks(), mode_of(options_.admit)),
      recorded_inputs_{.useful = admission_.useful()} {}

Status FabricImpl::set_path() {
  Expected<std::unique_ptr<BucketPath>> path =
      make_path_({.binding = binding_, .options = options_, .topology = topology_});
  if (!path) return path.status();
  path_ = std::move(*path);
  return {};
}

Status FabricImpl::measure(std::span<const TopologyTime> times) {
  if (transport_.ranks() > 1) {
    const std::unique_ptr<Probe> transfers = path_->probe();
    LinkProbe probe(transport_, *transfers, statistics_reducer_, options_.collective);
    Expected<LinkFigures> link = probe.measure_link();
    if (!link) return link.status();
    figures_.link = *link;
    for (const TrainingPhase& phase : binding_.profile().phases) {
      for (const auto& [region, route] : phase.routes) {
        if (route == kDenseRoute || figures_.codecs.contains(route)) continue;
        const Expected<CodecFigures> codec = probe.measure_codec(
            {.codec = route, .topology = topology_, .host_group_size = options_.host_group_size},
            *link);
        if (!codec) return codec.status();
        figures_.codecs[route] = *codec;
      }
    }
    if (options_.link_gbps) {
      const double bytes_per_second = *options_.link_gbps * 1e9 / 8;
      figures_.link.bytes_per_second = figures_.link.dense_bytes_per_second = bytes_per_second;
      figures_.is_given = true;
    }
  }
  records_.push(job_record(binding_, options_, topology_, times, figures_.link, transport_.rank(),
                           transport_.ranks()));
  set_usefulness();
  return {};
}

void FabricImpl::set_usefulness() {
  usefulness_ = std::make_unique<Usefulness>(
      binding_, figures_, transport_.ranks(),
      AllReduceOptions{.topology = topology_, .host_group_size = options_.host_group_size},
      options_.collective, path_->joins_routes());
}

Status FabricImpl::reduce_bucket(const Bucket& bucket) {
  Expected<std::unique_ptr<BucketWork>> work = begin(bucket);
  if (!work) return work.status();
  if ((*work)->has_low_bit()) NF_RETURN_IF_ERROR(sum_low_bit(**work));
  if (const Values dense = (*work)->dense(); dense.count > 0) {
    DenseEngine& engine = path_->engine();
    Status status = (*work)->scatters() ? engine.reduce_scatter(dense, (*work)->engine_reduction())
                                        : engine.sum(dense);
    if (!status.ok()) return remember_failure(std::move(status));
  }
  return finish(**work);
}

Expected<std::unique_ptr<BucketWork>> FabricImpl::begin(const Bucket& bucket) {
  std::unique_lock lock(mutex_);
  NF_RETURN_IF_ERROR(failure_);
  const bool is_first = current_ == nullptr || current_->has_begun_all;
  const std::size_t next = is_first ? 0 : current_->buckets.size();
  if (bucket.index != next) {
    return fail({ErrorCode::kInvalidArgument,
                 fmt::format("bucket {} of step {} is out of order; expected bucket {}",
                             bucket.index, step_, next)});
  }
  if (Status status = check_slots(binding_, bucket, rows_.count); !status.ok()) {
    return fail({status.code(),
                 fmt::format("bucket {} of step {}: {}", bucket.index, step_, status.message())});
  }
  if (is_first) NF_RETURN_IF_ERROR(begin_step(lock));
  const std::shared_ptr<TrainingStep> step = current_;
  step->buckets.push_back({.slots = bucket.slots,
                           .type = bucket.values.type,
                           .row_size = scatters() ? bucket.values.count / rows_.count : 0});
  step->norms.emplace_back();
  step->local.buckets.push_back({.ready = seconds(transport_.now() - step->begin)});
  if (bucket.is_last) {
    step->has_begun_all = true;
    ++step_;
  }
  lock.unlock();

  auto work = std::make_unique<BucketWork>(bucket, make_plan(binding_, bucket.slots, step->routes),
                                           step, rows_);
  if (Status status = path_->begin(*work); !status.ok()) return remember_failure(std::move(status));
  return work;
}

Status FabricImpl::sum_low_bit(BucketWork& work) {
  Status status = path_->sum_low_bit(work);
  return status.ok() ? status : remember_failure(std::move(status));
}

Status FabricImpl::finish(BucketWork& work) {
  const Status status = path_->finish(work);
  TrainingStep& step = work.step();
  const double sent = dense_share(options_.collective, transport_.ranks());
  const double sent_up = dense_share(Collective::kReduceScatter, transport_.ranks());

  const std::lock_guard lock(mutex_);
  if (!status.ok()) return fail(status);
  step.norms[work.bucket().index] = std::move(work.norms());
  const auto bytes_of = [size = size_of(work.bucket().values.type)](const BucketSlot& slot) {
    return static_cast<double>(size * slot.count);
  };
  for (const BucketSlot& slot : work.bucket().slots) {
    step.traffic[binding_.region_of(slot.parameter)].dense_bytes += sent * bytes_of(slot);
  }
  // The path has counted dense values that the engine did not get.
  for (const Segment& segment : work.plan().dense) {
    if (work.dense().count == 0) break;
    step.traffic[segment.region].sent_dense_bytes += sent * bytes_of(segment.slot);
    step.traffic[segment.region].sent_dense_up_bytes += sent_up * bytes_of(segment.slot);
  }
  double lines = 0;
  for (std::uint32_t region = 0; region < regions(); ++region) {
    const RegionTraffic& traffic = work.traffic()[region];
    step.traffic[region].low_bit_bytes += traffic.low_bit_bytes;
    step.traffic[region].low_bit_up_bytes += traffic.low_bit_up_bytes;
    step.traffic[region].sent_dense_bytes += traffic.sent_dense_bytes;
    step.traffic[region].sent_dense_up_bytes += traffic.sent_dense_up_bytes;
    step.traffic[region].seconds += traffic.seconds;
    lines += traffic.low_bit_bytes / kLineBytes;
  }
  step.local.lines += lines;
  const auto queue = static_cast<double>(binding_.profile().reducer.queue_lines);
  if (queue > 0 && lines * transport_.ranks() > queue) capacity_breach_ = true;
  step.local.buckets[work.bucket().index].done = seconds(transport_.now() - step.begin);
  ++step.finished_buckets;
  if (step.is_finished()) step.add_norms();
  if (step.is_finished() && !has_late_norms()) set_is_finite(step);
  return failure_;
}

void FabricImpl::set_is_finite(const TrainingStep& step) {
  is_finite_.reset();
  if (step.is_monitored) is_finite_ = step.is_finite();
  checked_steps_ = step.statistics.step + 1;
  changed_.notify_all();
}

Status FabricImpl::end_step() {
  std::shared_ptr<TrainingStep> step;
  {
    const std::lock_guard lock(mutex_);
    NF_RETURN_IF_ERROR(failure_);
    // Not current_: the next step may have begun.
    if (!to_end_.empty()) step = to_end_.front();
    if (step == nullptr || !step->is_finished()) {
      return fail({ErrorCode::kInvalidArgument, "end_step() before all buckets are finished"});
    }
  }
  if (path_->is_asynchronous()) {
    const Status status = path_->collect(*step);
    const std::lock_guard lock(mutex_);
    if (!status.ok()) return fail(status);
    if (!scatters()) set_is_finite(*step);
  }
  if (step->is_monitored) {
    if (Status status = statistics_reducer_.sum(step->local, step->epoch, scatters(),
                                                step->loss_scale, step->statistics);
        !status.ok()) {
      return remember_failure(std::move(status));
    }
    step->unscale_norms();
  }
  // All steps with low-bit routes are monitored.
  if (step->is_monitored && !step->is_finite()) path_->undo(step->statistics.step);
  const std::lock_guard lock(mutex_);
  if (scatters()) set_is_finite(*step);
  if (!is_scale_fresh_ && step->loss_scale.version > loss_scale_.version) {
    loss_scale_ = step->loss_scale;
  }
  if (recorded_buckets_ != step->buckets || recorded_routes_ != step->wanted) {
    recorded_buckets_ = step->buckets;
    recorded_routes_ = step->wanted;
    records_.push(buckets_record(binding_, *step));
  }
  const Usefulness::Prediction prediction = usefulness_->predict(*step, step->routes);
  if (options_.mode == Mode::kShadow) {
    std::vector<std::string> routes = step->wanted;
    for (std::uint32_t region = 0; region < regions(); ++region) {
      if (!step->decisions[region].is_low_bit) routes[region] = kDenseRoute;
    }
    const Usefulness::Prediction shadow = usefulness_->predict(*step, routes);
    records_.push(step_record(binding_, *step, prediction, &shadow));
  } else {
    records_.push(step_record(binding_, *step, prediction, nullptr));
  }
  to_end_.pop_front();
  to_observe_.push_back(std::move(step));
  ++summed_steps_;
  changed_.notify_all();
  return {};
}

Status FabricImpl::fail(Status why) {
  if (failure_.ok()) failure_ = std::move(why);
  changed_.notify_all();
  return failure_;
}

Status FabricImpl::remember_failure(Status why) {
  const std::lock_guard lock(mutex_);
  return fail(std::move(why));
}

}  // namespace nf
